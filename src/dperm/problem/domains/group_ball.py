"""The ball of the group norm: few groups of coefficients are large, whichever they are."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError
from dperm.problem.domains.base import Array
from dperm.problem.domains.simplex import project_onto_simplex
from dperm.problem.geometry.group_ball import GroupBallGeometry
from dperm.validation import disjoint_groups, size


@dataclass(frozen=True)
class GroupBall(GroupBallGeometry):
    """C = {w : Σ_g ‖w_g‖₂ ≤ radius} over groups of indices that hold every coefficient once.

    Groups of one index each make the l1 ball, one group of all indices the l2 ball.

    Parameters
    ----------
    radius : float
        Bound on the sum of the groups' l2 norms.
    groups : tuple of tuple of int
        Indices of each group; every coefficient is in exactly one.

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
        size("radius", self.radius)
        groups = disjoint_groups(self.groups)
        indices = [i for group in groups for i in group]
        if max(indices) + 1 != len(indices):
            raise InvalidParameterError("groups of a group ball must hold every index from 0 to the largest.")
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

    def norm_bound(self, dimension: int) -> float:
        """A single group holds everything."""
        return self.radius

    def diameter(self, dimension: int) -> float:
        """From a point of the sphere in one group to its opposite."""
        return 2.0 * self.radius

    def check_dimension(self, dimension: int) -> None:
        """The groups must hold every coefficient."""
        held = sum(map(len, self.groups))
        if held != dimension:
            raise InvalidParameterError(f"the group ball holds {held} coefficients, the problem {dimension}.")

    @classmethod
    def example(cls) -> Self:
        """Three groups of six coefficients."""
        return cls(radius=1.0, groups=((0, 1), (2, 3, 4), (5,)))
