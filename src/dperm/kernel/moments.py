"""The sum of z zᵀ over rows, z a row with its constant and its target, every row's part bounded."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.kernel.block import Block
from dperm.kernel.coded import plain
from dperm.mechanisms.setting import summation_block

Array = NDArray[np.float64]

# Rows that are held a second time while they are multiplied.
_ROWS_AT_ONCE = 16_384


def moment_sum(
    block: Block, intercept: float, target_scale: float, bound: float, weight_bound: float = 1.0
) -> Array:  # fmt: skip
    """Σ weight_i z_i z_iᵀ with z_i = (scale_i x_i, intercept, target_scale · y_i) scaled to ‖z_i‖² ≤ bound.

    What a row adds depends on that row alone, bit for bit; the products are left to BLAS. A row that is ignored adds
    nothing, and none counts more than once. Nor do all rows of a unit together: their weights add up to as much as the
    bound on weights, so they are divided by it.

    Parameters
    ----------
    block : Block
        Bounded rows.
    intercept : float
        Value of the constant column, 0 for none.
    target_scale, bound : float
        As of `MomentsQuery`.
    weight_bound : float
        Of all weights.
    """
    size = block.table.shape[1] + int(intercept != 0.0) + 1
    total = np.zeros((size, size))
    # Computing a norm and scaling are off by less than this many units in the last place.
    limit = math.sqrt(bound) * (1.0 - 8.0 * size * 2.0**-53)
    rows_at_once = min(summation_block(len(block)), _ROWS_AT_ONCE)
    for first in range(0, len(block), rows_at_once):
        chosen = slice(first, first + rows_at_once)
        counted = block.weight[chosen] != 0.0
        if counted.any():
            part = plain(block.table[chosen])[counted]  # ignored rows may hold what is not a number
            scales, weights, targets = (v[chosen][counted] for v in (block.scale, block.weight, block.target))
            once = np.minimum(weights, 1.0) if block.units is None else weights / max(1.0, weight_bound)
            total += _products(part, scales, once, target_scale * targets, intercept, limit)
    return total


def _products(part: Any, scales: Array, weights: Array, targets: Array, intercept: float, limit: float) -> Array:
    more = targets[:, None] if intercept == 0.0 else np.column_stack([np.full(targets.size, intercept), targets])
    if sparse.issparse(part):
        rows = sparse.diags_array(scales) @ part
        squares = np.asarray(rows.multiply(rows).sum(axis=1)).reshape(-1)
    else:
        rows = scales[:, None] * part
        # Row by row, in the order of the columns: `sum` over an axis could add in an order of the block's own.
        squares = np.einsum("ij,ij->i", rows, rows)
    norms = np.sqrt(squares + np.einsum("ij,ij->i", more, more))
    factors = np.sqrt(weights) * np.minimum(1.0, limit / np.maximum(norms, limit))
    more = factors[:, None] * more
    if sparse.issparse(part):
        rows = sparse.diags_array(factors) @ rows
        inner, across = (rows.T @ rows).toarray(), rows.T @ more
    else:
        rows = factors[:, None] * rows
        inner, across = rows.T @ rows, rows.T @ more
    return np.block([[inner, across], [across.T, more.T @ more]])
