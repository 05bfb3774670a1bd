"""Softmax (multinomial logistic) loss for K classes, and its form with cut gradients."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.problem.losses.base import ClassLoss
from dperm.validation import positive


@dataclass(frozen=True)
class Softmax(ClassLoss):
    """ℓ(m, k) = log Σ_j exp(m_j) − m_k: the gradient norm is at most √2, the curvature at most 1/2.

    Parameters
    ----------
    n_classes : int
        K.
    cut : float
        c, the largest probability that the gradient gives to all wrong classes together. ℓ is the largest of
        ⟨p, m⟩ + entropy(p) − m_k over the p of the simplex with p_k ≥ 1 − c: convex, the softmax loss where its own p
        is among them, and elsewhere linear in m_k, with a gradient of at most √2 c.
    """

    n_classes: int
    cut: float = 1.0

    name = "softmax"
    convex = True
    its_slope_is_the_softmax = True

    def __post_init__(self) -> None:
        """Check both numbers."""
        super().__post_init__()
        if positive("cut", self.cut) > 1.0:
            raise InvalidParameterError(f"cut must lie in (0, 1], got {self.cut!r}.")

    @property
    def slope_is_the_softmax(self) -> bool:
        """Whether it is not cut yet: how much is cut is for a mechanism to say."""
        return super().slope_is_the_softmax and self.cut == 1.0

    @property
    def parameters(self) -> tuple[float, ...]:
        """Only the cut enters the formula."""
        return (float(self.cut),)

    @staticmethod
    def value(margin: Any, target: Any, cut: float = 1.0) -> Any:
        """Log-sum-exp of the margins minus the margin of the true class; where that is cut, c times a larger gap."""
        margin = np.asarray(margin, dtype=np.float64)
        index = np.asarray(target, dtype=np.intp)[..., None]
        true = np.take_along_axis(margin, index, axis=-1)
        top = margin.max(axis=-1, keepdims=True)
        whole = np.log(np.exp(margin - top).sum(axis=-1)) + (top - true)[..., 0]
        if cut == 1.0:
            return whole
        # How far the wrong classes together are above the true one: the odds of a wrong class, in logarithms.
        wrong = np.where(np.arange(margin.shape[-1]) == index, -np.inf, margin)
        peak = wrong.max(axis=-1, keepdims=True)
        gap = np.log(np.exp(wrong - peak).sum(axis=-1)) + (peak - true)[..., 0]
        entropy = -cut * np.log(cut) - (1.0 - cut) * np.log1p(-cut)
        return np.where(gap > np.log(cut) - np.log1p(-cut), cut * gap + entropy, whole)

    @staticmethod
    def derivative(margin: Any, target: Any, out: Any, cut: float = 1.0) -> Any:
        """Write p − e_k into `out`: p is softmax(m), or has c for all wrong classes together, if that is less."""
        true, top = int(target), margin[0]
        for k in range(margin.shape[0]):
            top = max(top, margin[k])
        wrong = 0.0
        for k in range(margin.shape[0]):
            out[k] = np.exp(margin[k] - top)
            if k != true:
                wrong += out[k]
        total = wrong + out[true]
        if cut < 1.0 and wrong > cut * total:
            for k in range(margin.shape[0]):
                out[k] *= cut / wrong
            out[true] = -cut
        else:
            for k in range(margin.shape[0]):
                out[k] /= total
            out[true] -= 1.0

    def clipped(self, share: float) -> "Softmax":
        """The same with a smaller c: a vector that is made shorter would be no convex function's gradient."""
        return replace(self, cut=share * self.cut)

    def slope_bound(self, margin_bound: float) -> float:
        """‖p − e_k‖² = Σ_{j≠k} p_j² + (1 − p_k)² ≤ 2c²."""
        return math.sqrt(2.0) * self.cut

    def curvature_bound(self, margin_bound: float) -> float:
        """diag(p) − p pᵀ is at most 2 max p_j(1 − p_j), by Gershgorin, and every p_j or 1 − p_j is at most c."""
        return 2.0 * self.cut * (1.0 - self.cut) if self.cut < 0.5 else 0.5

    @property
    def value_at_zero(self) -> float:
        """The entropy of what w = 0 predicts: all classes equally likely, but for the cut."""
        wrong = min(self.cut, 1.0 - 1.0 / self.n_classes)
        return -(1.0 - wrong) * math.log(1.0 - wrong) - wrong * math.log(wrong / (self.n_classes - 1))
