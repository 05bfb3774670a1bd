"""The simplex: non-negative coefficients with a fixed sum."""

import math
from dataclasses import dataclass

import numpy as np

from dperm.problem.domains.base import Array
from dperm.problem.domains.polytope import EntropicDomain
from dperm.problem.geometry.simplex import SimplexGeometry
from dperm.validation import size


def project_onto_simplex(w: Array, total: float) -> Array:
    """Return the nearest point with non-negative coordinates that sum to `total`."""
    below = np.maximum(w - w.max(), -total)  # what lies further down becomes 0 anyway, and small numbers stay exact
    ordered = np.sort(below)[::-1]
    thresholds = (np.cumsum(ordered) - total) / np.arange(1, w.size + 1)
    last = np.flatnonzero(ordered > thresholds)[-1]
    return np.asarray(np.maximum(below - thresholds[last], 0.0))


@dataclass(frozen=True)
class Simplex(SimplexGeometry, EntropicDomain):
    """C = {w ≥ 0 : Σ w_j = total}. It is not symmetric: its Minkowski norm is infinite off the positive ray.

    Parameters
    ----------
    total : float
        Sum of the coefficients.
    """

    total: float = 1.0

    name = "simplex"

    def __post_init__(self) -> None:
        """Check the sum."""
        size("total", self.total)

    def project(self, w: Array) -> Array:
        """Sort, then subtract the threshold that makes the sum right."""
        return project_onto_simplex(w, self.total)

    def norm_bound(self, dimension: int) -> float:
        """The vertices lie furthest out."""
        return self.total

    def l1_bound(self, dimension: int) -> float:
        """The total."""
        return self.total

    def diameter(self, dimension: int) -> float:
        """Between two vertices."""
        return self.total * math.sqrt(2.0) if dimension > 1 else 0.0

    def n_vertices(self, dimension: int) -> int:
        """One per coefficient."""
        return dimension

    def coefficients(self, point: Array) -> Array:
        """Total times the weights."""
        return self.total * point

    def pull_back(self, gradient: Array) -> Array:
        """The slope towards every vertex."""
        return self.total * gradient
