"""Find the least noise that keeps the guarantee, and check the answer before using it."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dp_accounting import dp_event
from scipy.optimize import brentq

from dperm.accounting.accountants import (
    central_limit_precision,
    composed_mu,
    delta_of,
    epsilon_of,
    is_gaussian,
    is_mixed,
    is_sampled,
)
from dperm.accounting.advanced_composition import advanced_composition_epsilon, advanced_composition_noise
from dperm.accounting.events import PureDpEvent, leaves
from dperm.accounting.gaussian import gaussian_mu
from dperm.accounting.guarantee import SMALLEST_EPSILON, Adjacency, Guarantee
from dperm.accounting.loss_grid import COARSE_GRID
from dperm.errors import InvalidParameter
from dperm.mechanisms.plan import CalibratedPlan, Plan
from dperm.validation import one_of

# How noise may be found: by the tightest accountant that applies, or as in Appendix B.1 of the paper.
ACCOUNTANTS = ("pld", "advanced-composition")

# A calibrated plan of sampled queries may leave this share of ε unused, and one of other kinds that share.
_TOLERANCE, _FINE_TOLERANCE = 2e-3, 2e-5

_LARGEST_MULTIPLIER = 1e30

# The search ends where the noise is e^this times smaller or larger than the central limit suggests.
_FURTHEST = 10.0


def calibrate(plan: Plan, guarantee: Guarantee, accountant: str = "pld") -> CalibratedPlan:
    """Pay for a plan: the smallest noise multiplier whose ε, evaluated again, is at most the target.

    Parameters
    ----------
    plan : Plan
        What will be asked.
    guarantee : Guarantee
        What must hold.
    accountant : {"pld", "advanced-composition"}
        The exact Gaussian curve, or PLD where answers are sampled; or Appendix B.1 of the paper, which needs more noise
        and is refused where its conditions do not hold.

    Returns
    -------
    CalibratedPlan
        The plan with its noise.
    """
    price: Callable[[Any, float, Adjacency], float] = epsilon_of
    stride = 1e-12
    if one_of("accountant", accountant, ACCOUNTANTS) == "advanced-composition":
        price, multiplier = advanced_composition_epsilon, advanced_composition_noise(plan, guarantee)
    elif is_gaussian(plan.event(1.0)):
        multiplier = _calibrate_gaussians(plan, guarantee)
    elif guarantee.delta == 0.0 and not is_sampled(plan.event(1.0)):
        multiplier = _calibrate_by_delta(plan, guarantee)
    elif is_mixed(plan.event(1.0)):
        tolerance = _TOLERANCE if is_sampled(plan.event(1.0)) else _FINE_TOLERANCE
        multiplier, stride = _calibrate_mixed(plan, guarantee, tolerance), 0.5 * tolerance
    elif not is_sampled(plan.event(1.0)):
        multiplier = _calibrate_by_delta(plan, guarantee)
    else:
        multiplier, stride = _calibrate_by_epsilon(plan, guarantee), 1e-3
    for _ in range(60):
        event = plan.event(multiplier)
        kept = price(event, guarantee.delta, plan.adjacency) <= guarantee.epsilon
        if kept and price is epsilon_of:  # its inverse is other code, rounded otherwise
            kept = delta_of(event, guarantee.epsilon, plan.adjacency) <= guarantee.delta
        if kept:
            return CalibratedPlan(plan, multiplier)
        multiplier *= 1.0 + stride
        stride *= 1.5
    raise InvalidParameter(
        f"no noise was found that is certified for epsilon = {guarantee.epsilon:g}, delta = {guarantee.delta:g}; "
        "use a larger delta."
    )


def _calibrate_gaussians(plan: Plan, guarantee: Guarantee) -> float:
    # μ² of what has the plan's noise is inversely proportional to the noise's variance; that of the ranges is fixed.
    fixed = composed_mu(dp_event.ComposedDpEvent([item.event(1.0) for item in plan.ranges]), plan.adjacency)
    left = gaussian_mu(guarantee) ** 2 - fixed**2
    if left <= 0.0:
        raise _too_much_already(guarantee)
    return composed_mu(replace(plan, ranges=()).event(1.0), plan.adjacency) / math.sqrt(left)


def _calibrate_by_delta(plan: Plan, guarantee: Guarantee) -> float:
    """Where δ comes down to its target, between a multiplier that keeps it and one that does not."""

    def keeps(multiplier: float) -> bool:
        return delta_of(plan.event(multiplier), guarantee.epsilon, plan.adjacency) <= guarantee.delta

    high = 1.0
    while not keeps(high):
        high *= 2.0
        if high > _LARGEST_MULTIPLIER:
            raise _too_much_already(guarantee)
    low = 0.5 * high
    while keeps(low):
        low, high = 0.5 * low, low
    if guarantee.delta == 0.0:
        while high > low * (1.0 + 1e-12):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if keeps(middle) else (middle, high)
        return high

    def too_much(log_multiplier: float) -> float:
        delta = delta_of(plan.event(math.exp(log_multiplier)), guarantee.epsilon, plan.adjacency)
        return math.log(max(delta, 1e-300) / guarantee.delta)

    # A little more than where the curve comes down to δ; the caller evaluates it again.
    return math.exp(brentq(too_much, math.log(low), math.log(high), xtol=1e-11)) * (1.0 + 2e-11)


def _too_much_already(guarantee: Guarantee) -> InvalidParameter:
    return InvalidParameter(
        f"no amount of noise gives epsilon = {guarantee.epsilon:g}, delta = {guarantee.delta:g} with this "
        "plan: what it pays whatever the noise is already more."
    )


def _calibrate_mixed(plan: Plan, guarantee: Guarantee, tolerance: float) -> float:
    """As for samples; some of the price may be there whatever the noise."""
    multiplier = _calibrate_by_epsilon(plan, guarantee, tolerance)
    if epsilon_of(plan.event(multiplier), guarantee.delta, plan.adjacency) > guarantee.epsilon * (1.0 + _TOLERANCE):
        raise _too_much_already(guarantee)
    return multiplier


def _calibrate_by_epsilon(plan: Plan, guarantee: Guarantee, tolerance: float = _TOLERANCE) -> float:
    """Bracketed secant steps on log ε against log multiplier: on a coarse grid, then on the one that decides."""
    delta, adjacency = guarantee.delta, plan.adjacency

    def coarse_gap(log_multiplier: float) -> float:
        return _log_gap(epsilon_of(plan.event(math.exp(log_multiplier)), delta, adjacency, COARSE_GRID), guarantee)

    def fine_gap(log_multiplier: float) -> float:
        return _log_gap(epsilon_of(plan.event(math.exp(log_multiplier)), delta, adjacency), guarantee)

    guess = math.log(_central_limit_guess(plan, guarantee))
    return math.exp(_decreasing_root(fine_gap, _decreasing_root(coarse_gap, guess, _TOLERANCE), tolerance))


def _log_gap(epsilon: float, guarantee: Guarantee) -> float:
    """log(ε/target), kept within ±5 where the accountant says 0 or infinity."""
    if epsilon <= 0.0:
        return -5.0
    return min(5.0, math.log(epsilon / guarantee.epsilon)) if math.isfinite(epsilon) else 5.0


def _decreasing_root(gap: Callable[[float], float], guess: float, tolerance: float) -> float:
    """A point where gap is within [−tolerance, 0], for a gap that falls as its argument grows."""
    point, value = guess, gap(guess)
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    stride = 1.0
    for _ in range(40):
        if -tolerance <= value <= 0.0 or abs(point - guess) > _FURTHEST:
            return point
        if value > 0.0:
            low = (point, value)
        else:
            high = (point, value)
        if low is None or high is None:
            # ε falls a little faster than the noise grows; go further each time that this was not enough.
            point += stride * min(max((value + 0.5 * tolerance) / 1.1, -1.0), 1.0)
            stride *= 2.0
        elif high[0] - low[0] < 1e-6:
            return high[0]
        else:
            # Where the straight line between the ends crosses a value a little below the target.
            share = (low[1] + 0.5 * tolerance) / (low[1] - high[1])
            point = low[0] + min(max(share, 0.05), 0.95) * (high[0] - low[0])
        value = gap(point)
    return high[0] if high is not None else point


def _central_limit_guess(plan: Plan, guarantee: Guarantee) -> float:
    """A start for the search: what costs the same whatever the noise is set aside, the rest taken for a Gaussian."""
    fixed = {leaf for leaf, _ in leaves(plan.event(1.0))} & {leaf for leaf, _ in leaves(plan.event(2.0))}
    pure = sum(
        count * leaf.epsilon
        for leaf, count in leaves(plan.event(1.0))
        if isinstance(leaf, PureDpEvent) and leaf in fixed
    )
    left = Guarantee(max(guarantee.epsilon - pure, 0.1 * guarantee.epsilon, SMALLEST_EPSILON), guarantee.delta)
    log_target = math.log(gaussian_mu(left))

    def excess(log_multiplier: float) -> float:
        total = 0.0
        for leaf, count in leaves(plan.event(math.exp(log_multiplier))):
            if leaf not in fixed:
                total += count * _about_precision(leaf, plan.adjacency)
        return 0.5 * math.log(total) - log_target

    return math.exp(brentq(excess, math.log(1e-2), math.log(1e9)))


def _about_precision(leaf: dp_event.DpEvent, adjacency: Adjacency) -> float:
    """About the μ² that one mechanism adds to many."""
    match leaf:
        case PureDpEvent():
            return float(leaf.epsilon) ** 2
        case dp_event.ZCDpEvent():
            return 2.0 * float(leaf.rho)
    multiplier = getattr(leaf, "event", leaf).noise_multiplier / adjacency.records_moved
    return central_limit_precision(getattr(leaf, "sampling_probability", 1.0), multiplier, adjacency)
