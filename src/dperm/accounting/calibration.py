"""Find the least noise that keeps the guarantee, and check the answer before using it."""

import enum
import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeVar

from scipy.optimize import brentq
from scipy.special import ndtri

from dperm.accounting.central_limit import central_limit_precision
from dperm.accounting.composition import MixtureCurve, curve_of, delta_of, epsilon_of
from dperm.accounting.curve import COARSE_GRID, GaussianCurve, gaussian_mu
from dperm.accounting.events import (
    ZCDP,
    Event,
    Gaussian,
    ObjectivePerturbation,
    PoissonSampledGaussian,
    SingleEvent,
    SoftmaxPerturbation,
    UnitPerturbation,
)
from dperm.accounting.events.gaussian import composed_mu
from dperm.errors import NoiseTooLargeError
from dperm.extensions import Registry
from dperm.privacy.guarantee import SMALLEST_EPSILON, Adjacency, Guarantee
from dperm.remembered import remembered
from dperm.validation import one_of

# Where ε is still above the target by more than this share after the search, no noise keeps it.
_TOLERANCE = 2e-3

_LARGEST_MULTIPLIER = 1e30

# How far beyond the root a search for it aims, in the logarithm of the noise: the caller evaluates it again.
_BEYOND = 2e-11

# The search ends where the noise is e^this times smaller or larger than the central limit suggests.
_FURTHEST = 10.0

Calibrated = TypeVar("Calibrated", covariant=True)


class Calibratable(Protocol[Calibrated]):
    """What noise can be found for: a plan. Its event has the same structure at every noise multiplier."""

    @property
    def adjacency(self) -> Adjacency:
        """Which two tables it is about."""
        ...

    @property
    def n(self) -> int:
        """The public number of rows."""
        ...

    def event(self, noise_multiplier: float) -> Event:
        """What runs with this noise; some of it may cost the same whatever the noise."""
        ...

    def with_noise(self, noise_multiplier: float) -> Calibrated:
        """The plan with this noise."""
        ...


class Accountant(NamedTuple):
    """A way of accounting other than by the tightest bound.

    Attributes
    ----------
    epsilon : callable
        ε of an event at a δ, under an adjacency.
    noise : callable
        About the noise multiplier at which a plan keeps a guarantee; `epsilon` is asked again before it is used.
    """

    epsilon: Callable[[Event, float, Adjacency], float]
    noise: Callable[[Calibratable[object], Guarantee], float]


class _NoNoise(enum.Enum):
    """Why no noise was found."""

    COSTS_WHATEVER = (
        "no amount of noise gives epsilon = {epsilon:g}, delta = {delta:g} with this plan: its fixed cost already "
        "exceeds the guarantee."
    )
    NOT_CERTIFIED = "no certified noise was found for epsilon = {epsilon:g}, delta = {delta:g}; use a larger delta."


# "pld" is the tightest bound that applies.
ACCOUNTANTS: Registry[Accountant | None] = Registry({"pld": None})


def calibrate(plan: Calibratable[Calibrated], guarantee: Guarantee, accountant: str = "pld") -> Calibrated:
    """A plan with the least noise that keeps the guarantee.

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

    Raises
    ------
    NoiseTooLargeError
        If no noise keeps it.
    UnsupportedProblemError
        If the conditions of Appendix B.1 do not hold.
    """
    found = _search(plan, guarantee, accountant)
    if isinstance(found, _NoNoise):
        raise NoiseTooLargeError(found.value.format(epsilon=guarantee.epsilon, delta=guarantee.delta))
    return plan.with_noise(found)


def find_noise_multiplier(plan: Calibratable[object], guarantee: Guarantee, accountant: str = "pld") -> float | None:
    """The noise multiplier that `calibrate` gives a plan, or None if no noise keeps the guarantee."""
    found = _search(plan, guarantee, accountant)
    return None if isinstance(found, _NoNoise) else found


@remembered(256)
def _search(plan: Calibratable[object], guarantee: Guarantee, accountant: str) -> float | _NoNoise:
    """The smallest noise multiplier whose ε, evaluated again, is at most the target."""
    bound: Callable[[Event, float, Adjacency], float] = epsilon_of
    stride, found = 1e-12, None
    other = ACCOUNTANTS[one_of("accountant", accountant, ACCOUNTANTS)]
    event = plan.event(1.0)
    curve = curve_of(event, plan.adjacency)
    sampled = any(leaf.is_sampled for leaf, _ in event.leaves())
    if other is not None:
        bound, found = other.epsilon, other.noise(plan, guarantee)
    elif isinstance(curve, GaussianCurve):
        found = _by_closed_form(plan, guarantee)
    elif curve.tolerance is None or (guarantee.delta == 0.0 and not sampled):
        found = _by_delta(plan, guarantee)
    else:
        found, stride = _by_epsilon(plan, guarantee, curve.tolerance), 0.5 * curve.tolerance
        if isinstance(curve, MixtureCurve) and not _nearly_kept(plan, guarantee, found):
            found = None
    return _NoNoise.COSTS_WHATEVER if found is None else _certified(plan, guarantee, bound, found, stride)


def _certified(
    plan: Calibratable[object], guarantee: Guarantee, bound: Callable[[Event, float, Adjacency], float],
    multiplier: float, stride: float,
) -> float | _NoNoise:  # fmt: skip
    """The given noise or a little more, evaluated again."""
    for _ in range(60):
        event = plan.event(multiplier)
        # The inverse of `epsilon_of` is other code, rounded otherwise; it takes less time.
        kept = bound is not epsilon_of or delta_of(event, guarantee.epsilon, plan.adjacency) <= guarantee.delta
        if kept and bound(event, guarantee.delta, plan.adjacency) <= guarantee.epsilon:
            return multiplier
        multiplier *= 1.0 + stride
        stride *= 1.5
        if multiplier > _LARGEST_MULTIPLIER:
            break
    return _NoNoise.NOT_CERTIFIED


def _by_closed_form(plan: Calibratable[object], guarantee: Guarantee) -> float | None:
    """μ² of what has the plan's noise is inversely proportional to the noise's variance; the rest is fixed."""
    fixed = _fixed(plan)
    parts = list(plan.event(1.0).leaves())
    costs_whatever = composed_mu([part for part, same in zip(parts, fixed, strict=True) if same], plan.adjacency)
    left = gaussian_mu(guarantee) ** 2 - costs_whatever**2
    if left <= 0.0:
        return None
    unit = composed_mu([part for part, same in zip(parts, fixed, strict=True) if not same], plan.adjacency)
    return unit / math.sqrt(left)


def _fixed(plan: Calibratable[object]) -> list[bool]:
    """Which single events of the plan do not depend on its noise."""
    once, twice = plan.event(1.0).leaves(), plan.event(2.0).leaves()
    return [one == other for (one, _), (other, _) in zip(once, twice, strict=True)]


def _by_delta(plan: Calibratable[object], guarantee: Guarantee) -> float | None:
    """Where δ comes down to its target: by halving, or where δ > 0 by secants, which take few steps."""

    def delta_at(multiplier: float) -> float:
        return delta_of(plan.event(multiplier), guarantee.epsilon, plan.adjacency)

    if guarantee.delta > 0.0:
        target = math.log(guarantee.delta)

        def gap(log_multiplier: float) -> float:
            # ln δ of Gaussian noise falls about with its square, so that this is nearly a straight line.
            log_delta = math.log(min(max(delta_at(math.exp(log_multiplier)), 1e-300), 1.0 - 1e-9))
            return 0.5 * math.log(target / log_delta)

        root = _falling_root(gap, -math.log(gaussian_mu(guarantee)))  # one Gaussian release would need this
        return None if root is None else math.exp(root)
    high = 1.0
    while delta_at(high) > 0.0:
        high *= 2.0
        if high > _LARGEST_MULTIPLIER:
            return None
    low = 0.5 * high
    while delta_at(low) == 0.0:
        low, high = 0.5 * low, low
    while high > low * (1.0 + 1e-12):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if delta_at(middle) == 0.0 else (middle, high)
    return high


def _falling_root(gap: Callable[[float], float], guess: float) -> float | None:
    """A point hardly beyond where a gap that falls with a slope of about −1 comes down to 0; None if it does not.

    By secants; by halving, or steps of 1, where one would leave the interval in which the point is known to lie.
    """
    low, high, slope = -math.inf, math.inf, -1.0
    point, value = guess, gap(guess)
    while not -2.0 * _BEYOND <= value <= 0.0 and high - low > _BEYOND:
        low, high = (point, high) if value > 0.0 else (low, point)
        following = point - (value + _BEYOND) / slope
        if not max(low, point - 1.0) < following < min(high, point + 1.0):
            following = 0.5 * (low + high) if high - low < math.inf else point + math.copysign(1.0, value)
        if following > math.log(_LARGEST_MULTIPLIER):
            return None
        before, point = (point, value), following
        value = gap(point)
        slope = (value - before[1]) / (point - before[0]) if point != before[0] else -1.0
        slope = slope if slope < 0.0 else -1.0
    return point if value <= 0.0 else high


def _by_epsilon(plan: Calibratable[object], guarantee: Guarantee, tolerance: float) -> float:
    """Bracketed secant steps on log ε against log multiplier: on a coarse grid, then on the one that decides."""
    delta, adjacency = guarantee.delta, plan.adjacency

    def coarse_gap(log_multiplier: float) -> float:
        return _log_gap(epsilon_of(plan.event(math.exp(log_multiplier)), delta, adjacency, COARSE_GRID), guarantee)

    def fine_gap(log_multiplier: float) -> float:
        return _log_gap(epsilon_of(plan.event(math.exp(log_multiplier)), delta, adjacency), guarantee)

    guess = math.log(_central_limit_guess(plan, guarantee))
    return math.exp(_decreasing_root(fine_gap, _decreasing_root(coarse_gap, guess, _TOLERANCE), tolerance))


def _nearly_kept(plan: Calibratable[object], guarantee: Guarantee, multiplier: float) -> bool:
    """Whether the search ended near the target; where it did not, some of the cost is there whatever the noise."""
    epsilon = epsilon_of(plan.event(multiplier), guarantee.delta, plan.adjacency)
    return epsilon <= guarantee.epsilon * (1.0 + _TOLERANCE)


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


def _central_limit_guess(plan: Calibratable[object], guarantee: Guarantee) -> float:
    """A start for the search: what costs the same whatever the noise is set aside, the rest taken for a Gaussian."""
    fixed = _fixed(plan)
    unit = zip(plan.event(1.0).leaves(), fixed, strict=True)
    pure = sum(count * leaf.pure_epsilon for (leaf, count), same in unit if same and leaf.pure_epsilon is not None)
    left = Guarantee(max(guarantee.epsilon - pure, 0.1 * guarantee.epsilon, SMALLEST_EPSILON), guarantee.delta)
    log_target = math.log(gaussian_mu(left))

    def excess(log_multiplier: float) -> float:
        total = 0.0
        for (leaf, count), same in zip(plan.event(math.exp(log_multiplier)).leaves(), fixed, strict=True):
            if not same:
                total += count * precision(leaf, plan.adjacency)
        return 0.5 * math.log(total) - log_target

    least, most = math.log(1e-2), math.log(1e9)
    if excess(most) >= 0.0:  # a part of it costs the same whatever the noise, and for a Gaussian that would be too much
        return 1.0 / math.exp(log_target)
    return math.exp(brentq(excess, least, most))


@functools.singledispatch
def precision(event: SingleEvent, adjacency: Adjacency) -> float:
    """About the μ² that an event adds to many: for first guesses, never a bound."""
    return event.scale(adjacency) ** 2


@precision.register
def _(event: ZCDP, adjacency: Adjacency) -> float:
    """μ² of the Gaussian with this ρ."""
    return 2.0 * float(event.rho)


@precision.register
def _(event: Gaussian | ObjectivePerturbation, adjacency: Adjacency) -> float:
    """μ² of the Gaussian alone."""
    return central_limit_precision(1.0, event.noise_multiplier / adjacency.records_moved, adjacency)


@precision.register
def _(event: PoissonSampledGaussian, adjacency: Adjacency) -> float:
    """By the central limit theorem."""
    noise = event.noise_multiplier / adjacency.records_moved
    return central_limit_precision(event.sampling_probability, noise, adjacency)


@precision.register
def _(event: SoftmaxPerturbation, adjacency: Adjacency) -> float:
    """From the curve, the determinant and the remainder left out."""
    return _at_zero(replace(event, log_jacobian=0.0, remainder=0.0), adjacency)


@precision.register
def _(event: UnitPerturbation, adjacency: Adjacency) -> float:
    """The same."""
    return _at_zero(replace(event, log_jacobian=0.0, remainder=0.0, sigmoidal=False), adjacency)


def _at_zero(event: SingleEvent, adjacency: Adjacency) -> float:
    """μ² of the Gaussian that has the same δ at ε = 0."""
    return float(4.0 * ndtri(0.5 + 0.5 * min(event.curve(adjacency).delta(0.0), 1.0 - 1e-9)) ** 2)
