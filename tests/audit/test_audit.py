"""An audit accuses no correct mechanism at its level, and every broken one of a suite."""

import functools

import numpy as np
import pytest
from scipy.stats import binom, norm

from audit.broken import BROKEN
from contracts.solvers import SOLVER_EXAMPLES
from contracts.test_every_solver import first_taken_by
from dperm import Classes, FitOptions, Guarantee, Number, PrivateLogisticRegression, Problem, Schema, minimize
from dperm.accounting.events import Gaussian
from dperm.audit import audit_plan, audit_table
from dperm.audit.bounds import (
    Counts,
    best_threshold,
    epsilon_from_guesses,
    guesses_p_value,
    rate_at_least,
    rate_at_most,
)
from dperm.audit.low_bits import is_possible
from dperm.audit.one_run import draw_canaries, right_guesses, scores
from dperm.audit.proved import p_value
from dperm.audit.replay import replay
from dperm.audit.subject import Subject
from dperm.audit.tables import Surroundings, hostile_rows, neighbour_pairs
from dperm.errors import InvalidParameterError, UnsupportedProblemError
from dperm.mechanisms import HistogramQuery, RangeQuery
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Logistic, Softmax
from dperm.solvers import DPGD, DPSVRG

PLAN = FitOptions(
    Problem(Logistic(), L2(0.1)), guarantee=Guarantee(4.0, 1e-5), solver=DPGD(n_steps=4, accounting="composition")
).plan(60, 3)


# Bounds.


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_clopper_pearson_fails_as_rarely_as_it_says(rate):
    """Exactly, over all outcomes: the chance that a bound is on the wrong side of the truth."""
    hits = np.arange(51)
    chances = binom.pmf(hits, 50, rate)
    low = np.array([rate_at_least(k, 50, 0.05) for k in hits])
    high = np.array([rate_at_most(k, 50, 0.05) for k in hits])
    assert chances[low > rate].sum() <= 0.05
    assert chances[high < rate].sum() <= 0.05
    assert chances[np.array([rate_at_least(k, 50, 0.2) for k in hits]) > rate].sum() > 0.05  # a looser one would not do


def test_no_difference_proves_no_epsilon():
    """Pitfall 36: 300 audits of scores that mean nothing, thresholds chosen on half of them; alpha is 0.05."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(300):
        one, two = rng.normal(size=(2, 60))
        _, threshold = best_threshold(one[:30], two[:30], lambda counts: counts.epsilon(0.0, 0.05))
        wrong += threshold.counts(one[30:], two[30:]).epsilon(0.0, 0.05) > 0.0
    assert wrong <= binom.ppf(1 - 1e-6, 300, 0.05)


def test_randomized_response_is_bounded_by_its_own_epsilon():
    """By both bounds, in all but alpha = 0.05 of 1000 audits; the bounds come near it."""
    rng, wrong, best = np.random.default_rng(1), np.zeros(2), np.zeros(2)
    keep = 1.0 / (1.0 + np.exp(-1.0))  # ε = 1
    guessed = functools.cache(lambda right: epsilon_from_guesses(200, 200, right, 0.0, 0.05))
    for _ in range(1000):
        hits, alarms = rng.binomial(500, keep), rng.binomial(500, 1.0 - keep)
        right = int(rng.binomial(200, keep))
        found = Counts(hits, 500, alarms, 500).epsilon(0.0, 0.05), guessed(right)
        wrong += np.array(found) > 1.0
        best = np.maximum(best, found)
    assert (wrong <= binom.ppf(1 - 1e-6, 1000, 0.05)).all()
    assert (best > 0.8).all()


def test_the_p_value_of_guesses_is_that_of_the_theorem():
    """f(v) + 2mδ max (f(v − i) − f(v))/i, computed the slow way."""
    m, r, epsilon, delta = 40, 30, 0.7, 1e-3

    def tail(v):
        return float(binom.sf(v - 1, r, np.exp(epsilon) / (1.0 + np.exp(epsilon))))

    for v in (1, 5, 20, 27, 30):
        slow = tail(v) + 2 * m * delta * max((tail(v - i) - tail(v)) / i for i in range(1, v + 1))
        assert guesses_p_value(m, r, v, epsilon, delta) == pytest.approx(min(1.0, slow), rel=1e-12)
    assert guesses_p_value(m, r, 0, epsilon, 0.0) == 1.0
    assert epsilon_from_guesses(100, 100, 100, 0.0, 0.05) == pytest.approx(np.log(0.05**0.01 / (1 - 0.05**0.01)), 1e-4)
    assert epsilon_from_guesses(100, 100, 90, 0.0, 0.05) > epsilon_from_guesses(100, 100, 90, 1e-3, 0.05) > 0.5


def test_delta_makes_the_bounds_smaller():
    assert Counts(90, 100, 10, 100).epsilon(0.0, 0.05) > Counts(90, 100, 10, 100).epsilon(0.3, 0.05) > 0.0
    assert Counts(3, 100, 0, 100).epsilon(0.3, 0.05) == 0.0


# Correct mechanisms.


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("solver", SOLVER_EXAMPLES, ids=repr)
@pytest.mark.slow
def test_no_solver_moves_further_than_claimed(solver, adjacency):
    problem = first_taken_by(solver)
    plan = FitOptions(problem, guarantee=Guarantee(1.0, 1e-6), solver=solver, adjacency=adjacency).plan(300, 6)
    assert replay(Subject(plan, 1), 1e-6).broken == ()


@pytest.mark.parametrize(
    ("problem", "adjacency"),
    [
        (Problem(Logistic(), L2(0.1)), "replace_one"),
        (Problem(Softmax(3), L2(0.1), intercept=True), "add_remove"),
        pytest.param(Problem(Logistic(), L2(0.1)), "add_remove", marks=pytest.mark.slow),
        pytest.param(Problem(Softmax(3), L2(0.1), intercept=True), "replace_one", marks=pytest.mark.slow),
    ],
)
def test_a_correct_mechanism_is_not_accused(problem, adjacency):
    """Both surroundings, both kinds of queries of DP-SVRG; all attacks with fixed seeds."""
    plan = FitOptions(problem, guarantee=Guarantee(2.0, 1e-5), solver=DPSVRG(), adjacency=adjacency).plan(50, 2)
    result = audit_plan(plan, fits=30, random_state=4)
    assert result.kept, result.contradictions
    assert result.lower_bound <= 2.0
    assert [attack.name for attack in result.attacks] == ["replay", "black box", "low bits"]


@pytest.mark.slow
def test_the_rate_of_false_accusations_is_that_of_the_level():
    """50 audits at confidence 0.8 of a correct mechanism; alpha is 0.2 in all."""
    accused = sum(not audit_plan(PLAN, fits=60, confidence=0.8, random_state=seed).kept for seed in range(50))
    assert accused <= binom.ppf(1 - 1e-6, 50, 0.2)


@pytest.mark.slow
def test_the_black_box_comes_near_the_proved_epsilon():
    """It proves most of ε for noise of this shape, and never more than ε."""
    result = audit_plan(PLAN, attacks=["black-box"], fits=3000, random_state=0)
    assert 0.6 * 4.0 <= result.attacks[0].shape_epsilon <= 4.0
    assert 0.5 <= result.lower_bound <= 4.0


# Broken ones.


# More of a kind that is there already, or with a loss that has to be compiled.
SLOW = ("differences not clipped", "plain float noise, add_remove", "the same key in all fits, SGD steps")


@pytest.mark.parametrize(
    "broken",
    [pytest.param(one, marks=[pytest.mark.slow] if one.name in SLOW else [], id=one.name) for one in BROKEN],
)
def test_a_broken_mechanism_is_caught(broken):
    fits = {"low-bits": 40}.get(broken.catches[0], 200)
    with broken.change():
        # Replay takes keys of the operating system, and one audit in ten misses the bound on a difference.
        for _ in range(3):
            result = audit_plan(broken.plan(), attacks=broken.catches[:1], fits=fits, random_state=1)
            if not result.kept:
                break
    assert not result.kept
    assert "THE GUARANTEE IS VIOLATED" in str(result)


@pytest.mark.parametrize("broken", [b for b in BROKEN if len(b.catches) > 1], ids=lambda broken: broken.name)
@pytest.mark.slow
def test_a_broken_mechanism_is_caught_by_more_than_one_attack(broken):
    with broken.change():
        for attack in broken.catches[1:]:
            assert not audit_plan(broken.plan(), attacks=[attack], fits=2000, random_state=1).kept


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
@pytest.mark.slow
def test_the_same_plan_without_the_change_is_not_accused(broken):
    if "Algorithm 3" in broken.name or "not clipped" in broken.name:
        pytest.skip("the change is in the solver or the loss itself")
    assert audit_plan(broken.plan(), attacks=["replay"], random_state=1, confidence=0.999).kept


# Parts.


def test_every_sum_of_floats_is_possible_and_most_others_are_not():
    rng = np.random.default_rng(3)
    exact, other = rng.normal(size=(2, 20_000)) / 100.0
    scale = 0.37
    released = exact + scale * rng.standard_normal(20_000)
    assert is_possible(released, exact, scale).all()
    assert not is_possible(released, other, scale).all()


def test_neighbours_differ_in_one_row():
    rows = hostile_rows(PLAN.problem, 3)
    for adjacency, n_rows in ((Adjacency.REPLACE_ONE, {20}), (Adjacency.ADD_REMOVE, {19, 20})):
        for one, two in neighbour_pairs(rows, adjacency):
            tables = [Surroundings(PLAN.problem, 20, 3, ignored=False).table(row) for row in (one, two)]
            assert {len(table.y) for table in tables} <= n_rows
            np.testing.assert_array_equal(tables[0].X[:19], tables[1].X[:19])


# One run.


def test_guesses_are_counted_on_both_ends():
    included = np.array([True, False, True, False, False])
    assert right_guesses(np.array([5.0, 4.0, 3.0, 2.0, 1.0]), included, 2, 1) == 2
    assert right_guesses(np.array([5.0, 1.0, 4.0, 2.0, 3.0]), included, 2, 2) == 4


@pytest.mark.parametrize("problem", [Problem(Logistic(), L2(1.0)), Problem(Softmax(3), L2(1.0), intercept=True)])
def test_a_canary_that_was_fitted_alone_has_the_highest_score(problem):
    canaries = draw_canaries(problem, 4, 4, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(canaries.X, axis=1), 1.0)
    for place in range(4):
        X, y = np.full((4, 4), np.nan), canaries.y
        X[place] = canaries.X[place]
        w = minimize(problem, X, y, guarantee=None, noise=None).w
        assert np.argmax(scores(problem, canaries, w)) == place


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_one_run_catches_a_fit_with_hardly_any_noise(adjacency, monkeypatch):
    """ε = 1 was promised, and the noise is a thousandth of it."""
    from dperm.mechanisms.plan import CalibratedPlan

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 60)) / 20.0, rng.choice([-1, 1], 40)
    solver = DPGD(n_steps=3, accounting="composition")
    more = {"solver": solver, "adjacency": adjacency, "classes": [-1, 1], "n": 40}
    model = PrivateLogisticRegression(1.0, 1e-6, fit_intercept=False, **more)
    assert audit_table(model, X, y, canaries=60, random_state=0).kept
    true = CalibratedPlan.sigma
    monkeypatch.setattr(CalibratedPlan, "sigma", lambda *given: 1e-3 * true(*given))
    result = audit_table(model, X, y, canaries=60, random_state=0)
    assert not result.kept
    assert result.lower_bound > 1.0
    assert result.n == 100


def test_one_run_needs_declared_classes_and_no_more_guesses_than_canaries():
    X, y = np.ones((20, 2)), np.tile([0, 1], 10)
    with pytest.raises(InvalidParameterError, match="declare the classes"), pytest.warns(match="classes were read"):
        audit_table(PrivateLogisticRegression(), X, y)
    with pytest.raises(InvalidParameterError, match="10 canaries"):
        audit_table(PrivateLogisticRegression(classes=[0, 1]), X, y, canaries=10, guesses=(6, 5))


def test_one_run_is_charged_like_a_fit(tmp_path):
    from dperm import Budget

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.choice([0, 1], 300)
    budget = Budget.create("people", Guarantee(3.0, 1e-4), ledger=str(tmp_path / "ledger.db"))
    model = PrivateLogisticRegression(1.0, 1e-6, classes=[0, 1])
    # Ten right guesses of ten have a probability of 4 %; the level is far below that.
    assert audit_table(model, X, y, canaries=20, budget=budget, confidence=0.9999).kept
    (release,) = budget.account().releases
    assert release.fingerprint


# Refusals.


def test_what_cannot_be_audited_is_refused_in_a_sentence():
    for bad in ({"attacks": ["guessing"]}, {"attacks": []}, {"fits": 5}, {"confidence": 1.0}, {"confidence": 0.3}):
        with pytest.raises(InvalidParameterError):
            audit_plan(PLAN, **bad)
    bare = FitOptions(PLAN.problem, guarantee=None, noise=None).plan(60, 3)
    with pytest.raises(UnsupportedProblemError, match="no guarantee to audit"):
        audit_plan(bare)


# The proved curve.


@pytest.mark.parametrize("more", [0, 10, 30, 60])
def test_the_chance_of_an_attack_under_the_proved_curve_is_bounded_and_nearly_reached(more):
    """The best attack on one Gaussian release is right with Φ(μ/2), so hits − alarms + n is Binomial(2n, Φ(μ/2))."""
    mu, n = 0.5, 100  # add_remove: one record over a noise multiplier of 2
    chance = binom.sf(n + more - 1, 2 * n, norm.cdf(mu / 2.0))
    found = p_value(Gaussian(2.0), Adjacency.ADD_REMOVE, Counts(more, n, 0, n))
    assert chance <= found <= 1.25 * chance + 1e-3
    assert p_value(Gaussian(2.1), Adjacency.ADD_REMOVE, Counts(more, n, 0, n)) <= found  # more noise, less chance


# Private ranges and bins.

BINS = {"encode": "bins", "bins": "private", "n_bins": 4}


def test_private_ranges_are_replayed_with_the_rest(monkeypatch):
    columns = {"age": Number("private", within=(0, 120)), "pay": Number((0, 9))}
    schema = Schema(columns, Classes("y", [0, 1]), n=500, encode="linear")
    plan = PrivateLogisticRegression(4.0, 1e-5, schema=schema, solver="dp-gd").plan()
    found = replay(Subject(plan, 0), 0.001)
    assert found.broken == ()
    assert "2 queries move at most" in found.found
    monkeypatch.setattr(RangeQuery, "sensitivity", 0.9)
    (broken, *_) = replay(Subject(plan, 0), 0.001).broken
    assert "1.111 times as far as claimed (Range" in broken


def test_private_bins_are_replayed_with_the_rest(monkeypatch):
    columns = {"age": Number("private", within=(0, 120), **BINS), "pay": Number((0, 9), **BINS)}
    plan = PrivateLogisticRegression(
        4.0, 1e-5, schema=Schema(columns, Classes("y", [0, 1]), n=500), solver="dp-gd"
    ).plan()  # fmt: skip
    found = replay(Subject(plan, 0), 0.001)
    assert found.broken == ()
    assert "3 queries move at most" in found.found
    monkeypatch.setattr(HistogramQuery, "sensitivity", 0.95 * 2.0)
    (broken, *_) = replay(Subject(plan, 0), 0.001).broken
    assert "1.053 times as far as claimed (Histogram" in broken


@pytest.mark.parametrize("age", [Number("private", within=(0, 120), **BINS), Number((0, 120), **BINS)])
def test_low_bits_of_private_bins_are_looked_at(age):
    schema = Schema({"age": age, "pay": Number((0, 9), **BINS)}, Classes("y", [0, 1]), n=500)
    plan = PrivateLogisticRegression(4.0, 1e-5, schema=schema).plan()
    (found,) = audit_plan(plan, attacks=("low-bits",), fits=20).attacks
    assert found.broken == ()
    assert "4560 numbers in all" in found.found  # 114 cells of two columns in each of 20 fits
