"""What an estimator leaves open, by rule: the strength of its penalty, the size of its constant column.

From public numbers alone; docs/choosing_a_penalty.md has the reasons and the figures.
"""

import math
from dataclasses import replace

from dperm.accounting.curve import gaussian_mu
from dperm.errors import InvalidParameterError
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.problem.regularizers import L1, L2, Regularizer


def with_scaled_constant(problem: Problem, n_features: int) -> Problem:
    """The problem with a constant column of R/p^¼ instead of one as long as a whole row.

    It adds 1/√p to the squared row norm, and so to the noise, where R would double it. Its own noise is less than any
    other coefficient's share as long as it is at least R/√p; a larger one is shrunk less by a ridge.

    Parameters
    ----------
    problem : Problem
        What is minimised.
    n_features : int
        p, the columns of a row.
    """
    if not problem.intercept:
        return problem
    return replace(problem, intercept=min(problem.largest_entry, problem.row_norm / n_features**0.25))


def with_strength_by_rule(problem: Problem, setting: Setting, guarantee: Guarantee | None) -> Problem:
    """The problem with the strength of its L2 or L1 penalty from public numbers.

    Parameters
    ----------
    problem : Problem
        What is minimised; the strength that its penalty has does not matter.
    setting : Setting
        Its constants, the public n and the adjacency.
    guarantee : Guarantee or None
        What must hold, None for a run without noise.
    """
    check_strength_by_rule(problem.regularizer)
    ratio, constants = noise_ratio(setting, guarantee), setting.constants
    if isinstance(problem.regularizer, L2):
        return replace(problem, regularizer=L2(constants.smoothness * (1.0 / setting.n + 0.25 * ratio)))
    # The largest of p noisy gradients that are 0 on average: a coefficient without a signal stays 0.
    p = constants.dimension
    largest = math.sqrt(2.0 * math.log(2.0 * p) / p * (0.25 / setting.n + ratio))
    return replace(problem, regularizer=L1(constants.lipschitz * largest))


def check_strength_by_rule(regularizer: Regularizer) -> None:
    """Raise unless there is a rule for this penalty."""
    if not isinstance(regularizer, L1 | L2):
        raise InvalidParameterError(
            f"no rule gives the strength of {regularizer.name}; there is one for l2 and for l1."
        )


def noise_ratio(setting: Setting, guarantee: Guarantee | None) -> float:
    """E‖noise‖²/G² of one release of the mean gradient, at most 1: beyond, the noise is all that there is."""
    if guarantee is None:
        return 0.0
    p, moved = setting.constants.dimension, setting.adjacency.records_moved
    if guarantee.delta > 0.0:
        length = math.sqrt(p) / gaussian_mu(guarantee)
    else:
        length = math.sqrt(p * (p + 1.0)) / guarantee.epsilon
    return min(1.0, (moved * length / setting.n) ** 2)
