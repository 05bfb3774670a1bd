"""A box: every coefficient in its own interval around zero."""

import math
from dataclasses import dataclass

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.problem.domains.base import Array
from dperm.problem.domains.mirror import MirrorDomain, best_length
from dperm.validation import finite


@dataclass(frozen=True)
class Box(MirrorDomain):
    """C = {w : low ≤ w_j ≤ high}; bounds are numbers, or tuples with one number per coefficient.

    Parameters
    ----------
    low, high : float or tuple of float
        Bounds of every coefficient, or one per coefficient.
    """

    low: float | tuple[float, ...] = -1.0
    high: float | tuple[float, ...] = 1.0

    name = "box"

    def __post_init__(self) -> None:
        """Check that both bounds are finite and enclose zero with some room."""
        for side in ("low", "high"):
            bound = getattr(self, side)
            if np.ndim(bound):
                object.__setattr__(self, side, tuple(finite(side, number) for number in bound))
            else:
                finite(side, bound)
        low, high = np.asarray(self.low), np.asarray(self.high)
        if low.ndim and high.ndim and low.shape != high.shape:
            raise InvalidParameterError("low and high of a box must have the same length.")
        if (low > 0).any() or (high < 0).any() or (low == high).any():
            raise InvalidParameterError("a box needs low ≤ 0 ≤ high and low < high for every coefficient.")

    def project(self, w: Array) -> Array:
        """Clip every coordinate."""
        return np.clip(w, self.low, self.high)

    def minkowski_norm(self, w: Array) -> float:
        """The largest coordinate relative to the bound on its side."""
        low, high = np.broadcast_to(self.low, w.shape), np.broadcast_to(self.high, w.shape)
        bound = np.where(w > 0, high, -low)
        if (w[bound == 0] != 0).any():
            return math.inf
        return float(np.max(np.abs(w[bound > 0]) / bound[bound > 0], initial=0.0))

    def dual_norm(self, v: Array) -> float:
        """Every coordinate at its better bound, in the better of the two directions."""
        at_low, at_high = v * self.low, v * self.high
        return float(max(np.maximum(at_low, at_high).sum(), -np.minimum(at_low, at_high).sum()))

    def norm_bound(self, dimension: int) -> float:
        """The furthest corner from zero."""
        furthest = np.maximum(np.abs(self.low), np.abs(self.high))
        return float(np.linalg.norm(np.broadcast_to(furthest, dimension)))

    def diameter(self, dimension: int) -> float:
        """From corner to corner."""
        return float(np.linalg.norm(np.broadcast_to(np.subtract(self.high, self.low), dimension)))

    def gaussian_width(self, dimension: int) -> float:
        """Σ (high − low)/√(2π)."""
        widths = np.broadcast_to(np.subtract(self.high, self.low), dimension)
        return float(widths.sum()) / math.sqrt(2.0 * math.pi)

    def check_dimension(self, dimension: int) -> None:
        """Tuples must have one entry per coefficient."""
        for bound in (self.low, self.high):
            if np.ndim(bound) and len(np.atleast_1d(bound)) != dimension:
                raise InvalidParameterError(
                    f"the box has {np.size(bound)} bounds, the problem {dimension} coefficients."
                )

    def _half_widths(self, dimension: int) -> Array:
        return np.broadcast_to(0.5 * np.subtract(self.high, self.low), dimension)

    def centre(self, dimension: int) -> Array:
        """The middle of every interval."""
        return np.broadcast_to(0.5 * np.add(self.low, self.high), dimension).copy()

    def divergence_bound(self, dimension: int) -> float:
        """From the middle to a corner."""
        return 0.5 * dimension

    def noise_bound(self, dimension: int) -> float:
        """Σ half_j²: the map's divergence is larger than the norm knows."""
        return (0.5 * self.diameter(dimension)) ** 2

    def divergence(self, u: Array, z: Array) -> float:
        """That of w = ½ Σ (w_j − middle_j)²/half_j²; the sum is at least its largest term."""
        return 0.5 * float((((u - z) / self._half_widths(u.size)) ** 2).sum())

    def step_norm(self, v: Array) -> float:
        """The largest coordinate relative to half its interval."""
        return float(np.abs(v / self._half_widths(v.size)).max())

    def mirror_step(self, z: Array, slope: Array) -> Array:
        """A clipped gradient step, longer where the interval is wider."""
        return self.project(z - self._half_widths(z.size) ** 2 * slope)

    def descent_step(self, x: Array, slope: Array, curvature: float, v: Array) -> Array:
        """Move all coordinates downhill by t half-widths, or to their bounds, for the best such t."""
        half = self._half_widths(x.size)
        room = np.abs(np.where(slope > 0, x - self.low, np.subtract(self.high, x)))
        order = np.argsort(room / half)
        # Until coordinate i meets its bound it and all later ones add to the gain.
        gains = np.cumsum((np.abs(slope) * half)[order][::-1])[::-1]
        length = best_length((room / half)[order], gains, curvature)
        return self.project(x - np.sign(slope) * np.minimum(length * half, room))
