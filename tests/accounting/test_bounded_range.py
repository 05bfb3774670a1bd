"""Selections of bounded range: never below what an adversary who sees every winner reaches, and hardly above."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from dperm.accounting.composition import atoms_of, delta_of, epsilon_of
from dperm.accounting.curve import gaussian_delta, zcdp_delta
from dperm.accounting.events import ZCDP, BoundedRange, Composed, Gaussian, Pure, Repeated
from dperm.accounting.events.bounded_range import SelectionCurve
from dperm.privacy.guarantee import Adjacency

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


def adversary(lengths, epsilons, choices=31):
    """δ of an adversary who chooses each selection's t, of a grid, in view of all losses before.

    Each has the two losses t and t − length.
    """
    if not lengths:
        return np.maximum(0.0, -np.expm1(epsilons))
    length, rest = lengths[0], lengths[1:]
    t = np.linspace(0.0, length, choices)[1:-1]
    likely = np.exp(t) * np.expm1(length - t) / math.expm1(length)
    left = np.asarray(epsilons)[..., None] - t
    reached = likely * adversary(rest, left, choices) + (1.0 - likely) * adversary(rest, left + length, choices)
    return reached.max(axis=-1)


def planned_beforehand(length, count, epsilon):
    """δ of the best adversary who chooses one t for all beforehand (Dong, Durfee and Rogers 2020)."""
    lost, best = np.arange(count + 1), 0.0
    for t in np.linspace(0.0, length, 401)[1:-1]:
        likely = math.exp(t) * math.expm1(length - t) / math.expm1(length)
        losses = count * t - lost * length
        best = max(best, float(binom.pmf(lost, count, 1.0 - likely) @ np.maximum(0.0, -np.expm1(epsilon - losses))))
    return best


@pytest.mark.parametrize("length", [0.01, 0.3, 2.0, 8.0])
def test_one_has_the_curve_of_its_worst_two_outcomes(length):
    epsilons = np.linspace(0.0, 1.1 * length, 23)
    brute = adversary([length], epsilons, 4001)
    curve = SelectionCurve(length, 1).deltas(epsilons)
    assert (curve >= brute).all()
    assert curve == pytest.approx(brute, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize(("length", "count"), [(0.2, 2), (0.2, 3), (1.5, 2), (1.5, 3), (6.0, 2)])
def test_an_adversary_who_looks_reaches_it_and_never_more(length, count):
    epsilons = np.linspace(0.0, 0.95 * count * length, 12)
    brute = adversary([length] * count, epsilons)
    curve = SelectionCurve(length, count).deltas(epsilons)
    assert (curve >= brute).all()
    assert curve[:9] == pytest.approx(brute[:9], rel=0.01)
    shorter = SelectionCurve(0.95 * length, count).deltas(epsilons)
    assert (shorter[1:] < brute[1:]).all()  # a range five per cent shorter would be exceeded


@pytest.mark.parametrize(("length", "count"), [(0.3, 10), (0.1, 60), (0.05, 256), (0.02, 500)])
def test_many_are_between_the_plan_made_beforehand_and_what_follows_from_rho(length, count):
    event, rho = Repeated(BoundedRange(length), count), 0.125 * count * length**2
    for delta in (1e-2, 1e-6):
        epsilon = epsilon_of(event, delta, REPLACE)
        assert planned_beforehand(length, count, 0.985 * epsilon) > delta  # a lower bound, and near
        assert planned_beforehand(length, count, epsilon) <= delta
        assert zcdp_delta(rho, epsilon) > 1.2 * delta
        assert epsilon == epsilon_of(event, delta, ADD)  # the range is stated for the plan's adjacency


def test_an_adversary_who_looks_reaches_more_than_one_who_plans():
    """So the formula for plans made beforehand is no bound here."""
    length, epsilon = 1.0, 0.7
    beforehand = planned_beforehand(length, 3, epsilon)
    looking = adversary([length] * 3, np.array([epsilon]), 81)[0]
    assert looking > 1.01 * beforehand
    assert SelectionCurve(length, 3).delta(epsilon) >= looking


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_beside_a_gaussian_the_worst_order_is_the_gaussian_first(mu):
    """E over the Gaussian's loss of the selections' δ at what is left, by integration."""
    z = np.linspace(-9.0, 9.0, 4001)
    losses, weights = mu * z + 0.5 * mu**2, norm.pdf(z) * (z[1] - z[0])
    event = Composed([Repeated(BoundedRange(0.5), 2), Gaussian(1.0 / mu)])
    for epsilon in (0.0, 0.5, 1.5):
        looking = weights @ adversary([0.5, 0.5], epsilon - losses)
        assert looking <= delta_of(event, epsilon, ADD) <= looking * 1.01
        without = delta_of(Composed([Repeated(BoundedRange(0.475), 2), Gaussian(1.0 / mu)]), epsilon, ADD)
        assert without < looking


def test_taking_turns_with_a_longer_range_is_covered():
    for lengths in ([0.3, 0.8, 0.3], [0.8, 0.3, 0.8], [0.8, 0.3, 0.3]):
        event = Composed([BoundedRange(length) for length in lengths])
        ((leaf, count),) = atoms_of(event, ADD)
        assert (leaf.epsilon, count) == (0.8, 3)
        for epsilon in (0.1, 0.6, 1.2):
            assert delta_of(event, epsilon, ADD) >= adversary(lengths, np.array([epsilon]))[0]


def test_selections_of_one_release_are_a_block_and_those_of_two_are_two():
    one = Composed([Repeated(BoundedRange(0.1), 5), Gaussian(20.0)])
    assert (BoundedRange(0.1), 5) in atoms_of(Composed([one, Pure(0.1)]), ADD)
    other = Composed([Repeated(BoundedRange(0.3), 7)])
    atoms = atoms_of(Composed([one, other, one]), ADD)
    assert sorted((leaf.epsilon, count) for leaf, count in atoms if isinstance(leaf, BoundedRange)) == [
        (0.1, 5),
        (0.1, 5),
        (0.3, 7),
    ]
    twice = epsilon_of(Composed([other, other]), 1e-6, ADD)
    assert twice == epsilon_of(Repeated(BoundedRange(0.3), 14), 1e-6, ADD)


def test_a_mixture_costs_less_than_by_the_sum_of_rho():
    event = Composed([Repeated(BoundedRange(0.1), 10), Repeated(Gaussian(30.0), 20)])
    rho = 10 * 0.125 * 0.1**2 + 20 * 0.5 * (2 / 30.0) ** 2
    ours, by_rho = epsilon_of(event, 1e-6, REPLACE), epsilon_of(ZCDP(rho), 1e-6, REPLACE)
    assert 0.9 * by_rho < ours < 0.95 * by_rho
    mu = math.sqrt(2.0 * rho)
    assert gaussian_delta(mu, ours) <= 1e-6 * 1.05  # near the Gaussian of the same ρ


def test_at_delta_zero_their_ranges_add_up():
    assert epsilon_of(Repeated(BoundedRange(0.2), 5), 0.0, REPLACE) == pytest.approx(1.0, rel=1e-9)
    assert delta_of(Repeated(BoundedRange(0.2), 5), 1.0 + 1e-9, REPLACE) == 0.0


@pytest.mark.parametrize(("length", "count"), [(40.0, 20), (500.0, 3), (1e-6, 1000), (1e-3, 256)])
def test_extreme_ranges_have_a_bound_too(length, count):
    event = Repeated(BoundedRange(length), count)
    epsilon = epsilon_of(event, 1e-9, REPLACE)
    assert 0.0 <= epsilon <= count * length * (1 + 1e-9)
    assert delta_of(event, epsilon, REPLACE) <= 1e-9 * (1 + 1e-9)
