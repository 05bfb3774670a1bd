"""Sizes and mirror map of the Euclidean ball."""

import math

import numpy as np

from dperm.problem.geometry.base import Array
from dperm.problem.geometry.mirror import MirrorDomain


class L2BallGeometry(MirrorDomain):
    """Sizes and mirror map of the Euclidean ball."""

    radius: float

    def minkowski_norm(self, w: Array) -> float:
        """‖w‖₂ over the radius."""
        return float(np.linalg.norm(w)) / self.radius

    def dual_norm(self, v: Array) -> float:
        """Radius times ‖v‖₂."""
        return self.radius * float(np.linalg.norm(v))

    def gaussian_width(self, dimension: int) -> float:
        """Radius times E‖g‖ = √2 Γ((p+1)/2)/Γ(p/2)."""
        mean_norm = math.sqrt(2.0) * math.exp(math.lgamma((dimension + 1) / 2) - math.lgamma(dimension / 2))
        return self.radius * mean_norm

    def centre(self, dimension: int) -> Array:
        """Zero."""
        return np.zeros(dimension)

    def divergence_bound(self, dimension: int) -> float:
        """From 0 to the sphere."""
        return 0.5

    def divergence(self, u: Array, z: Array) -> float:
        """That of w = ½‖·‖₂²/radius²: half the squared norm itself."""
        return 0.5 * self.step_norm(u - z) ** 2

    def step_norm(self, v: Array) -> float:
        """‖v‖₂ over the radius."""
        return self.minkowski_norm(v)

    def mirror_step(self, z: Array, slope: Array) -> Array:
        """A projected gradient step."""
        return self.project(z - self.radius**2 * slope)

    def descent_step(self, x: Array, slope: Array, curvature: float, v: Array) -> Array:
        """A projected gradient step too."""
        return self.project(x - (self.radius**2 / curvature) * slope)
