"""A box: every coefficient in its own interval around zero."""

from dataclasses import dataclass

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.problem.domains.base import Array
from dperm.problem.geometry.box import BoxGeometry
from dperm.validation import finite


@dataclass(frozen=True)
class Box(BoxGeometry):
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

    def norm_bound(self, dimension: int) -> float:
        """The furthest corner from zero."""
        furthest = np.maximum(np.abs(self.low), np.abs(self.high))
        return float(np.linalg.norm(np.broadcast_to(furthest, dimension)))

    def diameter(self, dimension: int) -> float:
        """From corner to corner."""
        return float(np.linalg.norm(np.broadcast_to(np.subtract(self.high, self.low), dimension)))

    def check_dimension(self, dimension: int) -> None:
        """Tuples must have one entry per coefficient."""
        for bound in (self.low, self.high):
            if np.ndim(bound) and len(np.atleast_1d(bound)) != dimension:
                raise InvalidParameterError(
                    f"the box has {np.size(bound)} bounds, the problem {dimension} coefficients."
                )
