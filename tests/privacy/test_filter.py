"""The filter of a budget: an analyst who looks at every result before choosing the next release stays within it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from dperm.accounting.composition import delta_of, epsilon_of
from dperm.accounting.curve import gaussian_delta, gaussian_mu
from dperm.accounting.events import (
    BoundedRange,
    Composed,
    Gaussian,
    NotPrivate,
    ObjectivePerturbation,
    PoissonSampledGaussian,
    Pure,
    Repeated,
    SoftmaxPerturbation,
)
from dperm.accounting.filter import Filter, _gaussian_deltas, delta_of_either
from dperm.accounting.guarantee import Adjacency, Guarantee
from dperm.accounting.renyi import divergence_of_curve

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
GUARANTEES = [
    Guarantee(3.0, 1e-5),
    Guarantee(1.0, 1e-6),
    Guarantee(0.1, 1e-4),
    Guarantee(8.0, 1e-9),
    Guarantee(1.0, 0.05),
]
every_guarantee = pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)


def response_deltas(total, epsilons):
    """δ(ε) of randomized response, at negative ε too."""
    likely = 1.0 / (1.0 + math.exp(-total))
    first, second = (np.maximum(0.0, -np.expm1(epsilons - loss)) for loss in (total, -total))
    return likely * first + (1.0 - likely) * second


def looking(mu, choices, epsilon):
    """δ at ε of an analyst who sees a Gaussian release and then takes the worst of several choices, by integration."""
    z = np.linspace(-12.0, 12.0, 60_001)
    left = epsilon - (mu * z + 0.5 * mu**2)
    worst = np.max([choice(left) for choice in choices], axis=0)
    return float(norm.pdf(z) @ worst) * (z[1] - z[0])


def largest(fits, high=50.0):
    """The largest number that fits, nearly."""
    return brentq(lambda size: 0.5 if fits(size) else -0.5, 1e-6, high, xtol=1e-7) * (1 - 1e-6)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_whoever_looks_exceeds_composition_and_not_the_filter(share):
    """A Gaussian release, then another or a randomized response, whichever does more harm after what was seen."""
    guarantee = Guarantee(2.0, 1e-5)
    rule, mu = Filter.of(guarantee), share * gaussian_mu(guarantee)

    def chosen_after_looking(fits):
        first = Gaussian(1.0 / mu)
        second = largest(lambda mu: fits([first, Gaussian(1.0 / mu)]))
        response = largest(lambda epsilon: fits([first, Pure(epsilon)]))
        choices = [lambda left: _gaussian_deltas(second, left), lambda left: response_deltas(response, left)]
        return looking(mu, choices, guarantee.epsilon)

    by_composition = chosen_after_looking(lambda events: delta_of(Composed(events), guarantee.epsilon, ADD) <= 1e-5)
    by_filter = chosen_after_looking(lambda events: rule.epsilon(events, ADD) <= guarantee.epsilon)
    assert by_composition > 1.1e-5
    assert by_filter <= 1e-5


def test_two_pure_releases_of_which_the_second_is_chosen_by_looking():
    """Randomized response, then a second one only if the first went badly; exact, by enumeration."""
    rule = Filter.of(Guarantee(1.0, 0.0))
    assert rule.epsilon([Pure(0.4), Pure(0.6)], ADD) == pytest.approx(1.0)
    assert rule.epsilon([Pure(0.4), Pure(0.61)], ADD) > 1.0
    losses = [0.4 + 0.6, 0.4 - 0.6, -0.4]
    assert max(losses) <= 1.0 + 1e-12
    assert rule.epsilon([Pure(0.4), Gaussian(100.0)], ADD) == math.inf


@every_guarantee
def test_gaussians_may_spend_nearly_all_and_five_percent_more_would_be_too_much(guarantee):
    rule, exact = Filter.of(guarantee), gaussian_mu(guarantee) ** 2
    noise = largest(lambda mu: rule.epsilon([Gaussian(10.0 / mu)] * 100, ADD) <= guarantee.epsilon)
    assert 0.96 * exact < noise**2 <= exact
    assert gaussian_delta(math.sqrt(1.05 * noise**2), guarantee.epsilon) > guarantee.delta


@every_guarantee
def test_a_divergence_five_percent_above_the_limit_would_be_too_much(guarantee):
    """Two outcomes that reach the bound: one of probability αδ with the ratio e^ε α/(α − 1), and the rest."""
    rule, order = Filter.of(guarantee), Filter.of(guarantee).order

    def divergence(delta):
        likely, ratio = order * delta, math.exp(guarantee.epsilon) * order / (order - 1.0)
        rest = (1.0 - likely) ** order * (1.0 - likely / ratio) ** (1.0 - order)
        return math.log(likely * ratio ** (order - 1.0) + rest) / (order - 1.0)

    if order * guarantee.delta < 0.5:
        assert rule.renyi <= divergence(guarantee.delta)
        too_much = brentq(lambda delta: divergence(delta) - 1.05 * rule.renyi, 1e-12, 0.9 / order)
        assert too_much > guarantee.delta or divergence(guarantee.delta) > 1.05 * rule.renyi


@every_guarantee
def test_what_may_follow_gaussians_keeps_delta_and_five_percent_more_does_not(guarantee):
    rule = Filter.of(guarantee)
    precision = gaussian_mu(Guarantee(guarantee.epsilon, rule.gaussian_share * guarantee.delta)) ** 2
    kept, more = (
        delta_of_either(guarantee.epsilon, precision, scale * rule.renyi_after_gaussian, rule.order)
        for scale in (1.0, 1.05)
    )
    assert 0.999 * guarantee.delta < kept <= guarantee.delta < more
    assert 0.7 * rule.renyi < rule.renyi_after_gaussian < rule.renyi


@pytest.mark.parametrize("used", [0.1, 0.5, 1.0])
def test_stopping_the_gaussians_earlier_is_never_worse(used):
    """The analyst may go over to other releases at any time; by integration at an earlier one."""
    guarantee = Guarantee(2.0, 1e-5)
    rule = Filter.of(guarantee)
    precision = gaussian_mu(Guarantee(2.0, rule.gaussian_share * 1e-5)) ** 2
    most = used * min(precision, 2.0 * rule.renyi_after_gaussian / rule.order)
    constant = (1.0 - 1.0 / rule.order) ** rule.order / (rule.order - 1.0)

    def others(left):
        return constant * np.exp((rule.order - 1.0) * (rule.renyi_after_gaussian - 0.5 * rule.order * most - left))

    def go_on(left):
        return _gaussian_deltas(math.sqrt(precision - most), left)

    assert looking(math.sqrt(most), [go_on, others], 2.0) <= 1e-5 * (1 + 1e-6)


KINDS = [
    Gaussian(12.0),
    Pure(0.1),
    BoundedRange(0.1),
    Repeated(PoissonSampledGaussian(0.02, 2.0), 20),
    ObjectivePerturbation(15.0, 0.02, True, 1e-4),
    ObjectivePerturbation(15.0, 0.02, True, 1e-4, True, 0.8),
    SoftmaxPerturbation(15.0, 0.02, 7, 1e-4),
    Composed([Pure(0.05), Repeated(Gaussian(30.0), 3)]),
]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4), st.sampled_from(list(Adjacency)))
def test_the_filter_never_says_less_than_composition_and_never_falls(releases, adjacency):
    rule = Filter.of(Guarantee(3.0, 1e-5))
    said = rule.epsilon(releases, adjacency)
    assert said >= epsilon_of(Composed(releases), 1e-5, adjacency) * (1 - 2e-3)
    assert said <= rule.epsilon([*releases, Gaussian(50.0)], adjacency)


def test_the_first_release_is_chosen_before_anything_was_seen():
    """So it may have the whole budget, whatever it is; then nothing else fits."""
    rule = Filter.of(Guarantee(1.0, 1e-6))
    for kind in KINDS:
        alone = Filter.of(Guarantee(epsilon_of(kind, 1e-6, REPLACE) * (1 + 1e-9), 1e-6))
        assert alone.epsilon([kind], REPLACE) <= alone.guarantee.epsilon
        assert alone.epsilon([kind, Gaussian(1e4)], REPLACE) > alone.guarantee.epsilon
    assert rule.epsilon([NotPrivate()], ADD) == math.inf
    assert rule.epsilon([Gaussian(50.0), NotPrivate()], ADD) == math.inf
    assert rule.epsilon([], ADD) == 0.0


# Rényi divergences


def mixture_divergence(rate, noise, order):
    """Between (1 − q)N(0) + qN(1) and (1 − q)N(0) + qN(−1), by integration."""
    x = np.linspace(-40.0 - 4 * noise, 40.0 + 4 * noise, 1_000_001)
    first, second = (
        np.logaddexp(
            math.log(rate) - 0.5 * ((x - centre) / noise) ** 2,
            math.log1p(-rate) - 0.5 * (x / noise) ** 2,
        )
        for centre in (1.0, -1.0)
    )
    moment = np.exp(order * first + (1 - order) * second).sum() * (x[1] - x[0]) / (noise * math.sqrt(2 * math.pi))
    return math.log(moment) / (order - 1.0)


@pytest.mark.parametrize("order", [2, 8, 20])
def test_divergences_are_the_exact_ones_where_those_are_known(order):
    for event, exact in (
        (Gaussian(3.0), 0.5 * order * (2 / 3.0) ** 2),
        (PoissonSampledGaussian(0.1, 3.0), mixture_divergence(0.1, 3.0, order)),
        (PoissonSampledGaussian(0.01, 8.0), mixture_divergence(0.01, 8.0, order)),
    ):
        found = event.renyi_divergence(order, REPLACE)
        assert exact * (1 - 1e-7) <= found <= 1.01 * exact
    p = 1.0 / (1.0 + math.exp(-0.7))
    exact = math.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)) / (order - 1.0)
    assert exact <= Pure(0.7).renyi_divergence(order, ADD) <= exact * (1 + 1e-9)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("sigmoidal", [False, True])
def test_the_divergence_of_a_minimiser_is_above_that_of_its_gaussian_and_five_percent_less_is_not_above_its_curve(
    sigmoidal, adjacency
):
    event, order = ObjectivePerturbation(8.0, 0.05, True, 1e-4, sigmoidal), 8
    found = event.renyi_divergence(order, adjacency)
    gaussian = 0.5 * order * (adjacency.records_moved / 8.0) ** 2
    assert gaussian < found < gaussian + 0.2
    # From a curve on a grid of another kind, by the same integral of powers.
    epsilons = np.linspace(0.0, 6.0, 3001)
    curve = event.curve(adjacency) if not sigmoidal else ObjectivePerturbation(8.0, 0.05, True, 1e-4).curve(adjacency)
    deltas = np.array([curve.delta(epsilon) for epsilon in epsilons])
    other = divergence_of_curve(epsilons, np.minimum.accumulate(deltas), 0.0, order)
    if sigmoidal:
        assert found <= other * 1.001  # a tangent for each ε gives less
    else:
        assert 0.95 * found < other <= found * 1.001


def test_a_curve_gives_back_the_divergence_of_its_mechanism():
    epsilons = np.linspace(0.0, 8.0, 4001)
    for order in (2, 5, 9):
        gaussian = divergence_of_curve(epsilons, _gaussian_deltas(0.5, epsilons), 0.0, order)
        assert gaussian == pytest.approx(0.125 * order, rel=1e-4)
        response = divergence_of_curve(epsilons, response_deltas(0.4, epsilons), 0.0, order)
        assert response == pytest.approx(Pure(0.4).renyi_divergence(order, ADD), rel=1e-6)
