"""Sizes and mirror map of the ball of the group norm."""

import math
from abc import abstractmethod
from collections import Counter

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gammaincc

from dperm.problem.geometry.base import Array
from dperm.problem.geometry.mirror import MirrorDomain


class GroupBallGeometry(MirrorDomain):
    """Sizes and mirror map of the ball of the group norm."""

    radius: float
    groups: tuple[tuple[int, ...], ...]

    @abstractmethod
    def group_norms(self, w: Array) -> Array:
        """‖w_g‖₂ of every group."""

    @abstractmethod
    def scale_groups(self, w: Array, norms: Array, wanted: Array) -> Array:
        """The vector with w's directions and `wanted` group norms, where w has `norms`."""

    def minkowski_norm(self, w: Array) -> float:
        """Sum of the group norms over the radius."""
        return float(self.group_norms(w).sum()) / self.radius

    def dual_norm(self, v: Array) -> float:
        """Radius times the largest group norm."""
        return self.radius * float(self.group_norms(v).max())

    def gaussian_width(self, dimension: int) -> float:
        """Radius times E max_g ‖g_g‖₂ = ∫ 1 − Π_g P(χ_{|g|} ≤ t) dt."""
        counts = Counter(map(len, self.groups))
        sizes, repeats = np.array(list(counts)), np.array(list(counts.values()))

        def tail(t: float) -> float:
            above = gammaincc(0.5 * sizes, 0.5 * t * t)  # P(χ > t), accurate far out where it decides
            return -math.expm1(float(repeats @ np.log1p(-above))) if above.max() < 1.0 else 1.0

        # χ_k has standard deviation below 1 and a Gaussian tail around a mean just below √k: up to `inner` the
        # integrand is 1 and beyond `edge` it is 0, to less than the last digit.
        inner = max(0.0, math.sqrt(sizes.max()) - 10.0)
        edge = math.sqrt(sizes.max()) + math.sqrt(2.0 * math.log(2.0 * len(self.groups))) + 10.0
        return self.radius * (inner + float(quad(tail, inner, edge, limit=200)[0]))

    @property
    def _power(self) -> float:
        return 2.0 if len(self.groups) <= 2 else 1.0 + 1.0 / math.log(len(self.groups))

    @property
    def _convexity(self) -> float:
        # γ: on the unit ball Σ‖w_g‖^a/a is γ-strongly convex in Σ‖w_g‖ (docs/proofs/accmd.md).
        return (self._power - 1.0) / math.pow(len(self.groups), self._power - 1.0)

    def _mirror_map(self, w: Array) -> float:
        # w = Σ (‖w_g‖/radius)^a/(aγ) with the power a and the convexity γ.
        sizes = self.group_norms(w) / self.radius
        return float((sizes**self._power).sum()) / (self._power * self._convexity)

    def _mirror_gradient(self, w: Array) -> Array:
        norms = self.group_norms(w)
        slopes = (norms / self.radius) ** (self._power - 1.0) / (self._convexity * self.radius)
        return self.scale_groups(w, norms, slopes)

    def centre(self, dimension: int) -> Array:
        """Zero."""
        return np.zeros(dimension)

    def divergence_bound(self, dimension: int) -> float:
        """From 0 to a point of the sphere in one group."""
        return 1.0 / (self._power * self._convexity)

    def divergence(self, u: Array, z: Array) -> float:
        """That of a power of the group norms, after Nesterov and Nemirovski 2013."""
        return self._mirror_map(u) - self._mirror_map(z) - float(self._mirror_gradient(z) @ (u - z))

    def step_norm(self, v: Array) -> float:
        """Sum of the group norms over the radius."""
        return self.minkowski_norm(v)

    def mirror_step(self, z: Array, slope: Array) -> Array:
        """Every group against its slope; the ball's multiplier, if it binds, is the root of one equation."""
        slope = slope - self._mirror_gradient(z)
        norms = self.group_norms(slope)
        pulls = self.radius * norms
        top = float(pulls.max())

        def sizes(above: float) -> Array:
            # The multiplier is top − above: written so, it loses no digits where the pulls are large.
            return np.asarray((self._convexity * np.maximum(pulls - top + above, 0.0)) ** (1.0 / (self._power - 1.0)))

        if self._convexity * top <= 1.0 and float(sizes(top).sum()) <= 1.0:
            wanted = sizes(top)
        else:
            # The largest size lies between 1/#groups and 1.
            low, high = len(self.groups) ** (1.0 - self._power) / self._convexity, 1.0 / self._convexity
            above = brentq(lambda a: float(sizes(a).sum()) - 1.0, 0.999 * low, 1.001 * high, xtol=1e-300, rtol=1e-15)
            wanted = sizes(above) / sizes(above).sum()
        return self.scale_groups(-slope, norms, self.radius * wanted)

    def descent_step(self, x: Array, slope: Array, curvature: float, v: Array) -> Array:
        """The better of v and the best point on the way to the vertex that lies furthest downhill; not the argmin."""
        norms = self.group_norms(slope)
        steepest = np.where(np.arange(norms.size) == norms.argmax(), self.radius, 0.0)
        towards = self.scale_groups(-slope, norms, steepest) - x
        length = self.step_norm(towards)
        share = -float(slope @ towards) / (curvature * length**2) if length > 0 else 0.0
        y = x + min(max(share, 0.0), 1.0) * towards

        def model(point: Array) -> float:
            return 0.5 * curvature * self.step_norm(point - x) ** 2 + float(slope @ (point - x))

        return min(y, v, key=model)
