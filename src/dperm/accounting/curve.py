"""Privacy curves δ(ε): what they have in common, and those with a closed form. All are rounded to the safe side."""

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr

from dperm.errors import InvalidParameterError
from dperm.privacy.guarantee import Guarantee

Array = NDArray[np.float64]

# Points in a discretised privacy loss: those that a bound is evaluated with, and fewer to search with.
FINE_GRID = 40_000
COARSE_GRID = 8_000

# Relative padding of what is computed by exponentials and logarithms of moderate size.
ROUNDING = 1e-12

# A mechanism whose ε is beyond this promises nothing.
_LARGEST_EPSILON = 1e9


class Curve(ABC):
    """An upper bound on δ at every ε ≥ 0, for one adjacency and both directions."""

    # Whether δ is 0 from some ε on: a pure guarantee.
    reaches_zero: ClassVar[bool] = False

    # Beside a composition on a grid the curve is looked at where the grid's δ is below this.
    beats_grid_below: ClassVar[float] = math.inf

    @property
    def tolerance(self) -> float | None:
        """The share of ε that a search for the least noise may leave unused; None where ε is known to rounding."""
        return None

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """δ at this ε, at most 1."""

    def deltas(self, epsilons: Array) -> Array:
        """δ at many ε."""
        return np.array([self.delta(epsilon) for epsilon in epsilons.tolist()])

    def epsilon(self, delta: float, points: int = FINE_GRID) -> float:
        """Where the falling curve comes down to this δ, rounded up; infinite if it does not.

        Parameters
        ----------
        delta : float
            The δ to evaluate at.
        points : int
            About how many points discretise the narrowest privacy loss at most, for curves that are known on a grid
            only. Fewer are faster and round up more.
        """
        if delta == 0.0 and not self.reaches_zero:
            return math.inf  # the curve comes near 0 and never there; that a float cannot tell is no promise
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta(high) > delta:
            low, high = high, 2.0 * high
            if high > _LARGEST_EPSILON:
                return math.inf
        if delta > 0.0:
            # Nearly there in few steps; what follows makes sure of it. A curve with a jump is left to it alone.
            near = float(brentq(lambda epsilon: self.delta(epsilon) - delta, low, high, xtol=1e-15, rtol=1e-13))
            for edge in (near * (1.0 - 2e-13), near * (1.0 + 2e-13)):
                if low < edge < high:
                    low, high = (edge, high) if self.delta(edge) > delta else (low, edge)
        while high - low > 5e-13 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high


@dataclass(frozen=True)
class GaussianCurve(Curve):
    """The curve of a μ-Gaussian-DP release: exact."""

    mu: float

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        return gaussian_delta(self.mu, epsilon)

    def epsilon(self, delta: float, points: int = FINE_GRID) -> float:
        """ε at this δ."""
        return gaussian_epsilon(self.mu, delta) if delta > 0.0 else math.inf


@dataclass(frozen=True)
class PureCurve(Curve):
    """The curve of one mechanism with pure ε = `total`: that of randomized response."""

    total: float
    reaches_zero: ClassVar[bool] = True

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        return pure_delta(self.total, epsilon)


@dataclass(frozen=True)
class ConcentratedCurve(Curve):
    """The least curve that follows from ρ-zCDP, up to how finely α is searched."""

    rho: float

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        return zcdp_delta(self.rho, epsilon)

    def deltas(self, epsilons: Array) -> Array:
        """δ at many ε."""
        return zcdp_deltas(self.rho, epsilons)


@dataclass(frozen=True)
class SmallerOf(Curve):
    """The smaller of two bounds on the same mechanisms."""

    first: Curve
    second: Curve

    @property
    def reaches_zero(self) -> bool:  # type: ignore[override]
        """Whether one of them does."""
        return self.first.reaches_zero or self.second.reaches_zero

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        return min(self.first.delta(epsilon), self.second.delta(epsilon))


@dataclass(frozen=True)
class LargestOf(Curve):
    """The largest of some bounds: whichever of some mechanisms it is."""

    curves: tuple[Curve, ...]

    @property
    def reaches_zero(self) -> bool:  # type: ignore[override]
        """Whether all of them do."""
        return all(curve.reaches_zero for curve in self.curves)

    @property
    def tolerance(self) -> float | None:
        """The largest."""
        return max((curve.tolerance for curve in self.curves if curve.tolerance is not None), default=None)

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        return max(curve.delta(epsilon) for curve in self.curves)

    def deltas(self, epsilons: Array) -> Array:
        """δ at many ε."""
        return np.asarray(np.max([curve.deltas(epsilons) for curve in self.curves], axis=0))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) of a μ-Gaussian-DP release: exact, rounded up."""
    if mu == 0.0:
        return 0.0
    first = log_ndtr(-epsilon / mu + mu / 2)
    second = epsilon + log_ndtr(-epsilon / mu - mu / 2)
    # The difference of the logarithms is off by a few units in the last place of its larger term.
    rounding = 8.0 * 2.0**-53 * (abs(first) + abs(second) + epsilon + 1.0)
    return min(1.0, float(math.exp(first) * (rounding - math.expm1(min(second - first, 0.0)))))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest ε with δ(ε) ≤ delta for a μ-Gaussian-DP release, rounded up."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if not math.isfinite(mu):
        return math.inf
    # δ(ε) ≤ Φ(−ε/μ + μ/2), and Φ(−x) ≤ exp(−x²/2): beyond this ε the curve is below delta.
    top = mu * (mu / 2 + math.sqrt(2 * math.log(1 / delta))) + 1e-9
    root = brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, top, xtol=1e-14, rtol=1e-13, maxiter=200)
    epsilon, stride = float(root), 1e-12
    while gaussian_delta(mu, epsilon) > delta:
        epsilon *= 1.0 + stride
        stride *= 2.0
    return epsilon


# Kept, because every solver that is compared asks for it, some a hundred times.
@functools.lru_cache(maxsize=256)
def gaussian_mu(guarantee: Guarantee) -> float:
    """The largest μ whose Gaussian release keeps the guarantee, rounded down."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if delta == 0.0:
        raise InvalidParameterError("Gaussian noise cannot give delta = 0; use delta > 0 or a pure-ε solver.")
    top = 1.0
    while gaussian_delta(top, epsilon) <= delta:
        top *= 2.0
    bottom = top
    while gaussian_delta(bottom, epsilon) > delta:
        bottom /= 2.0
    mu = float(brentq(lambda m: gaussian_delta(m, epsilon) - delta, bottom, top, xtol=1e-300, rtol=1e-13))
    stride = 1e-12
    while gaussian_delta(mu, epsilon) > delta:
        mu *= 1.0 - stride
        stride *= 2.0
    return mu


def two_sided_delta(mu: float, epsilon: float) -> float:
    """E(1 − exp(ε − μ|Z| − μ²/2))₊ for a standard normal Z: the worse of two opposite Gaussian shifts, row by row."""
    if mu == 0.0:
        return 0.0
    start = max(0.0, epsilon / mu - mu / 2.0)
    first, second = log_ndtr(-start), epsilon + log_ndtr(-start - mu)
    rounding = 8.0 * 2.0**-53 * (abs(first) + abs(second) + epsilon + 1.0)
    return min(1.0, float(2.0 * math.exp(first) * (rounding - math.expm1(min(second - first, 0.0)))))


def pure_delta(total: float, epsilon: float) -> float:
    """δ(ε) of one mechanism with pure ε = `total`: randomized response is the worst, (e^total − e^ε)/(1 + e^total)."""
    if epsilon >= total:
        return 0.0
    return min(1.0, -math.expm1(epsilon - total) / (1.0 + math.exp(-total)) * (1.0 + ROUNDING))


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
    return min(1.0, math.exp(min(best, 0.0)) * (1.0 + ROUNDING * (1.0 + abs(best))))


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
    padding = 1.0 + ROUNDING * (1.0 + np.abs(log_delta) + less_one * (alpha * rho + epsilons))
    return np.minimum(1.0, np.exp(np.minimum(log_delta, 0.0)) * padding)
