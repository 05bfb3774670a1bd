"""The Euclidean ball."""

from dataclasses import dataclass

import numpy as np

from dperm.problem.domains.base import Array
from dperm.problem.geometry.l2_ball import L2BallGeometry
from dperm.validation import size


@dataclass(frozen=True)
class L2Ball(L2BallGeometry):
    """C = {w : ‖w‖₂ ≤ radius}.

    Parameters
    ----------
    radius : float
        Bound on the l2 norm.
    """

    radius: float = 1.0

    name = "l2_ball"

    def __post_init__(self) -> None:
        """Check the radius."""
        size("radius", self.radius)

    def project(self, w: Array) -> Array:
        """Scale back to the sphere if outside."""
        norm = float(np.linalg.norm(w))
        return w if norm <= self.radius else w * (self.radius / norm)

    def norm_bound(self, dimension: int) -> float:
        """The radius."""
        return self.radius

    def diameter(self, dimension: int) -> float:
        """Twice the radius."""
        return 2.0 * self.radius
