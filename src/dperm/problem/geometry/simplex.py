"""Sizes of the simplex."""

import math

import numpy as np
from scipy.integrate import quad
from scipy.special import log_ndtr

from dperm.problem.geometry.base import Array, Geometry


class SimplexGeometry(Geometry):
    """Sizes of the simplex."""

    total: float

    def minkowski_norm(self, w: Array) -> float:
        """Σ w_j over the total for w ≥ 0, else infinite."""
        return float(w.sum()) / self.total if (w >= 0).all() else math.inf

    def dual_norm(self, v: Array) -> float:
        """Total times the largest size, reached at a vertex."""
        return self.total * float(np.abs(v).max())

    def gaussian_width(self, dimension: int) -> float:
        """Total times E max g_j = ∫₀^∞ 1 − Φ(t)^p dt − ∫₋∞^0 Φ(t)^p dt."""

        def below(t: float) -> float:
            return math.exp(dimension * log_ndtr(t))

        edge = math.sqrt(2.0 * math.log(2.0 * dimension)) + 10.0
        upper = quad(lambda t: -math.expm1(dimension * log_ndtr(t)), 0.0, edge, limit=200)[0]
        return self.total * float(upper - quad(below, -40.0, 0.0, limit=200)[0])
