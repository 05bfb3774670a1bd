"""The answer to `DescentOutputQuery`."""

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.kernel.answers import Array, Asked, answers
from dperm.mechanisms.descent_output import DescentOutputQuery


@answers(DescentOutputQuery)
def noisy_end(query: DescentOutputQuery, asked: Asked, w: Array) -> Array:
    """Proximal gradient descent without noise, and noise on its last iterate."""
    if float(np.linalg.norm(w)) > query.path.longest_start:
        raise InvalidParameterError("a path with last-iterate release must start in the domain, and near 0.")
    for _ in range(query.n_steps):
        gradient = asked.sums.gradient(w) / asked.setting.n
        w = asked.problem.prox(w - query.step_size * gradient, query.step_size)
        asked.advance(1)
    return asked.noise.release(w, query.sensitivity)
