"""Losses of a margin, f(w, (x, y)) = ℓ(⟨w, x⟩, y), on fused kernels."""

from concurrent.futures import Executor
from typing import Any

import numpy as np

from dperm.errors import UnsupportedProblemError
from dperm.kernel.block import Block
from dperm.kernel.exact.words import Stream
from dperm.kernel.objectives.base import Array, Indices, Objective, Steps
from dperm.kernel.objectives.margin_hessians import hessian_sum
from dperm.kernel.objectives.margin_slopes import slope_sums
from dperm.kernel.objectives.margin_steps import take_steps
from dperm.kernel.objectives.margin_sums import difference_sum, gradient_sum
from dperm.kernel.objectives.rough_hessians import hessian_blocks, hessian_diagonals
from dperm.kernel.sampling import Batches
from dperm.mechanisms.setting import Setting, margin_rounding
from dperm.problem import Problem
from dperm.problem.losses import Loss


class MarginObjective(Objective):
    """A loss of one or several margins, linear in the coefficients.

    The kernels clip slopes: a slope's bound is the bound on the gradient over the longest row that may come.
    """

    takes = Loss
    has_compiled_steps = True

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        if not isinstance(problem.loss, Loss):
            raise UnsupportedProblemError(f"{problem.loss.name} is not a loss of margins.")
        self.loss = problem.loss

    @property
    def has_hessian(self) -> bool:
        """For one margin: a row's part then has rank one."""
        return self.loss.n_outputs == 1

    @property
    def bends(self) -> bool:
        """For any number of margins."""
        return True

    @property
    def ignores_shifts(self) -> bool:
        """Whether a number added to all margins changes no slope, as for softmax: tried out at one position."""
        here, there = np.zeros(self.loss.n_outputs), np.zeros(self.loss.n_outputs)
        if self.loss.n_outputs == 1:
            return False
        margin = np.linspace(-1.0, 1.0, self.loss.n_outputs)
        self.loss.derivative(margin, 0.0, here, *self.loss.parameters)
        self.loss.derivative(margin + 1.0, 0.0, there, *self.loss.parameters)
        return bool(np.allclose(here, there, rtol=0.0, atol=1e-12))

    def gradient_sum(
        self, block: Block, w: Array, bound: float | None, pool: Executor, expected: int | None = None
    ) -> Array:  # fmt: skip
        """Σ ℓ'(⟨w, x_i⟩, y_i) x_i."""
        problem = self.problem
        return gradient_sum(self.loss, self._slope_bound(block, bound), block, w, problem.intercept_value, pool)

    def difference_sum(
        self, block: Block, chosen: Indices, w: Array, anchor: Array, bound: float, pool: Executor,
        ball_smoothness: float | None = None,
    ) -> Array:  # fmt: skip
        """Σ over the chosen rows of [ℓ'(⟨w, x_i⟩, y_i) − ℓ'(⟨anchor, x_i⟩, y_i)] x_i."""
        problem = self.problem
        curvature = None if ball_smoothness is None else ball_smoothness / (problem.slope_scale * problem.row_scale)
        slope_bound = bound / problem.slope_scale
        return difference_sum(
            self.loss, slope_bound, curvature, block, chosen, w, anchor, problem.intercept_value, pool
        )  # fmt: skip

    def hessian_sum(self, block: Block, w: Array, stride: int, bound: float) -> Array:
        """Σ ℓ''(⟨w, x_i⟩, y_i) x_i x_iᵀ over every stride-th row; for one margin only."""
        if not self.has_hessian:
            return super().hessian_sum(block, w, stride, bound)
        return hessian_sum(*self._curved(block, bound), block, w, self.problem.intercept_value, stride)

    def hessian_blocks(self, block: Block, w: Array, stride: int, bound: float) -> Array:
        """Σ ∂ℓ'_k/∂m_k x_i x_iᵀ over every stride-th row, for every output k."""
        return hessian_blocks(*self._curved(block, bound), block, w, self.problem.intercept_value, stride)

    def hessian_diagonals(self, block: Block, w: Array, stride: int, bound: float) -> Array:
        """The same with squares of entries alone."""
        return hessian_diagonals(*self._curved(block, bound), block, w, self.problem.intercept_value, stride)

    def _curved(self, block: Block, bound: float) -> tuple[Loss, float, float]:
        problem = self.problem
        return self.loss, bound / problem.slope_scale, problem.curvature_bound(block.table.shape[1])

    def slope_sums(self, block: Block, w: Array, share: float) -> Array:
        """Σ s_i and Σ |s_i|, s_i = ℓ'(⟨w, x_i⟩, y_i)/S clipped to ±share; for one margin only."""
        if not self.has_hessian:
            return super().slope_sums(block, w, share)
        problem = self.problem
        unit = problem.slope_bound(block.table.shape[1])
        sums = slope_sums(self.loss, share * unit, block, w, problem.intercept_value)
        return sums / (unit * problem.weight_bound)

    def risk_sum(self, block: Block, w: Array) -> float:
        """Σ ℓ(⟨w, x_i⟩, y_i)."""
        loss, width = self.loss, block.table.shape[1]
        matrix = w.reshape(loss.n_outputs, -1)
        with np.errstate(invalid="ignore"):
            margins = block.scale[:, None] * np.asarray(block.table @ matrix[:, :width].T)
        if self.problem.intercept:
            margins = margins + self.problem.intercept_value * matrix[:, width]
        counted = block.weight > 0
        margin = margins[counted] if loss.n_outputs > 1 else margins[counted, 0]
        values = loss.value(margin, block.target[counted], *loss.parameters)
        return float((values * block.weight[counted]).sum())

    def gradient_rounding(self, setting: Setting, norm: float) -> float:
        """Margins are rounded, and slopes with them."""
        return margin_rounding(setting, norm)

    def steps(
        self, block: Block, batches: Batches, steps: Steps, add_noise: Any, scale: float, words: Stream
    ) -> tuple[Array, Array]:  # fmt: skip
        """All steps in one compiled loop, coordinate-wise proximal steps included."""
        bound = self._slope_bound(block, steps.bound)
        return take_steps(
            self.loss, bound, block, batches, steps, self.problem.intercept_value, add_noise, scale, words
        )  # fmt: skip

    def _slope_bound(self, block: Block, bound: float | None) -> float:
        problem = self.problem
        return problem.slope_bound(block.table.shape[1]) if bound is None else bound / problem.slope_scale
