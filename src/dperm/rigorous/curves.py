"""Curves that need no check of their own: of Gaussian noise, of a pure ε, of several mechanisms together."""

import math
from dataclasses import dataclass
from typing import Protocol

from flint import arb

from dperm.rigorous.balls import gaussian_delta
from dperm.rigorous.convolution import Parts, composed_delta, shape_of

# Cells of the grid for mechanisms that are composed within one alternative.
_CELLS = 2**13


class KnownCurve(Protocol):
    """What a mechanism costs, at every ε ≥ 0."""

    def delta(self, epsilon: arb) -> arb:
        """An upper bound on δ there."""
        ...

    def reach(self, faint: float) -> float:
        """About the ε at which δ is faint."""
        ...


@dataclass(frozen=True)
class GaussianCurve:
    """A Gaussian of this μ."""

    mu: arb

    def delta(self, epsilon: arb) -> arb:
        """Exact."""
        return gaussian_delta(self.mu, epsilon)

    def reach(self, faint: float) -> float:
        """By the tail of a normal law."""
        mu = float(self.mu)
        return 0.5 * mu**2 + mu * math.sqrt(-2.0 * math.log(faint))


@dataclass(frozen=True)
class PureCurve:
    """Randomized response with this ε."""

    total: arb

    def delta(self, epsilon: arb) -> arb:
        """(e^total − e^ε)/(1 + e^total), where that is positive."""
        return ((self.total.exp() - epsilon.exp()) / (1 + self.total.exp())).max(arb(0))

    def reach(self, faint: float) -> float:
        """Its end."""
        return float(self.total)


class GridCurve:
    """Several mechanisms together, in every direction between adjacent tables that makes a difference.

    Parameters
    ----------
    directions : list of Parts
        What is composed.
    delta : float
        About where the curve is needed.
    """

    def __init__(self, directions: list[Parts], delta: float) -> None:
        shapes = [(parts, shape_of(parts, delta)) for parts in directions]
        self._curves = [composed_delta(parts, shape, _CELLS) for parts, shape in shapes]
        self._end = max(shape.high for _, shape in shapes)

    def delta(self, epsilon: arb) -> arb:
        """At the next float below, as the curve falls."""
        place = max(0.0, math.nextafter(float(epsilon.lower()), -math.inf))
        largest = arb(0)
        for curve in self._curves:
            largest = largest.max(curve(place))
        return largest

    def reach(self, faint: float) -> float:
        """The end of the grid."""
        return self._end
