"""No constraint."""

import math
from dataclasses import dataclass

from dperm.problem.domains.base import Array, Domain


@dataclass(frozen=True)
class WholeSpace(Domain):
    """C = R^p."""

    name = "whole_space"

    def project(self, w: Array) -> Array:
        """The point itself."""
        return w

    def minkowski_norm(self, w: Array) -> float:
        """Every multiple of the space holds every point."""
        return 0.0

    def dual_norm(self, v: Array) -> float:
        """Infinite in every direction."""
        return math.inf if v.any() else 0.0

    def norm_bound(self, dimension: int) -> float:
        """Unbounded."""
        return math.inf

    def diameter(self, dimension: int) -> float:
        """Unbounded."""
        return math.inf

    def gaussian_width(self, dimension: int) -> float:
        """Unbounded."""
        return math.inf
