"""What kernels for margin losses are handed: rows and slopes by name, so that two arrays cannot be mistaken."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.kernel.block import Block
from dperm.kernel.coded import plain
from dperm.kernel.compiling import compiled
from dperm.problem.losses import Loss

Array = NDArray[np.float64]


class Dense(NamedTuple):
    """A table whose entries are all stored."""

    table: NDArray[Any]


class Csr(NamedTuple):
    """A CSR matrix: row i has data[k] in the column indices[k], k from indptr[i] to indptr[i + 1]."""

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]


class Rows(NamedTuple):
    """Bounded rows: what they hold, their scales, weights and targets, and the value of the constant column."""

    columns: Dense | Csr
    scale: Array
    weight: Array
    target: Array
    intercept: float


class Derivative(NamedTuple):
    """A compiled derivative with its parameters; the largest slope, or change of it, and the largest curvature."""

    function: Any
    parameters: tuple[Any, ...]
    bound: float
    curvature: float


def columns_of(table: Any) -> Dense | Csr:
    """The arrays of a dense or sparse table; coded rows are written out."""
    table = plain(table)
    return Csr(table.data, table.indices, table.indptr) if sparse.issparse(table) else Dense(table)


def rows_of(block: Block, intercept: float) -> Rows:
    """Of a block; the intercept is 0 where there is no constant column."""
    return Rows(
        columns=columns_of(block.table), scale=block.scale, weight=block.weight, target=block.target,
        intercept=intercept,
    )  # fmt: skip


def derivative_of(loss: Loss, bound: float, curvature: float = 0.0) -> Derivative:
    """Of a loss."""
    return Derivative(
        function=compiled(loss.derivative), parameters=loss.parameters, bound=bound, curvature=curvature
    )  # fmt: skip
