"""Welsch loss: a smooth, bounded, non-convex loss for regression with outliers."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.problem.losses.base import ResidualLoss
from dperm.validation import positive


@dataclass(frozen=True)
class Welsch(ResidualLoss):
    """½ c² (1 − exp(−r²/c²)), r = m − y: |ℓ'| ≤ c/√(2e) and |ℓ''| ≤ 1. Not convex.

    Parameters
    ----------
    scale : float
        c, the residual at which the loss levels off.
    target_bound : float
        Targets are clipped to [−target_bound, target_bound].
    """

    scale: float = 1.0
    target_bound: float = 1.0

    name = "welsch"
    convex = False

    def __post_init__(self) -> None:
        """Check both numbers."""
        super().__post_init__()
        positive("scale", self.scale)

    @staticmethod
    def value(margin: Any, target: Any, scale: float, target_bound: float) -> Any:
        """Half the squared residual near zero, at most c²/2 far away."""
        return -0.5 * scale**2 * np.expm1(-(((margin - target) / scale) ** 2))

    @staticmethod
    def derivative(margin: Any, target: Any, scale: float, target_bound: float) -> Any:
        """R exp(−r²/c²)."""
        residual = margin - target
        return residual * np.exp(-((residual / scale) ** 2))

    def slope_bound(self, margin_bound: float) -> float:
        """R exp(−r²/c²) is largest at r = c/√2."""
        return self.scale / math.sqrt(2.0 * math.e)

    def curvature_bound(self, margin_bound: float) -> float:
        """(1 − 2r²/c²) exp(−r²/c²) is largest in size at r = 0."""
        return 1.0
