"""Smoothed hinge for K classes: one margin per class, all of them in one gradient, so the budget is spent once."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.problem.losses.base import ClassLoss
from dperm.problem.losses.smoothed_hinge import SmoothedHinge
from dperm.validation import positive


@dataclass(frozen=True)
class OneVsRestHinge(ClassLoss):
    """Σ_k h(m_k, ±1) with the smoothed hinge h and +1 for the true class: gradient norm ≤ √K, curvature ≤ 1/h.

    Parameters
    ----------
    n_classes : int
        Number of classes K.
    smoothing : float
        h, the width of the quadratic corner.
    """

    n_classes: int
    smoothing: float = 0.5

    name = "one_vs_rest_hinge"
    convex = True

    def __post_init__(self) -> None:
        """Check both numbers."""
        super().__post_init__()
        positive("smoothing", self.smoothing)

    @property
    def parameters(self) -> tuple[float, ...]:
        """Only the smoothing enters the formula."""
        return (self.smoothing,)

    @staticmethod
    def value(margin: Any, target: Any, smoothing: float) -> Any:
        """Sum of the two-class losses."""
        margin = np.asarray(margin, dtype=np.float64)
        sign = np.where(np.arange(margin.shape[-1]) == np.asarray(target)[..., None], 1.0, -1.0)
        return SmoothedHinge.value(margin, sign, smoothing).sum(axis=-1)

    @staticmethod
    def derivative(margin: Any, target: Any, out: Any, smoothing: float) -> Any:
        """Write the two-class derivatives into `out`."""
        for k in range(margin.shape[0]):
            sign = 1.0 if k == int(target) else -1.0
            gap = max(1.0 - sign * margin[k], 0.0)
            out[k] = -sign * min(gap / smoothing, 1.0)

    def slope_bound(self, margin_bound: float) -> float:
        """Every coordinate is at most 1."""
        return math.sqrt(self.n_classes)

    def curvature_bound(self, margin_bound: float) -> float:
        """The Hessian is diagonal."""
        return 1.0 / self.smoothing

    @property
    def value_at_zero(self) -> float:
        """All margins are 0."""
        return self.n_classes * float(SmoothedHinge.value(0.0, 1.0, self.smoothing))
