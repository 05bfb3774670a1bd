"""What a block of rows adds to one sum: plain data, so that it can be sent to where the rows are.

Every answer is made of such sums. A source adds the parts up wherever its rows live: in this process, block by block,
or on the workers of a cluster.
"""

from abc import ABC, abstractmethod
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.block import Block
from dperm.kernel.moments import moment_sum
from dperm.kernel.objectives import Objective
from dperm.kernel.sampling import Sample

Array = NDArray[np.float64]


class RowPart(ABC):
    """Taken of a block of encoded and bounded rows."""

    @abstractmethod
    def of(self, block: Block, place: int, objective: Objective, pool: Executor) -> Any:
        """What the block at this index of the table adds."""


@dataclass(frozen=True, eq=False, repr=False)
class GradientPart(RowPart):
    """Σ ∇f(w, z_i), over all rows or over a sample; see `Objective.gradient_sum`."""

    w: Array
    bound: float | None
    sample: Sample | None

    def of(self, block: Block, place: int, objective: Objective, pool: Executor) -> Array:
        """An empty batch gives zeros."""
        if self.sample is not None:
            block = block.take(block.batches(self.sample, place).rows)
        return objective.gradient_sum(block, self.w, self.bound, pool)


@dataclass(frozen=True, eq=False, repr=False)
class DifferencePart(RowPart):
    """Σ ∇f(w, z_i) − ∇f(anchor, z_i) over a sample; see `Objective.difference_sum`."""

    w: Array
    anchor: Array
    bound: float
    sample: Sample
    ball_smoothness: float | None

    def of(self, block: Block, place: int, objective: Objective, pool: Executor) -> Array:
        """An empty batch gives zeros."""
        chosen = block.batches(self.sample, place).rows
        return objective.difference_sum(
            block, chosen, self.w, self.anchor, self.bound, pool, self.ball_smoothness
        )  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class HessianPart(RowPart):
    """Σ ∇²f(w, z_i) over every stride-th row, or what `method` of the objective takes of it."""

    method: str
    w: Array
    stride: int
    bound: float

    def of(self, block: Block, place: int, objective: Objective, pool: Executor) -> Array:
        """Of `hessian_sum`, `hessian_blocks` or `hessian_diagonals`."""
        return np.asarray(getattr(objective, self.method)(block, self.w, self.stride, self.bound))


@dataclass(frozen=True, repr=False)
class MomentsPart(RowPart):
    """Σ z_i z_iᵀ; see `moment_sum`."""

    intercept: float
    target_scale: float
    bound: float
    weight_bound: float

    def of(self, block: Block, place: int, objective: Objective, pool: Executor) -> Array:
        """A matrix of as many rows as there are columns, the constant and the target included."""
        return moment_sum(block, self.intercept, self.target_scale, self.bound, self.weight_bound)


@dataclass(frozen=True, eq=False, repr=False)
class SlopePart(RowPart):
    """Σ s_i and Σ |s_i|; see `Objective.slope_sums`."""

    w: Array
    share: float

    def of(self, block: Block, place: int, objective: Objective, pool: Executor) -> Array:
        """Two numbers."""
        return objective.slope_sums(block, self.w, self.share)


@dataclass(frozen=True, eq=False, repr=False)
class RiskPart(RowPart):
    """Σ f(w, z_i), exact."""

    w: Array

    def of(self, block: Block, place: int, objective: Objective, pool: Executor) -> float:
        """One number."""
        return objective.risk_sum(block, self.w)


@dataclass(frozen=True, repr=False)
class FactsPart(RowPart):
    """What became of the rows when they were read."""

    def of(self, block: Block, place: int, objective: Objective, pool: Executor) -> list[Any]:
        """Counted already: lists are put together."""
        return [] if block.facts is None else [block.facts]
