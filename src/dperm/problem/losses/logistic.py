"""Logistic loss, the paper's experiments (with the sign of errata 4)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.problem.losses.base import SignLoss
from dperm.problem.losses.exponential import exp


@dataclass(frozen=True)
class Logistic(SignLoss):
    """ℓ(m, y) = log(1 + exp(−y m)): |ℓ'| ≤ 1 and ℓ'' ≤ 1/4."""

    name = "logistic"
    convex = True
    monotone = True
    sigmoidal = True
    its_slope_is_the_sigmoid = True

    @staticmethod
    def value(margin: Any, target: Any) -> Any:
        """log(1 + exp(−y m)), without overflow."""
        return np.logaddexp(0.0, -target * margin)

    @staticmethod
    def derivative(margin: Any, target: Any) -> Any:
        """−y / (1 + exp(y m))."""
        return -target / (1.0 + exp(target * margin))

    def slope_bound(self, margin_bound: float) -> float:
        """The sigmoid is below 1."""
        return 1.0

    def curvature_bound(self, margin_bound: float) -> float:
        """s(1 − s) ≤ 1/4."""
        return 0.25
