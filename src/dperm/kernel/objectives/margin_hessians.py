"""The sum of Hessians over rows of a loss of one margin, every row's part bounded.

A row's part is weight · clip(ℓ'') · scale² · x xᵀ, the constant column included, with ℓ'' clipped to [0, bound]. It
depends on that row alone, bit for bit: ℓ'' may jump, and a margin that was rounded by where a row stands would then
move more than that row. The products are left to BLAS, and the sensitivity is padded for their
rounding (docs/proofs/hessian.md).
"""

from typing import Any

import numpy as np
from scipy import sparse

from dperm.kernel import native
from dperm.kernel.block import Block
from dperm.kernel.coded import plain
from dperm.kernel.objectives.margin_rows import Array, slope_of
from dperm.kernel.objectives.written_slopes import WrittenSlope
from dperm.mechanisms.setting import summation_block
from dperm.problem.losses import Loss

# Half the distance at which ℓ' is compared to find ℓ''.
MARGIN_STEP = 1e-5

# Rows that are held a second time while they are multiplied.
ROWS_AT_ONCE = 16_384


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
    table, scale, weight, target = block.table, block.scale, block.weight, block.target
    width, slope = table.shape[1], slope_of(loss, slope_bound, curvature_bound)
    total = np.zeros((w.size, w.size))
    rows_at_once = min(summation_block(target.size), ROWS_AT_ONCE) * stride
    for first in range(0, target.size, rows_at_once):
        chosen = slice(first, first + rows_at_once, stride)
        part, counted = plain(table[chosen]), weight[chosen] != 0.0
        if not counted.any():
            continue
        if not counted.all():
            part = part[counted]  # ignored rows may hold what is not a number
        if not sparse.issparse(part):
            part = np.ascontiguousarray(part)  # sums in one order, whether or not a row was left out
        scales, weights, targets = (values[chosen][counted] for values in (scale, weight, target))
        roots, factors = _roots(slope, part, scales, weights, targets, w, intercept)
        if sparse.issparse(part):
            weighted = (sparse.diags_array(factors) @ part).tocsr()
            total[:width, :width] += (weighted.T @ weighted).toarray()
        else:
            weighted = factors[:, None] * part
            total[:width, :width] += weighted.T @ weighted
        if intercept != 0.0:
            constant = intercept * roots
            total[:width, width] += weighted.T @ constant
            total[width, width] += constant @ constant
    if intercept != 0.0:
        total[width, :width] = total[:width, width]
    return total


def _roots(
    slope: native.Slope | WrittenSlope, table: Any, scale: Array, weight: Array, target: Array, w: Array,
    intercept: float,
) -> tuple[Array, Array]:  # fmt: skip
    """√(weight · ℓ'') of every row, and the same times its scale."""
    curvatures = margins_of(table, w)
    to_curvatures(slope, scale, target, intercept * w[-1] if intercept != 0.0 else 0.0, curvatures)
    roots = np.sqrt(weight * curvatures[:, 0])
    return roots, roots * scale


def margins_of(table: Any, w: Array) -> Array:
    """⟨w, x⟩ of every row, before its scale, of shape (rows, 1); each depends on its row alone, bit for bit."""
    point = np.ascontiguousarray(w, dtype=np.float64).reshape(1, -1)
    return native.margins(native.Rows(table), point, None, 0, table.shape[0])


def to_curvatures(
    slope: native.Slope | WrittenSlope, scale: Array, target: Array, constant: float, margins: Array
) -> None:  # fmt: skip
    """Turn margins into curvatures, in place: ℓ'' at margin · scale + constant, or of several outputs each its own."""
    if isinstance(slope, WrittenSlope):
        slope.curvatures(scale, target, constant, MARGIN_STEP, margins)
    else:
        native.curvatures(slope, scale, target, constant, MARGIN_STEP, margins)
