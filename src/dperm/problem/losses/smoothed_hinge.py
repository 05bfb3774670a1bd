"""Hinge loss with a quadratic corner, so that gradient methods and their proofs apply."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.problem.losses.base import SignLoss
from dperm.validation import positive


@dataclass(frozen=True)
class SmoothedHinge(SignLoss):
    """With g = max(0, 1 − y m): g²/2h for g ≤ h, g − h/2 beyond: |ℓ'| ≤ 1, ℓ'' ≤ 1/h.

    Parameters
    ----------
    smoothing : float
        h, the width of the quadratic corner.
    """

    smoothing: float = 0.5

    name = "smoothed_hinge"
    convex = True
    monotone = True

    def __post_init__(self) -> None:
        """Check the width of the corner: at 0 the loss would not be smooth."""
        positive("smoothing", self.smoothing)

    @staticmethod
    def value(margin: Any, target: Any, smoothing: float) -> Any:
        """The quadratic part plus the linear rest."""
        gap = np.maximum(1.0 - target * margin, 0.0)
        inner = np.minimum(gap, smoothing)
        return inner**2 / (2.0 * smoothing) + (gap - inner)

    @staticmethod
    def derivative(margin: Any, target: Any, smoothing: float) -> Any:
        """−y times the clipped gap over h."""
        gap = np.maximum(1.0 - target * margin, 0.0)
        return -target * np.minimum(gap / smoothing, 1.0)

    def slope_bound(self, margin_bound: float) -> float:
        """One, as for the hinge."""
        return 1.0

    def curvature_bound(self, margin_bound: float) -> float:
        """The corner's curvature."""
        return 1.0 / self.smoothing
