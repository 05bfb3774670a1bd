"""Sigmoid loss: a smooth, bounded, non-convex stand-in for the 0-1 loss."""

import math
from dataclasses import dataclass
from typing import Any

from dperm.problem.losses.base import SignLoss
from dperm.problem.losses.exponential import exp


@dataclass(frozen=True)
class Sigmoid(SignLoss):
    """ℓ(m, y) = 1/(1 + exp(y m)): |ℓ'| ≤ 1/4 and |ℓ''| ≤ 1/(6√3). Not convex."""

    name = "sigmoid"
    convex = False

    @staticmethod
    def value(margin: Any, target: Any) -> Any:
        """The probability that a logistic model gives to the wrong class."""
        return 1.0 / (1.0 + exp(target * margin))

    @staticmethod
    def derivative(margin: Any, target: Any) -> Any:
        """−y s(1 − s)."""
        wrong = 1.0 / (1.0 + exp(target * margin))
        return -target * wrong * (1.0 - wrong)

    def slope_bound(self, margin_bound: float) -> float:
        """s(1 − s) ≤ 1/4."""
        return 0.25

    def curvature_bound(self, margin_bound: float) -> float:
        """|s(1 − s)(1 − 2s)| is largest at s = ½ ± 1/√12."""
        return 1.0 / (6.0 * math.sqrt(3.0))
