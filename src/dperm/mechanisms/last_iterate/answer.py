"""The answer to `LastIterateQuery`."""

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.kernel.answers import Array, Asked, answers
from dperm.mechanisms.last_iterate import LastIterateQuery


@answers(LastIterateQuery)
def noisy_path(query: LastIterateQuery, asked: Asked, w: Array) -> Array:
    """Algorithm 4 with a proximal step: only the last iterate is released.

    The noise is added to the step, not to the gradient: the last iterate must be computed from a number that was
    rounded after its noise, and from nothing that stays inside (docs/proofs/exact.md, the rule). η∇F(w) − w is the
    step with the sign of the gradient's noise.
    """
    if float(np.linalg.norm(w)) > query.path(asked.noise.multiplier or 0.0).longest_start:
        raise InvalidParameterError("a path with last-iterate release must start in the domain, and near 0.")
    for _ in range(query.n_steps):
        exact = query.step_size * (asked.sums.gradient(w) / asked.setting.n) - w
        asked.advance(1)
        w = asked.problem.prox(-asked.noise.release(exact, query.step_sensitivity), query.step_size)
    return w
