"""A box: every coefficient in its own interval around zero."""

import math
from dataclasses import dataclass

import numpy as np

from dperm.domains.base import Array, Domain
from dperm.errors import InvalidParameter
from dperm.validation import finite


@dataclass(frozen=True)
class Box(Domain):
    """C = {w : low ≤ w_j ≤ high}; bounds are numbers, or tuples with one number per coefficient."""

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
            raise InvalidParameter("low and high of a box must have the same length.")
        if (low > 0).any() or (high < 0).any() or (low == high).any():
            raise InvalidParameter("a box needs low ≤ 0 ≤ high and low < high for every coefficient.")

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
                raise InvalidParameter(f"the box has {np.size(bound)} bounds, the problem {dimension} coefficients.")
