"""The answer to `AdaptedObjectiveQuery`."""

import numpy as np

from dperm.kernel.answers import Array, Asked, answers
from dperm.kernel.minimiser import minimiser
from dperm.mechanisms.adapted_objective import AdaptedObjectiveQuery
from dperm.mechanisms.slope_size import share_of


@answers(AdaptedObjectiveQuery)
def adapted_minimiser(query: AdaptedObjectiveQuery, asked: Asked, start: Array, numbers: Array) -> Array:
    """The minimiser with the share and the ridge that were asked for, and a little noise for what is left."""
    linear = asked.noise.release(np.zeros(start.size), query.sensitivity_at(start, numbers))
    exact = minimiser(
        asked.problem, asked.sums, asked.setting, linear, query.ridge_of(numbers), query.tolerance, start,
        share_of(numbers),
    )  # fmt: skip
    asked.advance(1)
    return asked.noise.release_hidden(exact, "Gamma", query.remainder_scale)
