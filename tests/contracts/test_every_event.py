"""What every accounting event promises: a falling curve, a discretised loss above it, plain data, other accountants."""

import itertools
import json
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from dp_accounting import LaplaceDpEvent, UnsupportedEventError, pld, rdp

from contracts.discovered import concrete
from contracts.events import EVENT_EXAMPLES
from dperm.accounting.calibration import precision
from dperm.accounting.composition import composed_loss, curve_of, delta_of, epsilon_of
from dperm.accounting.curve import FINE_GRID, Curve, gaussian_delta
from dperm.accounting.divergence import renyi_divergence
from dperm.accounting.events import (
    ZCDP,
    BoundedRange,
    Composed,
    Gaussian,
    NotPrivate,
    ObjectivePerturbation,
    OneOf,
    PoissonSampledGaussian,
    Pure,
    RandomTrials,
    Repeated,
    SingleEvent,
    SoftmaxPerturbation,
    UnitPerturbation,
    event_from_list,
    event_to_list,
)
from dperm.accounting.privacy_loss import relation
from dperm.accounting.renyi import has_renyi_bound, rdp_epsilon
from dperm.privacy.guarantee import Adjacency
from dperm.rigorous.bound import rigorous_bound
from dperm.rigorous.checks import _CHECKS, load_checks

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE

# One ordinary instance of each class, and others at which a forgotten factor shows.
EVENTS = [
    *(EVENT_EXAMPLES[kind] for kind in concrete(SingleEvent)),
    Gaussian(0.5),
    Gaussian(200.0),
    Pure(3.0),
    Pure(0.001),
    BoundedRange(3.0),
    BoundedRange(0.01),
    ZCDP(1.5),
    ZCDP(1e-5),
    PoissonSampledGaussian(0.001, 0.7),
    PoissonSampledGaussian(0.5, 10.0),
    PoissonSampledGaussian(1.0, 2.0),
    ObjectivePerturbation(2.0, 0.3, False, 0.01),
    ObjectivePerturbation(20.0, 0.02, True, 1e-5, True, 0.6),
    SoftmaxPerturbation(2.0, 0.3, 3, 0.01),
    SoftmaxPerturbation(20.0, 0.02, 50, 1e-5),
    UnitPerturbation(2.0, 0.3, 3, 1, False, 0.01),
    UnitPerturbation(20.0, 0.02, 50, 1, True, 1e-5, True, 0.6),
    UnitPerturbation(2.0, 0.3, 4, 3, False, 0.01),
    OneOf((Gaussian(5.0), BoundedRange(0.5), ObjectivePerturbation(6.0, 0.1, True, 0.005))),
    OneOf((Pure(0.3), Composed((Pure(0.1), BoundedRange(0.1))))),
    RandomTrials(OneOf((Gaussian(30.0), ObjectivePerturbation(20.0, 0.02, True, 1e-5, True, 0.6))), 1.0 / 64.0),
    RandomTrials(Pure(0.1), 0.02),
]
every_event = pytest.mark.parametrize("event", EVENTS, ids=repr)
every_private_event = pytest.mark.parametrize(
    "event", [event for event in EVENTS if not isinstance(event, NotPrivate)], ids=repr
)
both = pytest.mark.parametrize("adjacency", list(Adjacency))


def epsilons_of(event, adjacency):
    """From 0 to where hardly anything is left, and beyond."""
    return np.concatenate([[0.0], np.geomspace(1e-3, 40.0, 60) * min(event.scale(adjacency), 1.0)])


def test_every_event_has_a_name_of_its_own():
    kinds = concrete(SingleEvent)
    assert len({kind.name for kind in kinds}) == len(kinds)


def test_every_event_has_a_rigorous_check_beside_it():
    load_checks()
    assert {event: check.__module__ for event, check in _CHECKS.items()} == {
        kind.name: f"{kind.__module__}.check" for kind in concrete(SingleEvent)
    }


@every_private_event
@both
def test_its_rigorous_bound_is_about_its_curve(event, adjacency):
    promised = event.curve(adjacency).epsilon(1e-5)
    bound = rigorous_bound(event_to_list(event), 1e-5, adjacency.value, promised)
    assert 0.98 * promised - 1e-9 <= bound.epsilon <= 1.02 * promised + 1e-9


@every_event
@both
def test_the_curve_falls_and_is_a_probability(event, adjacency):
    curve = event.curve(adjacency)
    deltas = [curve.delta(epsilon) for epsilon in epsilons_of(event, adjacency)]
    assert all(0.0 <= delta <= 1.0 for delta in deltas)
    assert all(later <= earlier * (1 + 1e-9) + 1e-15 for earlier, later in itertools.pairwise(deltas))


@pytest.mark.cases_with_every_value
@every_event
@both
def test_epsilon_and_delta_are_inverse_to_each_other(event, adjacency):
    for curve in (event.curve(adjacency), curve_of(event, adjacency)):
        for delta in (0.0, 1e-9, 1e-5, 1e-2):
            epsilon = curve.epsilon(delta)
            assert epsilon >= 0.0
            if math.isfinite(epsilon):
                assert curve.delta(epsilon) <= delta * (1 + 1e-9)


@pytest.mark.cases_with_every_value
@every_event
@both
def test_more_of_it_costs_more_and_never_more_than_it_adds_up_to(event, adjacency):
    one, two, five = (epsilon_of(Repeated(event, count), 1e-6, adjacency) for count in (1, 2, 5))
    assert one <= two <= five
    assert two <= 2 * epsilon_of(event, 0.5e-6, adjacency) * 1.002 + 1e-9


def least_possible(curve, epsilons):
    """The greatest curve of a mechanism below a bound: convex in e^ε, and with (−1, 1) (composition.md)."""
    points = [(-1.0, 1.0), *zip(np.exp(epsilons), np.minimum.accumulate(curve.deltas(epsilons)), strict=True)]
    corners = []
    for x, y in points:
        while len(corners) > 1 and (corners[-1][1] - corners[-2][1]) * (x - corners[-2][0]) >= (y - corners[-2][1]) * (
            corners[-1][0] - corners[-2][0]
        ):
            corners.pop()
        corners.append((x, y))
    return np.interp(np.exp(epsilons), *zip(*corners, strict=True))


@pytest.mark.cases_with_every_value
@every_private_event
@both
def test_the_discretised_loss_is_above_the_curve_and_hardly(event, adjacency):
    """Never below the curve, or below the largest that a mechanism with this bound can have; and not far above."""
    width = event.grid_width(1, adjacency, FINE_GRID) or 0.02 * event.scale(adjacency)
    loss, curve = event.loss(adjacency, width), event.curve(adjacency)
    reach = curve.epsilon(1e-12)
    epsilons = width * np.unique(np.linspace(0.0, math.ceil(reach / width), 1500, dtype=int))
    for epsilon, least in zip(epsilons, least_possible(curve, epsilons), strict=True):
        assert loss.get_delta_for_epsilon(epsilon) >= least * (1 - 1e-6) - 1e-12
    for delta in (1e-2, 1e-5, 1e-8):
        exact = curve.epsilon(delta)
        assert exact * (1 - 1e-9) <= loss.get_epsilon_for_delta(delta) <= exact * 1.02 + 0.05 * event.scale(adjacency)


@pytest.mark.cases_with_every_value
@every_private_event
@both
def test_composed_on_a_grid_it_costs_no_less_than_by_itself(event, adjacency):
    loss = composed_loss(((event, 1),), adjacency, FINE_GRID)
    for delta in (1e-3, 1e-7):
        exact, on_grid = event.curve(adjacency).epsilon(delta), loss.get_epsilon_for_delta(delta)
        assert exact * (1 - 1e-9) <= on_grid <= exact * 1.02 + 0.05 * event.scale(adjacency)


@every_event
@both
def test_its_concentration_is_a_bound_on_its_curve(event, adjacency):
    rho = event.zcdp_rho(adjacency)
    if rho is None:
        assert not event.only_concentrated
        return
    bound, curve = ZCDP(rho).curve(adjacency), event.curve(adjacency)
    for epsilon in epsilons_of(event, adjacency):
        assert curve.delta(epsilon) <= bound.delta(epsilon) * (1 + 1e-3)


@every_event
@both
def test_its_pure_epsilon_leaves_no_delta(event, adjacency):
    pure = event.pure_epsilon
    assert (pure is not None) == event.curve(adjacency).reaches_zero
    if pure is not None:
        assert delta_of(event, pure, adjacency) == 0.0
        assert epsilon_of(event, 0.0, adjacency) == pytest.approx(pure, rel=1e-11)


@pytest.mark.cases_with_every_value
@every_event
@both
def test_its_renyi_bound_is_looser(event, adjacency):
    if not has_renyi_bound(event):
        assert not event.has_renyi_bound
        return
    many = Repeated(event, 20)
    assert rdp_epsilon(many, 1e-6, adjacency) >= epsilon_of(many, 1e-6, adjacency) * (1 - 1e-9)


@pytest.mark.cases_with_every_value
@every_private_event
@both
def test_its_renyi_divergence_bounds_its_curve(event, adjacency):
    """δ(ε) ≤ e^{(α − 1)(D − ε)} (1 − 1/α)^α/(α − 1) for every mechanism whose divergence of order α is D."""
    epsilons = np.linspace(0.0, event.curve(adjacency).epsilon(1e-12), 150)
    reached = least_possible(event.curve(adjacency), epsilons)
    for order in (2, 7, 40):
        divergence = renyi_divergence(event, order, adjacency)
        assert divergence > 0.0
        log_bound = (order - 1) * (divergence - epsilons) + order * math.log1p(-1 / order) - math.log(order - 1)
        assert (reached <= np.exp(np.minimum(log_bound, 700.0)) * (1 + 1e-3) + 1e-15).all()


@pytest.mark.cases_with_every_value
@every_private_event
@both
def test_many_are_worth_about_their_precision(event, adjacency):
    """By the central limit theorem: within a factor, which is what a first guess needs; never used as a bound."""
    count = math.ceil(0.25 / precision(event, adjacency))
    if count < 100:
        return
    rough = math.sqrt(count * precision(event, adjacency))
    found = epsilon_of(Repeated(event, count), 1e-6, adjacency)
    by_guess = epsilon_of(Gaussian(adjacency.records_moved / rough), 1e-6, adjacency)
    assert 0.5 * by_guess < found < 2.0 * by_guess


@every_event
def test_plain_data_bring_it_back_as_it_was(event):
    for whole in (event, Repeated(event, 7), Composed([event, Repeated(Pure(0.5), 2)])):
        written = json.dumps(event_to_list(whole))
        assert list(event_from_list(json.loads(written)).leaves()) == list(whole.leaves())
        assert json.dumps(event_to_list(event_from_list(json.loads(written)))) == written


@every_event
def test_numbers_that_are_missing_degenerate_or_too_many_are_refused(event):
    (item,) = event_to_list(event)
    numbers = {name: value for name, value in item.items() if name not in {"mechanism", "count"}}
    broken = [{**item, "another": 1.0}, {**item, "count": 0}, {**item, "mechanism": "another"}]
    broken += [{key: value for key, value in item.items() if key != name} for name in numbers]
    broken += [{**item, name: bad} for name in numbers for bad in (math.nan, math.inf, -1.0, "1", None)]
    for bad in broken:
        with pytest.raises((ValueError, KeyError, TypeError)):
            event_from_list([bad])


@every_event
def test_leaves_and_without_know_a_single_event(event):
    assert list(event.leaves()) == [(event, 1)]
    assert event.releases() == (event,)
    assert list(event.without(lambda leaf: leaf == event).leaves()) == []
    assert event.without(lambda leaf: False) == event


@pytest.mark.cases_with_every_value
@every_event
@both
@pytest.mark.parametrize("count", [1, 12])
def test_other_accountants_agree_about_it_and_never_say_less(event, adjacency, count):
    """By dp-accounting's PLD accountant, or its Rényi accountant for what is known by its ρ."""
    width = event.grid_width(count, adjacency, FINE_GRID) or 0.01 * min(1.0, event.scale(adjacency))
    accountant = pld.PLDAccountant(relation(adjacency), value_discretization_interval=width)
    theirs, tight = Repeated(event, count).to_dp_event(), True
    if isinstance(event, ZCDP | Pure | BoundedRange):
        assert not accountant.supports(theirs)
        orders, tight = 1.0 + np.geomspace(1e-3, 1e6, 2000), isinstance(event, ZCDP)
        accountant = rdp.RdpAccountant(orders, relation(adjacency))
    if isinstance(event, ObjectivePerturbation | SoftmaxPerturbation | UnitPerturbation | OneOf | RandomTrials):
        with pytest.raises(UnsupportedEventError):
            accountant.compose(theirs)
        return
    accountant.compose(theirs)
    for delta in (1e-3, 1e-6):
        ours, other = epsilon_of(Repeated(event, count), delta, adjacency), accountant.get_epsilon(delta)
        # Both round up, ours on a grid that may be a little wider.
        assert other >= ours * (1 - 1e-3)
        if tight and math.isfinite(ours):
            assert other <= ours * 1.03 + 0.05 * event.scale(adjacency)


@both
def test_one_sampled_gaussian_has_the_curve_of_its_mixture(adjacency):
    """By integration: the hockey-stick divergence between the two mixtures, in the worse direction."""
    x = np.linspace(-60.0, 60.0, 2_000_001)
    for rate, noise in ((0.3, 1.0), (0.05, 0.6), (0.9, 3.0), (1.0, 2.0)):

        def density(centre, noise=noise):
            return np.exp(-0.5 * ((x - centre) / noise) ** 2) / (noise * math.sqrt(2 * math.pi))

        drawn, other = (rate * density(centre) + (1 - rate) * density(0.0) for centre in (1.0, -1.0))
        if adjacency is ADD:
            other = density(0.0)
        curve = PoissonSampledGaussian(rate, noise).curve(adjacency)
        for epsilon in (0.0, 0.01, 0.3, 1.0, 3.0):
            exact = max(
                np.maximum(first - math.exp(epsilon) * second, 0.0).sum() * (x[1] - x[0])
                for first, second in ((drawn, other), (other, drawn))
            )
            assert curve.delta(epsilon) == pytest.approx(exact, rel=1e-6, abs=1e-12)
    full = PoissonSampledGaussian(1.0, 2.0).curve(adjacency)
    assert full.delta(0.5) == pytest.approx(gaussian_delta(adjacency.records_moved / 2.0, 0.5), rel=1e-9)


# A new event is one class.


@dataclass(frozen=True)
class LaplaceCurve(Curve):
    total: float
    reaches_zero: ClassVar[bool] = True

    def delta(self, epsilon):
        return max(0.0, -math.expm1(0.5 * (epsilon - self.total)))


@dataclass(frozen=True)
class LaplaceNoise(SingleEvent):
    """Laplace noise of scale 1/ε on one number: less than any pure mechanism may cost."""

    epsilon: float
    name: ClassVar[str] = "laplace noise of a test"

    @classmethod
    def from_numbers(cls, epsilon):
        return cls(epsilon)

    def scale(self, adjacency):
        return self.epsilon

    def curve(self, adjacency):
        return LaplaceCurve(self.epsilon)

    def to_dp_event(self):
        return LaplaceDpEvent(1.0 / self.epsilon)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("count", [1, 30])
@pytest.mark.parametrize("others", [(), (Gaussian(4.0),), (PoissonSampledGaussian(0.05, 1.5), Gaussian(8.0))])
def test_an_event_of_a_class_that_nobody_knows_is_composed_by_its_curve(others, count):
    """dp-accounting knows Laplace noise, so its number is the reference."""
    event = Composed([Repeated(LaplaceNoise(0.3), count), *others])
    accountant = pld.PLDAccountant(value_discretization_interval=1e-4)
    exact = accountant.compose(event.to_dp_event()).get_epsilon(1e-6)
    assert exact * (1 - 1e-3) <= epsilon_of(event, 1e-6, ADD) <= exact * 1.01
    assert delta_of(event, exact, ADD) == pytest.approx(1e-6, rel=0.1)
    assert list(event_from_list(event_to_list(event)).leaves()) == list(event.leaves())


@pytest.mark.parametrize(
    "surrounded",
    [lambda event: event, lambda event: OneOf((event, Gaussian(5.0))), lambda event: RandomTrials(event, 0.1)],
    ids=["alone", "as an alternative", "as a trial"],
)
@pytest.mark.parametrize("event", [LaplaceNoise(0.3), NotPrivate()], ids=["unknown", "not private"])
def test_an_event_that_no_check_bounds_leaves_no_rigorous_bound(surrounded, event):
    for delta in (0.0, 1e-5):
        events = event_to_list(Composed((surrounded(event), Gaussian(4.0))))
        assert rigorous_bound(events, delta, "add_remove", 1.0).epsilon == math.inf


def test_a_curve_that_never_ends_has_no_bound_on_a_grid():
    class Failing(LaplaceCurve):
        def delta(self, epsilon):
            return 1e-3

    class Failure(LaplaceNoise):
        def curve(self, adjacency):
            return Failing(1.0)

    assert epsilon_of(Composed([Failure(1.0), Gaussian(5.0)]), 1e-5, ADD) == math.inf
    assert delta_of(Composed([Failure(1.0), Gaussian(5.0)]), 1.0, ADD) == 1.0
