"""Pitfalls 10, 18, 21: three accountants, two outside sources, one convention."""

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm.accounting.composition import curve_of, delta_of, epsilon_of
from dperm.accounting.curve import gaussian_delta, gaussian_epsilon, gaussian_mu
from dperm.accounting.events import Composed, Gaussian, NotPrivate, PoissonSampledGaussian, Repeated
from dperm.accounting.events.sampled.curve import SampledCurve, composed_distribution
from dperm.accounting.renyi import rdp_epsilon
from dperm.privacy.guarantee import Adjacency, Guarantee

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


def gaussian(noise_multiplier, count=1):
    return Repeated(Gaussian(noise_multiplier), count)


def sampled(rate, noise_multiplier, count):
    return Repeated(PoissonSampledGaussian(rate, noise_multiplier), count)


def as_samples(event, adjacency):
    """Gaussians and samples by privacy loss distributions, also where a closed form would do."""
    return SampledCurve(tuple(event.leaves()), adjacency)


def pld_epsilon(event, delta, adjacency):
    return as_samples(event, adjacency).pld_epsilon(delta)


# ε of a μ-Gaussian-DP release, by bisection with 60 digits in mpmath.
@pytest.mark.parametrize(
    ("mu", "delta", "epsilon"),
    [
        (1.0, 1e-5, 4.37717809568122),
        (0.1, 1e-6, 0.396857377644084),
        (3.0, 1e-3, 13.0881791646283),
        (0.02, 1e-18, 0.161191749857748),
        (10.0, 1e-9, 109.195596881806),
    ],
)
def test_the_gaussian_curve_agrees_with_sixty_digits(mu, delta, epsilon):
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-10)
    assert gaussian_epsilon(mu, delta) >= epsilon * (1 - 1e-14)
    assert gaussian_delta(mu, gaussian_epsilon(mu, delta)) <= delta
    assert gaussian_mu(Guarantee(epsilon, delta)) == pytest.approx(mu, rel=1e-10)


# Lower and upper bounds on ε by the PRV accountant (package prv-accountant 0.2.0, eps_error 0.01), add/remove.
@pytest.mark.parametrize(
    ("rate", "noise", "count", "delta", "lower", "upper"),
    [
        (0.01, 1.0, 1000, 1e-5, 1.81822, 1.83826),
        (0.001, 0.8, 10_000, 1e-6, 0.93719, 0.95721),
        (0.005, 2.0, 100_000, 1e-5, 3.59545, 3.61550),
        (0.1, 5.0, 100, 1e-5, 0.74828, 0.76830),
        (0.02, 0.7, 50, 1e-6, 3.97786, 3.99794),
    ],
)
def test_sampled_gaussians_agree_with_another_accountants_brackets(rate, noise, count, delta, lower, upper):
    assert lower <= epsilon_of(sampled(rate, noise, count), delta, ADD) <= upper


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("noise", [0.7, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("count", [1, 7, 300])
def test_renyi_is_above_pld_and_pld_above_exact(noise, count, adjacency):
    event, delta = gaussian(noise * math.sqrt(count), count), 1e-5
    exact = epsilon_of(event, delta, adjacency)
    assert exact == pytest.approx(gaussian_epsilon(adjacency.records_moved / noise, delta), rel=1e-9)
    by_pld = pld_epsilon(event, delta, adjacency)
    assert exact <= by_pld <= exact * 1.01 + 1e-3
    assert by_pld <= rdp_epsilon(event, delta, adjacency) <= 1.4 * exact + 0.05


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize(
    ("rate", "noise", "count"), [(0.01, 1.0, 500), (0.1, 3.0, 200), (0.5, 4.0, 50), (0.001, 0.7, 5000)]
)
def test_renyi_is_above_pld_for_sampled_gaussians(rate, noise, count, adjacency):
    event = sampled(rate, noise, count)
    assert pld_epsilon(event, 1e-5, adjacency) <= rdp_epsilon(event, 1e-5, adjacency)


def test_the_best_renyi_order_is_looked_for_beyond_the_first_grid():
    """With much noise the best order lies in the thousands; a grid that ends before would give a far larger ε."""
    exact = epsilon_of(gaussian(2000.0), 1e-5, ADD)
    assert exact <= rdp_epsilon(gaussian(2000.0), 1e-5, ADD) <= 1.5 * exact


def test_replacing_a_row_doubles_the_shift_of_a_gaussian():
    """dp-accounting 0.6's own Rényi accountant misses this factor; its PLD accountant does not. Ours agree."""
    assert epsilon_of(gaussian(2.0), 1e-5, REPLACE) == pytest.approx(epsilon_of(gaussian(1.0), 1e-5, ADD), rel=1e-12)
    assert epsilon_of(gaussian(2.0), 1e-5, REPLACE) == pytest.approx(4.37718, rel=1e-5)
    assert pld_epsilon(gaussian(2.0), 1e-5, REPLACE) == pytest.approx(4.37718, rel=1e-3)
    assert rdp_epsilon(gaussian(2.0), 1e-5, REPLACE) >= 4.37718


def test_replacing_a_row_of_a_sample_costs_more_than_adding_one_and_less_than_twice_and_again():
    event = sampled(0.01, 1.0, 500)
    add, replace = epsilon_of(event, 1e-5, ADD), epsilon_of(event, 1e-5, REPLACE)
    assert add < replace
    # Group privacy for two add/remove steps is an upper bound on replacing.
    assert replace <= 2 * epsilon_of(event, 1e-5 / (1 + math.exp(3.0)), ADD)


def test_sampling_at_rate_one_is_no_sampling():
    event = sampled(1.0, 5.0, 20)
    assert epsilon_of(event, 1e-5, ADD) == pytest.approx(epsilon_of(gaussian(5.0, 20), 1e-5, ADD), rel=5e-3)


def test_gaussians_compose_by_the_root_of_squares():
    event = Composed([gaussian(2.0, 3), gaussian(5.0)])
    assert curve_of(event, ADD).mu == pytest.approx(math.sqrt(3 / 4 + 1 / 25))
    assert curve_of(event, REPLACE).mu == pytest.approx(2 * math.sqrt(3 / 4 + 1 / 25))


def test_what_is_not_private_costs_everything():
    event = NotPrivate()
    assert epsilon_of(event, 1e-5, ADD) == math.inf
    assert delta_of(event, 1.0, ADD) == 1.0


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_the_papers_batch_one_noise_has_the_certified_delta_of_the_errata(epsilon, adjacency):
    """T = 15, m = 5000, n = 200 000, c = 1: a record is hit with probability 0.313, and then it shows."""
    n, steps = 200_000, 75_000
    sigma = math.sqrt(steps * math.log(1e3)) / (n * epsilon)  # in units of G; the difference query moves by 2G
    event = sampled(1 / n, sigma / 2, steps)
    began = time.process_time()
    delta = delta_of(event, epsilon, adjacency)
    assert epsilon_of(event, 1e-3, adjacency) == math.inf
    assert time.process_time() - began < 0.1
    assert delta == pytest.approx(0.3127, abs=5e-5)
    assert delta == pytest.approx(1 - (1 - 1 / n) ** steps, rel=1e-9)


def pld_delta(event, epsilon, adjacency):
    return as_samples(event, adjacency).distribution().get_delta_for_epsilon(epsilon)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("noise", [0.1, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("anchors", [0, 3])
def test_the_bound_by_a_draw_is_never_below_the_exact_cost(noise, anchors, adjacency):
    parts = [sampled(0.001, noise, 400), sampled(0.02, 2 * noise, 5)]
    event = Composed([*parts, gaussian(6.0, anchors)] if anchors else parts)
    for epsilon in (0.0, 0.5, 3.0):
        exact = pld_delta(event, epsilon, adjacency)
        assert exact <= as_samples(event, adjacency).draw_delta(epsilon)
        assert delta_of(event, epsilon, adjacency) <= exact + 1e-11  # padded for the PLD's rounding


def test_the_bound_by_a_draw_is_reached_as_the_noise_of_the_sampled_parts_goes():
    """Anchors with a real cost beside sampled answers that hide nothing. (Under add_remove the bound is not tight.)"""
    event = Composed([sampled(0.001, 0.12, 100), sampled(0.01, 0.12, 5), gaussian(6.0, 2)])
    drawn = 1 - 0.999**100 * 0.99**5
    assert as_samples(event, REPLACE).draw_probability == pytest.approx(drawn, rel=1e-9)
    bound = 1 - (1 - drawn) * (1 - gaussian_delta(math.sqrt(2) / 3, 0.5))
    assert as_samples(event, REPLACE).draw_delta(0.5) == pytest.approx(bound, rel=1e-9)
    assert pld_delta(event, 0.5, REPLACE) == pytest.approx(bound, rel=2e-3)


def test_without_noise_on_the_samples_epsilon_and_delta_are_still_inverse_to_each_other():
    event = Composed([sampled(1e-4, 1e-3, 10), gaussian(20.0)])
    for adjacency in Adjacency:
        epsilon = epsilon_of(event, 2e-3, adjacency)
        assert 0 < epsilon < 1
        assert delta_of(event, epsilon, adjacency) == pytest.approx(2e-3, rel=1e-9)
        assert delta_of(event, epsilon, adjacency) <= 2e-3
        assert epsilon_of(event, 9e-4, adjacency) == math.inf
        assert delta_of(sampled(1.0, 1e-3, 1), 1.0, adjacency) == 1.0


def test_epsilon_and_delta_of_one_event_are_read_from_one_distribution():
    event = Composed([sampled(0.013, 1.7, 111), gaussian(9.0, 2)])
    before = composed_distribution.cache_info().misses
    epsilon = epsilon_of(event, 1e-5, ADD)
    assert delta_of(event, epsilon, ADD) <= 1e-5 * (1 + 1e-9)
    # The same leaves in another composition are the same distribution; another adjacency is not.
    flat = Composed([sampled(0.013, 1.7, 111), gaussian(9.0), gaussian(9.0)])
    assert epsilon_of(flat, 1e-5, ADD) == epsilon
    assert composed_distribution.cache_info().misses == before + 1
    assert epsilon_of(event, 1e-5, REPLACE) > epsilon
    assert composed_distribution.cache_info().misses == before + 2


def test_a_tiny_delta_under_sampling_falls_back_on_a_finite_bound():
    assert epsilon_of(sampled(0.01, 2.0, 100), 1e-18, ADD) < math.inf


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-3, 50.0), st.floats(1e-12, 0.09))
def test_epsilon_and_delta_of_a_gaussian_are_inverse_to_each_other(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    if epsilon > 0:
        assert gaussian_delta(mu, epsilon * (1 - 1e-6)) > delta * (1 - 1e-3)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.05, 20.0), st.floats(0.01, 5.0), st.floats(1e-9, 0.09))
def test_more_noise_never_costs_more(noise, more, delta):
    event, noisier = gaussian(noise), gaussian(noise + more)
    assert epsilon_of(noisier, delta, ADD) <= epsilon_of(event, delta, ADD) * (1 + 1e-12)


def test_masses_that_rounding_has_spoiled_give_a_looser_bound_and_never_a_smaller_one():
    event = sampled(0.1, 1.2e10, 10**6)  # by the central limit theorem μ = 0.1 · 2/1.2e10 · 1000
    limit = gaussian_delta(0.2 / 1.2e10 * 1000.0, 0.0)
    assert limit < as_samples(event, REPLACE).distribution().get_delta_for_epsilon(0.0)
    assert limit < delta_of(event, 0.0, REPLACE)
    assert 0.0 <= pld_epsilon(event, 1e-5, REPLACE) < 1e-5
