"""The answer to `StochasticStepsQuery`."""

import numpy as np

from dperm.errors import InvalidParameterError, PlanExceededError
from dperm.kernel.answers import Array, Asked, answers
from dperm.kernel.objectives import Steps
from dperm.kernel.sampling import steps_at_once
from dperm.mechanisms.stochastic_steps import StochasticStepsQuery
from dperm.problem.prox import coordinate_prox


@answers(StochasticStepsQuery)
def noisy_steps(query: StochasticStepsQuery, asked: Asked, w: Array) -> Array:
    """As many noisy SGD steps as there are step sizes. Released: the last iterate and the mean iterate."""
    step_sizes = np.asarray(asked.step_size, dtype=np.float64)
    if step_sizes.ndim != 1 or not step_sizes.size or not (np.isfinite(step_sizes) & (step_sizes > 0.0)).all():
        raise InvalidParameterError("step_size must be one finite number above 0 for every stochastic step.")
    if step_sizes.size > query.n_steps:
        raise PlanExceededError(f"the plan has {query.n_steps} stochastic steps, not {step_sizes.size}.")
    divisor, total, first = query.sampling_rate * asked.setting.n, np.zeros(w.size), 0
    prox = coordinate_prox(asked.problem.regularizer, asked.problem.domain) or asked.problem.prox
    # Cut by the public n: how far the steps have come is reported, and must not tell the number of rows.
    for n_steps in steps_at_once(step_sizes.size, max(divisor, w.size)):
        asked.advance(n_steps)
        sizes = step_sizes[first : first + n_steps]
        steps = Steps(w, sizes, divisor, None, None, np.zeros(w.size), prox)
        iterates, _ = asked.sums.steps(steps, query.sampling_rate, asked.noise, query.sensitivity)
        w, total, first = iterates[-1], total + iterates.sum(axis=0), first + n_steps
    return np.stack([w, total / step_sizes.size])
