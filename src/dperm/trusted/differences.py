"""Compiled gradient differences: Σ [∇f(w, z_i) − ∇f(anchor, z_i)] over a batch, and the paper's printed inner loop.

A row's part is weight · scale · clip(ℓ'(margin at w) − ℓ'(margin at the anchor)) · x, so its size does not depend on
what the rows hold, nor on whether a loss keeps the bounds that it declares. One kernel serves every storage and
loss: how a row is read (dense or CSR) and how its slope is taken (one output or several) are compiled into it.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.losses import Loss
from dperm.privacy.setting import summation_block
from dperm.prox import CoordinateProx
from dperm.trusted.kernels import Array, clip_vector, compile_kernel, compiled, pieces_of

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Batches:
    """Row numbers of consecutive steps: step t takes rows[edges[t]:edges[t + 1]]."""

    rows: Indices
    edges: Indices


@dataclass(frozen=True, eq=False)
class BoundedRows:
    """What the kernels read of the rows; see `Rows` for the meaning of the arrays."""

    loss: Loss
    table: Any
    scale: Array
    weight: Array
    target: Array
    intercept: float

    def arguments(self) -> tuple[Any, ...]:
        """What every kernel below starts with."""
        if sparse.issparse(self.table):
            reading: tuple[Any, ...] = (_csr_dot, _csr_add)
            columns: tuple[Any, ...] = (self.table.data, self.table.indices, self.table.indptr)
        else:
            reading, columns = (_dense_dot, _dense_add), (self.table,)
        slopes = _one_slope if self.loss.n_outputs == 1 else _several_slopes
        return (
            *reading, slopes, compiled(self.loss.derivative), self.loss.parameters,
            columns, self.scale, self.weight, self.target, self.intercept,
        )  # fmt: skip

    def shaped(self, w: Array) -> Array:
        """One row of coefficients per output."""
        return np.ascontiguousarray(w, dtype=np.float64).reshape(self.loss.n_outputs, -1)


def difference_sum(rows: BoundedRows, bound: float, chosen: Indices, w: Array, anchor: Array, pool: Executor) -> Array:
    """Σ over the chosen rows of weight_i (∇ℓ_i(w) − ∇ℓ_i(anchor)).

    Parameters
    ----------
    rows : BoundedRows
        The rows and their loss.
    bound : float
        Every row's difference of slopes is clipped to this size (norm, if it is a vector).
    chosen : array of int
        The batch.
    w, anchor : arrays
        Released points.
    pool : Executor
        Threads.
    """
    arguments, here, there = rows.arguments(), rows.shaped(w), rows.shaped(anchor)

    def piece(edges: tuple[int, int]) -> Array:
        out = np.zeros(here.shape)
        _difference_sum(*arguments, bound, chosen, *edges, summation_block(chosen.size), here, there, out)
        return out

    edges = pieces_of(chosen.size, chosen.size * w.size)
    parts = [piece(edges[0])] if len(edges) == 1 else list(pool.map(piece, edges))
    return np.asarray(np.sum(parts, axis=0)).reshape(w.shape)


def printed_steps(
    rows: BoundedRows,
    bound: float,
    divisor: float,
    batches: Batches,
    start: Array,
    anchor: Array,
    anchor_gradient: Array,
    noise: Array,
    step_size: float,
    prox: CoordinateProx | Callable[[Array, float], Array],
) -> tuple[Array, Array]:
    """Lines 5 to 9 of Algorithm 1 as printed, one step per row of `noise`: iterates x_1 … x_m and directions v_1 … v_m.

    Parameters
    ----------
    rows, bound, anchor
        As for `difference_sum`.
    divisor : float
        What a batch's sum is divided by, qn.
    batches : Batches
        The rows of every step.
    start : array
        x_0.
    anchor_gradient : array
        ∇F(anchor).
    noise : array of shape (m, p)
        u_1 … u_m.
    step_size : float
        η.
    prox : CoordinateProx or callable
        The proximal step: compiled with the loop where it works coordinate by coordinate.
    """
    arguments, there, mean = rows.arguments(), rows.shaped(anchor), rows.shaped(anchor_gradient)
    shape = (noise.shape[0], *there.shape)
    iterates, directions = np.empty(shape), noise.reshape(shape).copy()
    block = summation_block(rows.target.size)
    fixed = (*arguments, bound, divisor, batches.rows, batches.edges, block, there, mean)
    if isinstance(prox, CoordinateProx):
        low, high = (np.broadcast_to(side, start.shape).reshape(there.shape) for side in (prox.low, prox.high))
        _printed_steps(
            *fixed, rows.shaped(start), step_size, compiled(prox.shrink), prox.parameters,
            np.ascontiguousarray(low), np.ascontiguousarray(high), iterates, directions,
        )  # fmt: skip
    else:
        w = start
        for t in range(noise.shape[0]):
            _printed_direction(*fixed, rows.shaped(w), t, directions[t])
            w = prox(w - step_size * directions[t].reshape(w.shape), step_size)
            iterates[t] = rows.shaped(w)
    return iterates.reshape(noise.shape), directions.reshape(noise.shape)


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
def _add_difference(  # type: ignore[no-untyped-def]
    dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bound, i, w, anchor, margin, slope, slope_there, out,
):  # fmt: skip
    if weight[i] == 0.0:
        return
    n_outputs, last = w.shape[0], w.shape[1] - 1
    for c in range(n_outputs):
        margin[c] = dot(columns, i, w[c]) * scale[i]
        if intercept != 0.0:
            margin[c] += intercept * w[c, last]
    slopes(derivative, parameters, margin, target[i], slope)
    for c in range(n_outputs):
        margin[c] = dot(columns, i, anchor[c]) * scale[i]
        if intercept != 0.0:
            margin[c] += intercept * anchor[c, last]
    slopes(derivative, parameters, margin, target[i], slope_there)
    for c in range(n_outputs):
        slope[c] -= slope_there[c]
    clip_vector(slope, bound)
    for c in range(n_outputs):
        if intercept != 0.0:
            out[c, last] += intercept * weight[i] * slope[c]
        add(columns, i, weight[i] * slope[c] * scale[i], out[c])


@compile_kernel
def _difference_sum(  # type: ignore[no-untyped-def]
    dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bound, chosen, start, stop, block, w, anchor, out,
):  # fmt: skip
    n_outputs = w.shape[0]
    margin, slope, slope_there = np.empty(n_outputs), np.empty(n_outputs), np.empty(n_outputs)
    for first in range(start, stop, block):
        part = np.zeros(w.shape)
        for k in range(first, min(first + block, stop)):
            _add_difference(
                dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
                bound, chosen[k], w, anchor, margin, slope, slope_there, part,
            )  # fmt: skip
        for c in range(n_outputs):
            for j in range(part.shape[1]):
                out[c, j] += part[c, j]


@compile_kernel
def _printed_direction(  # type: ignore[no-untyped-def]
    dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bound, divisor, rows, edges, block, anchor, anchor_gradient, w, t, direction,
):  # fmt: skip
    # v_t: the noise is there already; the batch's difference and the anchor's gradient are added.
    total = np.zeros(w.shape)
    _difference_sum(
        dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
        bound, rows, edges[t], edges[t + 1], block, w, anchor, total,
    )  # fmt: skip
    for c in range(w.shape[0]):
        for j in range(w.shape[1]):
            direction[c, j] += total[c, j] / divisor + anchor_gradient[c, j]


@compile_kernel
def _printed_steps(  # type: ignore[no-untyped-def]
    dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bound, divisor, rows, edges, block, anchor, anchor_gradient, start,
    step_size, shrink, shrink_parameters, low, high, iterates, directions,
):  # fmt: skip
    w = start
    for t in range(iterates.shape[0]):  # line 5
        _printed_direction(
            dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
            bound, divisor, rows, edges, block, anchor, anchor_gradient, w, t, directions[t],
        )  # fmt: skip  # lines 6, 7
        for c in range(w.shape[0]):
            for j in range(w.shape[1]):
                moved = shrink(w[c, j] - step_size * directions[t, c, j], step_size, *shrink_parameters)
                iterates[t, c, j] = min(max(moved, low[c, j]), high[c, j])  # line 8
        w = iterates[t]
