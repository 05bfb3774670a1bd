"""The ball of the group norm: few groups of coefficients are large, whichever they are."""

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import gammaincc

from dperm.domains.base import Array, Domain
from dperm.domains.simplex import project_onto_simplex
from dperm.errors import InvalidParameter
from dperm.validation import disjoint_groups, positive


@dataclass(frozen=True)
class GroupBall(Domain):
    """C = {w : Σ_g ‖w_g‖₂ ≤ radius} over groups of indices that hold every coefficient once.

    Groups of one index each make the l1 ball, one group of all indices the l2 ball.

    Examples
    --------
    >>> GroupBall(2.0, groups=((0, 1), (2,))).minkowski_norm(np.array([3.0, 4.0, -5.0]))
    5.0
    """

    radius: float
    groups: tuple[tuple[int, ...], ...]

    name = "group_ball"

    def __post_init__(self) -> None:
        """Check the radius and that the groups hold 0, 1, 2, … without a gap."""
        positive("radius", self.radius)
        groups = disjoint_groups(self.groups)
        indices = [i for group in groups for i in group]
        if max(indices) + 1 != len(indices):
            raise InvalidParameter("groups of a group ball must hold every index from 0 to the largest.")
        object.__setattr__(self, "groups", groups)

    @cached_property
    def _group_of(self) -> NDArray[np.intp]:
        group_of = np.empty(sum(map(len, self.groups)), dtype=np.intp)
        for label, group in enumerate(self.groups):
            group_of[list(group)] = label
        return group_of

    def group_norms(self, w: Array) -> Array:
        """‖w_g‖₂ of every group."""
        return np.sqrt(np.bincount(self._group_of, weights=w * w))

    def scale_groups(self, w: Array, norms: Array, wanted: Array) -> Array:
        """The vector with w's directions and `wanted` group norms, where w has `norms`; a zero group stays zero."""
        factors = np.divide(wanted, norms, out=np.zeros_like(norms), where=norms > 0)
        return np.asarray(w * factors[self._group_of])

    def project(self, w: Array) -> Array:
        """Project the group norms onto the simplex and give the directions back."""
        norms = self.group_norms(w)
        if float(norms.sum()) <= self.radius:
            return w
        return self.scale_groups(w, norms, project_onto_simplex(norms, self.radius))

    def minkowski_norm(self, w: Array) -> float:
        """Sum of the group norms over the radius."""
        return float(self.group_norms(w).sum()) / self.radius

    def dual_norm(self, v: Array) -> float:
        """Radius times the largest group norm."""
        return self.radius * float(self.group_norms(v).max())

    def norm_bound(self, dimension: int) -> float:
        """A single group holds everything."""
        return self.radius

    def diameter(self, dimension: int) -> float:
        """From a point of the sphere in one group to its opposite."""
        return 2.0 * self.radius

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

    def check_dimension(self, dimension: int) -> None:
        """The groups must hold every coefficient."""
        held = sum(map(len, self.groups))
        if held != dimension:
            raise InvalidParameter(f"the group ball holds {held} coefficients, the problem {dimension}.")

    @classmethod
    def example(cls) -> Self:
        """Three groups of six coefficients."""
        return cls(radius=1.0, groups=((0, 1), (2, 3, 4), (5,)))
