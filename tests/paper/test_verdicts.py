"""Verdicts come from what was measured: change the measurements and the verdict changes."""

import json
import re
from dataclasses import dataclass

import numpy as np
import pytest

from dperm import Problem
from dperm.accounting.curve import gaussian_mu
from dperm.paper import PrintedSVRG
from dperm.paper.studies.reference import least_risk, logistic_optimum
from dperm.paper.studies.reproduce import STUDIES, comparison, figures, lab, nonconvex, privacy
from dperm.paper.studies.reproduce.comparison import DELTA, Place
from dperm.paper.studies.reproduce.costs import Cost, LiteralAccMD, literal_accmd
from dperm.paper.studies.reproduce.lab import Fit, Lab
from dperm.paper.studies.reproduce.rows import CovertypeRows, HardRows, SparseRows, SphereRows, draw
from dperm.paper.studies.reproduce.verdicts import (
    Exponent,
    Finding,
    Outcome,
    all_of,
    fit_exponent,
    is_smaller,
    mean_is_below,
    undecided,
)
from dperm.privacy.guarantee import Guarantee
from dperm.problem import L1, L2, FunctionLoss, Logistic, Sigmoid
from dperm.problem.domains import L1Ball
from dperm.solvers import DPGD, DPAccMD
from dperm.unsafe import empirical_gradient, empirical_risk

HOLDS, FAILS, OPEN = Outcome.HOLDS, Outcome.FAILS, Outcome.OPEN


@pytest.fixture
def unpainted(monkeypatch):
    """Drawing takes longer than judging."""
    monkeypatch.setattr(comparison, "draw_trends", lambda *_: b"")
    monkeypatch.setattr(figures, "draw_trends", lambda *_, **__: b"")
    monkeypatch.setattr(nonconvex, "draw_trends", lambda *_: b"")
    monkeypatch.setattr(privacy, "draw_scatter", lambda *_: b"")


def outcome(section, words):
    """The outcome of the one claim with these words."""
    found = [verdict.outcome for verdict in section.verdicts if words in verdict.claim]
    assert len(found) == 1, [verdict.claim for verdict in section.verdicts]
    return found[0]


def reason(section, words):
    """Why the one claim with these words is undecided."""
    return next(verdict.finding.why for verdict in section.verdicts if words in verdict.claim)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0, 1.1, 0.9], [5.0, 6.0, 5.5], HOLDS),
        ([5.0, 6.0, 5.5], [1.0, 1.1, 0.9], FAILS),
        ([1.0, 9.0, 3.0], [2.0, 8.0, 4.0], OPEN),
        ([1.0, 1.0], [2.0, 2.0], HOLDS),
        ([1.0], [2.0], OPEN),
        ([1.0, 1.0, 1.1], [2.0, np.inf, 3.0], OPEN),
    ],
)
def test_smaller_is_said_only_of_what_the_seeds_can_tell_apart(first, second, expected):
    assert is_smaller(first, second).outcome is expected


def test_one_of_many_comparisons_needs_a_wider_gap():
    first, second = [1.0, 1.05, 1.1], [1.15, 1.2, 1.3]
    assert is_smaller(first, second).outcome is HOLDS
    assert is_smaller(first, second, parts=30).outcome is OPEN


def test_a_claim_in_parts_holds_if_all_do_and_fails_if_one_does():
    good, bad = Finding(HOLDS), Finding(FAILS)
    assert all_of([good, good]) == good
    assert all_of([good, undecided("too few"), undecided("no fit"), undecided("too few")]).why == "too few; no fit"
    assert all_of([good, undecided("too few"), bad]) == bad
    assert all_of([]).outcome is OPEN


@pytest.mark.parametrize(("outcome", "why"), [(OPEN, ""), (HOLDS, "because"), (FAILS, "because")])
def test_a_reason_belongs_to_what_is_undecided_and_to_nothing_else(outcome, why):
    with pytest.raises(ValueError, match="a reason belongs"):
        Finding(outcome, why)


def test_an_undecided_comparison_names_the_seeds_that_would_decide_it():
    """The half width falls with the square root of the seeds: with so many draws of the same spread it is decided."""
    first, second = [1.0, 1.3, 0.8, 1.1], [1.1, 1.5, 0.9, 1.25]
    found = is_smaller(first, second)
    assert found.outcome is OPEN
    needed = int(re.search(r"with 4 seeds; about (\d+) would tell", found.why).group(1))
    assert is_smaller(first * (needed // 4 + 1), second * (needed // 4 + 1)).outcome is HOLDS
    assert is_smaller(first * (needed // 12), second * (needed // 12)).outcome is OPEN


def test_a_comparison_that_no_number_of_seeds_decides_says_so():
    assert "no affordable number of seeds" in is_smaller([1.0, 2.0], [2.0, 1.0]).why
    assert is_smaller([1.0], [2.0]).why == "one seed has no spread"
    assert is_smaller([1.0, 2.0], [np.inf, 2.0]).why == "a fit failed"


def test_a_power_at_its_tolerance_says_how_many_seeds_would_tell_or_that_none_would():
    straddling = Exponent(1.05, 0.99, 1.13, 1.0, share=0.2, seeds=16).keeps_the_bound()
    assert "straddles 1.10" in straddling.why
    assert "with 16 seeds; about 41 would tell" in straddling.why  # 16 · (0.08/0.05)²
    outgrown = Exponent(1.2, 1.15, 1.25, 1.0, share=0.2, seeds=16).keeps_the_bound()
    assert "0.2 times the bound" in outgrown.why
    wide = Exponent(1.2, 0.9, 1.5, 1.0, share=0.2, seeds=16).keeps_the_bound()
    assert "straddles 1.10" in wide.why
    assert "if the mean stays where it is, more seeds do not decide this" in wide.why
    assert "about 140 would tell" in Exponent(1.2, 0.9, 1.5, 1.0, share=11.0, seeds=16).keeps_the_bound().why
    assert "more seeds cannot decide this" in outgrown.why
    assert Exponent(1.2, 1.15, 1.25, 1.0, share=11.0, seeds=16).keeps_the_bound() == Finding(FAILS)
    assert Exponent(1.0, 0.95, 1.05, 1.0, share=11.0, seeds=16).keeps_the_bound() == Finding(HOLDS)


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
    ("power", "constant", "expected"), [(1.0, 0.5, HOLDS), (0.5, 99.0, HOLDS), (2.0, 3.0, FAILS), (2.0, 2.0, OPEN)]
)
def test_a_bound_fails_if_it_is_outgrown_and_exceeded(power, constant, expected):
    x = [1.0, 2.0, 4.0]
    series = [[constant * value**power * wobble for value in x] for wobble in (0.99, 1.0, 1.01)]
    assert fit_exponent(x, series, [x]).keeps_the_bound().outcome is expected


def test_the_power_of_a_sum_is_that_of_its_fastest_term():
    x = [1.0, 2.0, 4.0]
    assert fit_exponent(x, [[1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0], [1e-9, 4e-9, 16e-9]]).bound == pytest.approx(2.0)


def invented_figure(study, *, ours=0.1, corrected=0.1, literal=0.1, seconds=0.1, gradients=0.1):
    """Results in which DP-GD has a gap of 1 in one second, and the paper's method these."""
    results = {}
    for line in study.lines:
        rival = line.label.startswith("DP-GD")
        gap = corrected if "corrected" in line.label else ours if line.panel == "as printed" else literal
        for solver in line.fits:
            for epsilon in study.epsilons:
                for seed in range(study.seeds):
                    fit = Fit(CovertypeRows(study.n, study.strength), solver, epsilon, 1e-3, line.noise, seed)
                    results[fit] = {
                        "excess": (1.0 if rival else gap) * (1.0 + 0.01 * seed), "at_zero": 2.0, "certified_delta": 0.5,
                        "seconds": (1.0 if rival else seconds) * (1.0 + 0.01 * seed),
                        "gradients": 1e6 * (1.0 if rival else gradients),
                    }  # fmt: skip
    assert set(results) == set(study.measurements())
    return results


@pytest.mark.parametrize("name", ["figure-1", "figure-2"])
@pytest.mark.parametrize(
    ("change", "noise", "method", "what"),
    [
        ({"ours": 10.0}, "printed", "as printed", "has a smaller gap"),
        ({"literal": 10.0}, "certified", "as printed", "has a smaller gap"),
        ({"corrected": 10.0}, "certified", "corrected", "has a smaller gap"),
        ({"seconds": 10.0}, None, None, "needs less time"),
        ({"gradients": 10.0}, None, None, "needs less time"),
    ],
)
def test_a_wrong_curve_flips_the_verdict_of_a_figure(name, change, noise, method, what, unpainted):
    study = STUDIES[name](True)
    good = study.section(invented_figure(study)).verdicts
    wrong = study.section(invented_figure(study, **change)).verdicts
    assert {verdict.outcome for verdict in good} == {HOLDS}
    for verdict in wrong:
        meant = what in verdict.claim and (
            noise is None or (f"with {noise} noise" in verdict.claim and f"{method} {what}" in verdict.claim)
        )
        assert verdict.outcome is (FAILS if meant else HOLDS), verdict


def test_the_sentence_about_a_figure_changes_with_what_was_measured(unpainted):
    study = STUDIES["figure-1"](True)
    told = study.section(invented_figure(study, ours=0.05, literal=8.2, corrected=0.25)).headlines
    assert told == (
        "With the printed noise DP-SVRG has 5 % of the error of the DP-GD that the paper compares it with. With "
        "certified noise it has, as printed, 8.2 times the error of the better of two DP-GD; the corrected method has "
        "25 % of that error.",
    )
    told = study.section(invented_figure(study, ours=3.0, literal=0.5, corrected=1234.0)).headlines[0]
    assert "has 3 times the error" in told
    assert "as printed, 50 % of the error" in told
    assert "the corrected method has 1,200 times that error" in told


def test_the_sentence_about_a_table_counts_its_bounds_and_names_the_worst(unpainted):
    study = STUDIES["table-1"](True)
    kept = study.section(invented_table(study, lambda row, at: row.excess[0](at), gradients_as_claimed)).headlines
    assert kept == (
        "Of the 5 bounds on excess risk in Table 1, measurement confirms 5, refutes 0 and leaves 0 undecided.",
    )

    def excess(row, at):
        return 1e3 * bound(row, at) * (at.p if row is study.rows[0] else 1.0)

    missed = study.section(invented_table(study, excess, gradients_as_claimed, at_zero=1e12)).headlines[0]
    assert (
        "confirms 4, refutes 1 and leaves 0 undecided: the excess risk of Chaudhuri et al. grows with p to the power "
        "2.00, and its bound with 1.00." in missed
    )


def test_the_sentence_about_section_6_2_has_the_power_that_was_measured(unpainted):
    study = STUDIES["nonconvex"](False)
    told = study.section(invented_norms(study, norms_as_claimed)).headlines[0]
    assert "‖∇F‖² of DP-GD changes with n to the power -1.00 [-1.00, -1.00], its bound (Theorem 6.3) with -1.00" in told
    stuck = study.section(invented_norms(study, norms_as_claimed, at_start=1e-9)).headlines[0]
    assert "does not fall visibly with n" in stuck


def test_the_sentence_about_the_printed_noise_says_which_delta_it_gives(unpainted):
    study = STUDIES["privacy"](True)
    told = [
        study.section(invented_costs(study, **changed)).headlines[0]
        for changed in ({"delta": 1e-4}, {"delta": 0.9999, "sigma": 1e-6, "steps": 100}, {"delta": 0.3})
    ]
    assert told[0].startswith("The printed noise keeps δ = 0.001 in the paper's 2 experiments (ε = 1): at most 0.0001")
    assert re.match(r"The printed noise gives δ of at least [01]\.\d\d instead of 0\.001 in the paper's", told[1])
    assert told[2].startswith("Whether the printed noise keeps δ = 0.001 is not proved")


def test_curves_that_lie_together_are_undecided(unpainted):
    study = STUDIES["figure-1"](True)
    section = study.section(invented_figure(study, ours=1.0))
    assert [verdict.outcome for verdict in section.verdicts[:2]] == [OPEN, OPEN]
    assert reason(section, "with printed noise").startswith("ε = 1: the interval of the ratio")


@pytest.mark.long
def test_a_fit_that_came_to_nothing_leaves_its_figure_undecided():
    study = STUDIES["figure-2"](True)
    results = invented_figure(study)
    for fit, result in results.items():
        if "sampling_rate=0.0002" in repr(fit.solver):
            results[fit] = {
                "excess": None,
                "reason": "diverged",
                "at_zero": 2.0,
                "gradients": 1.0,
                "certified_delta": 0.5,
            }
            assert result["excess"] > 0
    section = study.section(results)
    assert all(picture.startswith(b"\x89PNG") for picture in section.pictures.values())
    assert [v.outcome for v in section.verdicts if "as printed has" in v.claim and "certified" in v.claim] == [
        OPEN,
        OPEN,
    ]


def invented_table(study, excess, gradients, at_zero=1e9):
    """Results with these formulae of the row and the place."""
    results = {}
    for row in study.rows:
        for place in dict.fromkeys(place for axis in study.axes for place in axis.places):
            for seed in range(row.seeds):
                for mode in row.noises.values():
                    at = row.effective(place, mode)
                    results[study._fit(row, mode, place, seed)] = {
                        "excess": excess(row, at) * (1.0 + 0.01 * seed), "at_zero": at_zero,
                        "gradients": gradients(row, place) if row.gradients else None,
                    }  # fmt: skip
        for seed in range(row.seeds):
            results[study._penalised(row, seed)] = {"excess": 0.1, "at_zero": 1.0, "gradients": None}
    assert set(results) == set(study.measurements())
    return results


# Every formula at n = 10 000, ε = 2, p = 100 and ln(1/δ) = ln 1e5, worked out by hand from the paper's tables: excess,
# then gradients. On the l1 ball of radius 20 the Gaussian width is 20 E max |g_j| over 100 normals, 20 · 2.7477.
WIDTH = 20 * 2.7477
BY_HAND = {
    "table-1": [
        ([2.8782e-5], []),
        ([2.8782e-5, 5e-5], []),
        ([2.8782e-5 * 84.83], [1e8]),
        ([2.8782e-5], [1e4 * 2.5 * np.log(8000)]),
        ([2.8782e-5 * 9.2103], [10002.5 * np.log(20)]),
    ],
    "table-2": [
        ([1.6965e-2], []),
        ([1.6965e-2 * 9.2103**1.5], [1e8]),
        ([10 * 1.6965e-3 ** (2 / 3)], [1e4 * 200 ** (2 / 3)]),
        ([1.6965e-2], [2e3, 1e4 * np.log(200)]),
    ],
    "table-3": [
        ([WIDTH * 9.2103 * 1.6965e-4, 40 * 9.2103 * 1.6965e-4], [4e12 / (WIDTH**2 + 1600) / 84.83]),
        ([WIDTH * 1.6965e-4, 400 * 1.6965e-4], []),
        ([(WIDTH * 1.6965e-4) ** (2 / 3) * 84.83], [1e4 * (2e4 / WIDTH) ** (2 / 3)]),
        ([WIDTH * 1.6965e-4, 40 * 1.6965e-4], [1e6 * np.sqrt(2 / np.hypot(WIDTH, 40))]),
    ],
}


@pytest.mark.parametrize("name", list(BY_HAND))
def test_the_bounds_are_those_of_the_paper(name):
    at = Place(10_000, 2.0, 100)
    for row, (excess, gradients) in zip(STUDIES[name](False).rows, BY_HAND[name], strict=True):
        assert [term(at) for term in row.excess] == pytest.approx(excess, rel=2e-3), row.label
        assert [term(at) for term in row.gradients] == pytest.approx(gradients, rel=2e-3), row.label


def test_certified_noise_is_compared_by_its_own_strength():
    row, pure = STUDIES["table-1"](False).rows[-1], STUDIES["table-1"](False).rows[0]
    at = Place(10_000, 1.0, 100)
    assert row.effective(at, "paper") == at
    assert row.effective(at, "certified").epsilon == pytest.approx(gaussian_mu(Guarantee(1.0, DELTA)))
    assert row.effective(at, "certified").log_delta == 1.0
    assert pure.effective(at, "certified") == Place(10_000, 1.0, 100, 1.0)


def bound(row, at):
    return sum(term(at) for term in row.excess)


def gradients_as_claimed(row, at):
    """As many as the paper says; few enough for its own method."""
    return sum(term(at) for term in row.gradients) * (1e-3 if row.label.startswith("this paper") else 1.0)


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
        changed = {"gradients": 1e3 * at.n, "count": 1e9}.get(wrong, 1.0) if row is ours else 1.0
        return gradients_as_claimed(row, at) * changed

    if (name, wrong) == ("table-3", "penalty"):
        pytest.skip("none of its solvers takes a penalty: the column is undecided")
    results = invented_table(study, excess, gradients, at_zero=1e-9 if wrong == "nothing learned" else 1e12)
    if wrong == "penalty":
        for row in study.rows:
            for seed in range(row.seeds):
                results[study._penalised(row, seed)]["excess"] = 1.0
    section = study.section(results)
    if wrong in ("n", "epsilon", "p"):
        assert outcome(section, f"{ours.label}: the excess") is FAILS
        assert outcome(section, f"{study.rows[0].label}: the excess") is not FAILS
    elif wrong == "nothing learned":
        assert outcome(section, f"{ours.label}: the excess") is OPEN
    else:
        words = {"gradients": "Gradients grow", "count": "fewer gradients", "penalty": "non-smooth"}[wrong]
        assert outcome(section, words) is FAILS


def test_a_point_at_which_nothing_was_learned_leaves_the_bound_undecided_at_best(unpainted):
    study = STUDIES["table-1"](True)
    results = invented_table(study, lambda row, at: row.excess[0](at), gradients_as_claimed)
    ours, place = study.rows[-1], study.axes[1].places[0]
    for seed in range(ours.seeds):
        run = results[study._fit(ours, "certified", place, seed)]
        run["at_zero"] = run["excess"] / 2.0
    section = study.section(results)
    assert outcome(section, f"{ours.label}: the excess") is OPEN
    assert reason(section, f"{ours.label}: the excess") == (
        "certified noise, ε: too little was learned at 1 of 3 points, where the excess is 2 of that of w = 0 and only "
        "below 0.5 counts; by its power of n, 2.1 times the rows would do"
    )
    assert outcome(section, f"{study.rows[1].label}: the excess") is HOLDS


def test_a_table_in_which_nothing_was_learned_can_be_drawn():
    study = STUDIES["table-3"](True)
    section = study.section(invented_table(study, bound, gradients_as_claimed, at_zero=1e-9))
    assert all(picture.startswith(b"\x89PNG") for picture in section.pictures.values())
    assert outcome(section, f"{study.rows[0].label}: the excess") is OPEN


def test_a_method_that_takes_no_penalty_leaves_the_last_column_undecided(unpainted):
    study = STUDIES["table-1"](True)
    results = invented_table(study, bound, gradients_as_claimed)
    for seed in range(study.rows[1].seeds):
        results[study._penalised(study.rows[1], seed)] |= {"excess": None, "reason": "it takes no penalty."}
    section = study.section(results)
    assert outcome(section, "non-smooth") is OPEN
    assert reason(section, "non-smooth") == f"{study.rows[1].label} is not run with an l1 penalty: it takes no penalty"


@pytest.mark.parametrize(("bound", "expected"), [(2.0, HOLDS), (0.5, FAILS), (1.05, OPEN), (np.inf, OPEN)])
def test_an_expectation_is_below_a_bound_only_if_its_interval_is(bound, expected):
    assert mean_is_below([1.0, 1.1, 0.9], bound).outcome is expected
    assert mean_is_below([1.0], bound).outcome is OPEN


def invented_norms(study, square, at_start=1.0):
    """Results with ‖∇F‖² = square(label, n, μ), and bounds of 0.1 · 1000/(nμ) or that to the power of 4/3."""
    results = {}
    for trial in study.trials:
        for method in trial.methods:
            for at in trial.places():
                share = 1000.0 / (at.n * at.mu)
                bound = 0.1 * share ** (4.0 / 3.0 if method.label == "DP-Spider" else 1.0)
                for seed in range(method.seeds):
                    results[trial.fit(method, at, seed)] = {
                        "square": square(method.label, share) * (1.0 + 0.01 * seed), "bound": bound,
                        "at_start": at_start, "seconds": 1.0, "gradients": 1e6,
                    }  # fmt: skip
    assert set(results) == set(study.measurements())
    return results


def norms_as_claimed(label, share):
    constant = {"DP-GD": 1e-3, "RRPSGD": 2e-3, "DP-SVRG": 1e-4, "DP-Spider": 1e-4}[label]
    return constant * share ** (4.0 / 3.0 if label == "DP-Spider" else 1.0)


def test_norms_that_are_as_claimed_confirm_every_claim_of_section_6_2(unpainted):
    study = STUDIES["nonconvex"](False)
    verdicts = study.section(invented_norms(study, norms_as_claimed)).verdicts
    assert {verdict.outcome for verdict in verdicts} == {HOLDS}
    assert len(verdicts) == 17


@pytest.mark.parametrize(
    ("changed", "claims"),
    [
        (lambda label, share: norms_as_claimed(label, share) * (1e4 if label == "DP-GD" else 1.0),
         {"below their bounds", "DP-GD has smaller"}),
        (lambda label, share: 1e2 * share**0.5 if label == "RRPSGD" else norms_as_claimed(label, share),
         {"RRPSGD, ", "below their bounds"}),
        (lambda label, share: norms_as_claimed(label, share) * (15.0 if label == "DP-SVRG" else 1.0),
         {"DP-SVRG has smaller"}),
        (lambda label, share: 1e-4 * share**0.9 if label == "DP-Spider" else norms_as_claimed(label, share),
         {"falls faster with n"}),
    ],
)  # fmt: skip
def test_wrong_norms_flip_the_verdicts_on_section_6_2(changed, claims, unpainted):
    study = STUDIES["nonconvex"](False)
    verdicts = study.section(invented_norms(study, changed, at_start=1e9)).verdicts
    failed = {verdict.claim for verdict in verdicts if verdict.outcome is FAILS}
    assert all(any(words in claim for words in claims) for claim in failed), failed
    assert all(any(words in claim for claim in failed) for words in claims), failed


def test_a_method_that_hardly_moved_has_no_power(unpainted):
    study = STUDIES["nonconvex"](False)
    section = study.section(invented_norms(study, norms_as_claimed, at_start=1e-9))
    assert outcome(section, "DP-GD, sigmoid loss: ‖∇F‖² falls") is OPEN
    assert outcome(section, "falls faster with n") is OPEN
    assert "hardly moved" in section.verdicts[0].because
    assert "DP-GD moved too little at 4 of 4 points along n" in reason(section, "DP-GD, sigmoid loss: ‖∇F‖² falls")


def test_a_fit_that_failed_leaves_section_6_2_undecided_and_can_be_drawn():
    study = STUDIES["nonconvex"](True)
    results = invented_norms(study, norms_as_claimed)
    trial = study.trials[0]
    for at in trial.places():
        results[trial.fit(trial.methods[0], at, 0)] = {"square": None, "at_start": 1.0, "reason": "no"}
    section = study.section(results)
    assert all(picture.startswith(b"\x89PNG") for picture in section.pictures.values())
    assert outcome(section, "DP-GD, sigmoid loss: ‖∇F‖² falls") is OPEN
    assert outcome(section, "On the sigmoid loss") is OPEN
    assert outcome(section, "DP-GD has smaller ‖∇F‖² than RRPSGD, sigmoid loss") is OPEN


def test_the_exact_gradient_is_that_of_the_exact_risk():
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(50, 3)) / 3, np.where(rng.random(50) < 0.5, 1.0, -1.0), rng.normal(size=3)
    problem, small = Problem(Sigmoid()), 1e-5 * np.eye(3)
    rises = [empirical_risk(problem, X, y, w + one) - empirical_risk(problem, X, y, w - one) for one in small]
    assert empirical_gradient(problem, X, y, w) == pytest.approx(np.array(rises) / 2e-5, abs=1e-9)


def test_the_exact_gradient_of_a_function_is_the_mean_of_clipped_ones():
    import jax.numpy as jnp

    problem = Problem(FunctionLoss(lambda w, x, y: jnp.sum(w * x), np.zeros(2), clip=0.5))
    X = np.array([[3.0, 4.0], [0.0, 0.1]])
    assert empirical_gradient(problem, X, np.zeros(2), np.zeros(2)) == pytest.approx([0.15, 0.25])


def invented_costs(study, delta, *, steps=10**12, sigma=1e9, apart=1.0, spread=1.0):
    results = {
        one: {"steps": steps, "certified_delta": delta, "sigma": sigma, "constant": 0.5}
        for one in study.measurements()
        if isinstance(one, Cost)
    }
    return results | {LiteralAccMD(): {"apart": apart, "spread": spread}}


def test_wrong_prices_flip_the_verdicts_on_privacy(unpainted):
    study = STUDIES["privacy"](True)
    condition = "satisfy the condition"

    def outcomes(**changed):
        section = study.section(invented_costs(study, **{"delta": 1e-4} | changed))
        return {verdict.claim: verdict.outcome for verdict in section.verdicts if condition not in verdict.claim}

    assert set(outcomes().values()) == {HOLDS}
    assert list(outcomes(spread=0.0).values()).count(FAILS) == 1  # Algorithm 3 as printed
    assert list(outcomes(delta=0.3).values()).count(OPEN) == 5  # an upper bound alone proves no leak
    told = reason(study.section(invented_costs(study, 0.3)), "keeps δ in the experiments")
    assert told.startswith("in 2 of 2 settings the certified δ is above 0.001 and the lower bound is not")
    leaking = outcomes(delta=0.3, sigma=1e-6)
    assert list(leaking.values()).count(FAILS) == 4  # where every step may be seen
    assert [words for words, found in leaking.items() if found is OPEN] == [
        words for words in leaking if "only the last iterate" in words
    ]


def test_the_condition_of_theorem_4_1_is_checked_with_its_own_count_of_steps(unpainted):
    study = STUDIES["privacy"](True)
    section = study.section(invented_costs(study, 1e-4, steps=10**12))
    assert outcome(section, "satisfy the condition") is FAILS  # DP-SVRG++ still takes 2ᵀ m = 327 680 steps
    assert "to 1.2e+05." in next(verdict.because for verdict in section.verdicts if "satisfy" in verdict.claim)


@pytest.mark.long
def test_the_lower_bound_on_delta_is_the_exact_one_of_gaussians_and_below_the_certified_one():
    for solver, exact in (
        (DPGD(n_steps=20, accounting="composition"), True),
        (DPAccMD(n_steps=20, y_step="argmin"), True),
    ):
        one = Cost(privacy.BALL, solver, 1_000, 1.0)
        found = one.run()
        assert privacy.least_delta(one, found) == pytest.approx(found["certified_delta"], rel=1e-3), exact
    for rate in (1e-3, 0.03, 1.0):
        one = Cost(privacy.RIDGE, PrintedSVRG(n_epochs=3, n_inner=100, sampling_rate=rate), 1_000, 1.0)
        found = one.run()
        assert 1e-3 < privacy.least_delta(one, found) <= found["certified_delta"] * (1.0 + 1e-6)


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
    assert {
        "solvers/variance_reduced/dp_svrg.py",
        "accounting/composition.py",
        "kernel/objectives/margin_sums.py",
        "plan/options.py",
    } <= names
    assert {
        f"paper/studies/{name}.py" for name in ("reproduce/rows", "reproduce/gradients", "reproduce/lab", "reference")
    } <= names
    assert {"datasets/covertype.npz", "mechanisms/gradient/answer.py", "kernel/native.abi3.so"} <= names
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
    [
        SphereRows(400, 5, 0, 0.1),
        SphereRows(400, 5, 0, 0.1, l1=0.01),
        SparseRows(300, 40, 0),
        SparseRows(300, 40, 0, l1=0.01),
    ],
)
def test_no_nearby_point_has_less_than_the_least_risk(rows):
    """Noiseless descent comes from above, and stops a little short where there is no strong convexity."""
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
    """F(w) − F* ≤ ⟨∇F(w), w⟩ + r‖∇F(w)‖_∞, at the end of a long projected descent."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 6)) / 6, np.where(rng.random(200) < 0.5, 1.0, -1.0)
    ball = L1Ball(0.5)
    w = np.zeros(6)
    for _ in range(3000):
        slope = -X.T @ (y / (1.0 + np.exp(y * (X @ w)))) / 200
        w = ball.project(w - 4.0 * slope)
    gap = float(slope @ w + 0.5 * np.abs(slope).max())
    problem = Problem(Logistic(), domain=ball)
    assert gap < 1e-9
    assert least_risk(problem, X, y) == pytest.approx(empirical_risk(problem, X, y, w), abs=2e-9)


def test_a_penalty_that_is_too_large_leaves_the_risk_at_zero():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 6)) / 6, np.where(rng.random(200) < 0.5, 1.0, -1.0)
    assert least_risk(Problem(Logistic(), L1(10.0)), X, y) == pytest.approx(np.log(2.0), abs=1e-9)
    assert least_risk(Problem(Logistic(), L2(0.1)), X, y) < np.log(2.0)
