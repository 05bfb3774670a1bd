"""Solvers: one file each. To add one, write its file and import it here; the contract tests find it."""

from dperm.errors import InvalidParameter
from dperm.problem import Problem
from dperm.solvers.base import Solver
from dperm.solvers.dp_accmd import DPAccMD
from dperm.solvers.dp_gd import DPGD
from dperm.solvers.dp_katyusha import DPKatyusha
from dperm.solvers.dp_svrg import DPSVRG
from dperm.solvers.dp_svrg_plus_plus import DPSVRGPlusPlus

__all__ = ["DPGD", "DPSVRG", "SOLVERS", "DPAccMD", "DPKatyusha", "DPSVRGPlusPlus", "Solver", "choose_solver"]

SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver for solver in (DPGD, DPSVRG, DPSVRGPlusPlus, DPKatyusha, DPAccMD)
}


def choose_solver(solver: object, problem: Problem) -> Solver:
    """Turn a name, "auto" or a solver object into a solver that takes this problem, or raise."""
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
    if reason is not None:
        raise InvalidParameter(f"{chosen.name} cannot take this problem: {reason}")
    return chosen
