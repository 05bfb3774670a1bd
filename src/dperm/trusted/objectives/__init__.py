"""What rows contribute, one file per kind of objective."""

from dperm.problem import Problem
from dperm.trusted.objectives.base import Objective, Steps
from dperm.trusted.objectives.margin import MarginObjective

__all__ = ["Objective", "Steps", "objective_of"]


def objective_of(problem: Problem) -> Objective:
    """The objective that sums a problem's losses: all of today's are losses of a margin."""
    return MarginObjective(problem)
