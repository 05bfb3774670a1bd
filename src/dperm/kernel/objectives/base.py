"""What rows contribute to a sum, over one block of bounded rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.errors import UnsupportedProblemError
from dperm.kernel.block import Block
from dperm.kernel.exact.words import Stream
from dperm.kernel.sampling import Batches
from dperm.mechanisms.setting import Setting
from dperm.problem import Problem
from dperm.problem.losses.base import RowLoss
from dperm.problem.prox import CoordinateProx

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Steps:
    """Proximal steps w_t = prox(w_{t−1} − η_t v_t) along v_t = (batch's sum at w_{t−1}) / divisor + offset + noise.

    Attributes
    ----------
    start : array
        w_0.
    step_sizes : array of shape (m,)
        η_1 … η_m.
    divisor : float
        What a batch's sum is divided by, qn.
    bound : float or None
        No row adds more than this to a sum; None for the loss's own bound on gradients.
    anchor : array, optional
        Differences to the gradients at this point are added up; without it gradients.
    offset : array
        Added to every mean: the anchor's gradient, or zeros.
    prox : CoordinateProx or callable
        The proximal step: compiled with the loop where it works coordinate by coordinate.
    """

    start: Array
    step_sizes: Array
    divisor: float
    bound: float | None
    anchor: Array | None
    offset: Array
    prox: CoordinateProx | Callable[[Array, float], Array]


class Objective(ABC):
    """Sums over a block of rows of bounded parts, one per row.

    Parameters
    ----------
    problem : Problem
        What is minimised.

    Guarantees
    ----------
    No row's part is longer than the bound, whatever the row holds and whatever the loss says about itself. No part goes
    through a chain of additions longer than `summation_block` and a few more: the padding of sensitivities rests on it.
    """

    # The losses that it sums.
    takes: ClassVar[type[RowLoss]]
    # Whether `steps` is there, and faster than one step after another.
    has_compiled_steps: ClassVar[bool] = False

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @property
    def has_hessian(self) -> bool:
        """Whether `hessian_sum` is there."""
        return False

    @property
    def bends(self) -> bool:
        """Whether `hessian_blocks` and `hessian_diagonals` are there."""
        return False

    @property
    def ignores_shifts(self) -> bool:
        """Whether the same vector added to the coefficients of every output changes no row's gradient."""
        return False

    @abstractmethod
    def gradient_sum(self, block: Block, w: Array, bound: float | None, pool: Executor) -> Array:
        """Σ ∇f(w, z_i), every row's part at most `bound` long; None stands for the declared Lipschitz constant."""

    @abstractmethod
    def difference_sum(
        self, block: Block, chosen: Indices, w: Array, anchor: Array, bound: float, pool: Executor,
        ball_smoothness: float | None = None,
    ) -> Array:  # fmt: skip
        """Σ over the chosen rows of ∇f(w, z_i) − ∇f(anchor, z_i), every row's part at most `bound` long.

        With an L it also lies in the ball of diameter L‖w − anchor‖ around (L/2)(w − anchor).
        """

    @abstractmethod
    def risk_sum(self, block: Block, w: Array) -> float:
        """Σ f(w, z_i), exact."""

    @abstractmethod
    def gradient_rounding(self, setting: Setting, norm: float) -> float:
        """How far rounding within a row can move the mean gradient at a point of this norm."""

    def hessian_sum(self, block: Block, w: Array, stride: int, bound: float) -> Array:
        """Σ ∇²f(w, z_i) over every stride-th row, every row's part at most `smoothness` long.

        Rows whose gradient is clipped to `bound` have no curvature.
        """
        raise UnsupportedProblemError(f"sums of Hessians are not available for {self.problem.loss.name}.")

    def slope_sums(self, block: Block, w: Array, share: float) -> Array:
        """Σ s_i and Σ |s_i|, s_i a row's slope over the bound on slopes, clipped to ±share."""
        raise UnsupportedProblemError(f"sums of slopes are not available for {self.problem.loss.name}.")

    def hessian_blocks(self, block: Block, w: Array, stride: int, bound: float) -> Array:
        """`hessian_sum` within each output's coefficients, of shape (outputs, p, p); rough, and never released."""
        raise UnsupportedProblemError(f"sums of Hessians are not available for {self.problem.loss.name}.")

    def hessian_diagonals(self, block: Block, w: Array, stride: int, bound: float) -> Array:
        """The diagonals of `hessian_blocks`, of shape (outputs, p)."""
        raise UnsupportedProblemError(f"sums of Hessians are not available for {self.problem.loss.name}.")

    def steps(
        self, block: Block, batches: Batches, steps: Steps, add_noise: Any, scale: float, words: Stream
    ) -> tuple[Array, Array]:  # fmt: skip
        """All steps in one compiled loop: iterates and directions.

        `add_noise` is the compiled function of `Noise` that turns a vector of exact numbers, in place, into what may be
        released, with noise of this scale from these random words.
        """
        raise UnsupportedProblemError(f"there is no compiled loop for {self.problem.loss.name}.")
