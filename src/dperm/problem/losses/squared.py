"""Squared loss for regression; needs a bounded domain."""

from dataclasses import dataclass
from typing import Any

from dperm.problem.losses.base import ResidualLoss


@dataclass(frozen=True)
class Squared(ResidualLoss):
    """ℓ(m, y) = ½ (m − y)²: |ℓ'| ≤ margin bound + target bound, ℓ'' = 1."""

    target_bound: float = 1.0

    name = "squared"
    convex = True

    @staticmethod
    def value(margin: Any, target: Any, target_bound: float) -> Any:
        """Half the squared residual."""
        return 0.5 * (margin - target) ** 2

    @staticmethod
    def derivative(margin: Any, target: Any, target_bound: float) -> Any:
        """The residual."""
        return margin - target

    def slope_bound(self, margin_bound: float) -> float:
        """The largest residual: infinite unless the domain bounds the margin."""
        return margin_bound + self.target_bound

    def curvature_bound(self, margin_bound: float) -> float:
        """Exactly one."""
        return 1.0
