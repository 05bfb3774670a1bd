"""Pairs of laws that dominate a mechanism, rounded up to the cells of a grid."""

import bisect
import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from flint import arb
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]

# Beyond this a cell's number would not be certain.
_FURTHEST_CELL = 2**40

# Masses by cell, and the mass of an infinite loss.
Masses = tuple[dict[int, arb], arb]


class Pair(ABC):
    """A pair of laws (A, B) that dominates one mechanism, whatever ran before it."""

    @abstractmethod
    def rough(self, faint: float) -> tuple[Array, Array]:
        """Losses in increasing order with about their masses under A: to choose a grid by, never part of a bound.

        Parameters
        ----------
        faint : float
            What is rarer may be left out.
        """

    @abstractmethod
    def masses(self, cells: list[int], width: arb) -> Masses:
        """The masses under A of a pair on the grid that dominates this one.

        Parameters
        ----------
        cells : list of int
            In increasing order. A cell times the width is its loss. Others may be used where a law has atoms.
        width : arb
            Of a cell.
        """


class TailPair(Pair):
    """A pair of which P(loss > l) is known under both laws."""

    @abstractmethod
    def tails(self, loss: arb) -> tuple[arb, arb]:
        """A(loss > …) and B(loss > …)."""

    def masses(self, cells: list[int], width: arb) -> Masses:
        """Losses between two cells are divided between them so that both laws keep their masses."""
        masses = dict.fromkeys(cells, arb(0))
        above, against = self.tails(cells[0] * width)
        masses[cells[0]] += 1 - above  # raised to the first cell
        for low, high in itertools.pairwise(cells):
            next_above, next_against = self.tails(high * width)
            lower, upper = divided(above - next_above, against - next_against, low * width, high * width)
            masses[low] += lower
            masses[high] += upper
            above, against = next_above, next_against
        return masses, above


def normal_masses(edges: Array) -> Array:
    """About the masses of a standard normal law between these edges, small ones too."""
    low, high = edges[:-1], edges[1:]
    return np.asarray(np.where(low > 0.0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)))


def divided(mass: arb, against: arb, low: arb, high: arb) -> tuple[arb, arb]:
    """Masses at the losses `low` and `high` that together have this mass under A and the other under B."""
    upper = (mass - low.exp() * against) / -(low - high).expm1()
    return mass - upper, upper


def split_atom(mass: arb, loss: arb, width: arb) -> dict[int, arb]:
    """An atom under A between the two cells around it."""
    if not abs(loss / width) < _FURTHEST_CELL:
        raise OverflowError("an atom is too far out for the grid")
    below = int(float((loss / width).floor().lower()))
    while not below * width <= loss:
        below -= 1
    above = below + 1
    while not above * width >= loss:
        above += 1
    lower, upper = divided(mass, mass * (-loss).exp(), below * width, above * width)
    return {below: lower, above: upper}


@dataclass(frozen=True)
class _Corner:
    """A point of a convex curve: its cell, e^ε there, and the δ."""

    cell: int
    x: arb
    delta: arb


class CurvePair(Pair):
    """A pair for a mechanism of which δ(ε) is bounded for both directions and nothing else is known."""

    @property
    def pure(self) -> arb | None:
        """Its pure ε, or None if there is none."""
        return None

    @abstractmethod
    def delta(self, epsilon: arb) -> arb:
        """An upper bound on δ at this ε ≥ 0."""

    @abstractmethod
    def reach(self, faint: float) -> float:
        """About the ε at which δ is faint."""

    def rough(self, faint: float) -> tuple[Array, Array]:
        """Losses and their masses, in floats."""
        width = arb(self.reach(faint) / 200.0)
        masses, _ = self.masses(list(range(201)), width)
        cells = sorted(masses)
        return (
            np.array([cell * float(width) for cell in cells]),
            np.array([max(0.0, float(masses[cell].mid())) for cell in cells]),
        )

    def masses(self, cells: list[int], width: arb) -> Masses:
        """Of the largest curve that is convex in e^ε, its own mirror image and below these points.

        Any subset of the points gives a pair that dominates, so those that are not certainly convex are left out.
        """
        cells = cells[bisect.bisect_left(cells, 0) :]
        if cells[0] != 0:
            cells = [0, *cells]
        corners: list[_Corner] = []
        least = arb(1)
        for cell in cells:
            least = least.min(arb(self.delta(cell * width).upper()))
            corner = _Corner(cell, (cell * width).exp(), least)
            while corners and not _rises(corners, corner):
                corners.pop()
            corners.append(corner)
        if corners[0].cell != 0:  # on the line from (−1, 1)
            first = corners[0]
            corners.insert(0, _Corner(0, arb(1), 1 - 2 * (1 - first.delta) / (1 + first.x)))
        slopes = [(high.delta - low.delta) / (high.x - low.x) for low, high in itertools.pairwise(corners)] + [arb(0)]
        masses, left = {}, 1 - corners[-1].delta
        for corner, before, after in zip(corners[1:], slopes, slopes[1:], strict=False):
            mass = corner.x * (after - before)
            masses[corner.cell], masses[-corner.cell] = mass, mass / corner.x
            left -= mass + mass / corner.x
        masses[0] = left.max(arb(0))
        return masses, corners[-1].delta


def _rises(corners: list[_Corner], third: _Corner) -> bool:
    """Whether the slope certainly grows at the last corner."""
    second = corners[-1]
    first_x, first_delta = (corners[-2].x, corners[-2].delta) if len(corners) > 1 else (arb(-1), arb(1))
    before = (second.delta - first_delta) / (second.x - first_x)
    return bool(before < (third.delta - second.delta) / (third.x - second.x))
