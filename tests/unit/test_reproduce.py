"""Verdicts come from what was measured: change the measurements and the verdict changes."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from dperm import L1, L2, Logistic, Problem, empirical_risk
from dperm.domains import L1Ball
from dperm.experiments.reference import least_risk, logistic_optimum
from dperm.experiments.reproduce import STUDIES, comparison, figures, lab, privacy
from dperm.experiments.reproduce.comparison import DELTA, Place
from dperm.experiments.reproduce.lab import Fit, Lab
from dperm.experiments.reproduce.prices import LiteralAccMD, Price, literal_accmd
from dperm.experiments.reproduce.rows import CovertypeRows, HardRows, SparseRows, SphereRows, draw
from dperm.experiments.reproduce.verdicts import Outcome, all_of, fit_exponent, is_smaller
from dperm.privacy.gaussian import gaussian_mu
from dperm.privacy.guarantee import Guarantee

HOLDS, FAILS, OPEN = Outcome.HOLDS, Outcome.FAILS, Outcome.OPEN


@pytest.fixture
def unpainted(monkeypatch):
    """Drawing takes longer than judging."""
    monkeypatch.setattr(comparison, "draw_trends", lambda *_: b"")
    monkeypatch.setattr(figures, "draw_panels", lambda *_: b"")
    monkeypatch.setattr(privacy, "draw_scatter", lambda *_: b"")


def outcome(section, words):
    """The outcome of the one claim with these words."""
    found = [verdict.outcome for verdict in section.verdicts if words in verdict.claim]
    assert len(found) == 1, [verdict.claim for verdict in section.verdicts]
    return found[0]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0, 1.1, 0.9], [5.0, 6.0, 5.5], HOLDS),
        ([5.0, 6.0, 5.5], [1.0, 1.1, 0.9], FAILS),
        ([1.0, 9.0, 3.0], [2.0, 8.0, 4.0], OPEN),
        ([1.0, 1.0], [2.0, 2.0], HOLDS),
        ([1.0], [2.0], OPEN),
    ],
)
def test_smaller_is_said_only_of_what_the_seeds_can_tell_apart(first, second, expected):
    assert is_smaller(first, second) is expected


def test_a_claim_in_parts_holds_if_all_do_and_fails_if_one_does():
    assert all_of([HOLDS, HOLDS]) is HOLDS
    assert all_of([HOLDS, OPEN]) is OPEN
    assert all_of([HOLDS, OPEN, FAILS]) is FAILS
    assert all_of([]) is OPEN


def test_a_fitted_power_is_the_true_one_within_its_interval():
    """95 % intervals over 400 studies of 6 seeds: between 91 and 98.5 % hold the truth, but for one study in 1000."""
    rng = np.random.default_rng(0)
    x = np.array([1.0, 2.0, 4.0, 8.0])
    within = 0
    for _ in range(400):
        power = fit_exponent(x, (x**-2 * np.exp(0.3 * rng.normal(size=(6, 4)))).tolist(), [x**-2])
        within += power.low <= -2.0 <= power.high
    assert 364 <= within <= 394


@pytest.mark.parametrize(
    ("power", "constant", "expected"), [(1.0, 0.5, HOLDS), (0.5, 9.0, HOLDS), (2.0, 9.0, FAILS), (2.0, 1e-3, OPEN)]
)
def test_a_bound_fails_if_it_is_outgrown_and_exceeded(power, constant, expected):
    x = [1.0, 2.0, 4.0]
    series = [[constant * value**power * wobble for value in x] for wobble in (0.99, 1.0, 1.01)]
    assert fit_exponent(x, series, [x]).keeps_the_bound() is expected


def test_the_power_of_a_sum_is_that_of_its_fastest_term():
    x = [1.0, 2.0, 4.0]
    assert fit_exponent(x, [[1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0], [1e-9, 4e-9, 16e-9]]).bound == pytest.approx(2.0)


def invented_figure(study, *, ours, mended, literal, delta, seconds=0.1):
    """Results in which DP-GD has a gap of 1 in one second, and the paper's method these."""
    gaps = {}
    for line in study.lines:
        gap = {"as printed": ours, "one row a step": literal, "mended": mended}
        gaps[line] = next(
            (value for key, value in gap.items() if line.label.endswith(key) or f"{key} " in line.label), 1.0
        )
    results = {}
    for line in study.lines:
        for solver in line.fits:
            for epsilon in study.epsilons:
                for seed in range(study.seeds):
                    fit = Fit(CovertypeRows(study.n, study.strength), solver, epsilon, 1e-3, line.noise, seed)
                    rival = "DP-GD" in line.label
                    results[fit] = {
                        "excess": gaps[line] * (1.0 + 0.01 * seed), "at_zero": 2.0, "certified_delta": delta,
                        "seconds": 1.0 if rival else seconds, "gradients": 1e6 if rival else 1e6 * seconds,
                    }  # fmt: skip
    assert set(results) == set(study.measurements())
    return results


@pytest.mark.parametrize("name", ["figure-1", "figure-2"])
def test_a_wrong_curve_flips_the_verdict_of_a_figure(name, unpainted):
    study = STUDIES[name](True)
    good = study.section(invented_figure(study, ours=0.1, mended=0.1, literal=0.1, delta=1e-4))
    assert {verdict.outcome for verdict in good.verdicts} == {HOLDS}
    claims = {
        "With the printed noise": {"ours": 10.0},
        "keeps (ε": {"delta": 0.3},
        "as printed, one row a step, has a smaller gap": {"literal": 10.0},
        "mended, has a smaller gap": {"mended": 10.0},
        "mended needs less time": {"seconds": 10.0},
    }
    for words, change in claims.items():
        wrong = study.section(
            invented_figure(study, **{"ours": 0.1, "mended": 0.1, "literal": 0.1, "delta": 1e-4} | change)
        )
        flipped = [verdict.claim for verdict in wrong.verdicts if verdict.outcome is FAILS]
        assert any(words in claim for claim in flipped), (words, flipped)
        if "seconds" not in change:
            assert len(flipped) == (1 if "delta" in change else 2)  # two kinds of DP-GD


def invented_table(study, excess, gradients, at_zero=1e9):
    """Results with these formulae of the row and the place."""
    results = {}
    for row in study.rows:
        for place in dict.fromkeys(place for axis in study.axes for place in axis.places):
            for seed in range(study.seeds):
                for mode in row.noises.values():
                    at = row.effective(place, mode)
                    results[study._fit(row, mode, place, seed)] = {
                        "excess": excess(row, at) * (1.0 + 0.01 * seed), "at_zero": at_zero,
                        "gradients": gradients(row, at) if row.gradients else None,
                    }  # fmt: skip
        for seed in range(study.seeds):
            results[study._penalised(row, seed)] = {"excess": 0.1, "at_zero": 1.0, "gradients": None}
    assert set(results) == set(study.measurements())
    return results


def bound(row, at):
    return sum(term(at) for term in row.excess)


def gradients_as_claimed(row, at):
    return sum(term(at) for term in row.gradients) * (0.1 if row.label.startswith("this paper") else 1e6)


@pytest.mark.parametrize("name", ["table-1", "table-2", "table-3"])
def test_a_table_that_keeps_its_bounds_holds(name, unpainted):
    study = STUDIES[name](True)
    section = study.section(invented_table(study, lambda row, at: row.excess[0](at), gradients_as_claimed))
    assert {verdict.outcome for verdict in section.verdicts} == {HOLDS}


@pytest.mark.parametrize("name", ["table-1", "table-2", "table-3"])
@pytest.mark.parametrize("wrong", ["n", "epsilon", "p", "gradients", "count", "penalty", "nothing learned"])
def test_a_wrong_curve_flips_the_verdict_of_a_table(name, wrong, unpainted):
    study = STUDIES[name](True)
    ours = study.rows[-1]
    factor = {"n": lambda at: at.n, "epsilon": lambda at: at.epsilon, "p": lambda at: at.p}.get(wrong, lambda at: 1.0)

    def excess(row, at):
        return 1e3 * bound(row, at) * (factor(at) if row is ours else 1.0)

    def gradients(row, at):
        changed = {"gradients": at.n, "count": 1e9}.get(wrong, 1.0) if row is ours else 1.0
        return gradients_as_claimed(row, at) * changed

    results = invented_table(study, excess, gradients, at_zero=1e-9 if wrong == "nothing learned" else 1e12)
    if wrong == "penalty":
        for seed in range(study.seeds):
            for row in study.rows:
                results[study._penalised(row, seed)]["excess"] = 1.0
    section = study.section(results)
    if wrong in ("n", "epsilon", "p"):
        assert outcome(section, f"{ours.label}: the excess") is FAILS
        assert outcome(section, f"{study.rows[0].label}: the excess") is not FAILS
    elif wrong == "nothing learned":
        assert outcome(section, f"{ours.label}: the excess") is OPEN
    else:
        words = {"gradients": "Gradients grow", "count": "fewest gradients", "penalty": "non-smooth"}[wrong]
        assert outcome(section, words) is FAILS


def test_a_table_in_which_nothing_was_learned_can_be_drawn():
    study = STUDIES["table-3"](True)
    section = study.section(invented_table(study, bound, gradients_as_claimed, at_zero=1e-9))
    assert section.picture.startswith(b"\x89PNG")
    assert outcome(section, f"{study.rows[0].label}: the excess") is OPEN


def test_a_method_that_takes_no_penalty_leaves_the_last_column_undecided(unpainted):
    study = STUDIES["table-1"](True)
    results = invented_table(study, bound, gradients_as_claimed)
    for seed in range(study.seeds):
        results[study._penalised(study.rows[1], seed)]["excess"] = None
    assert outcome(study.section(results), "non-smooth") is OPEN


def invented_prices(study, delta, constant=0.5, apart=1.0, spread=1.0):
    results = {
        one: {"steps": 10**12, "certified_delta": delta, "sigma": 1.0, "constant": constant}
        for one in study.measurements()
        if isinstance(one, Price)
    }
    return results | {LiteralAccMD(): {"apart": apart, "spread": spread}}


def test_wrong_prices_flip_the_verdicts_on_privacy(unpainted):
    study = STUDIES["privacy"](True)
    kept = study.section(invented_prices(study, 1e-4))
    assert {verdict.outcome for verdict in kept.verdicts} == {HOLDS}
    assert {verdict.outcome for verdict in study.section(invented_prices(study, 0.3)).verdicts} == {HOLDS, FAILS}
    leaking = study.section(invented_prices(study, 1e-4, spread=0.0))
    assert outcome(leaking, "Algorithm 3 as printed is private") is FAILS
    few_steps = invented_prices(study, 1e-4)
    for result in few_steps.values():
        result["steps"] = 1
    assert outcome(study.section(few_steps), "satisfy the condition") is FAILS


def test_algorithm_3_as_printed_gives_one_output_whatever_the_noise_and_another_one_on_a_neighbour():
    found = LiteralAccMD().run()
    assert found["spread"] == 0.0
    assert found["apart"] > 1e-4


def test_algorithm_3_uses_its_noise_from_the_second_step_on():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    y = np.sign(X[:, 0])
    outputs = [literal_accmd(X / 4, y, 3, 1.0, np.random.default_rng(seed)) for seed in (1, 2)]
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-3


@dataclass(frozen=True)
class Counted:
    """A measurement that counts how often it was made."""

    name: str
    calls: tuple = ()

    def run(self):
        CALLS.append(self.name)
        if self.name == "broken":
            raise KeyboardInterrupt
        return {"value": len(self.name)}


CALLS: list[str] = []


@pytest.fixture
def path(tmp_path):
    CALLS.clear()
    return tmp_path / "measurements.jsonl"


def test_what_was_measured_is_not_measured_again(path):
    for _ in range(2):
        assert Lab(path).run("x", [Counted("a"), Counted("bb"), Counted("a")]) == {
            Counted("a"): {"value": 1}, Counted("bb"): {"value": 2},
        }  # fmt: skip
    assert CALLS == ["a", "bb"]


def test_an_interrupted_run_goes_on_where_it_was(path):
    with pytest.raises(KeyboardInterrupt):
        Lab(path).run("x", [Counted("a"), Counted("broken"), Counted("c")])
    assert Lab(path).run("x", [Counted("a"), Counted("c")])[Counted("c")] == {"value": 1}
    assert CALLS == ["a", "broken", "c"]


def test_a_line_that_a_crash_cut_off_is_measured_again(path):
    Lab(path).run("x", [Counted("a"), Counted("bb")])
    path.write_bytes(path.read_bytes()[:-20])
    for _ in range(2):
        assert Lab(path).run("x", [Counted("a"), Counted("bb")])[Counted("bb")] == {"value": 2}
    assert CALLS == ["a", "bb", "bb"]
    assert [json.loads(line)["result"]["value"] for line in path.read_text().splitlines() if line.endswith("}}")] == [
        1,
        2,
    ]


def test_other_code_measures_again(path, monkeypatch):
    Lab(path).run("x", [Counted("a")])
    monkeypatch.setattr(lab, "fingerprint", lambda: "other")
    Lab(path).run("x", [Counted("a")])
    assert CALLS == ["a", "a"]


def test_the_fingerprint_covers_the_code_that_decides_and_not_what_only_shows_it():
    names = {name for name, _ in lab._sources(lab.files("dperm"), "")}
    assert {"solvers/dp_svrg.py", "privacy/accountants.py", "trusted/kernels.py", "fitting.py"} <= names
    assert {"experiments/reproduce/rows.py", "experiments/reproduce/lab.py", "experiments/reference.py"} <= names
    assert not [name for name in names if name.startswith("cli/") or name.endswith(("page.py", "pictures.py"))]


def test_rows_are_the_same_for_the_same_numbers_and_others_for_another_seed():
    first, again = HardRows(500, 4, 0, 1.0, DELTA).table(), HardRows(500, 4, 0, 1.0, DELTA).table()
    assert (first[0] == again[0]).all()
    assert (first[0] != HardRows(500, 4, 1, 1.0, DELTA).table()[0]).any()


@pytest.mark.parametrize("place", [Place(10_000, 1.0, 10), Place(40_000, 1.0, 20), Place(40_000, 1.0, 80)])
def test_hard_rows_are_as_hard_as_they_say(place):
    """w = 0 has 256 times the excess of the noisy minimiser; rows and labels are random, and margins bend a little."""
    sample = draw(HardRows(place.n, place.p, 0, place.epsilon, DELTA))
    sigma = 2.0 / (place.n * gaussian_mu(Guarantee(place.epsilon, DELTA)))
    curvature = float((sample.X**2).sum()) / (4.0 * place.n * place.p)
    assert 128 < sample.at_zero / (place.p * sigma**2 / (2.0 * curvature)) < 512


@pytest.mark.parametrize(
    "rows",
    [SphereRows(400, 5, 0), SphereRows(400, 5, 0, l1=0.01), SparseRows(300, 40, 0), SparseRows(300, 40, 0, l1=0.01)],
)
def test_no_nearby_point_has_less_than_the_least_risk(rows):
    """The least risk is below that of noiseless descent, and by at most 1e-6."""
    from dperm import minimize

    sample = draw(rows)
    w = minimize(sample.problem, sample.X, sample.y, guarantee=None, noise=None, solver="dp-agd").w
    excess = empirical_risk(sample.problem, sample.X, sample.y, w) - sample.best
    assert -1e-9 < excess < 1e-4


def test_the_unregularized_optimum_has_no_slope():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) / 4
    y = np.where(rng.random(300) < 0.5, 1.0, -1.0)
    w = logistic_optimum(X, y, 0.0)
    slope = X.T @ (-y / (1.0 + np.exp(y * (X @ w)))) / 300
    assert np.abs(slope).max() < 1e-9


def test_the_least_risk_on_an_l1_ball_has_no_duality_gap():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 6)) / 6, np.where(rng.random(200) < 0.5, 1.0, -1.0)
    problem = Problem(Logistic(), domain=L1Ball(0.5))
    best = least_risk(problem, X, y)
    vertices = np.vstack([np.eye(6), -np.eye(6)]) * 0.5
    assert best <= min(empirical_risk(problem, X, y, vertex) for vertex in vertices)
    assert best >= least_risk(Problem(Logistic(), domain=L1Ball(5.0)), X, y)
    assert least_risk(Problem(Logistic(), L1(10.0)), X, y) == pytest.approx(np.log(2.0), abs=1e-9)
    assert least_risk(Problem(Logistic(), L2(0.1)), X, y) < np.log(2.0)
