"""Sums over rows of slopes and of their sizes, for a loss of one margin, every row's part bounded.

A row's part is weight · (s, |s|) with s = clip(ℓ'), and depends on that row alone, bit for bit.
"""

import numpy as np

from dperm.kernel import native
from dperm.kernel.block import Block
from dperm.kernel.objectives.margin_rows import Array, rows_of, slope_of
from dperm.kernel.objectives.written_slopes import WrittenSlope
from dperm.kernel.products import margins_of
from dperm.mechanisms.setting import summation_block
from dperm.problem.losses import Loss


def slope_sums(loss: Loss, slope_bound: float, block: Block, w: Array, intercept: float) -> Array:
    """Σ weight_i s_i and Σ weight_i |s_i|, s_i = ℓ' of row i clipped to [−slope_bound, slope_bound].

    Parameters
    ----------
    loss : Loss
        Gives the derivative.
    slope_bound : float
        Every row's derivative is clipped to this size.
    block : Block
        Bounded rows.
    w : array of shape (p,), or (p + 1,) with an intercept
        Where slopes are taken.
    intercept : float
        Value of the constant column, 0 for none.
    """
    constant = intercept * w[-1] if intercept != 0.0 else 0.0
    slope, margins = slope_of(loss, slope_bound), margins_of(block.table, w[None, :])
    if not isinstance(slope, WrittenSlope):
        return native.slope_sums(
            rows_of(block, intercept), slope, constant, margins.ravel(), summation_block(len(block))
        )  # fmt: skip
    margins[block.weight == 0.0] = 0.0  # ignored rows may hold what is not a number
    slopes = slope.clipped(margins * block.scale[:, None] + constant, block.target)[:, 0] * block.weight
    return np.array([slopes.sum(), np.abs(slopes).sum()])  # numpy adds up by pairs
