"""Compiled sums of margin losses over rows: one pass over memory, threads used, every row's part bounded.

A row's part is weight · scale · clip(ℓ'(scale · ⟨w, x⟩ + c·w_c, y)) · x, where `scale` clips the row to the
declared norm and `clip` enforces the declared slope. So the sum's sensitivity does not depend on what the
rows hold, nor on whether a loss keeps the bounds that it declares. Rows of weight 0 are never read.
"""

import functools
from concurrent.futures import Executor

import numpy as np

from dperm.kernel.block import Block
from dperm.kernel.compiling import compile_kernel
from dperm.kernel.objectives.margin_rows import Array, Csr, derivative_of, rows_of
from dperm.kernel.threads import pieces_of
from dperm.mechanisms.setting import summation_block
from dperm.problem.losses import Loss

# Rows of a tile, which is read twice: so many numbers stay in the cache. A multiple of four, and no more than this.
_TILE, _TILE_ENTRIES = 64, 32_768


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
    derivative, rows = derivative_of(loss, slope_bound), rows_of(block, intercept)
    if isinstance(rows.columns, Csr):
        kernel = _csr_scalar if loss.n_outputs == 1 else _csr_vector
        work = int(rows.columns.data.size)
    else:
        kernel = _dense_scalar if loss.n_outputs == 1 else _dense_vector
        work = int(rows.columns.table.size)
    shape = (w.size,) if loss.n_outputs == 1 else (loss.n_outputs, w.size // loss.n_outputs)
    point = np.ascontiguousarray(w).reshape(shape)
    n = len(block)
    rows_at_once = summation_block(n)

    def piece(edges: tuple[int, int]) -> Array:
        out = np.zeros(shape)
        kernel(derivative, rows, point, *edges, rows_at_once, out)
        return out

    # Every piece has sums of its own for all coefficients: with few entries a column they cost more than they save.
    edges = pieces_of(n, work * loss.n_outputs, most=work // (4 * block.table.shape[1]))
    parts = [piece(edges[0])] if len(edges) == 1 else list(pool.map(piece, edges))
    return functools.reduce(np.add, parts).reshape(w.shape)


@compile_kernel
def _clip(value, bound):  # type: ignore[no-untyped-def]
    # Comparisons are written so that a NaN ends at the bound instead of passing through.
    if not value <= bound:
        return bound
    if not value >= -bound:
        return -bound
    return value


@compile_kernel
def clip_vector(values, bound):  # type: ignore[no-untyped-def]
    """Shorten a vector to the bound, in place; one without a finite norm becomes zero."""
    total = 0.0
    for k in range(values.shape[0]):
        total += values[k] * values[k]
    norm = np.sqrt(total)
    if not norm <= bound:
        for k in range(values.shape[0]):
            values[k] = values[k] * (bound / norm) if norm < np.inf else 0.0


@compile_kernel
def _dense_scalar(derivative, rows, w, start, stop, block, out):  # type: ignore[no-untyped-def]
    # Rows go through in tiles that stay in the cache: margins, then slopes, then the sum, four rows at a time.
    scale, weight, target, intercept = rows.scale, rows.weight, rows.target, rows.intercept
    X = rows.columns.table
    p = X.shape[1]
    constant = w[p] * intercept if intercept != 0.0 else 0.0
    slopes = np.empty(_TILE)
    tile = min(_TILE, max(4, _TILE_ENTRIES // p // 4 * 4))
    for first in range(start, stop, block):
        end = min(first + block, stop)
        part = np.zeros(w.shape[0])
        for top in range(first, end, tile):
            size = min(tile, end - top)
            whole = True
            for k in range(size):
                margin = 0.0
                if weight[top + k] != 0.0:
                    for j in range(p):
                        margin += X[top + k, j] * w[j]
                else:
                    whole = False
                slopes[k] = margin
            total = 0.0
            for k in range(size):
                i = top + k
                slope = weight[i] * _clip(
                    derivative.function(slopes[k] * scale[i] + constant, target[i], *derivative.parameters),
                    derivative.bound,
                )
                total += slope
                slopes[k] = slope * scale[i]
            if intercept != 0.0:
                part[p] += intercept * total
            done = 0
            if whole:
                for k in range(0, size - 3, 4):
                    i = top + k
                    a, b, c, d = slopes[k], slopes[k + 1], slopes[k + 2], slopes[k + 3]
                    for j in range(p):
                        part[j] += (a * X[i, j] + b * X[i + 1, j]) + (c * X[i + 2, j] + d * X[i + 3, j])
                done = size - size % 4
            for k in range(done, size):
                if weight[top + k] != 0.0:
                    for j in range(p):
                        part[j] += slopes[k] * X[top + k, j]
        for j in range(part.shape[0]):
            out[j] += part[j]


@compile_kernel
def _dense_vector(derivative, rows, w, start, stop, block, out):  # type: ignore[no-untyped-def]
    scale, weight, target, intercept = rows.scale, rows.weight, rows.target, rows.intercept
    X = rows.columns.table
    p, n_outputs = X.shape[1], w.shape[0]
    margin, slope = np.empty(n_outputs), np.empty(n_outputs)
    for first in range(start, stop, block):
        part = np.zeros(w.shape)
        for i in range(first, min(first + block, stop)):
            if weight[i] == 0.0:
                continue
            for k in range(n_outputs):
                margin[k] = 0.0
                for j in range(p):
                    margin[k] += X[i, j] * w[k, j]
                margin[k] *= scale[i]
                if intercept != 0.0:
                    margin[k] += intercept * w[k, p]
            slope[:] = 0.0  # a loss that leaves an output out must not get the last row's
            derivative.function(margin, target[i], slope, *derivative.parameters)
            clip_vector(slope, derivative.bound)
            for k in range(n_outputs):
                if intercept != 0.0:
                    part[k, p] += intercept * weight[i] * slope[k]
                factor = weight[i] * slope[k] * scale[i]
                for j in range(p):
                    part[k, j] += factor * X[i, j]
        for k in range(n_outputs):
            for j in range(part.shape[1]):
                out[k, j] += part[k, j]


@compile_kernel
def _move(part, out, indices, begin, end):  # type: ignore[no-untyped-def]
    # Add a block's sum to the total and clear it. Where a block names few of the columns, only those are visited, so
    # that a pass costs as much as its entries, however many columns there are.
    last = part.shape[0] - 1
    if 4 * (end - begin) < part.shape[0]:
        for k in range(begin, end):
            j = indices[k]
            out[j] += part[j]
            part[j] = 0.0
        out[last] += part[last]  # the constant column, which no row names
        part[last] = 0.0
    else:
        for j in range(part.shape[0]):
            out[j] += part[j]
            part[j] = 0.0


@compile_kernel
def _csr_scalar(derivative, rows, w, start, stop, block, out):  # type: ignore[no-untyped-def]
    scale, weight, target, intercept = rows.scale, rows.weight, rows.target, rows.intercept
    data, indices, indptr = rows.columns.data, rows.columns.indices, rows.columns.indptr
    last = w.shape[0] - 1
    part = np.zeros(w.shape[0])
    for first in range(start, stop, block):
        end = min(first + block, stop)
        for i in range(first, end):
            if weight[i] == 0.0:
                continue
            margin = 0.0
            for k in range(indptr[i], indptr[i + 1]):
                margin += data[k] * w[indices[k]]
            margin *= scale[i]
            if intercept != 0.0:
                margin += intercept * w[last]
            slope = weight[i] * _clip(derivative.function(margin, target[i], *derivative.parameters), derivative.bound)
            if intercept != 0.0:
                part[last] += intercept * slope
            slope *= scale[i]
            for k in range(indptr[i], indptr[i + 1]):
                part[indices[k]] += slope * data[k]
        _move(part, out, indices, indptr[first], indptr[end])


@compile_kernel
def _csr_vector(derivative, rows, w, start, stop, block, out):  # type: ignore[no-untyped-def]
    scale, weight, target, intercept = rows.scale, rows.weight, rows.target, rows.intercept
    data, indices, indptr = rows.columns.data, rows.columns.indices, rows.columns.indptr
    n_outputs, last = w.shape[0], w.shape[1] - 1
    margin, slope = np.empty(n_outputs), np.empty(n_outputs)
    part = np.zeros(w.shape)
    for first in range(start, stop, block):
        end = min(first + block, stop)
        for i in range(first, end):
            if weight[i] == 0.0:
                continue
            for c in range(n_outputs):
                margin[c] = 0.0
                for k in range(indptr[i], indptr[i + 1]):
                    margin[c] += data[k] * w[c, indices[k]]
                margin[c] *= scale[i]
                if intercept != 0.0:
                    margin[c] += intercept * w[c, last]
            slope[:] = 0.0  # a loss that leaves an output out must not get the last row's
            derivative.function(margin, target[i], slope, *derivative.parameters)
            clip_vector(slope, derivative.bound)
            for c in range(n_outputs):
                if intercept != 0.0:
                    part[c, last] += intercept * weight[i] * slope[c]
                factor = weight[i] * slope[c] * scale[i]
                for k in range(indptr[i], indptr[i + 1]):
                    part[c, indices[k]] += factor * data[k]
        for c in range(n_outputs):
            _move(part[c], out[c], indices, indptr[first], indptr[end])
