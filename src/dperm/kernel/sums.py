"""Sums over all rows of a source: what every answer is made of before noise."""

import copy
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.block import Block
from dperm.kernel.exact.words import Stream
from dperm.kernel.noise import Noise
from dperm.kernel.objectives import Steps, objective_of
from dperm.kernel.parts import (
    DifferencePart,
    FactsPart,
    GradientPart,
    HessianPart,
    MomentsPart,
    RiskPart,
    RowPart,
    SlopePart,
)
from dperm.kernel.sampling import Batches, Sampling
from dperm.kernel.source import Source
from dperm.problem import Problem

Array = NDArray[np.float64]


class RowSums:
    """Sums of what an objective takes of every row, or of every row in a Poisson sample.

    Parameters
    ----------
    source : Source
        The rows, wherever they are.
    problem : Problem
        What is minimised.
    pool : Executor
        Threads.
    sampling : Sampling
        Draws batches.
    """

    def __init__(self, source: Source, problem: Problem, pool: Executor, sampling: Sampling) -> None:
        self.source = source
        self.objective = objective_of(problem)
        self._problem, self._pool, self._sampling = problem, pool, sampling

    def of(self, problem: Problem) -> "RowSums":
        """The same rows, bounded and encoded as they are, with another loss: that of this problem."""
        sums = copy.copy(self)
        sums.objective = objective_of(problem)
        return sums

    def gradient(self, w: Array, bound: float | None = None, rate: float = 1.0) -> Array:
        """Σ ∇f(w, z_i), every row's part at most `bound` long; an empty batch gives zeros."""
        sample = None if rate == 1.0 else self._sampling.next(rate)
        return np.asarray(self._total(GradientPart(w, bound, sample)))

    def difference(
        self, w: Array, anchor: Array, bound: float, rate: float, ball_smoothness: float | None = None
    ) -> Array:  # fmt: skip
        """Σ ∇f(w, z_i) − ∇f(anchor, z_i) over a sample, every row's part at most `bound` long.

        With an L it also lies in the ball of diameter L‖w − anchor‖ around (L/2)(w − anchor).
        """
        return np.asarray(
            self._total(DifferencePart(w, anchor, bound, self._sampling.next(rate), ball_smoothness))
        )  # fmt: skip

    def hessian(self, w: Array, stride: int = 1, bound: float = np.inf) -> Array:
        """Σ ∇²f(w, z_i) over every stride-th row of every block."""
        return np.asarray(self._total(HessianPart("hessian_sum", w, stride, bound)))

    def moments(self, target_scale: float, bound: float) -> Array:
        """Σ z_i z_iᵀ, z_i a row with its constant and its target, at most √bound long."""
        problem = self._problem
        return np.asarray(
            self._total(MomentsPart(problem.intercept_value, target_scale, bound, problem.weight_bound))
        )  # fmt: skip

    def slopes(self, w: Array, share: float) -> Array:
        """Σ s_i and Σ |s_i|, s_i a row's slope over the bound on slopes, clipped to ±share."""
        return np.asarray(self._total(SlopePart(w, share)))

    def hessian_blocks(self, w: Array, stride: int, bound: float) -> Array:
        """The part of `hessian` within each output's coefficients, of shape (outputs, p, p): for a search, roughly."""
        return np.asarray(self._total(HessianPart("hessian_blocks", w, stride, bound)))

    def hessian_diagonals(self, w: Array, stride: int, bound: float) -> Array:
        """The diagonals of `hessian_blocks`, of shape (outputs, p)."""
        return np.asarray(self._total(HessianPart("hessian_diagonals", w, stride, bound)))

    def risk(self, w: Array) -> float:
        """Σ f(w, z_i)."""
        return float(self._total(RiskPart(w)))

    def steps(self, steps: Steps, rate: float, noise: Noise, sensitivity: float) -> tuple[Array, Array]:
        """Noisy proximal steps: iterates and directions, all of them noisy.

        Rows that are one block in memory are stepped over in one compiled loop where there is one, others step by step.
        """
        block = self.source._only_block(self._problem)
        if self.objective.has_compiled_steps and block is not None:
            batches = self._batches(block, rate, len(steps.step_sizes))

            def loop(add_noise: Any, scale: float, words: Stream) -> tuple[Array, Array]:
                return self.objective.steps(block, batches, steps, add_noise, scale, words)

            return noise.release_steps(loop, sensitivity)
        w, iterates, directions = steps.start, [], []
        for step_size in map(float, steps.step_sizes):
            if steps.anchor is None or steps.bound is None:
                total = self.gradient(w, steps.bound, rate)
            else:
                total = self.difference(w, steps.anchor, steps.bound, rate)
            directions.append(noise.release(total / steps.divisor + steps.offset, sensitivity))
            w = self._problem.prox(w - step_size * directions[-1], step_size)
            iterates.append(w)
        return np.stack(iterates), np.stack(directions)

    def facts(self) -> list[Any]:
        """What became of the rows: counted when they were read."""
        facts: list[Any] = self._total(FactsPart())
        return facts

    def _total(self, part: RowPart) -> Any:
        return self.source._total(self._problem, part, self.objective, self._pool)

    def _batches(self, block: Block, rate: float, n_steps: int = 1) -> Batches:
        return block.batches(self._sampling.next(rate), 0, n_steps)
