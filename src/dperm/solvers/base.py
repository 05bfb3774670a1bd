"""What a solver is: a plan from public numbers, then a loop over released answers."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dperm.privacy.guarantee import Guarantee
from dperm.privacy.plan import PaidPlan, Plan, PlannedQuery
from dperm.privacy.setting import Setting
from dperm.problem import Problem

Array = NDArray[np.float64]


class Oracle(Protocol):
    """The side of the wall that a solver sees."""

    @property
    def public_coin(self) -> np.random.Generator:
        """Randomness for public choices."""
        ...

    def ask(self, item: PlannedQuery, *points: Array, step_size: float | None = None) -> Array:
        """Answer a query of the plan at released points, with noise."""
        ...


@dataclass(frozen=True)
class Profile:
    """How `dperm solvers` describes a method."""

    summary: str
    source: str
    utility: str
    gradients: str
    needs: str


class Solver(ABC):
    """A method. Settings are fields; every one has a default derived from public numbers."""

    name: ClassVar[str]
    profile: ClassVar[Profile]

    @abstractmethod
    def refusal(self, problem: Problem) -> str | None:
        """Say why this solver cannot take the problem, or None if it can."""

    @abstractmethod
    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan:
        """Fix everything that will be asked, from public numbers only; guarantee None plans a run without noise."""

    @abstractmethod
    def paper(self, setting: Setting, guarantee: Guarantee) -> PaidPlan:
        """The plan and the noise that the paper's theorem prescribes; never for release."""

    @abstractmethod
    def run(self, oracle: Oracle, problem: Problem, plan: Plan, start: Array) -> Array:
        """Follow the plan and return the released coefficients."""

    @classmethod
    def example(cls) -> Self:
        """Build an instance with ordinary settings, for the contract tests."""
        return cls()
