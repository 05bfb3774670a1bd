"""Compiled gradient differences of margin losses: Σ [∇f(w, z_i) − ∇f(anchor, z_i)] over a batch.

A row's part is weight · scale · clip(ℓ'(margin at w) − ℓ'(margin at the anchor)) · x, so its size does not depend on
what the rows hold, nor on whether a loss keeps the bounds that it declares. In stochastic gradient steps
(margin_steps.py) it is weight · scale · clip(ℓ'(margin at w)) · x. One kernel serves every storage and loss: how a row
is read (dense or CSR), how its slope is taken (one output or several) and what its part is are compiled into it.
"""

from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.kernel.block import Block
from dperm.kernel.compiling import compile_kernel, compiled
from dperm.kernel.objectives.margin_gradients import Array, clip_vector
from dperm.kernel.threads import pieces_of
from dperm.mechanisms.setting import summation_block
from dperm.problem.losses import Loss

Indices = NDArray[np.intp]


def arguments(loss: Loss, intercept: float, block: Block) -> tuple[Any, ...]:
    """What every kernel that reads single rows starts with."""
    if sparse.issparse(block.table):
        reading: tuple[Any, ...] = (_csr_dot, _csr_add)
        columns: tuple[Any, ...] = (block.table.data, block.table.indices, block.table.indptr)
    else:
        reading, columns = (_dense_dot, _dense_add), (block.table,)
    slopes = _one_slope if loss.n_outputs == 1 else _several_slopes
    return (
        *reading, slopes, compiled(loss.derivative), loss.parameters,
        columns, block.scale, block.weight, block.target, intercept,
    )  # fmt: skip


def shaped(loss: Loss, w: Array) -> Array:
    """One row of coefficients per output."""
    return np.ascontiguousarray(w, dtype=np.float64).reshape(loss.n_outputs, -1)


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
    fixed, there = arguments(loss, intercept, block), shaped(loss, anchor)
    bounds: Any = bound
    if curvature is None:
        part, here = add_difference, shaped(loss, w)
    else:  # the margins move by the product with w − anchor, whose rounding is small beside ‖w − anchor‖
        part, bounds, here = add_convex_difference, (bound, curvature), shaped(loss, w - anchor)

    def piece(edges: tuple[int, int]) -> Array:
        out = np.zeros(here.shape)
        batch_sum(part, *fixed, bounds, chosen, *edges, summation_block(chosen.size), here, there, out)
        return out

    edges = pieces_of(chosen.size, chosen.size * w.size)
    parts = [piece(edges[0])] if len(edges) == 1 else list(pool.map(piece, edges))
    return np.asarray(np.sum(parts, axis=0)).reshape(w.shape)


@compile_kernel
def _dense_dot(columns, i, w):  # type: ignore[no-untyped-def]
    table = columns[0]
    total = 0.0
    for j in range(table.shape[1]):
        total += table[i, j] * w[j]
    return total


@compile_kernel
def _dense_add(columns, i, factor, out):  # type: ignore[no-untyped-def]
    table = columns[0]
    for j in range(table.shape[1]):
        out[j] += factor * table[i, j]


@compile_kernel
def _csr_dot(columns, i, w):  # type: ignore[no-untyped-def]
    data, indices, indptr = columns
    total = 0.0
    for k in range(indptr[i], indptr[i + 1]):
        total += data[k] * w[indices[k]]
    return total


@compile_kernel
def _csr_add(columns, i, factor, out):  # type: ignore[no-untyped-def]
    data, indices, indptr = columns
    for k in range(indptr[i], indptr[i + 1]):
        out[indices[k]] += factor * data[k]


@compile_kernel
def _one_slope(derivative, parameters, margin, target, slope):  # type: ignore[no-untyped-def]
    slope[0] = derivative(margin[0], target, *parameters)


@compile_kernel
def _several_slopes(derivative, parameters, margin, target, slope):  # type: ignore[no-untyped-def]
    slope[:] = 0.0  # a loss that leaves an output out must not get the last row's
    derivative(margin, target, slope, *parameters)


@compile_kernel
def _take_slopes(  # type: ignore[no-untyped-def]
    dot, slopes, derivative, parameters, columns, scale, target, intercept, i, w, margin, slope
):
    for c in range(w.shape[0]):
        margin[c] = dot(columns, i, w[c]) * scale[i]
        if intercept != 0.0:
            margin[c] += intercept * w[c, w.shape[1] - 1]
    slopes(derivative, parameters, margin, target[i], slope)


@compile_kernel
def _add_bounded(add, columns, scale, weight, intercept, bound, i, slope, out):  # type: ignore[no-untyped-def]
    clip_vector(slope, bound)
    for c in range(out.shape[0]):
        if intercept != 0.0:
            out[c, out.shape[1] - 1] += intercept * weight[i] * slope[c]
        add(columns, i, weight[i] * slope[c] * scale[i], out[c])


@compile_kernel
def add_gradient(  # type: ignore[no-untyped-def]
    dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bound, i, w, anchor, margin, slope, slope_there, out,
):  # fmt: skip
    """Add a row's clipped gradient at w."""
    if weight[i] == 0.0:
        return
    _take_slopes(dot, slopes, derivative, parameters, columns, scale, target, intercept, i, w, margin, slope)
    _add_bounded(add, columns, scale, weight, intercept, bound, i, slope, out)


@compile_kernel
def add_difference(  # type: ignore[no-untyped-def]
    dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bound, i, w, anchor, margin, slope, slope_there, out,
):  # fmt: skip
    """Add a row's clipped difference of gradients at w and at the anchor."""
    if weight[i] == 0.0:
        return
    _take_slopes(dot, slopes, derivative, parameters, columns, scale, target, intercept, i, w, margin, slope)
    _take_slopes(dot, slopes, derivative, parameters, columns, scale, target, intercept, i, anchor, margin, slope_there)
    for c in range(slope.shape[0]):
        slope[c] -= slope_there[c]
    _add_bounded(add, columns, scale, weight, intercept, bound, i, slope, out)


@compile_kernel
def add_convex_difference(  # type: ignore[no-untyped-def]
    dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bounds, i, moved, anchor, margin, slope, slope_there, out,
):  # fmt: skip
    """The same for a convex loss, with moved = w − anchor: in the ball from 0 to β times how far the margins move."""
    if weight[i] == 0.0:
        return
    bound, curvature = bounds
    _take_slopes(dot, slopes, derivative, parameters, columns, scale, target, intercept, i, anchor, margin, slope_there)
    centre, total = np.empty(slope.shape[0]), 0.0
    for c in range(slope.shape[0]):
        step = dot(columns, i, moved[c]) * scale[i]
        if intercept != 0.0:
            step += intercept * moved[c, moved.shape[1] - 1]
        margin[c] += step
        centre[c] = 0.5 * curvature * step
        total += centre[c] * centre[c]
    slopes(derivative, parameters, margin, target[i], slope)
    for c in range(slope.shape[0]):
        slope[c] -= slope_there[c] + centre[c]
    clip_vector(slope, np.sqrt(total))
    for c in range(slope.shape[0]):
        slope[c] += centre[c]
    _add_bounded(add, columns, scale, weight, intercept, bound, i, slope, out)


@compile_kernel
def batch_sum(  # type: ignore[no-untyped-def]
    part, dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bound, chosen, start, stop, block, w, anchor, out,
):  # fmt: skip
    """Add up the parts of chosen rows, block by block."""
    n_outputs = w.shape[0]
    margin, slope, slope_there = np.empty(n_outputs), np.empty(n_outputs), np.empty(n_outputs)
    for first in range(start, stop, block):
        total = np.zeros(w.shape)
        for k in range(first, min(first + block, stop)):
            part(
                dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
                bound, chosen[k], w, anchor, margin, slope, slope_there, total,
            )  # fmt: skip
        for c in range(n_outputs):
            for j in range(total.shape[1]):
                out[c, j] += total[c, j]
