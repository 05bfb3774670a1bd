"""Compiled gradient differences of margin losses: Σ [∇f(w, z_i) − ∇f(anchor, z_i)] over a batch.

A row's part is weight · scale · clip(ℓ'(margin at w) − ℓ'(margin at the anchor)) · x, so its size does not depend on
what the rows hold, nor on whether a loss keeps the bounds that it declares. In stochastic gradient steps
(margin_steps.py) it is weight · scale · clip(ℓ'(margin at w)) · x. One kernel serves every storage and loss: how a row
is read (dense or CSR), how its slope is taken (one output or several) and what its part is are compiled into it.
"""

from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.block import Block
from dperm.kernel.compiling import compile_kernel
from dperm.kernel.objectives.margin_gradients import clip_vector
from dperm.kernel.objectives.margin_rows import Array, Csr, Rows, derivative_of, rows_of
from dperm.kernel.threads import pieces_of
from dperm.mechanisms.setting import summation_block
from dperm.problem.losses import Loss

Indices = NDArray[np.intp]


class Reading(NamedTuple):
    """How a row is multiplied and added, and how its slope is taken: compiled functions."""

    dot: Any
    add: Any
    take: Any


class Row(NamedTuple):
    """One of the rows: its number, scale, weight and target, and the value of the constant column."""

    number: int
    scale: float
    weight: float
    target: float
    intercept: float


class Space(NamedTuple):
    """Room for one number per output: a row's margins, its slopes, and its slopes at the anchor."""

    margin: Array
    slope: Array
    slope_there: Array


def reading_of(loss: Loss, rows: Rows) -> Reading:
    """By how many outputs a loss has, and how rows are stored."""
    dot, add = (_csr_dot, _csr_add) if isinstance(rows.columns, Csr) else (_dense_dot, _dense_add)
    return Reading(dot=dot, add=add, take=_one_slope if loss.n_outputs == 1 else _several_slopes)


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
    rows, there = rows_of(block, intercept), shaped(loss, anchor)
    derivative = derivative_of(loss, bound, curvature or 0.0)
    reading = reading_of(loss, rows)
    if curvature is None:
        part, here = add_difference, shaped(loss, w)
    else:  # the margins move by the product with w − anchor, whose rounding is small beside ‖w − anchor‖
        part, here = add_convex_difference, shaped(loss, w - anchor)

    def piece(edges: tuple[int, int]) -> Array:
        out = np.zeros(here.shape)
        batch_sum(part, reading, derivative, rows, chosen, *edges, summation_block(chosen.size), here, there, out)
        return out

    edges = pieces_of(chosen.size, chosen.size * w.size)
    parts = [piece(edges[0])] if len(edges) == 1 else list(pool.map(piece, edges))
    return np.asarray(np.sum(parts, axis=0)).reshape(w.shape)


@compile_kernel
def _dense_dot(columns, i, w):  # type: ignore[no-untyped-def]
    table = columns.table
    total = 0.0
    for j in range(table.shape[1]):
        total += table[i, j] * w[j]
    return total


@compile_kernel
def _dense_add(columns, i, factor, out):  # type: ignore[no-untyped-def]
    table = columns.table
    for j in range(table.shape[1]):
        out[j] += factor * table[i, j]


@compile_kernel
def _csr_dot(columns, i, w):  # type: ignore[no-untyped-def]
    data, indices, indptr = columns.data, columns.indices, columns.indptr
    total = 0.0
    for k in range(indptr[i], indptr[i + 1]):
        total += data[k] * w[indices[k]]
    return total


@compile_kernel
def _csr_add(columns, i, factor, out):  # type: ignore[no-untyped-def]
    data, indices, indptr = columns.data, columns.indices, columns.indptr
    for k in range(indptr[i], indptr[i + 1]):
        out[indices[k]] += factor * data[k]


@compile_kernel
def _one_slope(derivative, margin, target, slope):  # type: ignore[no-untyped-def]
    slope[0] = derivative.function(margin[0], target, *derivative.parameters)


@compile_kernel
def _several_slopes(derivative, margin, target, slope):  # type: ignore[no-untyped-def]
    slope[:] = 0.0  # a loss that leaves an output out must not get the last row's
    derivative.function(margin, target, slope, *derivative.parameters)


@compile_kernel
def _take_slopes(reading, derivative, columns, row, w, margin, slope):  # type: ignore[no-untyped-def]
    for c in range(w.shape[0]):
        margin[c] = reading.dot(columns, row.number, w[c]) * row.scale
        if row.intercept != 0.0:
            margin[c] += row.intercept * w[c, w.shape[1] - 1]
    reading.take(derivative, margin, row.target, slope)


@compile_kernel
def _add_bounded(reading, derivative, columns, row, slope, out):  # type: ignore[no-untyped-def]
    clip_vector(slope, derivative.bound)
    for c in range(out.shape[0]):
        if row.intercept != 0.0:
            out[c, out.shape[1] - 1] += row.intercept * row.weight * slope[c]
        reading.add(columns, row.number, row.weight * slope[c] * row.scale, out[c])


@compile_kernel
def add_gradient(reading, derivative, columns, row, w, anchor, space, out):  # type: ignore[no-untyped-def]
    """Add a row's clipped gradient at w."""
    margin, slope = space.margin, space.slope
    _take_slopes(reading, derivative, columns, row, w, margin, slope)
    _add_bounded(reading, derivative, columns, row, slope, out)


@compile_kernel
def add_difference(reading, derivative, columns, row, w, anchor, space, out):  # type: ignore[no-untyped-def]
    """Add a row's clipped difference of gradients at w and at the anchor."""
    margin, slope, slope_there = space.margin, space.slope, space.slope_there
    _take_slopes(reading, derivative, columns, row, w, margin, slope)
    _take_slopes(reading, derivative, columns, row, anchor, margin, slope_there)
    for c in range(slope.shape[0]):
        slope[c] -= slope_there[c]
    _add_bounded(reading, derivative, columns, row, slope, out)


@compile_kernel
def add_convex_difference(reading, derivative, columns, row, moved, anchor, space, out):  # type: ignore[no-untyped-def]
    """The same for a convex loss, with moved = w − anchor: in the ball from 0 to β times how far the margins move."""
    margin, slope, slope_there = space.margin, space.slope, space.slope_there
    _take_slopes(reading, derivative, columns, row, anchor, margin, slope_there)
    centre, total = np.empty(slope.shape[0]), 0.0
    for c in range(slope.shape[0]):
        step = reading.dot(columns, row.number, moved[c]) * row.scale
        if row.intercept != 0.0:
            step += row.intercept * moved[c, moved.shape[1] - 1]
        margin[c] += step
        centre[c] = 0.5 * derivative.curvature * step
        total += centre[c] * centre[c]
    reading.take(derivative, margin, row.target, slope)
    for c in range(slope.shape[0]):
        slope[c] -= slope_there[c] + centre[c]
    clip_vector(slope, np.sqrt(total))
    for c in range(slope.shape[0]):
        slope[c] += centre[c]
    _add_bounded(reading, derivative, columns, row, slope, out)


@compile_kernel
def batch_sum(part, reading, derivative, rows, chosen, start, stop, block, w, anchor, out):  # type: ignore[no-untyped-def]
    """Add up the parts of chosen rows, block by block."""
    n_outputs = w.shape[0]
    space = Space(np.empty(n_outputs), np.empty(n_outputs), np.empty(n_outputs))
    # Arrays are taken out of their tuples once: every time costs as much as some entries of a row.
    columns, scale, weight, target = rows.columns, rows.scale, rows.weight, rows.target
    for first in range(start, stop, block):
        total = np.zeros(w.shape)
        for k in range(first, min(first + block, stop)):
            i = chosen[k]
            if weight[i] != 0.0:
                row = Row(i, scale[i], weight[i], target[i], rows.intercept)
                part(reading, derivative, columns, row, w, anchor, space, total)
        for c in range(n_outputs):
            for j in range(total.shape[1]):
                out[c, j] += total[c, j]
