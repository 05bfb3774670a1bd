"""Lasso: the l1 norm."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.problem.regularizers.base import Array, Regularizer
from dperm.problem.regularizers.none import NoRegularizer
from dperm.validation import positive


@dataclass(frozen=True)
class L1(Regularizer):
    """r(w) = strength · ‖w‖₁.

    Parameters
    ----------
    strength : float
        Strength of the penalty.
    """

    strength: float = 1e-2

    name = "l1"
    # Box: the problem separates. Balls around 0: their multiplier only adds to the threshold (l1), scales (l2), or
    # shortens groups (group ball), which comes after thresholding in the sparse-group prox.
    projects_exactly_onto = frozenset({"whole_space", "l2_ball", "l1_ball", "box", "group_ball"})

    def __post_init__(self) -> None:
        """Check the strength; for none at all use NoRegularizer."""
        positive("strength", self.strength)

    def value(self, w: Array) -> float:
        """Strength times the sum of sizes."""
        return self.strength * float(np.abs(w).sum())

    def simplified_on(self, domain_name: str) -> Regularizer:
        """The l1 norm is constant on the simplex."""
        return NoRegularizer() if domain_name == "simplex" else self

    @staticmethod
    def shrink(v: Any, step: float, strength: float) -> Any:
        """Soft thresholding."""
        return np.sign(v) * np.maximum(np.abs(v) - step * strength, 0.0)
