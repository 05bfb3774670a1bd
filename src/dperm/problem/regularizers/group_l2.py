"""Group lasso: the sum of the l2 norms of groups of coefficients."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from dperm.problem.regularizers.base import Array, Regularizer, require_dimension
from dperm.validation import disjoint_groups, nonnegative, positive


@dataclass(frozen=True)
class GroupL2(Regularizer):
    """r(w) = strength · Σ_g ‖w_g‖₂ + (ridge/2) ‖w‖₂², over disjoint groups of indices.

    Coefficients outside of the groups have the ridge alone. It makes r strongly convex.

    Parameters
    ----------
    strength : float
        Strength of the group penalty.
    groups : tuple of tuple of int
        Disjoint groups of coefficient indices.
    ridge : float
        Strength of the additional ridge.

    Examples
    --------
    >>> GroupL2(0.1, groups=((0, 1), (2, 3))).value(np.array([3.0, 4.0, 0.0, 0.0, 9.0]))
    0.5
    """

    strength: float
    groups: tuple[tuple[int, ...], ...]
    ridge: float = 0.0

    name = "group_l2"
    # The group norm is positively homogeneous, the ridge and the l2 ball are radial, so the two steps compose.
    projects_exactly_onto = frozenset({"whole_space", "l2_ball"})

    def __post_init__(self) -> None:
        """Check both strengths and that no index appears twice."""
        positive("strength", self.strength)
        nonnegative("ridge", self.ridge)
        object.__setattr__(self, "groups", disjoint_groups(self.groups))

    @property
    def strong_convexity(self) -> float:
        """The ridge."""
        return self.ridge

    def value(self, w: Array) -> float:
        """Strength times the sum of group norms, and the ridge."""
        lasso = self.strength * sum(float(np.linalg.norm(w[list(group)])) for group in self.groups)
        return lasso + 0.5 * self.ridge * float(w @ w)

    def prox(self, v: Array, step: float) -> Array:
        """Shorten every group by step · strength, to zero at most, then shrink."""
        w = v.copy()
        for group in self.groups:
            part = v[list(group)]
            norm = float(np.linalg.norm(part))
            w[list(group)] = part * max(0.0, 1.0 - step * self.strength / norm) if norm > 0 else 0.0
        return w / (1.0 + step * self.ridge)

    def check_dimension(self, dimension: int) -> None:
        """Every index must exist."""
        require_dimension(1 + max(i for group in self.groups for i in group), dimension, "the group regularizer")

    @classmethod
    def example(cls) -> Self:
        """Two groups, and coefficients outside of them."""
        return cls(strength=0.1, groups=((0, 1), (2, 3, 4)))
