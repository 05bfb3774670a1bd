"""The sum of z zᵀ over rows, z a row with its constant and its target, every row's part bounded."""

import math

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.block import Block
from dperm.kernel.products import ROWS_AT_ONCE, counted_rows, product_sum, weighted_sums
from dperm.kernel.row_norms import row_norms
from dperm.mechanisms.setting import summation_block

Array = NDArray[np.float64]


def moment_sum(
    block: Block, intercept: float, target_scale: float, bound: float, weight_bound: float = 1.0
) -> Array:  # fmt: skip
    """Σ weight_i z_i z_iᵀ with z_i = (scale_i x_i, intercept, target_scale · y_i) scaled to ‖z_i‖² ≤ bound.

    What a row adds depends on that row alone, bit for bit. A row that is ignored adds
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
    at_once = summation_block(len(block))
    for first in range(0, len(block), ROWS_AT_ONCE):
        part, numbers = counted_rows(block.table, slice(first, first + ROWS_AT_ONCE), block.weight)
        scale, weight = block.scale[numbers], block.weight[numbers]
        once = np.minimum(weight, 1.0) if block.units is None else weight / max(1.0, weight_bound)
        more = target_scale * block.target[numbers][:, None]
        if intercept:
            more = np.column_stack([np.full(numbers.size, intercept), more])
        # Row by row, in the order of the columns: `sum` over an axis could add in an order of the block's own.
        norms = np.sqrt((scale * row_norms(part)[0]) ** 2 + np.einsum("ij,ij->i", more, more))
        factors = np.sqrt(once) * np.minimum(1.0, limit / np.maximum(norms, limit))
        more = factors[:, None] * more
        inner = product_sum(part, (factors * scale) ** 2, at_once)
        across = weighted_sums(part, (factors * scale)[:, None] * more, at_once)
        total += np.block([[inner, across], [across.T, weighted_sums(more, more, at_once)]])
    return total
