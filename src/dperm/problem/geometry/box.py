"""Sizes and mirror map of a box."""

import math

import numpy as np

from dperm.problem.geometry.base import Array
from dperm.problem.geometry.mirror import MirrorDomain, best_length


class BoxGeometry(MirrorDomain):
    """Sizes and mirror map of a box."""

    low: float | tuple[float, ...]
    high: float | tuple[float, ...]

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

    def gaussian_width(self, dimension: int) -> float:
        """Σ (high − low)/√(2π)."""
        widths = np.broadcast_to(np.subtract(self.high, self.low), dimension)
        return float(widths.sum()) / math.sqrt(2.0 * math.pi)

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
