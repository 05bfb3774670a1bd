"""Mechanisms of all kinds together: never below what is known exactly, and hardly above."""

import itertools
import math
import time
from dataclasses import dataclass

import numpy as np
import pytest
from dp_accounting import LaplaceDpEvent
from dp_accounting.pld import privacy_loss_distribution as distributions
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, norm

from dperm.accounting.attack import true_positive_rates
from dperm.accounting.calibration import calibrate, find_noise_multiplier
from dperm.accounting.composition import MixtureCurve, atoms_of, composed_loss, curve_of, delta_of, epsilon_of
from dperm.accounting.curve import FINE_GRID, gaussian_delta, gaussian_epsilon, pure_delta, zcdp_delta, zcdp_deltas
from dperm.accounting.events import (
    ZCDP,
    Composed,
    Gaussian,
    NotPrivate,
    ObjectivePerturbation,
    PoissonSampledGaussian,
    Pure,
    Repeated,
)
from dperm.accounting.events.objective_perturbation import TailCurve
from dperm.accounting.privacy_loss import loss_of_curve, mass_rounding, relation
from dperm.errors import InvalidParameterError, NoiseTooLargeError, UnsupportedProblemError
from dperm.privacy.guarantee import Adjacency, Guarantee

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD])


def together(*events):
    return Composed(events)


def repeated(event, count):
    return Repeated(event, count)


def gaussian(noise):
    return Gaussian(noise)


def sampled(rate, noise, count):
    return repeated(PoissonSampledGaussian(rate, noise), count)


def zcdp(rho):
    return ZCDP(rho)


def objective(noise, jacobian=0.1, sigmoidal=True):
    return ObjectivePerturbation(noise, jacobian, True, 0.005, sigmoidal)


def on_the_grid(event, epsilon, adjacency=ADD):
    """δ of the composition alone, without the other bounds that may be smaller."""
    atoms = atoms_of(event, adjacency)
    return composed_loss(atoms, adjacency, FINE_GRID).get_delta_for_epsilon(epsilon) + mass_rounding(
        sum(count for _, count in atoms)
    )


# Against what is known exactly.


@BOTH
@pytest.mark.parametrize("noise", [0.1, 1.0, 30.0, 1000.0])
def test_a_gaussian_on_the_grid_is_a_gaussian(noise, adjacency):
    mu = adjacency.records_moved / noise
    for delta in (1e-2, 1e-6, 1e-10):
        epsilon = gaussian_epsilon(mu, delta)
        exact, nearly = gaussian_delta(mu, epsilon), gaussian_delta(mu * 1.002, epsilon)
        assert exact <= on_the_grid(gaussian(noise), epsilon, adjacency) <= nearly + 2e-12


@pytest.mark.parametrize("count", [2, 10, 300])
def test_curves_of_gaussians_compose_to_the_gaussian_of_all(count):
    """Each goes the way of any curve; without its negative half, or for half the noise, it would be off by more."""
    mu, width = 1.0 / math.sqrt(count), 0.02 / math.sqrt(count)
    cells = np.arange(0, math.ceil((9.0 * mu + 0.5 * mu**2) / width))
    loss = loss_of_curve(cells, np.array([gaussian_delta(mu, cell * width) for cell in cells]), width)
    composed = loss.self_compose(count)
    for delta in (1e-3, 1e-6, 1e-9):
        epsilon = composed.get_epsilon_for_delta(delta)
        assert gaussian_epsilon(1.0, delta) * (1 - 1e-6) <= epsilon <= gaussian_epsilon(1.0, delta) * 1.002


def optimal_pure_delta(epsilon, count, total):
    """Kairouz, Oh and Viswanath 2015: randomized response count times, of which i answers go the other way."""
    other = np.arange(count + 1)
    losses = (count - 2 * other) * epsilon
    return float(binom.pmf(other, count, 1 / (1 + math.exp(epsilon))) @ np.maximum(0.0, -np.expm1(total - losses)))


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 10), (0.01, 1000), (0.5, 3), (2.0, 40), (1e-3, 7)])
def test_pure_mechanisms_cost_what_randomized_response_costs(epsilon, count):
    event = together(*[together(Pure(epsilon)) for _ in range(count)])
    assert isinstance(curve_of(event, ADD), MixtureCurve)
    for delta in (1e-2, 1e-6):
        if optimal_pure_delta(epsilon, count, 0.0) <= delta:
            assert epsilon_of(event, delta, ADD) <= 1e-3 * count * epsilon
            continue
        exact = brentq(lambda e, d=delta: optimal_pure_delta(epsilon, count, e) - d, 0.0, count * epsilon)
        assert exact * (1 - 1e-9) <= epsilon_of(event, delta, ADD) <= exact * 1.003
    for share in (0.1, 0.5, 0.9):
        total = share * count * epsilon
        exact = optimal_pure_delta(epsilon, count, total)
        assert exact * (1 - 1e-9) <= delta_of(event, total, REPLACE) <= exact * 1.02 + 1e-11


def test_pure_mechanisms_alone_keep_delta_zero():
    event = together(together(Pure(0.1)), together(Pure(0.3)), together(repeated(Pure(0.2), 2)))
    assert 0.8 <= epsilon_of(event, 0.0, ADD) <= 0.8 * (1 + 1e-11)
    assert delta_of(event, 0.8 * (1 + 1e-11), ADD) == 0.0
    assert epsilon_of(together(event, gaussian(100.0)), 0.0, ADD) == math.inf


@BOTH
@pytest.mark.parametrize(("mu", "pure"), [(1.0, 0.3), (0.1, 0.5), (3.0, 2.0), (0.5, 0.001)])
def test_a_gaussian_and_a_pure_mechanism_cost_what_their_worst_pair_does(mu, pure, adjacency):
    """Exactly: randomized response adds or takes its ε with known probabilities, and the Gaussian's curve is known."""
    event = together(gaussian(adjacency.records_moved / mu), Pure(pure))

    def exact(epsilon):
        likely, shrunk = 1 / (1 + math.exp(-pure)), 1 / (1 + math.exp(pure))
        return likely * curve(mu, epsilon - pure) + shrunk * curve(mu, epsilon + pure)

    for delta in (1e-3, 1e-6, 1e-9):
        epsilon = brentq(lambda e, d=delta: exact(e) - d, 0.0, gaussian_epsilon(mu, delta) + pure)
        assert epsilon * (1 - 1e-9) <= epsilon_of(event, delta, adjacency) <= epsilon * 1.002
        assert delta * (1 - 1e-9) <= delta_of(event, epsilon, adjacency) <= delta * 1.05 + 2e-12


def curve(mu, epsilon):
    """The Gaussian curve, for negative ε too."""
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


@BOTH
def test_samples_and_a_pure_mechanism_cost_what_their_worst_pair_does(adjacency):
    """From the sampled answers' own distribution in each direction, with randomized response beside it."""
    rate, noise, count, pure = 0.05, 2.0 * adjacency.records_moved, 100, 0.25
    alone = distributions.from_gaussian_mechanism(
        noise,
        value_discretization_interval=1e-4,
        sampling_prob=rate,
        neighboring_relation=relation(adjacency),
    ).self_compose(count)
    likely = 1 / (1 + math.exp(-pure))
    for epsilon in (0.5, 1.0, 1.5):
        exact = likely * alone.get_delta_for_epsilon(epsilon - pure) + (1 - likely) * alone.get_delta_for_epsilon(
            epsilon + pure
        )
        certified = delta_of(together(sampled(rate, noise, count), Pure(pure)), epsilon, adjacency)
        assert exact * 0.998 <= certified <= exact * 1.01 + 2e-12


@BOTH
def test_an_objective_perturbation_beside_others_costs_more_than_a_gaussian_with_its_noise(adjacency):
    event = together(objective(8.0), Pure(0.1), gaussian(10.0))
    as_gaussian = together(gaussian(8.0), Pure(0.1), gaussian(10.0))
    for delta in (1e-4, 1e-8):
        low, epsilon = epsilon_of(as_gaussian, delta, adjacency), epsilon_of(event, delta, adjacency)
        alone = epsilon_of(objective(8.0), delta, adjacency)
        assert max(low, alone) < epsilon < alone + 0.1 + epsilon_of(gaussian(10.0), delta, adjacency)


@BOTH
@pytest.mark.parametrize("sigmoidal", [True, False])
def test_many_objective_perturbations_cost_less_on_the_grid_and_no_less_than_gaussians(sigmoidal, adjacency):
    leaf, count = objective(20.0, 0.02, sigmoidal), 6
    by_tails = TailCurve((leaf,) * count, adjacency).delta
    for epsilon in (1.0, 1.5):
        certified = delta_of(repeated(leaf, count), epsilon, adjacency)
        assert (
            gaussian_delta(adjacency.records_moved * math.sqrt(count) / 20.0, epsilon) <= certified <= by_tails(epsilon)
        )


def test_objective_perturbations_at_a_tiny_delta_have_a_bound_too():
    event = repeated(objective(20.0), 5)
    assert epsilon_of(event, 1e-15, ADD) < 2.0
    assert delta_of(event, epsilon_of(event, 1e-15, ADD), ADD) <= 1e-15


def test_the_curves_of_concentrated_mechanisms_agree_and_each_is_a_bound():
    for rho in (1e-6, 1e-3, 0.1, 3.0):
        epsilons = np.linspace(0.0, rho + 12.0 * math.sqrt(rho), 50)
        by_search = zcdp_deltas(rho, epsilons)
        by_grid = np.array([zcdp_delta(rho, epsilon) for epsilon in epsilons])
        assert by_search == pytest.approx(by_grid, rel=1e-3)
        exact = np.array([gaussian_delta(math.sqrt(2.0 * rho), epsilon) for epsilon in epsilons])
        assert (by_search >= exact).all()  # a Gaussian is concentrated


# The curve becomes a privacy loss.


def test_a_loss_that_is_made_of_a_curve_has_that_curve():
    width = 0.01
    cells = np.arange(0, 600)
    deltas = np.array([gaussian_delta(0.5, cell * width) for cell in cells])
    loss = loss_of_curve(cells, deltas, width)
    for cell in (0, 7, 200, 400):
        assert loss.get_delta_for_epsilon(cell * width) == pytest.approx(deltas[cell], rel=1e-9, abs=1e-14)
        # In the other direction: δ(−ε) = 1 − e^{−ε} + e^{−ε} δ(ε).
        mirrored = -math.expm1(-cell * width) + math.exp(-cell * width) * deltas[cell]
        assert loss.get_delta_for_epsilon(-cell * width) == pytest.approx(mirrored, rel=1e-9)


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=30), st.floats(1e-3, 3.0))
@settings(max_examples=100, deadline=None)
def test_any_falling_bound_becomes_a_loss_below_it_that_is_convex(values, width):
    """Its curve is nowhere above the bound, its masses are a distribution, and a true curve below stays below."""
    deltas = np.sort(np.array(values))[::-1]
    loss = loss_of_curve(np.arange(deltas.size), deltas, width)
    made = np.array([loss.get_delta_for_epsilon(cell * width) for cell in range(deltas.size)])
    assert (made <= deltas + 1e-12).all()
    assert loss.get_delta_for_epsilon(-1e3) == pytest.approx(1.0, abs=1e-12)
    # The largest pure mechanism and failure probability that fit below the bound: its curve is below the loss's.
    failure = deltas[-1]
    epsilon = min(
        brentq(lambda e, c=c, d=d: failure + (1 - failure) * pure_delta(e, c * width) - d, c * width, 1e3)
        if failure + (1 - failure) * pure_delta(1e3, c * width) > d > failure
        else (1e3 if d > failure else c * width)
        for c, d in enumerate(deltas)
    )
    truth = failure + (1 - failure) * np.array([pure_delta(epsilon, c * width) for c in range(deltas.size)])
    assert (made >= truth - 1e-9).all()


def test_a_bound_that_is_not_convex_is_pulled_down_to_what_a_mechanism_can_have():
    """δ(0) ≤ 1 says nothing; from δ(ε₀) = 0 it follows that δ(0) ≤ (e^ε₀ − 1)/(e^ε₀ + 1)."""
    loss = loss_of_curve(np.array([0, 10]), np.array([1.0, 0.0]), 0.05)
    for epsilon in (0.0, 0.2, 0.4, 0.5):
        assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(pure_delta(0.5, epsilon), abs=1e-12)


# What must hold whatever is composed.

KINDS = [
    gaussian(8.0),
    Pure(0.2),
    objective(10.0),
    together(repeated(zcdp(1e-3), 10)),
    sampled(0.02, 2.0, 50),
    objective(12.0, 0.05, False),
]


@BOTH
def test_adding_a_mechanism_never_costs_less(adjacency):
    for delta in (1e-3, 1e-7):
        costs = [epsilon_of(together(*KINDS[: n + 1]), delta, adjacency) for n in range(len(KINDS))]
        assert all(more > less for less, more in itertools.pairwise(costs))


@BOTH
def test_order_and_grouping_do_not_matter(adjacency):
    flat = together(*KINDS)
    for other in (together(*KINDS[::-1]), together(together(*KINDS[:2]), *KINDS[2:]), together(*KINDS[2:], *KINDS[:2])):
        assert epsilon_of(other, 1e-6, adjacency) == epsilon_of(flat, 1e-6, adjacency)
    twice = together(repeated(objective(10.0), 2), repeated(Pure(0.1), 3))
    listed = together(objective(10.0), Pure(0.1), Pure(0.1), objective(10.0), Pure(0.1))
    assert epsilon_of(twice, 1e-6, adjacency) == epsilon_of(listed, 1e-6, adjacency)


@pytest.mark.parametrize("release", [objective(20.0), together(Pure(0.05), gaussian(30.0)), Pure(0.02)])
def test_equal_releases_cost_about_the_root_of_their_number(release):
    delta = 1e-6
    one = epsilon_of(together(release), delta, ADD)
    ten, hundred = (epsilon_of(together(*[together(release)] * count), delta, ADD) for count in (10, 100))
    assert one < ten <= 10 * one * (1 + 1e-9)
    assert math.sqrt(5) * ten < hundred < 0.75 * 10 * ten


def test_the_concentrated_steps_of_one_release_are_turned_into_a_curve_once():
    release = together(repeated(zcdp(1e-3), 10), Pure(0.01))
    ((atom, count),) = atoms_of(together(release, release), ADD)
    assert (type(atom), count) == (ZCDP, 2)
    assert atom.rho == pytest.approx(10 * 1e-3 + 0.5 * 0.01**2, rel=1e-9)
    # Steps that may have others between them, or beside what is not concentrated, are taken one by one.
    assert (zcdp(1e-3), 10) in atoms_of(together(repeated(zcdp(1e-3), 10), objective(3.0)), ADD)
    both = together(repeated(zcdp(1e-3), 10), objective(3.0))
    assert (zcdp(1e-3), 20) in atoms_of(together(both, both), ADD)


@BOTH
@pytest.mark.parametrize(
    "fit",
    [
        together(Pure(0.1), Pure(0.2)),
        together(Pure(0.1), repeated(Pure(0.2), 3)),
        together(Pure(0.5), repeated(zcdp(1e-4), 5)),
        together(Pure(0.1), objective(8.0)),
        together(repeated(gaussian(5.0), 3)),
        objective(8.0),
    ],
)
def test_a_fit_costs_in_a_ledger_of_its_own_what_it_costs_alone(fit, adjacency):
    assert epsilon_of(together(fit), 1e-6, adjacency) == epsilon_of(fit, 1e-6, adjacency)
    assert delta_of(together(together(fit)), 0.5, adjacency) == delta_of(fit, 0.5, adjacency)


@BOTH
def test_all_gaussians_of_all_releases_are_one(adjacency):
    event = together(together(gaussian(3.0), Pure(0.1)), repeated(gaussian(4.0), 2))
    noises = [leaf.noise_multiplier for leaf, _ in atoms_of(event, adjacency) if isinstance(leaf, Gaussian)]
    assert noises == [pytest.approx(1 / math.sqrt(1 / 9 + 2 / 16), rel=1e-9)]


@st.composite
def mixtures(draw):
    some = st.one_of(
        st.floats(1.0, 100.0).map(gaussian),
        st.floats(0.01, 1.0).map(Pure),
        st.floats(1e-5, 0.05).map(lambda rho: together(zcdp(rho))),
        st.floats(3.0, 50.0).map(objective),
    )
    return draw(st.lists(some, min_size=2, max_size=5))


@given(mixtures(), st.sampled_from([1e-3, 1e-6]), st.sampled_from([REPLACE, ADD]))
@settings(max_examples=25, deadline=None)
def test_a_composition_costs_no_less_than_its_parts_and_no_more_than_their_sum(parts, delta, adjacency):
    epsilon = epsilon_of(together(*parts), delta, adjacency)
    assert epsilon >= max(epsilon_of(part, delta, adjacency) for part in parts) * (1 - 1e-3)
    # Basic composition, δ split evenly; the grid adds up to 2 per mille.
    assert epsilon <= sum(epsilon_of(part, delta / len(parts), adjacency) for part in parts) * 1.002 + 1e-9
    assert delta_of(together(*parts), epsilon, adjacency) <= delta * (1 + 1e-6)


@pytest.mark.parametrize("event", [together(gaussian(1.0), NotPrivate()), repeated(NotPrivate(), 2)])
def test_what_is_not_private_spoils_everything_beside_it(event):
    assert epsilon_of(event, 1e-5, ADD) == math.inf
    assert delta_of(event, 100.0, ADD) == 1.0
    assert true_positive_rates(event, ADD, [0.01]) == [1.0]


@BOTH
def test_samples_with_hardly_any_noise_are_lost_when_drawn_and_free_when_not(adjacency):
    event = together(sampled(1e-5, 1e-3, 3), Pure(0.1))
    assert delta_of(event, 0.1 * (1 + 1e-9), adjacency) == pytest.approx(1 - (1 - 1e-5) ** 3, rel=1e-9)
    assert 0.09 < epsilon_of(event, 1e-4, adjacency) < 0.1
    assert epsilon_of(event, 1e-5, adjacency) == math.inf


@BOTH
def test_a_delta_is_a_probability_even_where_every_record_is_drawn(adjacency):
    assert delta_of(together(sampled(0.9, 1e-3, 1000), Pure(0.1)), 0.05, adjacency) == 1.0


def test_without_leaves_out_what_is_named_and_nothing_else():
    event = together(Pure(1.0), repeated(together(gaussian(1.0), Pure(2.0)), 3))
    left = event.without(lambda leaf: isinstance(leaf, Pure))
    assert epsilon_of(left, 1e-5, ADD) == epsilon_of(repeated(gaussian(1.0), 3), 1e-5, ADD)


def test_an_event_that_has_no_bound_is_refused():
    for use in (epsilon_of, delta_of):
        with pytest.raises(UnsupportedProblemError, match="no privacy bound for LaplaceDpEvent"):
            use(LaplaceDpEvent(1.0), 1e-5, ADD)
    with pytest.raises(UnsupportedProblemError, match="no privacy bound for LaplaceDpEvent"):
        together(LaplaceDpEvent(1.0), Pure(1.0))
    with pytest.raises(UnsupportedProblemError, match="no privacy bound for LaplaceDpEvent"):
        repeated(LaplaceDpEvent(1.0), 2)
    with pytest.raises(InvalidParameterError, match="count"):
        repeated(Pure(1.0), 0)


def test_a_wide_loss_beside_a_narrow_one_has_a_bound():
    event = together(gaussian(0.05), Pure(1e-4), objective(1000.0, 1e-4))
    exact = gaussian_epsilon(20.0, 1e-6)
    assert exact <= epsilon_of(event, 1e-6, ADD) <= exact * 1.003
    assert epsilon_of(together(Pure(2000.0), objective(10.0)), 1e-6, ADD) <= 2003.0


@pytest.mark.long
def test_hundreds_of_different_releases_are_composed_in_a_few_seconds():
    rng = np.random.default_rng(3)
    makers = (
        lambda u: gaussian(100 * u),
        lambda u: Pure(0.01 * u),
        lambda u: zcdp(1e-5 * u),
        lambda u: objective(200 * u),
    )
    releases = [together(makers[i % 4](rng.uniform(1, 2))) for i in range(400)]
    began = time.process_time()
    assert 0.5 < epsilon_of(together(*releases), 1e-6, ADD) < 10.0
    assert time.process_time() - began < 10.0  # about 1


# Noise for plans with a cost that noise does not change.


@dataclass(frozen=True)
class Found:
    plan: object
    noise_multiplier: float


@dataclass(frozen=True)
class RangesFirst:
    """A plan with pure range queries before the solver's own."""

    kind: str
    adjacency: Adjacency
    ranges: tuple[float, ...] = (0.1, 0.1)

    def with_noise(self, multiplier):
        return Found(self, multiplier)

    def event(self, multiplier):
        own = {
            "gaussian": lambda: repeated(gaussian(2 * multiplier), 10),
            "sampled": lambda: sampled(0.02, 2 * multiplier, 200),
            "zcdp": lambda: repeated(zcdp(0.5 / multiplier**2), 30),
            "pure": lambda: repeated(Pure(1 / multiplier), 3),
            "objective": lambda: objective(2 * multiplier),
        }[self.kind]
        return together(*map(Pure, self.ranges), own())


@pytest.mark.cases_with_every_value
@BOTH
@pytest.mark.parametrize("kind", ["gaussian", "sampled", "zcdp", "pure", "objective"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (8.0, 1e-4)])
def test_noise_is_found_beside_a_cost_that_it_does_not_change(kind, epsilon, delta, adjacency):
    plan = RangesFirst(kind, adjacency)
    multiplier = calibrate(plan, Guarantee(epsilon, delta)).noise_multiplier
    assert 0.99 * epsilon <= epsilon_of(plan.event(multiplier), delta, adjacency) <= epsilon
    assert delta_of(plan.event(multiplier), epsilon, adjacency) <= delta
    without_ranges = calibrate(RangesFirst(kind, adjacency, ()), Guarantee(epsilon, delta)).noise_multiplier
    assert multiplier > without_ranges * 0.998


def test_pure_plans_with_ranges_keep_delta_zero():
    multiplier = calibrate(RangesFirst("pure", ADD), Guarantee(1.0, 0.0)).noise_multiplier
    assert multiplier == pytest.approx(3 / 0.8, rel=1e-9)


@pytest.mark.parametrize("kind", ["gaussian", "sampled", "objective"])
def test_no_noise_helps_where_the_ranges_alone_cost_too_much(kind):
    plan, guarantee = RangesFirst(kind, ADD, (0.6, 0.6)), Guarantee(1.0, 1e-6)
    with pytest.raises(NoiseTooLargeError, match="its fixed cost"):
        calibrate(plan, guarantee)
    assert find_noise_multiplier(plan, guarantee) is None


# What an attacker can do.


@BOTH
@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
def test_an_attacker_on_a_gaussian_does_as_the_likelihood_ratio_test_does(mu, adjacency):
    rates = [1e-4, 1e-2, 0.1, 0.5, 0.9]
    found = true_positive_rates(gaussian(adjacency.records_moved / mu), adjacency, rates)
    for rate, bound in zip(rates, found, strict=True):
        exact = norm.cdf(norm.ppf(rate) + mu)
        assert exact * (1 - 1e-12) <= bound <= exact * 1.003


def test_an_attacker_on_randomized_response_does_exactly_what_it_allows():
    rates = (0.0, 0.1, 0.5, 1.0)
    for rate, bound in zip(rates, true_positive_rates(Pure(1.0), ADD, rates), strict=True):
        exact = min(math.e * rate, 1 - (1 - rate) / math.e)
        assert exact * (1 - 1e-12) <= bound <= exact + 0.01


@BOTH
def test_an_attacker_gains_with_every_release_and_never_beyond_one(adjacency):
    rates = [0.001, 0.05]
    few, more = (true_positive_rates(together(*KINDS[:n]), adjacency, rates) for n in (2, len(KINDS)))
    for rate, first, second in zip(rates, few, more, strict=True):
        assert rate < first < second < 1.0


@pytest.mark.parametrize("bad", [-0.1, 1.5, math.nan, "1"])
def test_a_rate_is_a_probability(bad):
    with pytest.raises(InvalidParameterError):
        true_positive_rates(gaussian(1.0), ADD, [bad])
