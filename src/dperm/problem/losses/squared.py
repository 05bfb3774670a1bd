"""Squared loss for regression, linear where a residual is larger than any prediction in the target's range has."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.problem.losses.base import ResidualLoss


@dataclass(frozen=True)
class Squared(ResidualLoss):
    """½ r² for |r| ≤ 2t and 2t(|r| − t) beyond, r = m − y, t the target bound: |ℓ'| ≤ 2t, ℓ'' ≤ 1.

    A prediction within [−t, t], as the targets are, has residuals of at most 2t, so the loss is squared wherever a
    prediction is sensible. Beyond, it goes on linearly: so its slope is bounded without a bounded domain.

    Parameters
    ----------
    target_bound : float
        t; targets are clipped to [−t, t].
    """

    target_bound: float = 1.0

    name = "squared"
    convex = True

    @staticmethod
    def value(margin: Any, target: Any, target_bound: float) -> Any:
        """Half the squared residual, and the linear rest."""
        size = np.abs(margin - target)
        inner = np.minimum(size, 2.0 * target_bound)
        return 0.5 * inner**2 + 2.0 * target_bound * (size - inner)

    @staticmethod
    def derivative(margin: Any, target: Any, target_bound: float) -> Any:
        """The residual, clipped to ±2t."""
        return np.minimum(np.maximum(margin - target, -2.0 * target_bound), 2.0 * target_bound)

    def slope_bound(self, margin_bound: float) -> float:
        """Twice the target bound, or the largest residual if the domain makes that smaller."""
        return min(2.0 * self.target_bound, margin_bound + self.target_bound)

    def curvature_bound(self, margin_bound: float) -> float:
        """One in the quadratic part."""
        return 1.0
