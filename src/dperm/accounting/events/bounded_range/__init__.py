"""A selection whose privacy loss has a bounded range: the exponential mechanism, noisy max with Gumbel noise."""

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dperm.accounting.curve import ROUNDING, Array, ConcentratedCurve, Curve, PureCurve, SmallerOf
from dperm.accounting.events.base import Parts, SingleEvent
from dperm.accounting.privacy_loss import LossDistribution, discretised
from dperm.accounting.renyi import renyi_divergences
from dperm.privacy.guarantee import Adjacency

# So many selections are one block of the recursion, which takes time as count^1.5; blocks are composed on a grid. That
# loses a thousandth of ε.
LARGEST_BLOCK = 256

# Where e^−this is, the recursion's grid ends.
_FAINT = 140.0

# Beyond this ε the exponentials of the recursion could overflow.
_LARGEST_REACH = 300.0


@dataclass(frozen=True)
class BoundedRange(SingleEvent):
    """A selection of bounded range, under the adjacency of its plan (docs/proofs/bounded_range.md).

    Attributes
    ----------
    epsilon : float
        ε: for two given tables and a given past, the privacy loss of every outcome lies in one interval of this length.
    """

    epsilon: float

    name: ClassVar[str] = "bounded range"
    has_renyi_bound: ClassVar[bool] = True
    in_blocks: ClassVar[bool] = True

    @property
    def pure_epsilon(self) -> float:
        """The interval holds 0, so no loss is beyond its length."""
        return self.epsilon

    def scale(self, adjacency: Adjacency) -> float:
        """Half the range, at most."""
        return 0.5 * float(self.epsilon)

    def curve(self, adjacency: Adjacency) -> Curve:
        """The exact worst case of one."""
        return _selections(float(self.epsilon), 1)

    def zcdp_rho(self, adjacency: Adjacency) -> float:
        """ε²/8."""
        return 0.125 * float(self.epsilon) ** 2

    def renyi(self, orders: Array, count: int, adjacency: Adjacency) -> Array:
        """By ρ, which is stated for the plan's adjacency."""
        return renyi_divergences(self.to_dp_event(), count, orders)

    def losses(self, count: int, adjacency: Adjacency, width: float) -> list[tuple[LossDistribution, int]]:
        """Block by block: a block's curve is the worst over all ways to choose each selection after seeing the last."""
        blocks, rest = divmod(count, LARGEST_BLOCK)
        return [
            (discretised(_selections(float(self.epsilon), size), self.scale(adjacency) * math.sqrt(size), width), times)
            for size, times in ((LARGEST_BLOCK, blocks), (rest, 1))
            if size * times > 0
        ]

    @classmethod
    def merged(cls, parts: Parts) -> Parts:
        """One block: a range is also one of any larger length, and the order of equal ones does not matter."""
        return [(max((leaf for leaf, _ in parts), key=_length), sum(count for _, count in parts))]

    @classmethod
    def composed(cls, parts: Parts, adjacency: Adjacency) -> Curve | None:
        """The worst case over all adaptive choices, if they are few and equal; else what follows from ε and ρ."""
        known = [(leaf.epsilon, count) for leaf, count in parts if isinstance(leaf, cls)]
        if len(known) < len(parts):
            return None
        if not cls.grid_is_tighter(parts, 1):
            return _selections(float(known[0][0]), sum(count for _, count in known))
        return _loose(known)

    @classmethod
    def grid_is_tighter(cls, parts: Parts, n_releases: int) -> bool:
        """Whether they are more than a block, or differ."""
        return len({leaf for leaf, _ in parts}) > 1 or sum(count for _, count in parts) > LARGEST_BLOCK

    def to_dp_event(self) -> Any:
        """A `ZCDpEvent` with ρ = ε²/8; it holds for the adjacency of the plan, whatever an accountant assumes."""
        from dp_accounting import dp_event

        return dp_event.ZCDpEvent(0.125 * float(self.epsilon) ** 2)


@dataclass(frozen=True)
class SelectionCurve(Curve):
    """δ(ε) of selections of bounded range, each chosen after seeing the winners before it: at its worst.

    Parameters
    ----------
    length : float
        Of each one's range.
    count : int
        How many.
    """

    length: float
    count: int
    reaches_zero: ClassVar[bool] = True

    @property
    def tolerance(self) -> float | None:
        """One has a closed form; several a grid."""
        return None if self.count == 1 else 1e-4

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        return float(self.deltas(np.array([epsilon]))[0])

    def deltas(self, epsilons: Array) -> Array:
        """δ at many ε: between two points of the grid the chord in e^ε, which is above a convex function."""
        if self.count == 1:
            return _one(epsilons, self.length) * (1.0 + ROUNDING)
        width, heights = _recursion(self.length, self.count)
        cells = np.minimum((epsilons / width).astype(np.int64), heights.size - 2)
        share = np.minimum(np.expm1(np.minimum(epsilons - cells * width, width)) / math.expm1(width), 1.0)
        found = heights[cells] * (1.0 - share) + heights[cells + 1] * share
        return np.where(epsilons >= self.count * self.length * (1.0 + ROUNDING), 0.0, np.minimum(found, 1.0))


def _selections(length: float, count: int) -> Curve:
    """The curve of this many, in any case."""
    if count > 1 and _reach(length, count) > _LARGEST_REACH:
        return _loose([(length, count)])
    return SelectionCurve(length, count)


def _loose(known: list[tuple[float, int]]) -> Curve:
    """What follows from the sum of ε, and from that of ρ = ε²/8."""
    total = math.fsum(count * length for length, count in known)
    rho = math.fsum(count * 0.125 * float(length) ** 2 for length, count in known)
    return SmallerOf(PureCurve(total * (1.0 + ROUNDING)), ConcentratedCurve(rho * (1.0 + ROUNDING)))


def _reach(length: float, count: int) -> float:
    """An ε from which on δ is faint, by ρ, or is 0."""
    rho = 0.125 * count * length**2
    return min(count * length, rho + 2.0 * math.sqrt(_FAINT * rho))


def _one(epsilons: Array, length: float) -> Array:
    """δ of one at ε ≥ −length: (1 − e^{(ε − length)/2})²/(1 − e^−length)."""
    below = np.minimum(epsilons, length)
    return np.asarray(np.expm1(0.5 * (below - length)) ** 2 / -math.expm1(-length))


@functools.lru_cache(maxsize=64)
def _recursion(length: float, count: int) -> tuple[float, Array]:
    """The width of a grid and upper bounds on δ at its points 0, width, 2·width, ….

    With φ_k(x) = δ at ε = ln x after k selections, ψ = φ/x and a = e^−length,

        φ_{k+1}(x) = x/(1 − a) · max over s in [a, 1] of (s − a) ψ_k(xs) + (1 − s) ψ_k(xs/a).

    ψ_k is convex, so between two points of the grid it is below its chord. With a chord in each place the maximum over
    a cell is that of a quadratic function of s.
    """
    cells = 64 if count <= 16 else 32 if count <= 64 else 16  # of one range: powers of 2, so that they add up exactly
    width, size = length / cells, math.ceil(_reach(length, count) * cells / length)
    epsilons = width * np.arange(-size - cells, size + cells + 1)
    x, before, middle = np.exp(epsilons), epsilons[:cells], slice(cells, cells + 2 * size + 1)
    steps = width * np.arange(cells + 1)
    s, high, low = np.exp(-steps), math.exp(-length) * np.expm1(length - steps), -np.expm1(-steps)
    phi = np.where(epsilons <= -length, -np.expm1(epsilons), _one(np.maximum(epsilons, -length), length))[middle]
    # What rounding may do in one step, in which all is added and hardly anything taken off.
    padding = 1.0 + (64.0 + 8.0 * abs(float(epsilons[0]))) * 2.0**-52
    for _ in range(count - 1):
        left = -np.expm1(before) + np.exp(before) * phi[-1]
        psi = np.concatenate([left, phi, np.full(cells, phi[-1])]) / x
        best = np.zeros(phi.size)
        near, far = psi[middle], psi[2 * cells :]
        ends = high[0] * near + low[0] * far
        for cell in range(cells):
            start = cells - cell - 1
            next_near, next_far = psi[start : start + phi.size], psi[start + cells : start + cells + phi.size]
            next_ends = high[cell + 1] * next_near + low[cell + 1] * next_far
            bulge = (s[cell] - s[cell + 1]) * ((next_near - near) - (next_far - far))
            rise = next_ends - ends
            inside = np.abs(rise) < bulge
            top = np.where(inside, (rise + bulge) ** 2 / (4.0 * np.where(inside, bulge, 1.0)), np.maximum(rise, 0.0))
            np.maximum(best, ends + top, out=best)
            near, far, ends = next_near, next_far, next_ends
        phi = np.minimum(best * x[middle] / -math.expm1(-length) * padding, 1.0)
    return width, phi[size:]


def _length(leaf: Any) -> float:
    return float(leaf.epsilon)
