"""Compiled gradient differences: Σ [∇f(w, z_i) − ∇f(anchor, z_i)] over a batch, and compiled loops of noisy steps.

A row's part is weight · scale · clip(ℓ'(margin at w) − ℓ'(margin at the anchor)) · x, so its size does not depend on
what the rows hold, nor on whether a loss keeps the bounds that it declares. In stochastic gradient steps it is
weight · scale · clip(ℓ'(margin at w)) · x. One kernel serves every storage and loss: how a row is read (dense or CSR),
how its slope is taken (one output or several) and what its part is are compiled into it.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.mechanisms.setting import summation_block
from dperm.problem.losses import Loss
from dperm.problem.prox import CoordinateProx
from dperm.trusted.compiling import compile_kernel, compiled
from dperm.trusted.kernels import Array, clip_vector, pieces_of

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
        block = summation_block(chosen.size)
        _batch_sum(_add_difference, *arguments, bound, chosen, *edges, block, here, there, out)
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
    step_sizes = np.full(noise.shape[0], step_size)
    return _steps(
        rows, _add_difference, bound, divisor, batches, start, anchor, anchor_gradient, noise, step_sizes, prox
    )  # fmt: skip


def stochastic_steps(
    rows: BoundedRows,
    bound: float,
    divisor: float,
    batches: Batches,
    start: Array,
    noise: Array,
    step_sizes: Array,
    prox: CoordinateProx | Callable[[Array, float], Array],
) -> tuple[Array, Array]:
    """Noisy proximal SGD steps, one per row of `noise`: iterates w_1 … w_k and directions v_1 … v_k.

    v_t is the batch's sum of gradients at w_{t−1} over the divisor, plus the noise; w_t = prox(w_{t−1} − η_t v_t, η_t).

    Parameters
    ----------
    rows, divisor, batches, start, noise, prox
        As for `printed_steps`.
    bound : float
        Every row's slope is clipped to this size (norm, if it is a vector).
    step_sizes : array of shape (k,)
        η_1 … η_k.
    """
    no_anchor = np.zeros(start.size)
    return _steps(
        rows, _add_gradient, bound, divisor, batches, start, no_anchor, no_anchor, noise, step_sizes, prox
    )  # fmt: skip


def _steps(
    rows: BoundedRows, part: Any, bound: float, divisor: float, batches: Batches, start: Array, anchor: Array,
    anchor_gradient: Array, noise: Array, step_sizes: Array, prox: CoordinateProx | Callable[[Array, float], Array],
) -> tuple[Array, Array]:  # fmt: skip
    arguments, there, mean = rows.arguments(), rows.shaped(anchor), rows.shaped(anchor_gradient)
    shape = (noise.shape[0], *there.shape)
    iterates, directions = np.empty(shape), noise.reshape(shape).copy()
    block = summation_block(rows.target.size)
    fixed = (part, *arguments, bound, divisor, batches.rows, batches.edges, block, there, mean)
    if isinstance(prox, CoordinateProx):
        low, high = (np.broadcast_to(side, start.shape).reshape(there.shape) for side in (prox.low, prox.high))
        _compiled_steps(
            *fixed, rows.shaped(start), np.ascontiguousarray(step_sizes), compiled(prox.shrink), prox.parameters,
            np.ascontiguousarray(low), np.ascontiguousarray(high), prox.radius, iterates, directions,
        )  # fmt: skip
    else:
        w = start
        for t in range(noise.shape[0]):
            _direction(*fixed, rows.shaped(w), t, directions[t])
            step_size = float(step_sizes[t])
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
def _add_gradient(  # type: ignore[no-untyped-def]
    dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bound, i, w, anchor, margin, slope, slope_there, out,
):  # fmt: skip
    if weight[i] == 0.0:
        return
    _take_slopes(dot, slopes, derivative, parameters, columns, scale, target, intercept, i, w, margin, slope)
    _add_bounded(add, columns, scale, weight, intercept, bound, i, slope, out)


@compile_kernel
def _add_difference(  # type: ignore[no-untyped-def]
    dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bound, i, w, anchor, margin, slope, slope_there, out,
):  # fmt: skip
    if weight[i] == 0.0:
        return
    _take_slopes(dot, slopes, derivative, parameters, columns, scale, target, intercept, i, w, margin, slope)
    _take_slopes(dot, slopes, derivative, parameters, columns, scale, target, intercept, i, anchor, margin, slope_there)
    for c in range(slope.shape[0]):
        slope[c] -= slope_there[c]
    _add_bounded(add, columns, scale, weight, intercept, bound, i, slope, out)


@compile_kernel
def _batch_sum(  # type: ignore[no-untyped-def]
    part, dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bound, chosen, start, stop, block, w, anchor, out,
):  # fmt: skip
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


@compile_kernel
def _direction(  # type: ignore[no-untyped-def]
    part, dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bound, divisor, rows, edges, block, anchor, anchor_gradient, w, t, direction,
):  # fmt: skip
    # v_t: the noise is there already; the batch's mean and the anchor's gradient are added.
    total = np.zeros(w.shape)
    _batch_sum(
        part, dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
        bound, rows, edges[t], edges[t + 1], block, w, anchor, total,
    )  # fmt: skip
    for c in range(w.shape[0]):
        for j in range(w.shape[1]):
            direction[c, j] += total[c, j] / divisor + anchor_gradient[c, j]


@compile_kernel
def _compiled_steps(  # type: ignore[no-untyped-def]
    part, dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bound, divisor, rows, edges, block, anchor, anchor_gradient, start,
    step_sizes, shrink, shrink_parameters, low, high, radius, iterates, directions,
):  # fmt: skip
    w = start
    for t in range(iterates.shape[0]):  # line 5
        _direction(
            part, dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
            bound, divisor, rows, edges, block, anchor, anchor_gradient, w, t, directions[t],
        )  # fmt: skip  # lines 6, 7
        for c in range(w.shape[0]):
            for j in range(w.shape[1]):
                moved = shrink(w[c, j] - step_sizes[t] * directions[t, c, j], step_sizes[t], *shrink_parameters)
                iterates[t, c, j] = min(max(moved, low[c, j]), high[c, j])  # line 8
        if radius < np.inf:
            clip_vector(iterates[t].reshape(-1), radius)
        w = iterates[t]
