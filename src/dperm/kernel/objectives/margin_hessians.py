"""The sum of Hessians over rows of a loss of one margin, every row's part bounded.

A row's part is weight · clip(ℓ'') · scale² · x xᵀ, the constant column included, with ℓ'' clipped to [0, bound]. It
depends on that row alone, bit for bit: ℓ'' may jump, and a margin that was rounded by where a row stands would then
move more than that row. The sensitivity is padded for the rounding of products and sums
(docs/proofs/hessian.md).
"""

import numpy as np

from dperm.kernel import native
from dperm.kernel.block import Block
from dperm.kernel.objectives.margin_rows import Array, slope_of
from dperm.kernel.objectives.written_slopes import WrittenSlope
from dperm.kernel.products import ROWS_AT_ONCE, counted_rows, margins_of, product_sum, weighted_sums
from dperm.mechanisms.setting import summation_block
from dperm.problem.losses import Loss

# Half the distance at which ℓ' is compared to find ℓ''.
MARGIN_STEP = 1e-5


def hessian_sum(
    loss: Loss, slope_bound: float, curvature_bound: float, block: Block, w: Array, intercept: float, stride: int = 1
) -> Array:  # fmt: skip
    """Σ_i weight_i ℓ''_i x_i x_iᵀ over every stride-th row; the table is never copied as a whole.

    Parameters
    ----------
    loss : Loss
        Gives the derivative; ℓ'' is the slope of its chord over 2e-5.
    slope_bound : float
        ℓ' is clipped to [−slope_bound, slope_bound].
    curvature_bound : float
        ℓ'' is clipped to [0, curvature_bound].
    block : Block
        Bounded rows.
    w : array of shape (p,), or (p + 1,) with an intercept
        Where ℓ'' is taken.
    intercept : float
        Value of the constant column, 0 for none.
    stride : int
        1 for the sum over all rows.
    """
    width, slope = block.table.shape[1], slope_of(loss, slope_bound, curvature_bound)
    total, at_once = np.zeros((w.size, w.size)), summation_block(len(block))
    for first in range(0, len(block), ROWS_AT_ONCE * stride):
        part, numbers = counted_rows(block.table, slice(first, first + ROWS_AT_ONCE * stride, stride), block.weight)
        scale, curvatures = block.scale[numbers], margins_of(part, w[None, :])
        to_curvatures(slope, scale, block.target[numbers], intercept * w[-1] if intercept else 0.0, curvatures)
        factors = block.weight[numbers] * curvatures[:, 0]
        total[:width, :width] += product_sum(part, factors * scale * scale, at_once)
        if intercept:
            total[:width, width] += weighted_sums(part, (intercept * factors * scale)[:, None], at_once)[:, 0]
            total[width, width] += intercept * intercept * factors.sum()
    if intercept:
        total[width, :width] = total[:width, width]
    return total


def to_curvatures(
    slope: native.Slope | WrittenSlope, scale: Array, target: Array, constant: float, margins: Array
) -> None:  # fmt: skip
    """Turn margins into curvatures, in place: ℓ'' at margin · scale + constant, or of several outputs each its own."""
    if isinstance(slope, WrittenSlope):
        slope.curvatures(scale, target, constant, MARGIN_STEP, margins)
    else:
        native.curvatures(slope, scale, target, constant, MARGIN_STEP, margins)
