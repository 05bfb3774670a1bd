"""Compiled loops of noisy steps for margin losses: noise is added to every step inside the loop."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.block import Block
from dperm.kernel.compiling import compile_kernel, compiled
from dperm.kernel.exact.words import Stream
from dperm.kernel.objectives.base import Steps
from dperm.kernel.objectives.margin_differences import add_difference, add_gradient, arguments, batch_sum, shaped
from dperm.kernel.objectives.margin_gradients import clip_vector
from dperm.kernel.sampling import Batches
from dperm.mechanisms.setting import summation_block
from dperm.problem.losses import Loss
from dperm.problem.prox import CoordinateProx

Array = NDArray[np.float64]


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
    fixed = (
        part, *arguments(loss, intercept, block), bound, steps.divisor, batches.rows, batches.edges,
        summation_block(len(block)), there, offset, add_noise, scale, words,
    )  # fmt: skip
    prox = steps.prox
    if isinstance(prox, CoordinateProx):
        low, high = (np.broadcast_to(side, steps.start.shape).reshape(there.shape) for side in (prox.low, prox.high))
        _compiled_steps(
            *fixed, shaped(loss, steps.start), np.ascontiguousarray(steps.step_sizes), compiled(prox.shrink),
            prox.parameters, np.ascontiguousarray(low), np.ascontiguousarray(high), prox.radius, iterates, directions,
        )  # fmt: skip
    else:
        w = steps.start
        for t, step_size in enumerate(map(float, steps.step_sizes)):
            _direction(*fixed, shaped(loss, w), t, directions[t])
            w = prox(w - step_size * directions[t].reshape(w.shape), step_size)
            iterates[t] = shaped(loss, w)
    flat = (len(steps.step_sizes), steps.start.size)
    return iterates.reshape(flat), directions.reshape(flat)


@compile_kernel
def _direction(  # type: ignore[no-untyped-def]
    part, dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bound, divisor, rows, edges, block, anchor, offset, add_noise, noise_scale, words, w, t, direction,
):  # fmt: skip
    # v_t: the batch's mean, the offset, and noise.
    total = np.zeros(w.shape)
    batch_sum(
        part, dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
        bound, rows, edges[t], edges[t + 1], block, w, anchor, total,
    )  # fmt: skip
    for c in range(w.shape[0]):
        for j in range(w.shape[1]):
            direction[c, j] = total[c, j] / divisor + offset[c, j]
    add_noise(direction.reshape(-1), noise_scale, words)


@compile_kernel
def _compiled_steps(  # type: ignore[no-untyped-def]
    part, dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
    bound, divisor, rows, edges, block, anchor, offset, add_noise, noise_scale, words, start,
    step_sizes, shrink, shrink_parameters, low, high, radius, iterates, directions,
):  # fmt: skip
    w = start
    for t in range(iterates.shape[0]):  # line 5
        _direction(
            part, dot, add, slopes, derivative, parameters, columns, scale, weight, target, intercept,
            bound, divisor, rows, edges, block, anchor, offset, add_noise, noise_scale, words, w, t, directions[t],
        )  # fmt: skip  # lines 6, 7
        for c in range(w.shape[0]):
            for j in range(w.shape[1]):
                moved = shrink(w[c, j] - step_sizes[t] * directions[t, c, j], step_sizes[t], *shrink_parameters)
                iterates[t, c, j] = min(max(moved, low[c, j]), high[c, j])  # line 8
        if radius < np.inf:
            clip_vector(iterates[t].reshape(-1), radius)
        w = iterates[t]
