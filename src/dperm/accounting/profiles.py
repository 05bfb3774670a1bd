"""δ(ε) of mechanisms that are neither Gaussian nor sampled: pure ones, concentrated ones, objective perturbation."""

import functools
import math
from collections.abc import Callable

import numpy as np
from dp_accounting import dp_event
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from dperm.accounting.events import ObjectivePerturbationDpEvent, PureDpEvent
from dperm.accounting.gaussian import gaussian_delta
from dperm.accounting.guarantee import Adjacency
from dperm.errors import InvalidParameter

Array = NDArray[np.float64]

# Relative padding of what is computed by exponentials and logarithms of moderate size.
_ROUNDING = 1e-12

# Tangents that are tried for the determinant of a sigmoidal loss, and cells that a privacy loss is rounded up to.
_TANGENTS, _GRID = 32, 2000
_FAINT = 1e-12


def pure_delta(total: float, epsilon: float) -> float:
    """δ(ε) of one mechanism with pure ε = `total`: randomized response is the worst, (e^total − e^ε)/(1 + e^total)."""
    if epsilon >= total:
        return 0.0
    return min(1.0, -math.expm1(epsilon - total) / (1.0 + math.exp(-total)) * (1.0 + _ROUNDING))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """δ(ε) of a ρ-zCDP mechanism: min over α > 1 of exp((α − 1)(αρ − ε)) (1 − 1/α)^α/(α − 1).

    Every α gives a bound (Canonne, Kamath and Steinke 2020, Proposition 12), so a grid of them does.
    """
    centre = max(epsilon / rho - 1.0, 1e-3) / 2.0 + 1.0 / math.sqrt(rho)
    less_one = centre * np.geomspace(1e-3, 1e2, 2001)  # α − 1
    alpha = 1.0 + less_one
    # log1p, since α may be so large that (α − 1)/α rounds to 1.
    log_delta = less_one * (alpha * rho - epsilon) - alpha * np.log1p(1.0 / less_one) - np.log(less_one)
    best = float(log_delta.min())
    return min(1.0, math.exp(min(best, 0.0)) * (1.0 + _ROUNDING * (1.0 + abs(best))))


def zcdp_deltas(rho: float, epsilons: Array) -> Array:
    """`zcdp_delta` for many ε at once, with one α for each, found by bisection.

    The logarithm of the bound is convex in a = α − 1: its derivative is (1 + 2a)ρ − ε − ln(1 + 1/a).
    """
    low, high = np.full(epsilons.size, -20.0), np.log(np.maximum(1.0, (epsilons + 1.0) / (2.0 * rho)))
    for _ in range(30):
        middle = 0.5 * (low + high)
        less_one = np.exp(middle)
        rising = (1.0 + 2.0 * less_one) * rho > epsilons + np.log1p(1.0 / less_one)
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    less_one = np.exp(high)  # every α will do
    alpha = 1.0 + less_one
    log_delta = less_one * (alpha * rho - epsilons) - alpha * np.log1p(1.0 / less_one) - high
    padding = 1.0 + _ROUNDING * (1.0 + np.abs(log_delta) + less_one * (alpha * rho + epsilons))
    return np.minimum(1.0, np.exp(np.minimum(log_delta, 0.0)) * padding)


def two_sided_delta(mu: float, epsilon: float) -> float:
    """E(1 − exp(ε − μ|Z| − μ²/2))₊ for a standard normal Z: the worse of two opposite Gaussian shifts, row by row."""
    if mu == 0.0:
        return 0.0
    start = max(0.0, epsilon / mu - mu / 2.0)
    first, second = log_ndtr(-start), epsilon + log_ndtr(-start - mu)
    rounding = 8.0 * 2.0**-53 * (abs(first) + abs(second) + epsilon + 1.0)
    return min(1.0, float(2.0 * math.exp(first) * (rounding - math.expm1(min(second - first, 0.0)))))


def objective_delta(event: ObjectivePerturbationDpEvent, epsilon: float, adjacency: Adjacency) -> float:
    """δ(ε) of objective perturbation for a generalized linear loss; proof in docs/proofs/objective_perturbation.md."""
    mu, best = (1.0 + _ROUNDING) / event.noise_multiplier, 1.0
    for at_none, at_all in _determinant_costs(event):
        flat, steep = ((epsilon - event.remainder - cost) * (1.0 - _ROUNDING) for cost in (at_none, at_all))
        if flat < 0.0 or steep < 0.0:
            continue
        if adjacency is Adjacency.ADD_REMOVE:
            delta = gaussian_delta(mu, steep) if event.monotone else two_sided_delta(mu, steep)
        elif event.monotone:
            # The corners of [0, G] × [0, G]: both rows' gradients together, and each of them alone.
            delta = gaussian_delta(2.0 * mu, steep) + gaussian_delta(mu, steep) + gaussian_delta(mu, flat)
        else:
            # The corners of [−G, G] × [−G, G] are two pairs ±v with ‖v₁‖² + ‖v₂‖² = 4G².
            delta = two_sided_delta(2.0 * mu, steep) + two_sided_delta(math.sqrt(2.0) * mu, steep)
        best = min(best, delta)
    return best


def _determinant_costs(event: ObjectivePerturbationDpEvent) -> list[tuple[float, float]]:
    """What the change of variables costs where the row's slope is 0, and where it is at its bound; every pair will do.

    For a sigmoidal loss the cost is at most ln(1 + 4(β/Λ) t(1 − t)) at t times the largest gradient, concave in t, and
    every tangent of it is a bound that keeps the proof's convexity (theorem 4).
    """
    if not event.sigmoidal:
        return [(event.log_jacobian, event.log_jacobian)]
    ratio, pairs = 4.0 * math.expm1(event.log_jacobian), []
    for touching in event.slope_share * np.linspace(0.0, 1.0, _TANGENTS + 1)[1:]:
        inside = ratio * touching * (1.0 - touching)
        height, slope = math.log1p(inside), ratio * (1.0 - 2.0 * touching) / (1.0 + inside)
        padding = _ROUNDING * (1.0 + height + abs(slope))
        pairs.append(
            (height - touching * slope + padding, height + (event.slope_share - touching) * slope + padding)
        )  # fmt: skip
    return pairs


# Kept, because a calibrated plan is asked for its ε and its δ again by whoever states them.
@functools.lru_cache(maxsize=32)
def composed_objective_profile(
    events: tuple[ObjectivePerturbationDpEvent, ...], adjacency: Adjacency
) -> Callable[[float], float]:
    """δ(ε) of several objective perturbations, each of which may depend on what those before it released.

    Given the past, the privacy loss of each is at most a random variable whose tail is known (theorem 5). Their
    distributions are rounded up to a grid and convolved.
    """
    tails = [_loss_tail(event, adjacency) for event in events]
    width = max(_reach(event, adjacency) for event in events) / _GRID
    losses = np.arange(_GRID + 1) * np.float64(width)
    total, beyond = np.ones(1), 0.0
    for tail in tails:
        above = np.minimum.accumulate(tail(losses))  # P(loss > m)
        mass = -np.diff(above, prepend=1.0)  # of (m − width, m], counted at m
        total, beyond = np.convolve(total, mass), beyond + float(above[-1])
    sums = width * np.arange(total.size)
    remainder = math.fsum(event.remainder for event in events) * (1.0 + _ROUNDING)

    def delta(epsilon: float) -> float:
        above = sums > epsilon - remainder
        inside = float(total[above] @ -np.expm1(epsilon - remainder - sums[above]))
        return min(1.0, (inside + beyond) * (1.0 + 1e-9) + 1e-18)

    return delta


def _loss_tail(event: ObjectivePerturbationDpEvent, adjacency: Adjacency) -> Callable[[Array], Array]:
    """P(loss > m), as the least of the bounds that the determinant's costs give."""
    mu, costs = (1.0 + _ROUNDING) / event.noise_multiplier, _determinant_costs(event)

    def shifted(m: Array, cost: float, shift: float) -> Array:
        return np.asarray(ndtr(0.5 * shift - (m - cost) / shift))

    def tail(m: Array) -> Array:
        least = np.ones(m.size)
        for flat, steep in costs:
            if adjacency is Adjacency.ADD_REMOVE:
                bound = shifted(m, steep, mu) * (1.0 if event.monotone else 2.0)
            elif event.monotone:
                bound = shifted(m, steep, 2.0 * mu) + shifted(m, steep, mu) + shifted(m, flat, mu)
            else:
                bound = 2.0 * (shifted(m, steep, 2.0 * mu) + shifted(m, steep, math.sqrt(2.0) * mu))
            least = np.where(m >= flat, np.minimum(least, bound), least)
        return least * (1.0 + 1e-9)

    return tail


def _reach(event: ObjectivePerturbationDpEvent, adjacency: Adjacency) -> float:
    """A loss that is hardly ever exceeded."""
    shift = adjacency.records_moved / event.noise_multiplier
    return min(max(costs) for costs in _determinant_costs(event)) + 0.5 * shift**2 + 10.0 * shift


def privacy_profile(parts: list[tuple[dp_event.DpEvent, int]], adjacency: Adjacency) -> Callable[[float], float]:
    """δ as a function of ε for mechanisms with their counts.

    Parameters
    ----------
    parts : list of (DpEvent, int)
        What ran, and how often.
    adjacency : Adjacency
        Named, as everywhere.

    Raises
    ------
    InvalidParameter
        If these mechanisms cannot be priced together.
    """
    objectives = tuple(
        leaf for leaf, count in parts if isinstance(leaf, ObjectivePerturbationDpEvent) for _ in range(count)
    )
    if len(objectives) == sum(count for _, count in parts):
        if len(objectives) == 1 and not objectives[0].sigmoidal:
            return lambda epsilon: objective_delta(objectives[0], epsilon, adjacency)
        composed = composed_objective_profile(objectives, adjacency)
        if len(objectives) > 1:
            return composed

        def of_one(epsilon: float) -> float:
            # For every loss its own tangent, on a grid; below what that can tell, one for all losses in closed form.
            on_grid = composed(epsilon)
            return on_grid if on_grid > _FAINT else min(on_grid, objective_delta(objectives[0], epsilon, adjacency))

        return of_one
    rho = sum(count * rho_of(leaf, adjacency) for leaf, count in parts) * (1.0 + _ROUNDING)
    if not all(isinstance(leaf, PureDpEvent) for leaf, _ in parts):
        return lambda epsilon: zcdp_delta(rho, epsilon)
    total = math.fsum(count * leaf.epsilon for leaf, count in parts)
    if len(parts) > 1 or parts[0][1] > 1:
        total *= 1.0 + _ROUNDING

    def of_pure(epsilon: float) -> float:
        # Grouped together they are one mechanism with the total ε; Rényi accounting does better for many.
        return min(pure_delta(total, epsilon), zcdp_delta(rho, epsilon))

    return of_pure


def rho_of(leaf: dp_event.DpEvent, adjacency: Adjacency) -> float:
    """ρ of one concentrated mechanism; others raise `InvalidParameter`."""
    match leaf:
        case PureDpEvent():
            return 0.5 * float(leaf.epsilon) ** 2
        case dp_event.ZCDpEvent():
            if leaf.xi == 0:
                return float(leaf.rho)
        case dp_event.GaussianDpEvent():
            return 0.5 * (adjacency.records_moved / float(leaf.noise_multiplier)) ** 2
    raise InvalidParameter("these mechanisms cannot be priced together.")
