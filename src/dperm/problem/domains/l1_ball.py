"""The l1 ball (cross-polytope), the paper's high-dimensional case."""

from dataclasses import dataclass

import numpy as np

from dperm.problem.domains.base import Array
from dperm.problem.domains.polytope import EntropicDomain
from dperm.problem.domains.simplex import project_onto_simplex
from dperm.problem.geometry.l1_ball import L1BallGeometry
from dperm.validation import size


@dataclass(frozen=True)
class L1Ball(L1BallGeometry, EntropicDomain):
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

    def norm_bound(self, dimension: int) -> float:
        """The vertices lie furthest out."""
        return self.radius

    def l1_bound(self, dimension: int) -> float:
        """The radius."""
        return self.radius

    def diameter(self, dimension: int) -> float:
        """From a vertex to its opposite."""
        return 2.0 * self.radius

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
