"""Poisson loss for counts, with the log-rate capped so that its derivative is bounded."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.problem.losses.base import Array, Loss
from dperm.validation import finite, positive


@dataclass(frozen=True)
class Poisson(Loss):
    """exp(m) − y m + y log y − y for m ≤ cap, continued linearly beyond: |ℓ'| ≤ max(e^cap, y), ℓ'' ≤ e^cap.

    Parameters
    ----------
    margin_cap : float
        The margin from which the loss is linear.
    target_bound : float
        Targets are clipped to [0, target_bound].
    """

    margin_cap: float = 3.0
    target_bound: float = 10.0

    name = "poisson"
    convex = True

    def __post_init__(self) -> None:
        """Check both numbers."""
        positive("target_bound", self.target_bound)
        if not math.log(self.target_bound) <= finite("margin_cap", self.margin_cap) <= 300.0:
            raise InvalidParameterError(
                "margin_cap must lie between log(target_bound), so that the largest count can be predicted, and 300."
            )

    @staticmethod
    def value(margin: Any, target: Any, margin_cap: float, target_bound: float) -> Any:
        """Half the unit deviance; the part without the margin makes it 0 at the best margin."""
        inner = np.minimum(margin, margin_cap)
        rate = np.exp(inner) * (1.0 + (margin - inner))
        return rate - target * margin + target * np.log(np.maximum(target, 1e-300)) - target

    @staticmethod
    def derivative(margin: Any, target: Any, margin_cap: float, target_bound: float) -> Any:
        """Capped rate minus count."""
        return np.exp(np.minimum(margin, margin_cap)) - target

    def slope_bound(self, margin_bound: float) -> float:
        """The capped rate, or the largest count."""
        return max(math.exp(min(self.margin_cap, margin_bound)), self.target_bound)

    def curvature_bound(self, margin_bound: float) -> float:
        """The capped rate."""
        return math.exp(min(self.margin_cap, margin_bound))

    @property
    def target_range(self) -> tuple[float, float]:
        """Counts up to the declared bound."""
        return 0.0, self.target_bound

    @property
    def clipped_range(self) -> tuple[float, float] | None:
        """The declared range."""
        return self.target_range

    def encode(self, target: Array) -> Array:
        """Clip counts to the declared range; NaN stays NaN."""
        return np.clip(target, *self.target_range)
