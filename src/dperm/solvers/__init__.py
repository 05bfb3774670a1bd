"""Solvers: one file each. To add one, write its file and import it here; the contract tests find it."""

import math
from typing import NamedTuple

import numpy as np

from dperm.accounting.guarantee import Guarantee
from dperm.errors import InvalidParameter
from dperm.mechanisms.setting import Setting
from dperm.problem import Problem
from dperm.solvers.base import Solver
from dperm.solvers.descent.bassily_sgd import BassilySGD
from dperm.solvers.descent.dp_agd import DPAGD
from dperm.solvers.descent.dp_gd import DPGD
from dperm.solvers.descent.dp_sgd import DPSGD
from dperm.solvers.descent.rrpsgd import RRPSGD
from dperm.solvers.mirror.dp_accmd import DPAccMD
from dperm.solvers.mirror.support_descent import SupportDescent
from dperm.solvers.mirror.talwar_frank_wolfe import TalwarFrankWolfe
from dperm.solvers.mirror.talwar_mirror import TalwarMirror
from dperm.solvers.perturbation.chaudhuri_objective import ChaudhuriObjective
from dperm.solvers.perturbation.chaudhuri_output import ChaudhuriOutput
from dperm.solvers.perturbation.dp_objective import DPObjective
from dperm.solvers.perturbation.kifer_objective import KiferObjective
from dperm.solvers.perturbation.talwar_objective import TalwarObjective
from dperm.solvers.perturbation.zhang_output import ZhangOutput
from dperm.solvers.second_order.adassp import AdaSSP
from dperm.solvers.second_order.dp_newton import DPNewton
from dperm.solvers.variance_reduced.dp_katyusha import DPKatyusha
from dperm.solvers.variance_reduced.dp_spider import DPSpider
from dperm.solvers.variance_reduced.dp_svrg import DPSVRG
from dperm.solvers.variance_reduced.dp_svrg_plus_plus import DPSVRGPlusPlus

__all__ = [
    "DPAGD",
    "DPGD",
    "DPSGD",
    "DPSVRG",
    "RRPSGD",
    "SOLVERS",
    "AdaSSP",
    "BassilySGD",
    "ChaudhuriObjective",
    "ChaudhuriOutput",
    "DPAccMD",
    "DPKatyusha",
    "DPNewton",
    "DPObjective",
    "DPSVRGPlusPlus",
    "DPSpider",
    "KiferObjective",
    "Prediction",
    "Solver",
    "SupportDescent",
    "TalwarFrankWolfe",
    "TalwarMirror",
    "TalwarObjective",
    "ZhangOutput",
    "check_solver",
    "choose_solver",
    "predictions",
]

# The paper's own, then the rows that its tables compare them with, in their order, then second-order methods.
_KINDS: tuple[type[Solver], ...] = (
    DPGD,
    DPSVRG,
    DPSVRGPlusPlus,
    DPKatyusha,
    DPAccMD,
    DPAGD,
    ChaudhuriOutput,
    ChaudhuriObjective,
    KiferObjective,
    BassilySGD,
    DPSGD,
    ZhangOutput,
    RRPSGD,
    TalwarMirror,
    TalwarObjective,
    TalwarFrankWolfe,
    DPObjective,
    DPNewton,
    AdaSSP,
    SupportDescent,
    DPSpider,
)

SOLVERS: dict[str, type[Solver]] = {kind.name: kind for kind in _KINDS}


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


def predictions(problem: Problem, setting: Setting, guarantee: Guarantee) -> list[Prediction]:
    """Every solver that takes the problem, the smallest expected risk first; no data is touched.

    Parameters
    ----------
    problem : Problem
        What is to be minimised.
    setting : Setting
        Its constants, the public n and the adjacency.
    guarantee : Guarantee
        What must hold.
    """
    found = []
    for kind in SOLVERS.values():
        solver = kind()
        if solver.refusal(problem) is None and (kind.pure or guarantee.delta > 0.0):
            try:
                with np.errstate(all="ignore"):
                    risk = solver.expected_risk(setting, guarantee)
            except InvalidParameter:  # it takes the problem, but not at this size or guarantee
                continue
            except (ArithmeticError, IndexError, ValueError):  # numbers at the end of what a float can hold
                risk = math.inf
            found.append(Prediction(solver, math.inf if math.isnan(risk) else risk))
    return sorted(found, key=lambda prediction: prediction.risk)


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
        raise InvalidParameter(f"solver must be one of {names} or a solver object, got {solver!r}.")
    reason = chosen.refusal(problem)
    if reason is None and pure and not chosen.pure:
        reason = "delta = 0 asks for pure ε, which its noise cannot give."
    if reason is not None:
        raise InvalidParameter(f"{chosen.name} cannot take this problem: {reason} {_who_takes(problem, pure)}")
    return chosen


def choose_solver(solver: object, problem: Problem, setting: Setting, guarantee: Guarantee | None) -> Solver:
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
    """
    return check_solver(solver, problem, guarantee) or _automatic(problem, setting, guarantee)


def _automatic(problem: Problem, setting: Setting, guarantee: Guarantee | None) -> Solver:
    if guarantee is None:
        exact = DPObjective()
        return exact if exact.refusal(problem) is None else DPGD()
    ranked = predictions(problem, setting, guarantee)
    if not ranked:
        raise InvalidParameter(f"no solver takes this problem with this guarantee. {_who_takes(problem, False)}")
    return ranked[0].solver


def _who_takes(problem: Problem, pure: bool) -> str:
    able = [
        name for name, kind in SOLVERS.items() if kind.example().refusal(problem) is None and (kind.pure or not pure)
    ]
    if not able:
        return "No solver takes it."
    return f"{' and '.join([', '.join(able[:-1]), able[-1]]) if len(able) > 1 else able[0]} can."
