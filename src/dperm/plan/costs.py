"""What noise is expected to cost at any n and ε, beside the loss of a constant predictor; from public numbers."""

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dperm.plan.rules import noise_ratio
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.problem.domains import WholeSpace
from dperm.problem.losses import Huber, Logistic, Softmax, Squared
from dperm.problem.regularizers import L2
from dperm.solvers import Solver
from dperm.solvers.expected import LENGTH
from dperm.solvers.perturbation.dp_objective import DPObjective
from dperm.solvers.perturbation.dp_regression import DPRegression
from dperm.solvers.perturbation.dp_softmax import DPSoftmax

if TYPE_CHECKING:
    from dperm.plan.options import FitOptions

# The losses, and the solver that each has by default, of which predictions were compared with fits (docs/diagnose.md).
# Of anything else nothing is said: with dp-gd, with δ = 0 in regressions and with Poisson losses they did not hold.
_SOLVERS: dict[type, Solver] = {
    Logistic: DPObjective(),
    Softmax: DPSoftmax(),
    Squared: DPRegression(),
    Huber: DPRegression(),
}

# With noise of length s·G on a mean gradient, G the largest, and the ridge that balances it, a convex loss ends about
# s·G‖w*‖ above its minimum. G‖w*‖ is the largest margin, typically 8; a constant predictor of two even classes has
# ln 2.
_STEEPNESS = LENGTH / math.log(2.0)
# Nine of ten measured fits lost no more than the expected share times this (docs/diagnose.md).
_AT_MOST = 3.0
# At a constant predictor the mean gradient is at most half of G: the mean of |y − q| is 2q(1 − q) ≤ 1/2 where a share q
# of two classes is 1. Noise that is longer hides it.
_DROWNED = 0.5
# Noise that is expected to cost up to this share is called small.
SMALL = 0.1


class Cost(NamedTuple):
    """What noise is expected to cost.

    Attributes
    ----------
    noise : float
        √(E‖noise‖²) of one release of the mean gradient, over the largest gradient; NaN if nothing is known.
    """

    noise: float

    @property
    def share(self) -> float:
        """By how much noise raises the mean loss, over the mean loss of the best constant predictor."""
        steep = _STEEPNESS * self.noise
        return steep / (1.0 + steep)  # what shrinks towards a constant predictor loses hardly more than it

    @property
    def most(self) -> float:
        """The share that nine of ten fits stay below."""
        return min(1.0, _AT_MOST * self.share)

    @property
    def word(self) -> str:
        """What the noise is: "small", "large", "hopeless"; "unknown" where nothing is known."""
        if math.isnan(self.noise):
            return "unknown"
        if self.noise >= _DROWNED:
            return "hopeless"
        return "small" if self.most <= SMALL else "large"


def why_unknown(options: "FitOptions", problem: Problem, solver: Solver | None = None) -> str | None:
    """Why nothing is known of what noise costs such fits, None if it is.

    Parameters
    ----------
    options : FitOptions
        What is asked for, with noise.
    problem : Problem
        What is minimised.
    solver : Solver, optional
        The one that would run; without it any that "auto" takes.
    """
    if options.noise != "certified" or options.accountant != "pld":
        return "predictions exist only for certified noise and the accountant pld"
    if not problem.loss.n_outputs:
        return "the cost of noise is not known in advance for functions"
    measured = {
        f"the loss {problem.loss.name}": type(problem.loss) in _SOLVERS,
        f"the penalty {problem.regularizer.name}": isinstance(problem.regularizer, L2),
        f"the domain {problem.domain.name}": isinstance(problem.domain, WholeSpace),
        "weighted rows": problem.weight_bound == 1.0,
        f"the solver {solver.name if solver else ''}": solver in (None, _SOLVERS.get(type(problem.loss))),
    }
    return next(
        (f"what noise costs with {part} is not known in advance" for part, known in measured.items() if not known), None
    )


def cost_at(options: "FitOptions", n_features: int, n: float, epsilon: float) -> Cost:
    """What is expected of a fit with another n and another ε, its encoding and what it asks besides included.

    Parameters
    ----------
    options : FitOptions
        What is asked for, of which something is known.
    n_features : int
        Columns of the table; a schema knows them itself.
    n, epsilon : float
        In place of those of the options.
    """
    assert options.guarantee is not None
    with np.errstate(all="ignore"), suppress(ArithmeticError, ValueError):
        guarantee = Guarantee(epsilon, options.guarantee.delta)
        facts = replace(options, n=math.ceil(n), guarantee=guarantee).facts(None, n_features)
        return Cost(math.sqrt(noise_ratio(facts.setting, facts.left or guarantee)))
    return Cost(math.nan)  # what a float cannot hold is no prediction
