"""What a solver is: a plan from public numbers, then a loop over released answers."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dperm.errors import UnsupportedProblemError
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.settings import check_settings

Array = NDArray[np.float64]


class Oracle(Protocol):
    """The side of the trusted kernel that a solver sees."""

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


@dataclass(frozen=True)
class StepSettings:
    """What a method that takes steps of one size decided."""

    n_steps: int
    step_size: float


class Solver(ABC):
    """A method. Settings are fields; every one has a default derived from public numbers.

    What a plan decided is a frozen dataclass of the solver's own, `Plan[…]`, which `plan` returns and `run` reads.
    """

    name: ClassVar[str]
    profile: ClassVar[Profile]
    # Its place in lists; of two predictions that are equal the first in the list is taken.
    listed: ClassVar[int] = 1000
    # Whether its certified guarantee has δ = 0.
    pure: ClassVar[bool] = False
    # Whether where it begins makes a difference, so that it takes a start from its user.
    takes_start: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the settings that were given."""
        check_settings(self)

    @abstractmethod
    def refusal(self, problem: Problem) -> str | None:
        """Say why this solver cannot take the problem, or None if it can; who can is said by `check_solver`."""

    def refusal_at(self, setting: Setting, guarantee: Guarantee) -> str | None:
        """Say why this solver cannot keep the guarantee at these public numbers, or None if it can."""
        return None

    def is_pure(self, guarantee: Guarantee) -> bool:
        """Whether what it releases for this guarantee has a pure ε, as some methods have whatever δ is."""
        return guarantee.delta == 0.0

    def check_at(self, setting: Setting, guarantee: Guarantee) -> None:
        """Raise in the words of `refusal_at`."""
        reason = self.refusal_at(setting, guarantee)
        if reason is not None:
            raise UnsupportedProblemError(f"{self.name} cannot keep this guarantee here: {reason}")

    @abstractmethod
    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[Any]:
        """Fix everything that will be asked, from public numbers only; guarantee None plans a run without noise."""

    @abstractmethod
    def run(self, oracle: Oracle, problem: Problem, plan: Plan[Any], start: Array) -> Array:
        """Follow the plan and return the released coefficients."""

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """About E[F^r(w) − min F^r] from public numbers; infinite without a prediction, and never chosen by "auto".

        It is asked only where `refusal` and `refusal_at` have nothing to say.
        """
        return math.inf

    def gradient_bound(self, setting: Setting, guarantee: Guarantee) -> float:
        """A bound on E‖∇F(w)‖² of an iterate drawn as the theorem says, without r and C; infinite where none is proved.

        For a `FunctionLoss` it holds if its guesses at L and at the gap do, and no gradient is clipped.
        """
        return math.inf
