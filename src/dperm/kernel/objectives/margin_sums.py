"""Sums of gradients of margin losses, and of their differences: one pass over memory, threads used.

A row's part is weight · scale · clip(ℓ'(scale · ⟨w, x⟩ + c·w_c, y)) · x, where `scale` clips the row to the declared
norm and `clip` enforces the declared slope. Of a difference, what is clipped is ℓ' at w minus ℓ' at the anchor. So its
size does not depend on what the rows hold, nor on whether a loss keeps the bounds that it declares. Rows of weight 0
are never read.
"""

import functools
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.kernel import native
from dperm.kernel.block import Block
from dperm.kernel.objectives.margin_rows import Array, rows_of, shaped, slope_of
from dperm.kernel.objectives.written_slopes import WrittenSlope
from dperm.kernel.threads import pieces_of
from dperm.mechanisms.setting import summation_block
from dperm.problem.losses import Loss

Indices = NDArray[np.intp]


def gradient_sum(
    loss: Loss, slope_bound: float, block: Block, w: Array, intercept: float, pool: Executor
) -> Array:  # fmt: skip
    """Σ_i weight_i ∇ℓ_i(w) over dense or CSR rows, which are never copied.

    Parameters
    ----------
    loss : Loss
        Gives the derivative.
    slope_bound : float
        Every row's derivative is clipped to this size (norm, if it is a vector).
    block : Block
        Bounded rows.
    w : array of shape (n_outputs · (p + 1),), or · p without an intercept
        Where the gradient is taken.
    intercept : float
        Value of the constant column, 0 for none.
    pool : Executor
        Threads.
    """
    table, point = block.table, shaped(loss, w)
    work = int(table.nnz if sparse.issparse(table) else table.size)
    # Every piece has sums of its own for all coefficients: with few entries a column they cost more than they save.
    edges = pieces_of(len(block), work * loss.n_outputs, most=work // (4 * table.shape[1]))
    slope, rows, at_once = slope_of(loss, slope_bound), rows_of(block, intercept), summation_block(len(block))

    def piece(edge: tuple[int, int]) -> Array:
        return part_sum(slope, rows, native.GRADIENT, point, point, None, edge, at_once)

    return _added(piece, edges, pool).reshape(w.shape)


def difference_sum(
    loss: Loss, bound: float, curvature: float | None, block: Block, chosen: Indices, w: Array, anchor: Array,
    intercept: float, pool: Executor,
) -> Array:  # fmt: skip
    """Σ over the chosen rows of weight_i (∇ℓ_i(w) − ∇ℓ_i(anchor)).

    Parameters
    ----------
    loss : Loss
        Gives the derivative.
    bound : float
        Every row's difference of slopes is clipped to this size (norm, if it is a vector).
    curvature : float or None
        With a β it is also moved into the ball whose diameter runs from 0 to β times the difference of the margins.
    block : Block
        Bounded rows.
    chosen : array of int
        The batch.
    w, anchor : arrays
        Released points.
    intercept : float
        Value of the constant column, 0 for none.
    pool : Executor
        Threads.
    """
    slope, rows, there = slope_of(loss, bound, curvature or 0.0), rows_of(block, intercept), shaped(loss, anchor)
    if curvature is None:
        part, here = native.DIFFERENCE, shaped(loss, w)
    else:  # the margins move by the product with w − anchor, whose rounding is small beside ‖w − anchor‖
        part, here = native.CONVEX_DIFFERENCE, shaped(loss, w - anchor)

    def piece(edge: tuple[int, int]) -> Array:
        return part_sum(slope, rows, part, here, there, chosen, edge, summation_block(chosen.size))

    return _added(piece, pieces_of(chosen.size, chosen.size * w.size), pool).reshape(w.shape)


def part_sum(
    slope: native.Slope | WrittenSlope, rows: native.Rows, part: int, w: Array, anchor: Array, chosen: Indices | None,
    edges: tuple[int, int], at_once: int,
) -> Array:  # fmt: skip
    """Σ of the bounded parts of some rows, so many of them at once: `native.part_sum`, whoever wrote the loss."""
    out = np.zeros(w.shape)
    if isinstance(slope, WrittenSlope):
        slope.part_sum(rows, part, w, anchor, chosen, *edges, at_once, out)
    else:
        native.part_sum(rows, slope, part, w, anchor, chosen, *edges, at_once, out)
    return out


def _added(piece: Any, edges: list[tuple[int, int]], pool: Executor) -> Array:
    parts = [piece(edges[0])] if len(edges) == 1 else list(pool.map(piece, edges))
    return functools.reduce(np.add, parts)
