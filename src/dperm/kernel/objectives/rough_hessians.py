"""Roughly how a loss of margins bends, for the search for a minimum: nothing of it is released."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from dperm.kernel.block import Block
from dperm.kernel.coded import plain
from dperm.kernel.compiling import compile_kernel
from dperm.kernel.objectives.margin_gradients import clip_vector
from dperm.kernel.objectives.margin_hessians import MARGIN_STEP, ROWS_AT_ONCE, curvatures_of
from dperm.kernel.objectives.margin_rows import Array, derivative_of
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
        derivative = derivative_of(loss, slope_bound, curvature_bound)
        if loss.n_outputs == 1:
            curvatures_of(derivative, np.ones(counted.size), targets, 0.0, curvatures[:, 0])
        else:
            _output_curvatures(derivative, targets, curvatures)
        yield part, weights[:, None] * curvatures


@compile_kernel
def _output_curvatures(derivative, target, margins):  # type: ignore[no-untyped-def]
    # Turns margins, one row of outputs each, into the curvature along every output, in place.
    slope_bound, bound = derivative.bound, derivative.curvature
    n_outputs = margins.shape[1]
    margin, up, down, out = np.empty(n_outputs), np.empty(n_outputs), np.empty(n_outputs), np.empty(n_outputs)
    for i in range(margins.shape[0]):
        for k in range(n_outputs):
            margin[k] = margins[i, k]
        for k in range(n_outputs):
            up[:] = 0.0
            down[:] = 0.0
            margin[k] = margins[i, k] + MARGIN_STEP
            derivative.function(margin, target[i], up, *derivative.parameters)
            margin[k] = margins[i, k] - MARGIN_STEP
            derivative.function(margin, target[i], down, *derivative.parameters)
            margin[k] = margins[i, k]
            clip_vector(up, slope_bound)
            clip_vector(down, slope_bound)
            curvature = (up[k] - down[k]) / (2.0 * MARGIN_STEP)
            out[k] = min(max(curvature, 0.0), bound) if curvature <= bound else bound
        for k in range(n_outputs):
            margins[i, k] = out[k]
