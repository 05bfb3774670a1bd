"""No regularizer."""

from dataclasses import dataclass
from typing import Any

from dperm.problem.regularizers.base import Array, Regularizer


@dataclass(frozen=True)
class NoRegularizer(Regularizer):
    """r(w) = 0."""

    name = "none"
    projects_exactly_onto = frozenset({"whole_space", "l2_ball", "l1_ball", "simplex", "box", "group_ball"})

    def value(self, w: Array) -> float:
        """Zero."""
        return 0.0

    @staticmethod
    def shrink(v: Any, step: float) -> Any:
        """Nothing changes."""
        return v
