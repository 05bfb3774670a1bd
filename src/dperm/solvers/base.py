"""What a solver is: a plan from public numbers, then a loop over released answers."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.guarantee import Guarantee
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.problem import Problem

Array = NDArray[np.float64]


class Oracle(Protocol):
    """The side of the wall that a solver sees."""

    @property
    def public_coin(self) -> np.random.Generator:
        """Randomness for public choices."""
        ...

    def ask(self, item: PlannedQuery, *points: Array, step_size: float | Array | None = None) -> Array:
        """Answer a query of the plan at released points, with noise."""
        ...


@dataclass(frozen=True)
class Profile:
    """How `dperm solvers` describes a method: its row of the paper's comparison tables, and what dperm makes of it.

    Attributes
    ----------
    summary : str
        What it does, in a line.
    source : str
        Where it comes from.
    table : str
        The row of the paper's Tables 1 to 3 that it stands for.
    utility : str
        The bound on the excess empirical risk, up to constants and log(1/δ).
    gradients : str
        Per-example gradients.
    regularizers : str
        Which regularizers and domains it takes, and whether they may be non-smooth.
    adjacency : str
        Under which adjacency it was published, and under which it is certified here.
    needs : str
        What it assumes of the loss and of F^r.
    """

    summary: str
    source: str
    table: str
    utility: str
    gradients: str
    regularizers: str
    adjacency: str
    needs: str


class Solver(ABC):
    """A method. Settings are fields; every one has a default derived from public numbers."""

    name: ClassVar[str]
    profile: ClassVar[Profile]
    # Whether its certified guarantee has δ = 0.
    pure: ClassVar[bool] = False

    @abstractmethod
    def refusal(self, problem: Problem) -> str | None:
        """Say why this solver cannot take the problem, or None if it can; who can is said by `choose_solver`."""

    @abstractmethod
    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan:
        """Fix everything that will be asked, from public numbers only; guarantee None plans a run without noise."""

    @abstractmethod
    def paper(self, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
        """The plan and the noise that the paper's theorem prescribes; never for release."""

    @abstractmethod
    def run(self, oracle: Oracle, problem: Problem, plan: Plan, start: Array) -> Array:
        """Follow the plan and return the released coefficients."""

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """About E[F^r(w) − min F^r] from public numbers; infinite where no prediction is made, and "auto" passes by."""
        return math.inf

    @classmethod
    def example(cls) -> Self:
        """Build an instance with ordinary settings, for the contract tests."""
        return cls()
