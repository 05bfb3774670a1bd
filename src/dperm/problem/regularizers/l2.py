"""Ridge: the squared l2 norm."""

from dataclasses import dataclass
from typing import Any

from dperm.problem.regularizers.base import Array, Regularizer
from dperm.validation import positive


@dataclass(frozen=True)
class L2(Regularizer):
    """r(w) = (strength/2) ‖w‖₂², strongly convex with constant `strength`.

    Parameters
    ----------
    strength : float
        Strength of the penalty.
    """

    strength: float = 1e-2

    name = "l2"
    # Completing the square turns ½‖w − v‖² + (sλ/2)‖w‖² into a multiple of ‖w − v/(1+sλ)‖².
    projects_exactly_onto = frozenset({"whole_space", "l2_ball", "l1_ball", "simplex", "box", "group_ball"})

    def __post_init__(self) -> None:
        """Check the strength; for none at all use NoRegularizer."""
        positive("strength", self.strength)

    @property
    def strong_convexity(self) -> float:
        """The strength itself."""
        return self.strength

    def value(self, w: Array) -> float:
        """Half the strength times the squared norm."""
        return 0.5 * self.strength * float(w @ w)

    @staticmethod
    def shrink(v: Any, step: float, strength: float) -> Any:
        """Divide."""
        return v / (1.0 + step * strength)
