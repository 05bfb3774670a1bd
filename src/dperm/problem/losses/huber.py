"""Huber loss: squared near zero, linear in the tails."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.problem.losses.base import ResidualLoss
from dperm.validation import positive


@dataclass(frozen=True)
class Huber(ResidualLoss):
    """½ r² for |r| ≤ t and t(|r| − t/2) beyond, r = m − y: |ℓ'| ≤ t, ℓ'' ≤ 1.

    Parameters
    ----------
    threshold : float
        t, the residual from which the loss is linear.
    target_bound : float
        Targets are clipped to [−target_bound, target_bound].
    """

    threshold: float = 1.0
    target_bound: float = 1.0

    name = "huber"
    convex = True

    def __post_init__(self) -> None:
        """Check both numbers."""
        super().__post_init__()
        positive("threshold", self.threshold)

    @staticmethod
    def value(margin: Any, target: Any, threshold: float, target_bound: float) -> Any:
        """Half the squared clipped residual, plus the linear rest."""
        size = np.abs(margin - target)
        inner = np.minimum(size, threshold)
        return 0.5 * inner**2 + threshold * (size - inner)

    @staticmethod
    def derivative(margin: Any, target: Any, threshold: float, target_bound: float) -> Any:
        """The residual, clipped to ±t."""
        return np.minimum(np.maximum(margin - target, -threshold), threshold)

    def slope_bound(self, margin_bound: float) -> float:
        """The threshold, or the largest residual if that is smaller."""
        return min(self.threshold, margin_bound + self.target_bound)

    def curvature_bound(self, margin_bound: float) -> float:
        """One in the quadratic part."""
        return 1.0
