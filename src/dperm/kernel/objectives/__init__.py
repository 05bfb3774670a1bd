"""What rows contribute, one file per kind of objective; they are found here by being here."""

import importlib
import pkgutil

from dperm.errors import UnsupportedProblemError
from dperm.kernel.objectives.base import Objective, Steps
from dperm.problem import Problem

__all__ = ["Objective", "Steps", "objective_of"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def objective_of(problem: Problem) -> Objective:
    """The objective that sums a problem's losses."""
    for kind in Objective.__subclasses__():
        if isinstance(problem.loss, kind.takes):
            return kind(problem)
    raise UnsupportedProblemError(f"there is no objective for {problem.loss.name}.")
