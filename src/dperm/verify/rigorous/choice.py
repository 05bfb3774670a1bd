"""One of several mechanisms, and the best of a random number of trials (docs/proofs/selection.md)."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from flint import arb

from dperm.verify.rigorous.convolution import Parts, composed_delta, shape_of
from dperm.verify.rigorous.gaussian import gaussian_delta
from dperm.verify.rigorous.pairs import CurvePair

# Cells of the grid for mechanisms that are composed within one alternative.
_CELLS = 2**13

# Places at which the shift of random trials is tried, and how often between the neighbours of the best.
_PLACES, _ROUNDS = 24, 4


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


@dataclass(frozen=True)
class OneOfPair(CurvePair):
    """Whichever of these it is.

    Attributes
    ----------
    curves : tuple of KnownCurve
        Of each.
    pure : arb or None
        The largest of their pure ε, if they have one.
    """

    curves: tuple[KnownCurve, ...]
    pure: arb | None

    def delta(self, epsilon: arb) -> arb:
        """The largest."""
        largest = arb(0)
        for curve in self.curves:
            largest = largest.max(curve.delta(epsilon))
        return largest.min(arb(1))

    def deltas(self, epsilons: list[arb]) -> list[arb]:
        """At each of them."""
        return [self.delta(epsilon) for epsilon in epsilons]

    def reach(self, faint: float) -> float:
        """The furthest."""
        return max(curve.reach(faint) for curve in self.curves)


@dataclass(frozen=True)
class TrialsPair(CurvePair):
    """The best of K trials, K geometric with stopping probability γ: δ_trial(ε − shift)/γ.

    Attributes
    ----------
    trial : KnownCurve
        Of one trial.
    stop : float
        γ.
    trial_pure : arb or None
        The pure ε of a trial, if it has one.
    """

    trial: KnownCurve
    stop: float
    trial_pure: arb | None

    @property
    def pure(self) -> arb | None:
        """Three times that of a trial."""
        return None if self.trial_pure is None else 3 * self.trial_pure

    @cached_property
    def shift(self) -> arb:
        """2 ln(e^t + δ_trial(t)(1 − γ)/γ) at a t near the best; every t ≥ 0 gives a bound."""
        low, high, best = 0.0, 1.5 * self.trial.reach(1e-9), arb(math.inf)
        for _ in range(_ROUNDS):
            step = (high - low) / _PLACES
            tried = [self._shift_at(low + step * number) for number in range(_PLACES + 1)]
            least = min(range(len(tried)), key=lambda number: float(tried[number].upper()))
            low, high, best = low + step * max(least - 1, 0), low + step * (least + 1), best.min(tried[least])
        return best

    def _shift_at(self, place: float) -> arb:
        odds = (1 - arb(self.stop)) / arb(self.stop)
        return 2 * (arb(place).exp() + odds * self.trial.delta(arb(place))).log()

    def delta(self, epsilon: arb) -> arb:
        """1 below the shift; of a pure trial at most that of randomized response with three times its ε."""
        left = epsilon - self.shift
        known = (self.trial.delta(left) / arb(self.stop)).min(arb(1)) if left >= 0 else arb(1)
        return known if self.pure is None else known.min(PureCurve(self.pure).delta(epsilon))

    def deltas(self, epsilons: list[arb]) -> list[arb]:
        """At each of them."""
        return [self.delta(epsilon) for epsilon in epsilons]

    def reach(self, faint: float) -> float:
        """That of a trial, shifted."""
        return float(self.shift.upper()) + self.trial.reach(faint * self.stop)
