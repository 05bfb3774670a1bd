"""Balls: numbers with a radius that holds everything rounding may have done to them."""

from collections.abc import Callable
from dataclasses import dataclass

from flint import arb, ctx


@dataclass(frozen=True)
class Bound:
    """An upper bound on ε.

    Attributes
    ----------
    epsilon : float
        The bound: rounded up, infinite where none is known.
    radius : float
        How far below it the number lies at the most that was computed, for all that rounding can do.
    cells : int or None
        How many cells the grid had that privacy losses were rounded up to; None where there was no grid.
    """

    epsilon: float
    radius: float = 0.0
    cells: int | None = None


NO_BOUND = Bound(float("inf"))


def precision_for(delta: float) -> int:
    """Bits to compute with where a result of this size counts."""
    size = -arb(delta).log() / arb(2).log() if delta > 0.0 else arb(0)
    return 160 + int(float(size))


def working(bits: int) -> "ctx.workprec":  # type: ignore[name-defined]
    """A block in which balls are computed with so many bits."""
    return ctx.workprec(bits)


def normal(x: arb) -> arb:
    """Φ(x)."""
    return (-x / arb(2).sqrt()).erfc() / 2


def gaussian_delta(mu: arb, epsilon: arb) -> arb:
    """Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)."""
    return normal(mu / 2 - epsilon / mu) - epsilon.exp() * normal(-mu / 2 - epsilon / mu)


def least_epsilon(delta_at: Callable[[float], arb], delta: float, top: float = 1e7) -> Bound:
    """Where a curve that falls comes down to this δ, as an interval of floats that certainly holds the position.

    Parameters
    ----------
    delta_at : callable
        δ at an ε ≥ 0, a ball.
    delta : float
        The δ to come down to.
    top : float
        No ε beyond this is looked at.
    """
    target = arb(delta)
    if delta_at(0.0) <= target:
        return Bound(0.0)
    low, high = 0.0, 1e-6
    while not delta_at(high) <= target:
        low, high = high, 2.0 * high
        if high > top:
            return NO_BOUND
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if delta_at(middle) <= target:
            high = middle
        else:
            low = middle
    # Below `low` nothing was decided yet: step down until δ is certainly above.
    step = high - low
    while low > 0.0 and not delta_at(low) > target:
        low, step = max(0.0, low - step), 2.0 * step
    return Bound(high, 0.5 * (high - low))
