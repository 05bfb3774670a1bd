"""Which solver: one that was asked for and takes the problem, or the one with the smallest expected risk."""

import math
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from dperm.errors import InvalidParameterError, UnsupportedProblemError
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.remembered import remembered
from dperm.solvers import AUTOMATIC, SOLVERS, Solver
from dperm.solvers.descent.dp_gd import DPGD
from dperm.solvers.perturbation.dp_objective import DPObjective
from dperm.solvers.perturbation.dp_softmax import DPSoftmax

# Where passes are slow, a risk this many times the smallest is as good: the predictions are no more exact than that.
_AS_GOOD = 1.1
# And so is one below this share of the most that there is to gain: nobody would notice the difference.
_IMMATERIAL = 1e-4
# Gradients until an exact minimisation has reached its tolerance: about what it takes on the tables of benchmarks/.
_PASSES_TO_SOLVE = 30.0


class Prediction(NamedTuple):
    """What one solver is expected to do on a problem, from public numbers.

    Attributes
    ----------
    solver : Solver
        With its default settings.
    risk : float
        About E[F^r(w) − min F^r]; infinite where its authors' bound is all that is known.
    """

    solver: Solver
    risk: float


def predictions(
    problem: Problem, setting: Setting, guarantee: Guarantee, kinds: tuple[type[Solver], ...] = AUTOMATIC
) -> list[Prediction]:  # fmt: skip
    """Every solver that takes the problem, the smallest expected risk first; no data is touched.

    Parameters
    ----------
    problem : Problem
        What is to be minimised.
    setting : Setting
        Its constants, the public n and the adjacency.
    guarantee : Guarantee
        What must hold.
    kinds : tuple of Solver classes
        Those to look at; by default the ones that "auto" chooses among.
    """
    return list(_ranked(kinds, problem, setting, guarantee))


@remembered(256)
def _ranked(
    kinds: tuple[type[Solver], ...], problem: Problem, setting: Setting, guarantee: Guarantee
) -> tuple[Prediction, ...]:  # fmt: skip
    found = []
    for kind in kinds:
        solver = kind()
        if _refusal(solver, problem) is None and (kind.pure or guarantee.delta > 0.0):
            # What a float cannot hold is no prediction.
            with np.errstate(all="ignore"), suppress(ArithmeticError, ValueError):
                if solver.refusal_at(setting, guarantee) is None:
                    risk = solver.expected_risk(setting, guarantee)
                    found.append(Prediction(solver, math.inf if math.isnan(risk) else risk))
    return tuple(sorted(found, key=lambda prediction: prediction.risk))


def check_solver(solver: object, problem: Problem, guarantee: Guarantee | None) -> Solver | None:
    """Turn a name or a solver object into a solver that takes this problem, or raise; None stands for "auto".

    Parameters
    ----------
    solver : str or Solver
        What was asked for.
    problem : Problem
        What is to be minimised.
    guarantee : Guarantee or None
        What must hold; None for a run without noise.
    """
    if isinstance(solver, str) and solver == "auto":
        return None
    pure = guarantee is not None and guarantee.delta == 0.0
    if isinstance(solver, str) and solver in SOLVERS:
        chosen: Solver = SOLVERS[solver]()
    elif isinstance(solver, Solver):
        chosen = solver
    else:
        names = ", ".join(repr(name) for name in ("auto", *SOLVERS))
        raise InvalidParameterError(f"solver must be one of {names} or a solver object, got {solver!r}.")
    reason = _refusal(chosen, problem)
    if reason is None and pure and not chosen.pure:
        reason = "its noise cannot give pure ε (delta = 0)."
    if reason is not None:
        raise UnsupportedProblemError(
            f"{chosen.name} does not support this problem: {reason} {_who_takes(problem, pure)}"
        )
    return chosen


def choose_solver(
    solver: object, problem: Problem, setting: Setting, guarantee: Guarantee | None, *, slow_passes: bool = False
) -> Solver:
    """Turn a name, "auto" or a solver object into a solver that takes this problem, or raise.

    Parameters
    ----------
    solver : str or Solver
        What was asked for. "auto" is the one with the smallest expected risk; without a guarantee, for a run without
        noise, one that finds the exact minimiser if there is one.
    problem, guarantee
        As for `check_solver`.
    setting : Setting
        The problem's constants, the public n and the adjacency.
    slow_passes : bool
        Whether rows are on disk or on a cluster. "auto" then takes the fewest passes of all that are nearly as good as
        the best.
    """
    return check_solver(solver, problem, guarantee) or _automatic(problem, setting, guarantee, slow_passes)


def _automatic(problem: Problem, setting: Setting, guarantee: Guarantee | None, slow_passes: bool) -> Solver:
    if guarantee is None:
        able = (exact for exact in (DPObjective(), DPSoftmax()) if _refusal(exact, problem) is None)
        return next(able, DPGD())
    ranked = predictions(problem, setting, guarantee)
    if not ranked:
        raise UnsupportedProblemError(
            f"no solver supports this problem with this guarantee. {_who_takes(problem, False)}"
        )
    if not slow_passes:
        return ranked[0].solver
    enough = max(_AS_GOOD * ranked[0].risk, _IMMATERIAL * setting.constants.initial_gap)
    as_good = [solver for solver, risk in ranked if risk <= enough]
    return min(as_good, key=lambda solver: expected_passes(solver, setting, guarantee))


def expected_passes(solver: Solver, setting: Setting, guarantee: Guarantee | None) -> float:
    """About how often a solver reads rows that are not in memory; infinite if it cannot plan with such numbers.

    A question about a sample counts as a pass too: its rows are everywhere, and on a cluster it takes a round trip.
    """
    try:
        plan = solver.plan(setting, guarantee)
    except (ArithmeticError, ValueError):
        return math.inf
    passes = [
        item.count
        * (
            _PASSES_TO_SOLVE
            if item.query.gradients_per_row == math.inf
            else max(item.query.gradients_per_row, item.query.n_steps)
        )
        for item in plan.planned
    ]
    return float(sum(passes))


def _refusal(solver: Solver, problem: Problem) -> str | None:
    """Why the solver cannot take the problem, or the start that it was given."""
    if problem.start_point is not None and not solver.takes_start:
        return "it does not support start."
    return solver.refusal(problem)


def _who_takes(problem: Problem, pure: bool) -> str:
    able = [name for name, kind in SOLVERS.items() if _refusal(kind(), problem) is None and (kind.pure or not pure)]
    if not able:
        return "No solver supports it."
    return f"{' and '.join([', '.join(able[:-1]), able[-1]]) if len(able) > 1 else able[0]} can."
