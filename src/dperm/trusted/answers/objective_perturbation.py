"""The answer to `ObjectivePerturbationQuery`."""

import numpy as np

from dperm.mechanisms import ObjectivePerturbationQuery
from dperm.trusted.answers.base import Array, Asked, answers
from dperm.trusted.minimiser import minimiser


@answers(ObjectivePerturbationQuery)
def perturbed_minimiser(query: ObjectivePerturbationQuery, asked: Asked, start: Array) -> Array:
    """The minimiser of the objective with a random linear term, and a little noise for what is left of its gradient."""
    linear = asked.noise.release(np.zeros(start.size), query.sensitivity)
    exact = minimiser(
        asked.problem, asked.sums, asked.setting, linear, query.ridge, query.tolerance, start, query.slope_share
    )
    asked.advance(1)
    return asked.noise.release_hidden(exact, "Gamma", query.remainder_scale)
