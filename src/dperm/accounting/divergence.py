"""Rényi divergences of events, for the filter of budgets (docs/proofs/filter.md)."""

import functools
import math

import numpy as np
from scipy.special import log_ndtr, ndtr

from dperm.accounting.curve import ROUNDING, Array, Curve
from dperm.accounting.events import (
    Event,
    ObjectivePerturbation,
    OneOf,
    PoissonSampledGaussian,
    Pure,
    RandomTrials,
    SingleEvent,
    SoftmaxPerturbation,
    UnitPerturbation,
)
from dperm.accounting.events.objective_perturbation import TangentCurve
from dperm.accounting.events.random_trials import trials_curve
from dperm.accounting.events.softmax_perturbation import CornerCurve
from dperm.accounting.events.unit_perturbation import StopLossCurve
from dperm.accounting.privacy_loss import convex_corners
from dperm.privacy.guarantee import Adjacency

# Points at which a curve is evaluated for a divergence, and that of a sample.
_DOTS, _DOTS_OF_A_SAMPLE = 400, 1000

# Divergences of samples of larger orders are not computed.
_LARGEST_ORDER = 20_000


@functools.singledispatch
def renyi_divergence(event: SingleEvent, order: int, adjacency: Adjacency) -> float:
    """An upper bound on the Rényi divergence of one answer, whatever ran before it; infinite if none is known."""
    rho = event.zcdp_rho(adjacency)
    return math.inf if rho is None else order * rho * (1.0 + ROUNDING)


@renyi_divergence.register
def _(event: Pure, order: int, adjacency: Adjacency) -> float:
    """That of randomized response: ε + ln((1 + e^{−(2α − 1)ε})/(1 + e^−ε))/(α − 1)."""
    epsilon = float(event.epsilon)
    shrunk = math.log1p(math.exp(-(2 * order - 1) * epsilon)) - math.log1p(math.exp(-epsilon))
    # For small ε the difference cancels; ε²α/2 is a bound as well.
    return min(epsilon + shrunk / (order - 1) + ROUNDING, 0.5 * order * epsilon**2 * (1.0 + ROUNDING))


@renyi_divergence.register
@functools.lru_cache(maxsize=256)
def _(event: SoftmaxPerturbation, order: int, adjacency: Adjacency) -> float:
    """By the curve, up to where it hardly counts; beyond, no corner does more than one of the longest."""
    shifts = event.corners(adjacency)
    times, shift = sum(number for number, _ in shifts), max(mu for _, mu in shifts)
    cost = event.log_jacobian + event.remainder
    return divergence_of_minimiser(CornerCurve(event, adjacency), cost, shift, times, order)


@renyi_divergence.register
@functools.lru_cache(maxsize=256)
def _(event: UnitPerturbation, order: int, adjacency: Adjacency) -> float:
    """By the curve, up to where it hardly counts; beyond, no shift does more than one of the longest."""
    shifts = event.shifts(adjacency)
    times, shift = sum(each.times for each in shifts), max(each.length for each in shifts)
    cost = min(max(costs) for costs in event.determinant_costs()) + event.remainder
    return divergence_of_minimiser(StopLossCurve(event, adjacency), cost, shift, times, order)


@renyi_divergence.register
@functools.lru_cache(maxsize=256)
def _(event: ObjectivePerturbation, order: int, adjacency: Adjacency) -> float:
    """By the curve with tangents, up to where it hardly counts; beyond, all corners are at most four Gaussians."""
    shift = adjacency.records_moved / event.noise_multiplier * (1.0 + ROUNDING)
    cost = min(max(costs) for costs in event.determinant_costs()) + event.remainder
    return divergence_of_minimiser(TangentCurve(event, adjacency), cost, shift, 4, order)


@renyi_divergence.register
def _(event: PoissonSampledGaussian, order: int, adjacency: Adjacency) -> float:
    """By `renyi`; under replace_one the exact curve gives less, where a float can hold its powers."""
    if order > _LARGEST_ORDER or event.drawn_bare:
        return math.inf
    known = float(event.renyi(np.array([float(order)]), 1, adjacency)[0]) * (1.0 + 1e-9)
    return min(known, _replaced_divergence(event, order)) if adjacency is Adjacency.REPLACE_ONE else known


@functools.lru_cache(maxsize=256)
def _replaced_divergence(event: PoissonSampledGaussian, order: int) -> float:
    """From the curve of one answer; far out it is at most that of the Gaussian without sampling."""
    shift = 2.0 / event.noise_multiplier
    log_moment = 0.5 * order * (order - 1.0) * shift**2
    far = math.sqrt(2.0 * log_moment + 80.0)  # so far out e^log_moment does not count either
    last = (order - 0.5) * shift**2 + far * shift
    if order * last > 600.0:
        return math.inf
    small = 1e-3 * min(event.scale(Adjacency.REPLACE_ONE), last)
    epsilons = np.append(0.0, np.geomspace(small, last, _DOTS_OF_A_SAMPLE))
    deltas = np.minimum.accumulate(event.curve(Adjacency.REPLACE_ONE).deltas(epsilons))
    # E[e^{(α − 1)L}; L > last]/(α − 1) for the loss L of that Gaussian.
    tilted = math.exp(log_moment + float(log_ndtr(-far)))
    return divergence_of_curve(epsilons, deltas, tilted / (order - 1.0), order)


@renyi_divergence.register
def _(event: RandomTrials, order: int, adjacency: Adjacency) -> float:
    """From the curve; beyond the points at which it is evaluated by the divergence of a trial at the next order."""
    curve = trials_curve(event, adjacency)
    above = _together(event.trial, order + 1, adjacency)
    # ∫ e^{(α − 1)t} δ(t) dt beyond T is at most e^{−T} ∫ e^{αt} δ(t) dt.
    reach = order * above + 30.0
    if not (order * (reach + curve.shift) < 600.0):
        return math.inf  # more than any budget has
    # Without the second 0 where the shift is 0, as it is for one trial.
    epsilons = np.unique([0.0, *(curve.shift + np.linspace(0.0, reach, _DOTS) ** 2 / reach)])
    tail = math.exp(-reach) * math.expm1(order * above) / (order * (order + 1.0))
    beyond = math.exp((order - 1.0) * curve.shift) * tail / event.stop
    return divergence_of_curve(epsilons, np.minimum.accumulate(curve.deltas(epsilons)), beyond, order)


@renyi_divergence.register
def _(event: OneOf, order: int, adjacency: Adjacency) -> float:
    """The largest."""
    return max(_together(one, order, adjacency) for one in event.alternatives)


def _together(event: Event, order: int, adjacency: Adjacency) -> float:
    """Σ of the divergences of the single events."""
    divergences = [count * renyi_divergence(leaf, order, adjacency) for leaf, count in event.leaves()]
    return math.fsum(divergences) * (1.0 + ROUNDING) if math.inf not in divergences else math.inf


def divergence_of_curve(epsilons: Array, deltas: Array, beyond: float, order: int) -> float:
    """The largest Rényi divergence of a mechanism whose curve lies below these points, in both directions.

    Parameters
    ----------
    epsilons : array
        0 = ε_0 < ε_1 < ….
    deltas : array
        Upper bounds on δ there, falling.
    beyond : float
        A bound on the integral of e^{(α − 1)ε} δ(ε) beyond the last point.
    order : int
        α, at least 2.
    """
    corners = convex_corners(epsilons.tolist(), deltas.tolist())
    where, heights = epsilons[corners], deltas[corners]
    if corners[0] != 0:  # the line from (−1, 1) passes above δ(0): what it has at e^ε = 1
        shrunk = math.exp(-where[0])
        first = 1.0 - 2.0 * (1.0 - heights[0]) * shrunk / (1.0 + shrunk)
        where, heights = np.append(0.0, where), np.append(first, heights)
    gaps, total = np.diff(where), 2.0 * beyond
    for power in (order - 1.0, -float(order)):
        # Between two corners δ is below the chord in e^ε.
        flat = np.expm1(power * gaps) / power
        sloped = (np.expm1((power + 1.0) * gaps) / (power + 1.0) - flat) / np.expm1(gaps)
        chords = heights[:-1] * flat + np.diff(heights) * np.clip(sloped, 0.0, flat)
        total += float(np.exp(power * where[:-1]) @ chords)
    return math.log1p(order * (order - 1.0) * total * (1.0 + 1e-9)) / (order - 1.0)


def divergence_of_minimiser(curve: Curve, cost: float, shift: float, times: int, order: int) -> float:
    """The same for the curve of a minimiser, up to where it hardly counts; infinite where no budget has so much.

    Parameters
    ----------
    curve : Curve
        Of one minimiser of a perturbed objective.
    cost : float
        What the change of variables and the remainder can cost.
    shift : float
        The longest Gaussian shift over σ.
    times : int
        Beyond, the loss does no more than this many such shifts.
    order : int
        α, at least 2.
    """
    last = cost + (order - 0.5) * shift**2 + 9.0 * shift
    if order * last > 600.0:
        return math.inf  # more than any budget has
    epsilons = np.linspace(0.0, last, _DOTS)
    deltas = np.minimum.accumulate(curve.deltas(epsilons))
    # E[e^{(α − 1)L}; L > last]/(α − 1) for the loss L of a Gaussian that is shifted by the cost.
    tilted = math.exp((order - 1.0) * (cost + 0.5 * order * shift**2)) * float(ndtr(-9.0))
    return divergence_of_curve(epsilons, deltas, times * tilted / (order - 1.0), order)
