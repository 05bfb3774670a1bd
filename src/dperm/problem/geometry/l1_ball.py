"""Sizes of the l1 ball."""

import math

import numpy as np
from scipy.integrate import quad
from scipy.special import log_ndtr

from dperm.problem.geometry.base import Array, Geometry


class L1BallGeometry(Geometry):
    """Sizes of the l1 ball."""

    radius: float

    def minkowski_norm(self, w: Array) -> float:
        """‖w‖₁ over the radius."""
        return float(np.abs(w).sum()) / self.radius

    def dual_norm(self, v: Array) -> float:
        """Radius times the largest size."""
        return self.radius * float(np.abs(v).max())

    def gaussian_width(self, dimension: int) -> float:
        """Radius times E max|g_j| = ∫ 1 − (2Φ(t) − 1)^p dt."""

        def tail(t: float) -> float:
            # log(2Φ(t) − 1) = log1p(−2Φ(−t)), accurate far out where p·Φ(−t) decides.
            return -math.expm1(dimension * math.log1p(-2.0 * math.exp(log_ndtr(-t)))) if t > 0 else 1.0

        edge = math.sqrt(2.0 * math.log(2.0 * dimension)) + 10.0
        return self.radius * float(quad(tail, 0.0, edge, limit=200)[0])
