"""The answer to `PrintedEpochQuery`."""

import numpy as np

from dperm.kernel.answers import Array, Asked, answers
from dperm.kernel.objectives import Steps
from dperm.kernel.sampling import steps_at_once
from dperm.mechanisms.printed_epoch import PrintedEpochQuery
from dperm.problem.prox import coordinate_prox
from dperm.validation import positive


@answers(PrintedEpochQuery)
def noisy_epoch(query: PrintedEpochQuery, asked: Asked, start: Array, anchor: Array) -> Array:
    """Lines 3 to 10 of Algorithm 1 as printed. Released: the last iterate, the mean iterate and the mean direction."""
    step_size, n = positive("step_size", asked.step_size), asked.setting.n
    anchor_gradient = asked.sums.gradient(anchor) / n
    w, total, direction = start, np.zeros(start.size), np.zeros(start.size)
    prox = coordinate_prox(asked.problem.regularizer, asked.problem.domain) or asked.problem.prox
    # Cut by the public n: how far an epoch has come is reported, and must not tell the number of rows.
    for n_steps in steps_at_once(query.n_steps, max(query.sampling_rate * n, start.size)):
        asked.advance(n_steps)
        steps = Steps(
            w, np.full(n_steps, step_size), query.sampling_rate * n, 2.0 * asked.setting.constants.lipschitz, anchor,
            anchor_gradient, prox,
        )  # fmt: skip
        iterates, directions = asked.sums.steps(steps, query.sampling_rate, asked.noise, query.sensitivity)
        w, total, direction = iterates[-1], total + iterates.sum(axis=0), direction + directions.sum(axis=0)
    return np.stack([w, total / query.n_steps, direction / query.n_steps])
