"""Compiled loops of noisy steps for margin losses: noise is added to every step inside the loop."""

from typing import Any, NamedTuple

import numpy as np

from dperm.kernel.block import Block
from dperm.kernel.compiling import compile_kernel, compiled
from dperm.kernel.exact.words import Stream
from dperm.kernel.objectives.base import Steps
from dperm.kernel.objectives.margin_differences import (
    Indices,
    Reading,
    add_difference,
    add_gradient,
    batch_sum,
    reading_of,
    shaped,
)
from dperm.kernel.objectives.margin_gradients import clip_vector
from dperm.kernel.objectives.margin_rows import Array, Derivative, Rows, derivative_of, rows_of
from dperm.kernel.sampling import Batches
from dperm.mechanisms.setting import summation_block
from dperm.problem.losses import Loss
from dperm.problem.prox import CoordinateProx


class Sums(NamedTuple):
    """What every step adds up: which part of a row, of which rows, and what becomes of the sum."""

    part: Any
    reading: Reading
    derivative: Derivative
    rows: Rows
    chosen: Indices
    edges: Indices
    block: int
    divisor: float
    anchor: Array
    offset: Array


class Noisy(NamedTuple):
    """The noise of a step: a compiled function, its scale, and the random words that it is drawn from."""

    add: Any
    scale: float
    words: Stream


class Shrinking(NamedTuple):
    """A proximal step, coordinate by coordinate: what shrinks one, its bounds, and the radius of a ball."""

    shrink: Any
    parameters: tuple[Any, ...]
    low: Array
    high: Array
    radius: float


def take_steps(
    loss: Loss, bound: float, block: Block, batches: Batches, steps: Steps, intercept: float, add_noise: Any,
    scale: float, words: Stream,
) -> tuple[Array, Array]:  # fmt: skip
    """Proximal steps along noisy means over batches: iterates w_1 … w_m and directions v_1 … v_m.

    Parameters
    ----------
    loss : Loss
        Gives the derivative.
    bound : float
        Every row's slope, or difference of slopes, is clipped to this size (norm, if it is a vector).
    block : Block
        Bounded rows.
    batches : Batches
        The rows of every step.
    steps : Steps
        Where to begin, how far to step, and what to add up.
    intercept : float
        Value of the constant column, 0 for none.
    add_noise : compiled function
        Of `Noise`: turns a vector of exact numbers, in place, into what may be released.
    scale : float
        Of the noise.
    words : Stream
        Random words that the noise is drawn from.
    """
    part = add_gradient if steps.anchor is None else add_difference
    there = shaped(loss, np.zeros(steps.start.size) if steps.anchor is None else steps.anchor)
    offset = shaped(loss, steps.offset)
    shape = (len(steps.step_sizes), *there.shape)
    iterates, directions = np.empty(shape), np.empty(shape)
    rows = rows_of(block, intercept)
    sums = Sums(
        part=part, reading=reading_of(loss, rows), derivative=derivative_of(loss, bound), rows=rows,
        chosen=batches.rows, edges=batches.edges, block=summation_block(len(block)), divisor=steps.divisor,
        anchor=there, offset=offset,
    )  # fmt: skip
    noise = Noisy(add=add_noise, scale=scale, words=words)
    prox = steps.prox
    if isinstance(prox, CoordinateProx):
        low, high = (np.broadcast_to(side, steps.start.shape).reshape(there.shape) for side in (prox.low, prox.high))
        shrinking = Shrinking(
            shrink=compiled(prox.shrink), parameters=prox.parameters, low=np.ascontiguousarray(low),
            high=np.ascontiguousarray(high), radius=prox.radius,
        )  # fmt: skip
        start, step_sizes = shaped(loss, steps.start), np.ascontiguousarray(steps.step_sizes)
        _compiled_steps(sums, noise, shrinking, start, step_sizes, iterates, directions)
    else:
        w, here = steps.start, shaped(loss, steps.start).copy()
        for t in _each_direction(sums, noise, here, directions):
            w = prox(w - float(steps.step_sizes[t]) * directions[t].reshape(w.shape), float(steps.step_sizes[t]))
            iterates[t] = here[:] = shaped(loss, w)
    flat = (len(steps.step_sizes), steps.start.size)
    return iterates.reshape(flat), directions.reshape(flat)


@compile_kernel
def _direction(sums, noise, w, t, direction):  # type: ignore[no-untyped-def]
    # v_t: the batch's mean, the offset, and noise.
    total = np.zeros(w.shape)
    batch_sum(
        sums.part, sums.reading, sums.derivative, sums.rows, sums.chosen, sums.edges[t], sums.edges[t + 1],
        sums.block, w, sums.anchor, total,
    )  # fmt: skip
    for c in range(w.shape[0]):
        for j in range(w.shape[1]):
            direction[c, j] = total[c, j] / sums.divisor + sums.offset[c, j]
    noise.add(direction.reshape(-1), noise.scale, noise.words)


@compile_kernel
def _each_direction(sums, noise, w, directions):  # type: ignore[no-untyped-def]
    # Whoever asks for the next t has moved w: tuples are read once, which takes longer than a step.
    for t in range(directions.shape[0]):
        _direction(sums, noise, w, t, directions[t])
        yield t


@compile_kernel
def _compiled_steps(sums, noise, prox, start, step_sizes, iterates, directions):  # type: ignore[no-untyped-def]
    w = start
    for t in range(iterates.shape[0]):  # line 5
        _direction(sums, noise, w, t, directions[t])  # lines 6, 7
        for c in range(w.shape[0]):
            for j in range(w.shape[1]):
                moved = prox.shrink(w[c, j] - step_sizes[t] * directions[t, c, j], step_sizes[t], *prox.parameters)
                iterates[t, c, j] = min(max(moved, prox.low[c, j]), prox.high[c, j])  # line 8
        if prox.radius < np.inf:
            clip_vector(iterates[t].reshape(-1), prox.radius)
        w = iterates[t]
