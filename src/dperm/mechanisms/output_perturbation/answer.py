"""The answer to `OutputPerturbationQuery`."""

import numpy as np

from dperm.kernel.answers import Array, Asked, answers
from dperm.kernel.minimiser import minimiser
from dperm.mechanisms.output_perturbation import OutputPerturbationQuery


@answers(OutputPerturbationQuery)
def noisy_minimiser(query: OutputPerturbationQuery, asked: Asked, start: Array) -> Array:
    """The minimiser, solved to the tolerance or not released at all, and noise on it."""
    exact = minimiser(asked.problem, asked.sums, asked.setting, np.zeros(start.size), 0.0, query.tolerance, start)
    asked.advance(1)
    return asked.noise.release(exact, query.sensitivity)
