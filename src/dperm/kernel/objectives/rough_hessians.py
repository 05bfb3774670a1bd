"""Roughly how a loss of margins bends, for the search for a minimum: nothing of it is released."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from dperm.kernel.block import Block
from dperm.kernel.coded import plain
from dperm.kernel.objectives.margin_hessians import ROWS_AT_ONCE, to_curvatures
from dperm.kernel.objectives.margin_rows import Array, slope_of
from dperm.problem.losses import Loss


def hessian_blocks(
    loss: Loss, slope_bound: float, curvature_bound: float, block: Block, w: Array, intercept: float, stride: int
) -> Array:  # fmt: skip
    """Σ_i weight_i ∂ℓ'_k/∂m_k x_i x_iᵀ over every stride-th row, for every output k: of shape (outputs, p, p).

    For a search that wants to know roughly how the loss bends: nothing of it is released. Parameters as of
    `hessian_sum`, for any number of margins.
    """
    width = w.size // loss.n_outputs
    total = np.zeros((loss.n_outputs, width, width))
    for part, curvatures in _parts(loss, slope_bound, curvature_bound, block, w, intercept, stride):
        for k in range(loss.n_outputs):
            roots = np.sqrt(curvatures[:, k])
            if sparse.issparse(part):
                weighted = (sparse.diags_array(roots) @ part).tocsr()
                total[k] += (weighted.T @ weighted).toarray()
            else:
                weighted = roots[:, None] * part
                total[k] += weighted.T @ weighted
    return total


def hessian_diagonals(
    loss: Loss, slope_bound: float, curvature_bound: float, block: Block, w: Array, intercept: float, stride: int
) -> Array:  # fmt: skip
    """The diagonals of `hessian_blocks`, of shape (outputs, p)."""
    total = np.zeros((loss.n_outputs, w.size // loss.n_outputs))
    for part, curvatures in _parts(loss, slope_bound, curvature_bound, block, w, intercept, stride):
        squares = part.multiply(part) if sparse.issparse(part) else part * part
        total += np.asarray(squares.T @ curvatures).T
    return total


def _parts(
    loss: Loss, slope_bound: float, curvature_bound: float, block: Block, w: Array, intercept: float, stride: int
) -> Iterator[tuple[Any, Array]]:  # fmt: skip
    """Every stride-th row, scaled and with its constant column, and weight · ∂ℓ'_k/∂m_k of shape (rows, outputs)."""
    matrix = w.reshape(loss.n_outputs, -1)
    for first in range(0, len(block), ROWS_AT_ONCE * stride):
        chosen = slice(first, first + ROWS_AT_ONCE * stride, stride)
        counted = np.flatnonzero(block.weight[chosen] != 0.0)
        part = plain(block.table[chosen])[counted]  # ignored rows may hold what is not a number
        scales, weights, targets = (values[chosen][counted] for values in (block.scale, block.weight, block.target))
        constant = np.full((counted.size, int(intercept != 0.0)), intercept)
        if sparse.issparse(part):
            part = sparse.hstack([sparse.diags_array(scales) @ part, sparse.csr_array(constant)], format="csr")
        else:
            part = np.hstack([scales[:, None] * part, constant])
        curvatures = np.ascontiguousarray(part @ matrix.T)
        slope = slope_of(loss, slope_bound, curvature_bound)
        to_curvatures(slope, np.ones(counted.size), targets, 0.0, curvatures)
        yield part, weights[:, None] * curvatures
