"""Roughly how a loss of margins bends, for the search for a minimum: nothing of it is released."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from dperm.kernel.block import Block
from dperm.kernel.objectives.margin_hessians import to_curvatures
from dperm.kernel.objectives.margin_rows import Array, slope_of
from dperm.kernel.products import ROWS_AT_ONCE, counted_rows, margins_of, product_sum, square_sums, weighted_sums
from dperm.problem.losses import Loss


def hessian_blocks(
    loss: Loss, slope_bound: float, curvature_bound: float, block: Block, w: Array, intercept: float, stride: int
) -> Array:  # fmt: skip
    """Σ_i weight_i ∂ℓ'_k/∂m_k x_i x_iᵀ over every stride-th row, for every output k: of shape (outputs, p, p).

    For a search that wants to know roughly how the loss bends: nothing of it is released. Parameters as of
    `hessian_sum`, for any number of margins.
    """
    width, p = w.size // loss.n_outputs, block.table.shape[1]
    total = np.zeros((loss.n_outputs, width, width))
    for part, scale, factors in _parts(loss, slope_bound, curvature_bound, block, w, intercept, stride):
        for k, own in enumerate(total):
            own[:p, :p] += product_sum(part, factors[:, k] * scale * scale, ROWS_AT_ONCE)
        if intercept:
            total[:, :p, p] += weighted_sums(part, intercept * scale[:, None] * factors, ROWS_AT_ONCE).T
            total[:, p, p] += intercept * intercept * factors.sum(axis=0)
    if intercept:
        total[:, p, :p] = total[:, :p, p]
    return total


def hessian_diagonals(
    loss: Loss, slope_bound: float, curvature_bound: float, block: Block, w: Array, intercept: float, stride: int
) -> Array:  # fmt: skip
    """The diagonals of `hessian_blocks`, of shape (outputs, p)."""
    p = block.table.shape[1]
    total = np.zeros((loss.n_outputs, w.size // loss.n_outputs))
    for part, scale, factors in _parts(loss, slope_bound, curvature_bound, block, w, intercept, stride):
        total[:, :p] += square_sums(part, (scale * scale)[:, None] * factors)
        total[:, p:] += intercept * intercept * factors.sum(axis=0)[:, None]
    return total


def _parts(
    loss: Loss, slope_bound: float, curvature_bound: float, block: Block, w: Array, intercept: float, stride: int
) -> Iterator[tuple[Any, Array, Array]]:  # fmt: skip
    """Every stride-th row that counts, its scale, and weight · ∂ℓ'_k/∂m_k of shape (rows, outputs)."""
    points, slope = w.reshape(loss.n_outputs, -1), slope_of(loss, slope_bound, curvature_bound)
    for first in range(0, len(block), ROWS_AT_ONCE * stride):
        part, numbers = counted_rows(block.table, slice(first, first + ROWS_AT_ONCE * stride, stride), block.weight)
        scale, weight, target = (values[numbers] for values in (block.scale, block.weight, block.target))
        curvatures = margins_of(part, points) * scale[:, None]
        if intercept:
            curvatures += intercept * points[:, -1]
        to_curvatures(slope, np.ones(numbers.size), target, 0.0, curvatures)
        yield part, scale, weight[:, None] * curvatures
