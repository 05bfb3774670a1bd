"""The l1 ball (cross-polytope), the paper's high-dimensional case."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad
from scipy.special import log_ndtr

from dperm.problem.domains.base import Array
from dperm.problem.domains.mirror import EntropicDomain
from dperm.problem.domains.simplex import project_onto_simplex
from dperm.validation import size


@dataclass(frozen=True)
class L1Ball(EntropicDomain):
    """C = {w : ‖w‖₁ ≤ radius}.

    Parameters
    ----------
    radius : float
        Bound on the l1 norm.
    """

    radius: float = 1.0

    name = "l1_ball"

    def __post_init__(self) -> None:
        """Check the radius."""
        size("radius", self.radius)

    def project(self, w: Array) -> Array:
        """Project the sizes onto the simplex and give the signs back."""
        if float(np.abs(w).sum()) <= self.radius:
            return w
        return np.sign(w) * project_onto_simplex(np.abs(w), self.radius)

    def minkowski_norm(self, w: Array) -> float:
        """‖w‖₁ over the radius."""
        return float(np.abs(w).sum()) / self.radius

    def dual_norm(self, v: Array) -> float:
        """Radius times the largest size."""
        return self.radius * float(np.abs(v).max())

    def norm_bound(self, dimension: int) -> float:
        """The vertices lie furthest out."""
        return self.radius

    def l1_bound(self, dimension: int) -> float:
        """The radius."""
        return self.radius

    def diameter(self, dimension: int) -> float:
        """From a vertex to its opposite."""
        return 2.0 * self.radius

    def gaussian_width(self, dimension: int) -> float:
        """Radius times E max|g_j| = ∫ 1 − (2Φ(t) − 1)^p dt."""

        def tail(t: float) -> float:
            # log(2Φ(t) − 1) = log1p(−2Φ(−t)), accurate far out where p·Φ(−t) decides.
            return -math.expm1(dimension * math.log1p(-2.0 * math.exp(log_ndtr(-t)))) if t > 0 else 1.0

        edge = math.sqrt(2.0 * math.log(2.0 * dimension)) + 10.0
        return self.radius * float(quad(tail, 0.0, edge, limit=200)[0])

    def n_vertices(self, dimension: int) -> int:
        """One on each side of every axis."""
        return 2 * dimension

    def coefficients(self, point: Array) -> Array:
        """Weights on the positive sides minus weights on the negative ones."""
        positive_side, negative_side = np.split(point, 2)
        return np.asarray(self.radius * (positive_side - negative_side))

    def pull_back(self, gradient: Array) -> Array:
        """The slope towards every vertex."""
        return self.radius * np.concatenate([gradient, -gradient])
