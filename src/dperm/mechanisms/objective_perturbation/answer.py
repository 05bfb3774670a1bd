"""The answer to `ObjectivePerturbationQuery`."""

from dataclasses import replace

import numpy as np

from dperm.kernel.answers import Array, Asked, answers
from dperm.kernel.minimiser import minimiser
from dperm.mechanisms.objective_perturbation import ObjectivePerturbationQuery
from dperm.problem.losses import Loss


@answers(ObjectivePerturbationQuery)
def perturbed_minimiser(query: ObjectivePerturbationQuery, asked: Asked, start: Array) -> Array:
    """The minimiser of the objective with a random linear term, and a little noise for what is left of its gradient."""
    linear = asked.noise.release(np.zeros(start.size), query.sensitivity)
    problem, sums = asked.problem, asked.sums
    if query.slope_share < 1.0 and isinstance(problem.loss, Loss):
        problem = replace(problem, loss=problem.loss.clipped(query.slope_share))
        sums = sums.of(problem)
    exact = minimiser(problem, sums, asked.setting, linear, query.ridge, query.tolerance, start, query.slope_share)
    asked.advance(1)
    return asked.noise.release_hidden(exact, "Gamma", query.remainder_scale)
