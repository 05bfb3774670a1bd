"""Sums over rows of slopes and of their sizes, for a loss of one margin, every row's part bounded.

A row's part is weight · (s, |s|) with s = clip(ℓ'), and depends on that row alone, bit for bit.
"""

import numpy as np

from dperm.kernel.block import Block
from dperm.kernel.compiling import compile_kernel
from dperm.kernel.objectives.margin_hessians import margins_of
from dperm.kernel.objectives.margin_rows import Array, derivative_of, rows_of
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
    out = np.zeros(2)
    _add_slopes(
        derivative_of(loss, slope_bound), rows_of(block, intercept), constant, margins_of(block.table, w),
        summation_block(len(block)), out,
    )  # fmt: skip
    return out


@compile_kernel
def _add_slopes(derivative, rows, constant, margins, rows_at_once, out):  # type: ignore[no-untyped-def]
    scale, weight, target, bound = rows.scale, rows.weight, rows.target, derivative.bound
    for first in range(0, margins.shape[0], rows_at_once):
        total, size = 0.0, 0.0
        for i in range(first, min(first + rows_at_once, margins.shape[0])):
            if weight[i] == 0.0:
                continue  # it may hold what is not a number
            slope = derivative.function(margins[i] * scale[i] + constant, target[i], *derivative.parameters)
            # Written so that a NaN ends at the bound instead of passing through.
            if not slope <= bound:
                slope = bound
            if not slope >= -bound:
                slope = -bound
            total += weight[i] * slope
            size += weight[i] * abs(slope)
        out[0] += total
        out[1] += size
