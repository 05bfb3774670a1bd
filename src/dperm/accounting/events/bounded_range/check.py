"""Selections whose privacy loss has a bounded range, each chosen in view of the last (docs/proofs/bounded_range.md).

The recursion runs on arrays of floats: its constants are balls, rounded up, and every float operation is counted in.
"""

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from dperm.rigorous.checks import Group, Run, checks
from dperm.rigorous.concentrated import ConcentratedPair
from dperm.rigorous.convolution import Parts
from dperm.rigorous.pairs import Array, CurvePair

# So many selections are one block; blocks are composed on a grid.
_LARGEST_BLOCK = 256

# Where e^−this is, the grid ends.
_FAINT = 220.0

# Beyond this the exponentials would overflow.
_FURTHEST = 300.0

_UNIT = 2.0**-53


@checks("bounded range")
def enter(run: Run, count: int, epsilon: float) -> None:
    """By the length of its range."""
    run.add(Selections, epsilon, count)


class Selections(Group[float]):
    """The length of each one's range."""

    @property
    def pure(self) -> arb:
        """Σε: a range holds 0, so no loss is beyond its length."""
        return sum((count * arb(epsilon) for epsilon, count in self.items), arb(0))

    @property
    def rho(self) -> arb:
        """Σε²/8."""
        return sum((count * arb(epsilon) ** 2 / 8 for epsilon, count in self.items), arb(0))

    @property
    def _blocks(self) -> "list[tuple[SelectionPair, int]] | None":
        """All as blocks of equal ones, since a range is also one of any larger length; None where floats overflow."""
        length, total = max(epsilon for epsilon, _ in self.items), sum(count for _, count in self.items)
        blocks, rest = divmod(total, _LARGEST_BLOCK)
        sizes = [(size, times) for size, times in ((_LARGEST_BLOCK, blocks), (rest, 1)) if size * times > 0]
        if not all(can_recur(length, size) for size, _ in sizes):
            return None
        return [(SelectionPair(length, size), times) for size, times in sizes]

    def closed_form(self) -> "SelectionPair | None":
        """That of one block."""
        blocks = self._blocks
        return blocks[0][0] if blocks is not None and [times for _, times in blocks] == [1] else None

    def directions(self) -> list[Parts]:
        """Block by block, or by their ρ."""
        blocks = self._blocks
        if blocks is None:
            return [[(ConcentratedPair(arb(epsilon) ** 2 / 8), count) for epsilon, count in self.items]]
        return [[*blocks]]


def points_for(count: int) -> int:
    """m, the points of the grid within one range. Chords between them add about 1/m² of the variance."""
    return 512 if count <= 16 else 128 if count <= 64 else 48


def can_recur(length: float, count: int) -> bool:
    """Whether the recursion's grid fits into floats."""
    return _end(length, count) <= _FURTHEST


@dataclass(frozen=True)
class SelectionPair(CurvePair):
    """So many selections of this range."""

    length: float
    count: int

    def delta(self, epsilon: arb) -> arb:
        """An upper bound on δ: between two points of the grid the chord in e^ε, above a convex curve."""
        if epsilon >= self.count * arb(self.length):
            return arb(0)
        if self.count == 1:
            shrunk = ((epsilon - arb(self.length)) / 2).expm1()
            return shrunk**2 / -(-arb(self.length)).expm1()
        heights, width = _recursion(self.length, self.count), arb(self.length) / points_for(self.count)
        cell = min(max(int(float((epsilon / width).mid())), 0), heights.size - 2)
        while cell > 0 and not cell * width <= epsilon:
            cell -= 1
        while cell < heights.size - 2 and not epsilon <= (cell + 1) * width:
            cell += 1
        low, high = arb(float(heights[cell])), arb(float(heights[cell + 1]))
        if not epsilon <= (cell + 1) * width:  # beyond the grid; the curve falls
            return high
        share = (epsilon - cell * width).expm1() / width.expm1()
        return low + (high - low) * share

    def reach(self, faint: float) -> float:
        """By ρ = ε²/8 for each."""
        rho = 0.125 * self.count * self.length**2
        return min(self.count * self.length, rho + 2.0 * math.sqrt(-rho * math.log(faint)))


def _end(length: float, count: int) -> float:
    rho = 0.125 * count * length**2
    return min(count * length, rho + 2.0 * math.sqrt(_FAINT * rho))


@functools.lru_cache(maxsize=16)
def _recursion(length: float, count: int) -> Array:
    """Upper bounds on φ_count(e^ε) at ε = 0, w, 2w, …, w = length/m.

    One step takes the largest of (s − a)ψ(xs) + (1 − s)ψ(xs/a) over s. In a cell of s both ψ are below their chords,
    so that the sum is at most the larger end plus a quarter of how much it bulges.
    """
    points = points_for(count)
    width = arb(length) / points
    size = math.ceil(_end(length, count) / length * points) + 1
    places = range(-size - points, size + points + 1)
    x_up, x_down = (np.array([_float((cell * width).exp(), up) for cell in places]) for up in (True, False))
    inside = slice(points, points + 2 * size + 1)
    s = [(-cell * width).exp() for cell in range(points + 1)]
    near_weights, far_weights = (
        [_float(end, True) for end in ends] for ends in ([e - s[-1] for e in s], [1 - e for e in s])
    )
    lengths = [_float(one - other, True) for one, other in itertools.pairwise(s)]
    factor = _float(1 / (1 - s[-1]), True) * (1.0 + 16.0 * _UNIT)
    left = x_down[:points]
    phi = np.maximum(1.0 - x_down[inside], 0.0) * (1.0 + 2.0 * _UNIT)
    for _ in range(count):
        # On the left of the grid by the mirror image, 1 − x + xφ(1/x); on the right φ falls.
        before = (1.0 - left) * (1.0 + 4.0 * _UNIT) + x_up[:points] * phi[-1] * (1.0 + 4.0 * _UNIT)
        psi = np.concatenate([before, phi, np.full(points, phi[-1])]) / x_down * (1.0 + 4.0 * _UNIT)
        best = np.zeros(phi.size)
        near, far = psi[inside], psi[2 * points :]
        ends = near_weights[0] * near + far_weights[0] * far
        for cell in range(points):
            start = points - cell - 1
            next_near, next_far = psi[start : start + phi.size], psi[start + points : start + points + phi.size]
            next_ends = near_weights[cell + 1] * next_near + far_weights[cell + 1] * next_far
            bulge = lengths[cell] * np.maximum((next_near - near) - (next_far - far), 0.0)
            # Subtracting was off by some units of what was subtracted.
            bulge += 8.0 * _UNIT * lengths[cell] * (next_near + next_far)
            np.maximum(best, np.maximum(ends, next_ends) + 0.25 * bulge, out=best)
            near, far, ends = next_near, next_far, next_ends
        phi = np.minimum(best * x_up[inside] * factor * (1.0 + 16.0 * _UNIT), 1.0)
    return phi[size:]


def _float(ball: arb, up: bool) -> float:
    """The next float above the ball, or below it."""
    end = float((ball.upper() if up else ball.lower()).mid())
    towards = math.inf if up else -math.inf
    while not (arb(end) >= ball if up else arb(end) <= ball):
        end = math.nextafter(end, towards)
    return end
