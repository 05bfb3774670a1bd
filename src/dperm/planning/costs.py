"""What noise and what predicting nothing are expected to cost at any n and ε: predictions from public numbers."""

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dperm.accounting.guarantee import Guarantee
from dperm.mechanisms.setting import Setting
from dperm.planning.auto import check_solver, predictions
from dperm.solvers import Solver
from dperm.solvers.expected import risk_at_zero

if TYPE_CHECKING:
    from dperm.planning.options import FitOptions, PublicFacts

# Predictions are within a factor of about five of what was measured (solvers/expected.py). So noise that is predicted
# to cost less than a fifth of predicting nothing very likely leaves a useful model; between that and all of it nobody
# knows; beyond it the prediction would have to be wrong for the model to be of any use.
OFF_BY = 5.0


class Costs(NamedTuple):
    """By how much the mean loss is expected to rise.

    Attributes
    ----------
    noise : float
        By noise, about E[F^r(w) − min F^r]; infinite where there is no prediction.
    nothing : float
        By w = 0, predicting nothing.
    """

    noise: float
    nothing: float

    @property
    def word(self) -> str:
        """The verdict: "useful", "doubtful", "hopeless"; "unknown" where there is no prediction."""
        if not math.isfinite(self.noise):
            return "unknown"
        if OFF_BY * self.noise < self.nothing:
            return "useful"
        return "hopeless" if self.noise >= self.nothing else "doubtful"


def why_unknown(options: "FitOptions", setting: Setting) -> str | None:
    """Why nothing can be predicted of such fits, None if it can."""
    if options.noise != "certified" or options.accountant != "pld":
        return "there are predictions for certified noise by the accountant pld only"
    if not setting.constants.n_outputs:
        return "what noise costs a function's model is not known beforehand"
    return None


def costs_at(options: "FitOptions", n_features: int, n: float, epsilon: float, solver: Solver | None = None) -> Costs:
    """What is expected of a fit with another n and another ε, its penalty and its encoding included.

    Parameters
    ----------
    options : FitOptions
        What is asked for, with certified noise.
    n_features : int
        Columns of the table; a schema knows them itself.
    n, epsilon : float
        In the place of those of the options.
    solver : Solver, optional
        By default the one that was asked for, or that "auto" takes there.
    """
    with np.errstate(all="ignore"), suppress(ArithmeticError, ValueError):
        facts, guarantee = _facts(options, n_features, n, epsilon)
        solver = solver or _solver(options, facts, guarantee)
        if solver is not None and solver.refusal_at(facts.setting, guarantee) is None:
            noise, nothing = solver.expected_risk(facts.setting, guarantee), risk_at_zero(facts.setting, guarantee)
            if noise >= 0.0 and nothing > 0.0:
                return Costs(noise, nothing)
    return Costs(math.inf, 1.0)  # what a float cannot hold is no prediction


def _facts(options: "FitOptions", n_features: int, n: float, epsilon: float) -> tuple["PublicFacts", Guarantee]:
    assert options.guarantee is not None
    guarantee = Guarantee(epsilon, options.guarantee.delta)
    facts = replace(options, n=math.ceil(n), guarantee=guarantee).facts(None, n_features)
    return facts, facts.left or guarantee


def _solver(options: "FitOptions", facts: "PublicFacts", guarantee: Guarantee) -> Solver | None:
    """The solver that was asked for, or the best there."""
    asked = check_solver(options.solver, facts.problem, guarantee)
    if asked is not None:
        return asked
    ranked = predictions(facts.problem, facts.setting, guarantee)
    return ranked[0].solver if ranked else None
