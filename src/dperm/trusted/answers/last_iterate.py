"""The answer to `LastIterateQuery`."""

import numpy as np

from dperm.errors import InvalidParameter
from dperm.mechanisms import LastIterateQuery
from dperm.trusted.answers.base import Array, Asked, answers


@answers(LastIterateQuery)
def noisy_path(query: LastIterateQuery, asked: Asked, w: Array) -> Array:
    """Algorithm 4 with a proximal step: only the last iterate is released."""
    if float(np.linalg.norm(w)) > query.path(asked.noise.multiplier or 0.0).longest_start:
        raise InvalidParameter("a path of which only the end leaves must start in the domain, and near 0.")
    for _ in range(query.n_steps):
        exact = asked.sums.gradient(w) / asked.setting.n
        asked.advance(1)
        gradient = asked.noise.release(exact, query.sensitivity)
        w = asked.problem.prox(w - query.step_size * gradient, query.step_size)
    return w
