"""Sums over all rows of a source, block by block: what every answer is made of before noise."""

import copy
import functools
import operator
from collections.abc import Iterable
from concurrent.futures import Executor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm.problem import Problem
from dperm.trusted.block import Block
from dperm.trusted.exact.words import Stream
from dperm.trusted.noise import Noise
from dperm.trusted.objectives import Steps, objective_of
from dperm.trusted.row_facts import RowFacts
from dperm.trusted.sampling import Batches, draw_batches
from dperm.trusted.sources.base import Source

Array = NDArray[np.float64]
Sum = TypeVar("Sum", Array, float)


class RowSums:
    """Sums of what an objective takes of every row, or of every row in a Poisson sample.

    Parameters
    ----------
    source : Source
        The rows, in any number of blocks.
    problem : Problem
        What is minimised.
    pool : Executor
        Threads.
    sampling : Stream
        Draws batches.
    """

    def __init__(self, source: Source, problem: Problem, pool: Executor, sampling: Stream) -> None:
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
        return add_up(
            self.objective.gradient_sum(self._sample(block, rate), w, bound, self._pool) for block in self._blocks()
        )

    def difference(
        self, w: Array, anchor: Array, bound: float, rate: float, ball_smoothness: float | None = None
    ) -> Array:  # fmt: skip
        """Σ ∇f(w, z_i) − ∇f(anchor, z_i) over a sample, every row's part at most `bound` long.

        With an L it also lies in the ball of diameter L‖w − anchor‖ around (L/2)(w − anchor).
        """
        return add_up(
            self.objective.difference_sum(
                block, self._batches(block, rate).rows, w, anchor, bound, self._pool, ball_smoothness
            )
            for block in self._blocks()
        )

    def hessian(self, w: Array, stride: int = 1, bound: float = np.inf) -> Array:
        """Σ ∇²f(w, z_i) over every stride-th row of every block."""
        return add_up(self.objective.hessian_sum(block, w, stride, bound) for block in self._blocks())

    def slopes(self, w: Array, share: float) -> Array:
        """Σ s_i and Σ |s_i|, s_i a row's slope over the bound on slopes, clipped to ±share."""
        return add_up(self.objective.slope_sums(block, w, share) for block in self._blocks())

    def hessian_blocks(self, w: Array, stride: int, bound: float) -> Array:
        """The part of `hessian` within each output's coefficients, of shape (outputs, p, p): for a search, roughly."""
        return add_up(self.objective.hessian_blocks(block, w, stride, bound) for block in self._blocks())

    def hessian_diagonals(self, w: Array, stride: int, bound: float) -> Array:
        """The diagonals of `hessian_blocks`, of shape (outputs, p)."""
        return add_up(self.objective.hessian_diagonals(block, w, stride, bound) for block in self._blocks())

    def risk(self, w: Array) -> float:
        """Σ f(w, z_i)."""
        return add_up(self.objective.risk_sum(block, w) for block in self._blocks())

    def steps(self, steps: Steps, rate: float, noise: Noise, sensitivity: float) -> tuple[Array, Array]:
        """Noisy proximal steps: iterates and directions, all of them noisy.

        Rows in one block are stepped over in one compiled loop where there is one, others step by step.
        """
        blocks = self._blocks()
        if self.objective.has_compiled_steps and isinstance(blocks, tuple) and len(blocks) == 1:
            batches = self._batches(blocks[0], rate, len(steps.step_sizes))

            def loop(add_noise: Any, scale: float, words: Stream) -> tuple[Array, Array]:
                return self.objective.steps(blocks[0], batches, steps, add_noise, scale, words)

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

    def facts(self) -> RowFacts:
        """What became of the rows: counted when they were read, so of blocks that are kept it costs nothing."""
        return functools.reduce(operator.add, (block.facts for block in self._blocks() if block.facts is not None))

    def _blocks(self) -> Iterable[Block]:
        return self.source.blocks(self._problem)

    def _sample(self, block: Block, rate: float) -> Block:
        return block if rate == 1.0 else block.take(self._batches(block, rate).rows)

    def _batches(self, block: Block, rate: float, n_steps: int = 1) -> Batches:
        return draw_batches(len(block), rate, n_steps, self._sampling)


def add_up(parts: Iterable[Sum]) -> Sum:
    """A sum by pairs: no part goes through more than log₂(number of parts) + 1 additions.

    So the padding of sensitivities for rounding (`summation_slack`) covers any number of blocks.
    """
    waiting: list[tuple[int, Sum]] = []
    for part in parts:
        level = 0
        while waiting and waiting[-1][0] == level:
            part, level = waiting.pop()[1] + part, level + 1
        waiting.append((level, part))
    _, total = waiting.pop()
    while waiting:
        total = waiting.pop()[1] + total
    return total
