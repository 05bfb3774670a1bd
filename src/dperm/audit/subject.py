"""What is audited: a plan, run again and again on synthetic tables."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.audit.tables import Canary, Surroundings, Table, canaries
from dperm.audit.watched import ExactOracle, PlaybackOracle, Question, WatchedOracle
from dperm.errors import UnsupportedProblemError
from dperm.mechanisms.plan import CalibratedPlan, PlannedQuery
from dperm.plan.fit_plan import FitPlan
from dperm.schema import Schema

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Run:
    """One fit on a synthetic table: what was released, and what was asked and answered on the way."""

    w: Array
    transcript: list[Question]
    coin: int
    schema: Schema | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """A plan under audit.

    Parameters
    ----------
    plan : FitPlan
        The plan.
    seed : int or None
        Makes all fits repeatable; None takes keys of the operating system.
    """

    plan: FitPlan
    seed: int | None = None

    def __post_init__(self) -> None:
        """Refuse what there is no attack on."""
        if self.plan.calibrated.noise_multiplier is None:
            raise UnsupportedProblemError("a run without noise has no guarantee to audit.")

    def run(self, table: Table, number: int | None) -> Run:
        """Fit number so-and-so of an audit, on a synthetic table; None is for keys of the operating system."""
        seed = None if self.seed is None or number is None else self.seed * 1_000_003 + number
        with (
            WatchedOracle(
                table.X, table.y, self.plan.problem, self.plan.setting, self.plan.calibrated, seed,
                coin=number if seed is not None else None, groups=table.groups,
            ) as oracle,
            np.errstate(all="ignore"),
        ):  # fmt: skip
            w = self._follow(oracle)
        return Run(w, oracle.transcript, oracle.coin, oracle.schema)

    def runs(
        self, tables: tuple[Table, Table], fits: int, first: int, progress: Progress | None
    ) -> Iterator[tuple[int, Run]]:
        """Fits of both tables in turn, each with the place of its table."""
        for number in range(fits):
            yield number % 2, self.run(tables[number % 2], first + number)
            if progress is not None:
                progress(number + 1, fits)

    def ask(self, table: Table, number: int, item: PlannedQuery, *points: Array, step_size: Any = None) -> Array:
        """One noisy answer about a synthetic table, by an oracle of its own."""
        seed = None if self.seed is None else self.seed * 1_000_003 + number + 500_000
        with WatchedOracle(
            table.X, table.y, self.plan.problem, self.plan.setting, self.plan.calibrated, seed, groups=table.groups
        ) as oracle:
            return oracle.ask(item, *points, step_size=step_size)

    def play_back(self, run: Run, table: Table) -> Array:
        """What the solver makes of the answers of a run, with another table under it."""
        with (
            PlaybackOracle(
                table.X, table.y, self.plan.problem, self.plan.setting, self.plan.calibrated, 0, run.coin, table.groups
            ) as oracle,
            np.errstate(all="ignore"),
        ):
            oracle.play(run.transcript)
            return self._follow(oracle)

    def exact(self, table: Table, key: int | None = None) -> ExactOracle:
        """Exact answers about a synthetic table; only samples are drawn, and which rows of a unit are used.

        With a key the draws are the same for every table that begins with the same rows.
        """
        return ExactOracle(
            table.X, table.y, self.plan.problem, self.plan.setting, CalibratedPlan(self.plan.calibrated.plan, None),
            self.seed if key is None else key, groups=table.groups,
        )  # fmt: skip

    def surroundings(self, *, ignored: bool, crowded: bool = False) -> Surroundings:
        """What neighbours of this plan share."""
        plan, setting = self.plan, self.plan.setting
        return Surroundings(plan.problem, setting.n, plan.n_features, ignored, setting.unit, crowded)

    def canaries(self) -> list[Canary]:
        """What they differ in."""
        return canaries(self.plan.problem, self.plan.n_features, self.plan.setting.unit)

    def without_noise(self, table: Table) -> Array:
        """What the plan would release without noise."""
        with self.exact(table) as oracle, np.errstate(all="ignore"):
            return self._follow(oracle)

    def _follow(self, oracle: WatchedOracle) -> Array:
        problem = self.plan.problem
        start = problem.start(self.plan.n_features)
        oracle.complete(self.plan.schema)
        return np.array(self.plan.solver.run(oracle, problem, self.plan.calibrated.plan, start))
