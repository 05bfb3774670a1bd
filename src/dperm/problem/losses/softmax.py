"""Softmax (multinomial logistic) loss for K classes."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dperm.errors import InvalidParameter
from dperm.problem.losses.base import Array, Loss
from dperm.validation import count


@dataclass(frozen=True)
class Softmax(Loss):
    """ℓ(m, k) = log Σ_j exp(m_j) − m_k: the gradient norm is at most √2, the curvature at most 1/2."""

    n_classes: int

    name = "softmax"
    convex = True

    def __post_init__(self) -> None:
        """Check the number of classes."""
        if count("n_classes", self.n_classes) < 2:
            raise InvalidParameter("n_classes must be at least 2.")

    @property
    def n_outputs(self) -> int:
        """One margin per class."""
        return self.n_classes

    @property
    def parameters(self) -> tuple[float, ...]:
        """The formula has none."""
        return ()

    @staticmethod
    def value(margin: Any, target: Any) -> Any:
        """Log-sum-exp of the margins minus the margin of the true class."""
        margin = np.asarray(margin, dtype=np.float64)
        top = margin.max(axis=-1, keepdims=True)
        total = np.log(np.exp(margin - top).sum(axis=-1)) + top[..., 0]
        index = np.asarray(target, dtype=np.intp)[..., None]
        return total - np.take_along_axis(margin, index, axis=-1)[..., 0]

    @staticmethod
    def derivative(margin: Any, target: Any, out: Any) -> Any:
        """Write softmax(m) − e_k into `out`."""
        top = margin[0]
        for k in range(margin.shape[0]):
            top = max(top, margin[k])
        total = 0.0
        for k in range(margin.shape[0]):
            out[k] = np.exp(margin[k] - top)
            total += out[k]
        for k in range(margin.shape[0]):
            out[k] /= total
        out[int(target)] -= 1.0

    def slope_bound(self, margin_bound: float) -> float:
        """‖s − e_k‖² = Σ_{j≠k} s_j² + (1 − s_k)² ≤ 2."""
        return math.sqrt(2.0)

    def curvature_bound(self, margin_bound: float) -> float:
        """diag(s) − s sᵀ has spectral norm at most 1/2."""
        return 0.5

    @property
    def target_range(self) -> tuple[float, float]:
        """Class numbers."""
        return 0.0, float(self.n_classes - 1)

    @property
    def value_at_zero(self) -> float:
        """All classes are equally likely at w = 0."""
        return math.log(self.n_classes)

    def encode(self, target: Array) -> Array:
        """Keep whole numbers 0 … K−1, turn everything else into NaN."""
        known = (target >= 0) & (target < self.n_classes) & (np.floor(target) == target)
        return np.where(known, target, np.nan)

    @classmethod
    def example(cls) -> Self:
        """Three classes."""
        return cls(n_classes=3)
