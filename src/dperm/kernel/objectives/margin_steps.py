"""Loops of noisy steps for margin losses: noise is added to every step inside the loop."""

from typing import Any

import numpy as np

from dperm.kernel import native
from dperm.kernel.block import Block
from dperm.kernel.exact.rounding import AGAIN
from dperm.kernel.exact.words import Stream
from dperm.kernel.objectives.base import Steps
from dperm.kernel.objectives.margin_rows import Array, rows_of, shaped, slope_of
from dperm.kernel.objectives.margin_sums import part_sum
from dperm.kernel.objectives.written_slopes import WrittenSlope
from dperm.kernel.sampling import Batches
from dperm.mechanisms.setting import summation_block
from dperm.problem import regularizers
from dperm.problem.losses import Loss
from dperm.problem.prox import CoordinateProx

# The shrinking steps that native code has under the name of their regularizer.
_NATIVE = {
    kind.shrink: kind.name
    for kind in (getattr(regularizers, name) for name in regularizers.__all__)
    if getattr(kind, "name", None) in native.SHRINKS
}


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
    add_noise : callable
        Of `Noise`: turns a vector of exact numbers, in place, into what may be released.
    scale : float
        Of the noise.
    words : Stream
        Random words that the noise is drawn from.
    """
    part = native.GRADIENT if steps.anchor is None else native.DIFFERENCE
    there = shaped(loss, np.zeros(steps.start.size) if steps.anchor is None else steps.anchor)
    offset, start, sizes = shaped(loss, steps.offset), shaped(loss, steps.start), steps.step_sizes
    rows, slope, at_once = rows_of(block, intercept), slope_of(loss, bound), summation_block(len(block))
    prox, flat = steps.prox, (len(sizes), steps.start.size)
    if (
        isinstance(prox, CoordinateProx)
        and prox.shrink in _NATIVE
        and add_noise in AGAIN
        and not isinstance(slope, WrittenSlope)
    ):
        low, high = (np.ascontiguousarray(np.broadcast_to(side, start.size)) for side in (prox.low, prox.high))
        is_gaussian, again = AGAIN[add_noise]
        iterates, directions = native.steps(
            rows, slope, part, there, offset, steps.divisor, batches.rows, batches.edges, at_once, is_gaussian, scale,
            words, again(words), _NATIVE[prox.shrink], prox.parameters, low, high, prox.radius, start,
            np.ascontiguousarray(sizes),
        )  # fmt: skip
        return iterates.reshape(flat), directions.reshape(flat)
    iterates, directions = np.empty(flat), np.empty(flat)
    w = steps.start
    for t, size in enumerate(map(float, sizes)):  # line 5
        edges = int(batches.edges[t]), int(batches.edges[t + 1])
        total = part_sum(slope, rows, part, shaped(loss, w), there, batches.rows, edges, at_once)
        directions[t] = (total / steps.divisor + offset).reshape(-1)
        add_noise(directions[t], scale, words)  # lines 6, 7
        w = iterates[t] = prox(w - size * directions[t], size)  # line 8
    return iterates, directions
