"""Elastic net: a mixture of lasso and ridge."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.problem.regularizers.base import Array, Regularizer
from dperm.problem.regularizers.l2 import L2
from dperm.problem.regularizers.none import NoRegularizer
from dperm.validation import finite, positive


@dataclass(frozen=True)
class ElasticNet(Regularizer):
    """r(w) = strength · (l1_ratio ‖w‖₁ + ½ (1 − l1_ratio) ‖w‖₂²).

    Parameters
    ----------
    strength : float
        Overall strength.
    l1_ratio : float
        Share of the l1 penalty, between 0 and 1.
    """

    strength: float = 1e-2
    l1_ratio: float = 0.5

    name = "elastic_net"
    projects_exactly_onto = frozenset({"whole_space", "l2_ball", "l1_ball", "box", "group_ball"})

    def __post_init__(self) -> None:
        """Check both numbers."""
        positive("strength", self.strength)
        if not 0.0 <= finite("l1_ratio", self.l1_ratio) <= 1.0:
            raise InvalidParameterError(f"l1_ratio must lie between 0 and 1, got {self.l1_ratio!r}.")

    @property
    def strong_convexity(self) -> float:
        """The ridge part."""
        return self.strength * (1.0 - self.l1_ratio)

    def value(self, w: Array) -> float:
        """Both parts."""
        lasso = self.strength * self.l1_ratio * float(np.abs(w).sum())
        return lasso + 0.5 * self.strong_convexity * float(w @ w)

    def simplified_on(self, domain_name: str) -> Regularizer:
        """The l1 norm is constant on the simplex, so the ridge part remains."""
        if domain_name != "simplex":
            return self
        return L2(self.strong_convexity) if self.strong_convexity > 0 else NoRegularizer()

    @staticmethod
    def shrink(v: Any, step: float, strength: float, l1_ratio: float) -> Any:
        """Soft thresholding, then shrinking."""
        thresholded = np.sign(v) * np.maximum(np.abs(v) - step * strength * l1_ratio, 0.0)
        return thresholded / (1.0 + step * strength * (1.0 - l1_ratio))
