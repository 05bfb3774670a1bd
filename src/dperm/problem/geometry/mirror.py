"""What mirror descent needs of a domain: a mirror map w, and the two steps of Algorithm 3.

All norms are taken of differences of two points of C, so the norm is that of the half-difference body ½(C − C): C
itself if C is centrally symmetric, as the paper assumes. That body reaches diameter/2 from 0 and has the Gaussian width
of C, so C need not be symmetric and no further size is needed (docs/proofs/accmd.md).
"""

from abc import abstractmethod

import numpy as np
from scipy.special import rel_entr

from dperm.problem.domains.base import Array, Domain


class MirrorDomain(Domain):
    """A bounded domain C with a mirror map w that is 1-strongly convex in its `step_norm`.

    The iterates are points of a set K that a linear map takes to C: `coefficients` is that map and `pull_back` its
    transpose. Here K is C itself; an `EntropicMap` has another.
    """

    @abstractmethod
    def centre(self, dimension: int) -> Array:
        """The point of K where w is smallest, the x_0 of Algorithm 3."""

    @abstractmethod
    def divergence_bound(self, dimension: int) -> float:
        """A bound on B_w(u, centre) for every u in K."""

    @abstractmethod
    def divergence(self, u: Array, z: Array) -> float:
        """B_w(u, z) = w(u) − w(z) − ⟨∇w(z), u − z⟩, at least ½ step_norm(u − z)²."""

    @abstractmethod
    def step_norm(self, v: Array) -> float:
        """The norm of a difference of two points of K, in which the body ½(K − K) is the unit ball."""

    def noise_bound(self, dimension: int) -> float:
        """V: E max over u in K of ⟨αb, z − u⟩ − ½ B_w(u, z) ≤ α² V for all z in K and α, b standard normal.

        Strong convexity gives E‖b‖_*², and the dual norm ‖·‖_* has mean G_C and variance at most (diameter/2)². A map
        that knows more about its divergence gives less.
        """
        return self.gaussian_width(dimension) ** 2 + (0.5 * self.diameter(dimension)) ** 2

    @abstractmethod
    def mirror_step(self, z: Array, slope: Array) -> Array:
        """Argmin over u in K of B_w(u, z) + ⟨slope, u⟩."""

    @abstractmethod
    def descent_step(self, x: Array, slope: Array, curvature: float, v: Array) -> Array:
        """Argmin over y in K of (curvature/2) step_norm(y − x)² + ⟨slope, y⟩.

        The proof of Theorem 5.4 compares y with one point of K only, `v`. So where the argmin has no closed form any
        y that is not worse than v will do.
        """

    def coefficients(self, point: Array) -> Array:
        """The point of C that a point of K stands for."""
        return point

    def pull_back(self, gradient: Array) -> Array:
        """The gradient in K of a function of the coefficients."""
        return gradient


class EntropicMap(MirrorDomain):
    """K is the unit simplex of weights on vertices, w the negative entropy."""

    @abstractmethod
    def n_vertices(self, dimension: int) -> int:
        """Number of vertices that weights are put on."""

    def centre(self, dimension: int) -> Array:
        """Equal weights."""
        vertices = self.n_vertices(dimension)
        return np.full(vertices, 1.0 / vertices)

    def divergence_bound(self, dimension: int) -> float:
        """From equal weights to a vertex: the logarithm of their number."""
        return float(np.log(self.n_vertices(dimension)))

    def noise_bound(self, dimension: int) -> float:
        """The largest variance of b towards a vertex, without a logarithm: E log Σ z_i exp(…) ≤ log Σ z_i E exp(…)."""
        return self.norm_bound(dimension) ** 2

    def divergence(self, u: Array, z: Array) -> float:
        """Kullback–Leibler; Pinsker's inequality is its strong convexity in the l1 norm."""
        return float(rel_entr(u, z).sum())

    def step_norm(self, v: Array) -> float:
        """‖v‖₁, which is 1 for half the difference of two vertices."""
        return float(np.abs(v).sum())

    def mirror_step(self, z: Array, slope: Array) -> Array:
        """Multiply the weights by exp(−slope), in the log domain."""
        logits = np.log(z) - slope
        weights = np.exp(logits - logits.max())
        # A weight that underflows could never come back. The floor only brings z nearer to every point of K.
        return np.asarray(np.maximum(weights / weights.sum(), np.finfo(np.float64).tiny))

    def descent_step(self, x: Array, slope: Array, curvature: float, v: Array) -> Array:
        """Move weight from the largest slopes to the smallest one, as much as lowers the value."""
        order = np.argsort(-slope)
        lowest = order[-1]
        emptied = np.cumsum(x[order])
        # Moving t changes ‖y − x‖₁ by 2t, hence 4 times the curvature.
        moved = best_length(emptied, slope[order] - slope[lowest], 4.0 * curvature)
        y = x.copy()
        y[order] -= np.clip(moved - (emptied - x[order]), 0.0, x[order])
        y[lowest] += moved
        return np.asarray(y / y.sum())


def best_length(ends: Array, gains: Array, curvature: float) -> float:
    """Argmin over t in [0, ends[-1]] of (curvature/2) t² − G(t), G concave with slope gains[i] up to ends[i]."""
    wanted = gains / curvature
    enough = wanted <= ends
    if not enough.any():
        return float(ends[-1])
    first = int(enough.argmax())
    return max(float(wanted[first]), float(ends[first - 1]) if first > 0 else 0.0)
