"""Solvers: one file each. To add one, write its file and import it here; the contract tests find it."""

from dperm.errors import InvalidParameter
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Solver
from dperm.solvers.bassily_sgd import BassilySGD
from dperm.solvers.chaudhuri_objective import ChaudhuriObjective
from dperm.solvers.chaudhuri_output import ChaudhuriOutput
from dperm.solvers.dp_accmd import DPAccMD
from dperm.solvers.dp_agd import DPAGD
from dperm.solvers.dp_gd import DPGD
from dperm.solvers.dp_katyusha import DPKatyusha
from dperm.solvers.dp_sgd import DPSGD
from dperm.solvers.dp_svrg import DPSVRG
from dperm.solvers.dp_svrg_plus_plus import DPSVRGPlusPlus
from dperm.solvers.kifer_objective import KiferObjective
from dperm.solvers.rrpsgd import RRPSGD
from dperm.solvers.talwar_frank_wolfe import TalwarFrankWolfe
from dperm.solvers.talwar_mirror import TalwarMirror
from dperm.solvers.talwar_objective import TalwarObjective
from dperm.solvers.zhang_output import ZhangOutput

__all__ = [
    "DPAGD",
    "DPGD",
    "DPSGD",
    "DPSVRG",
    "RRPSGD",
    "SOLVERS",
    "BassilySGD",
    "ChaudhuriObjective",
    "ChaudhuriOutput",
    "DPAccMD",
    "DPKatyusha",
    "DPSVRGPlusPlus",
    "KiferObjective",
    "Solver",
    "TalwarFrankWolfe",
    "TalwarMirror",
    "TalwarObjective",
    "ZhangOutput",
    "choose_solver",
]

# The paper's own, then the rows that its tables compare them with, in their order.
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
)

SOLVERS: dict[str, type[Solver]] = {kind.name: kind for kind in _KINDS}


def choose_solver(solver: object, problem: Problem, guarantee: Guarantee | None) -> Solver:
    """Turn a name, "auto" or a solver object into a solver that takes this problem, or raise.

    Parameters
    ----------
    solver : str or Solver
        What was asked for.
    problem : Problem
        What is to be minimised.
    guarantee : Guarantee or None
        What must hold; None for a run without noise.
    """
    pure = guarantee is not None and guarantee.delta == 0.0
    if isinstance(solver, str) and solver == "auto":
        chosen: Solver = DPGD()
    elif isinstance(solver, str) and solver in SOLVERS:
        chosen = SOLVERS[solver]()
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


def _who_takes(problem: Problem, pure: bool) -> str:
    able = [
        name for name, kind in SOLVERS.items() if kind.example().refusal(problem) is None and (kind.pure or not pure)
    ]
    if not able:
        return "No solver takes it."
    return f"{' and '.join([', '.join(able[:-1]), able[-1]]) if len(able) > 1 else able[0]} can."
