"""Appendix B.1: against numbers worked out by hand, above the exact cost, and refused where its lemma fails."""

import math
import re

import numpy as np
import pytest

from dperm import Guarantee, InvalidParameterError
from dperm.accounting.calibration import ACCOUNTANTS, calibrate
from dperm.accounting.composition import curve_of, epsilon_of
from dperm.accounting.curve import gaussian_delta
from dperm.accounting.events import Composed, Gaussian, NotPrivate, PoissonSampledGaussian, Pure, Repeated
from dperm.errors import UnsupportedProblemError
from dperm.mechanisms import GradientQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.paper.advanced_composition import advanced_composition_epsilon, advanced_composition_noise
from dperm.privacy.guarantee import Adjacency
from kernel.harness import logistic_problem, setting_of

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


def gaussian(noise_multiplier, count=1):
    return Repeated(Gaussian(noise_multiplier), count)


def sampled(rate, noise_multiplier, count):
    return Repeated(PoissonSampledGaussian(rate, noise_multiplier), count)


def plan_of(adjacency, *items, n=200_000):
    setting = setting_of(logistic_problem(), adjacency, n)
    return Plan("test", tuple(PlannedQuery(GradientQuery(setting, rate), count) for rate, count in items), {})


# (event, δ, adjacency, ε), worked out with 30 digits in mpmath along the lines beside it.
BY_HAND = [
    # δ' = 5e-6, ε' = sqrt(2 ln 250000)/20 = 0.2492912; ε = sqrt(2 ln 200000)·ε' + ε'(e^ε' − 1).
    (gaussian(20.0), 1e-5, ADD, 1.3022921),
    # Replacing moves two records: as half the noise.
    (gaussian(40.0), 1e-5, REPLACE, 1.3022921),
    # 100 answers share 5e-6: δ' = 5e-8, ε' = sqrt(2 ln 2.5e7)/300 = 0.01945615;
    # ε = 10 sqrt(2 ln 200000)·ε' + 100 ε'(e^ε' − 1).
    (gaussian(300.0, 100), 1e-5, ADD, 0.9995271),
    # 1000 answers at γ = 0.01: δ' = 5e-7, ε' = sqrt(2 ln 2.5e6)/10 = 0.5428039, ε_i = 0.02 ε' = 0.01085608;
    # ε = sqrt(1000 · 2 ln 200000)·ε_i + 1000 ε_i(e^ε_i − 1).
    (sampled(0.01, 10.0, 1000), 1e-5, ADD, 1.8146919),
    # Both kinds: 1001 answers share 5e-6. δ'_1 = 4.995005e-7, ε'_1 = sqrt(2 ln(1.25/δ'_1))/10 = 0.5428223,
    # ε_1 = 0.01085645; δ'_2 = 4.995005e-9, ε'_2 = sqrt(2 ln(1.25/δ'_2))/50 = 0.1243800.
    (Composed([sampled(0.01, 10.0, 1000), gaussian(50.0)]), 1e-5, ADD, 1.9391232),
]  # fmt: skip


@pytest.mark.parametrize(("event", "delta", "adjacency", "epsilon"), BY_HAND)
def test_epsilon_is_what_the_formulas_give_by_hand(event, delta, adjacency, epsilon):
    """A factor 2, a root or a count that is lost anywhere moves these numbers by far more than a millionth."""
    assert advanced_composition_epsilon(event, delta, adjacency) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
@pytest.mark.parametrize("rate", [0.001, 0.05, 0.4, 0.7])
@pytest.mark.parametrize(("noise", "count"), [(8.0, 1), (15.0, 30), (60.0, 1000)])
def test_it_is_never_below_the_exact_epsilon(noise, count, rate, delta, adjacency):
    noise *= adjacency.records_moved
    for event in (
        gaussian(noise, count),
        sampled(rate, noise, count),
        Composed([sampled(rate, noise, count), gaussian(2 * noise, 3)]),
    ):
        exact = epsilon_of(event, delta, adjacency)
        assert exact <= advanced_composition_epsilon(event, delta, adjacency)


def test_the_classical_gaussian_formula_holds_up_to_its_condition():
    """σ/Δ = sqrt(2 ln(1.25/δ'))/ε' keeps (ε', δ') for ε' ≤ 1 and δ' ≤ 1/2, and not for every larger ε'."""
    for base_delta in np.geomspace(1e-60, 0.5, 50):
        c = math.sqrt(2 * math.log(1.25 / base_delta))
        for base_epsilon in np.linspace(1e-3, 1.0, 50):
            assert gaussian_delta(base_epsilon / c, base_epsilon) <= base_delta
    assert gaussian_delta(20.0 / math.sqrt(2 * math.log(1.25 / 0.1)), 20.0) > 0.1


def test_lemma_b1_holds_up_to_its_condition_and_not_far_beyond():
    """ln(1 + γ(e^ε' − 1)) ≤ 2γε' up to ε' = 1; at ε' = 1.3 it fails for small γ."""
    rates = np.geomspace(1e-9, 1.0, 100)
    for base in np.linspace(1e-6, 1.0, 100):
        assert np.all(np.log1p(rates * np.expm1(base)) <= 2 * rates * base)
    assert math.log1p(1e-6 * math.expm1(1.3)) > 2 * 1e-6 * 1.3


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_at_epsilon_prime_of_one_it_answers_and_just_beyond_it_refuses(adjacency):
    noise = adjacency.records_moved * math.sqrt(2 * math.log(1.25 / (0.5e-5 / (100 * 0.01))))
    assert advanced_composition_epsilon(sampled(0.01, noise * 1.0001, 100), 1e-5, adjacency) < 3
    with pytest.raises(
        UnsupportedProblemError, match=r"needs ε' ≤ 1 .* ε' = 1 at sampling rate 0.01; .*accountant='pld'"
    ):
        advanced_composition_epsilon(sampled(0.01, noise * 0.9999, 100), 1e-5, adjacency)


# (adjacency, ε, ε' at the noise of equation (3), ε' at the noise of B.1's own recipe)
PAPER = [(REPLACE, 0.2, 822.4, 18.49), (REPLACE, 1.0, 4112, 88.19), (ADD, 0.2, 411.2, 18.49), (ADD, 1.0, 2056, 88.19)]


@pytest.mark.parametrize(("adjacency", "epsilon", "at_equation_3", "at_recipe"), PAPER)
def test_at_the_papers_own_setting_the_condition_fails(adjacency, epsilon, at_equation_3, at_recipe):
    """n = 200 000, T·m = 75 000 steps of one row, δ = 1e-3; one record moves the difference query by 2G."""
    n, steps, delta = 200_000, 75_000, 1e-3
    sigma = math.sqrt(steps * math.log(1 / delta)) / (n * epsilon)
    event = sampled(1 / n, sigma / 2, steps)
    assert curve_of(event, adjacency).draw_probability > 0.3
    with pytest.raises(UnsupportedProblemError, match=f"ε' = {at_equation_3:.4g} at sampling rate 5e-06"):
        advanced_composition_epsilon(event, delta, adjacency)
    with pytest.raises(
        UnsupportedProblemError, match=f"cannot give ε = {epsilon:g} here.* ε' = {at_recipe:.4g} at sampling"
    ):
        calibrate(plan_of(adjacency, (1 / n, steps)), Guarantee(epsilon, delta), "advanced-composition")


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-3), (0.5, 1e-6), (1.0, 1e-9)])
@pytest.mark.parametrize("items", [[(0.02, 500)], [(1.0, 40)], [(0.02, 500), (1.0, 4)], [(0.6, 1)]], ids=str)
def test_calibrated_noise_keeps_the_promise_and_the_recipe_wastes_nothing(items, epsilon, delta, adjacency):
    plan, guarantee = plan_of(adjacency, *items), Guarantee(epsilon, delta)
    calibrated = calibrate(plan, guarantee, "advanced-composition")
    assert epsilon * (1 - 1e-9) <= advanced_composition_epsilon(calibrated.event(), delta, adjacency) <= epsilon
    assert epsilon_of(calibrated.event(), delta, adjacency) <= epsilon
    assert calibrated.noise_multiplier > 2 * calibrate(plan, guarantee).noise_multiplier


def test_the_error_names_the_smallest_sampling_rate_at_which_the_recipe_holds():
    guarantee, count = Guarantee(1.0, 1e-6), 320
    with pytest.raises(UnsupportedProblemError, match="or use accountant='pld'") as caught:
        advanced_composition_noise(plan_of(ADD, (0.001, count)), guarantee)
    rate, rows = re.search(r"a rate of about (\S+) or more \((\d+) of 200000 rows", str(caught.value)).groups()
    assert int(rows) == pytest.approx(float(rate) * 200_000, rel=0.01)
    assert advanced_composition_noise(plan_of(ADD, (float(rate) * 1.01, count)), guarantee) > 0
    with pytest.raises(UnsupportedProblemError, match="sample at a rate"):
        advanced_composition_noise(plan_of(ADD, (float(rate) * 0.99, count)), guarantee)


@pytest.mark.parametrize("epsilon", [20.0, 1e4, 1e6])
@pytest.mark.parametrize("rate", [1e-3, 0.7, 1.0])
def test_where_no_sampling_rate_helps_the_error_says_so(rate, epsilon):
    with pytest.raises(UnsupportedProblemError, match="ask for a smaller epsilon, or use accountant='pld'"):
        calibrate(plan_of(REPLACE, (rate, 1)), Guarantee(epsilon, 1e-6), "advanced-composition")


def test_extreme_guarantees_are_calibrated():
    for guarantee in (Guarantee(1e-5, 1e-60), Guarantee(1e-5, 0.09), Guarantee(1.0, 1e-60)):
        calibrated = calibrate(plan_of(REPLACE, (0.1, 10**6)), guarantee, "advanced-composition")
        assert advanced_composition_epsilon(calibrated.event(), guarantee.delta, REPLACE) <= guarantee.epsilon


def test_what_is_not_gaussian_is_refused_and_what_is_not_private_costs_everything():
    with pytest.raises(UnsupportedProblemError, match="Gaussian"):
        advanced_composition_epsilon(Pure(1.0), 1e-5, ADD)
    assert advanced_composition_epsilon(NotPrivate(), 1e-5, ADD) == math.inf


def test_the_default_accountant_is_the_tight_one():
    plan, guarantee = plan_of(ADD, (1.0, 3)), Guarantee(1.0, 1e-6)
    assert tuple(ACCOUNTANTS) == ("pld", "advanced-composition")
    assert calibrate(plan, guarantee) == calibrate(plan, guarantee, "pld")
    with pytest.raises(InvalidParameterError, match="accountant"):
        calibrate(plan, guarantee, "moments")


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_classical_formula_is_used_for_no_delta_above_one_half_however_rare_a_sample_is(adjacency):
    # Half of δ goes to the answer, so that δ' = δ/(2q): 1/2 at q = δ, and 50 at the smallest rate.
    delta = 1e-5
    costs = [
        advanced_composition_epsilon(PoissonSampledGaussian(rate, 4.0), delta, adjacency)
        for rate in (delta, 0.5 * delta, 0.01 * delta)
    ]
    assert costs[1] == pytest.approx(0.5 * costs[0], rel=1e-3)
    assert costs[2] == pytest.approx(0.01 * costs[0], rel=1e-3)
