"""The answer to `DescentOutputQuery`."""

from dperm.mechanisms import DescentOutputQuery
from dperm.trusted.answers.base import Array, Asked, answers


@answers(DescentOutputQuery)
def noisy_end(query: DescentOutputQuery, asked: Asked, w: Array) -> Array:
    """Exact proximal gradient descent, and noise on its last iterate."""
    for _ in range(query.n_steps):
        gradient = asked.sums.gradient(w) / asked.setting.n
        w = asked.problem.prox(w - query.step_size * gradient, query.step_size)
        asked.advance(1)
    return asked.noise.release(w, query.sensitivity)
