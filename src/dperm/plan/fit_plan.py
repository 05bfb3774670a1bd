"""A fit that is planned, and what comes out when it runs."""

import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.events import Event, event_to_list
from dperm.disk import fingerprint
from dperm.errors import InvalidParameterError, LargeDeltaWarning, NotSettledError
from dperm.kernel.noise import Randomness, check_random_state
from dperm.kernel.oracle import Oracle
from dperm.kernel.source import Source, check_count
from dperm.ledger import Budget, Reservation
from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.plan.intervals import ask_uncertainty
from dperm.plan.uncertainty import Uncertainty
from dperm.plan.verdict import Verdict, verdict_of
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.markup import plan_box
from dperm.privacy.statement import PrivacyStatement
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Problem
from dperm.schema import Schema
from dperm.solvers import Solver
from dperm.validation import check_not_diverged

if TYPE_CHECKING:
    from dperm.plan.max_rows import RiskOfMaxRows
    from dperm.plan.options import FitOptions
    from dperm.plan.rows_per_unit import RowsPerUnit

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Release:
    """Released coefficients and what is promised about them.

    Attributes
    ----------
    w : array
        The coefficients; with an intercept the last one of every output is the constant column's.
    privacy : PrivacyStatement
        Prints as six lines.
    event : Event
        The accounting event of the run; `event.to_dp_event()` is what any other accountant reads.
    schema : Schema or None
        The schema, with every number's encoding and with the ranges and bins that this run released.
    reservation : Reservation or None
        What the ledger holds for it.
    uncertainty : Uncertainty or None
        What intervals rest on, if they were asked for.
    """

    w: Array
    privacy: PrivacyStatement
    event: Event
    schema: Schema | None = None
    reservation: Reservation | None = None
    uncertainty: Uncertainty | None = None

    def settle(self) -> None:
        """Tell the ledger what was released, if one was charged."""
        if self.reservation is not None:
            content = {
                "w": self.w.tolist(),
                "privacy": self.privacy.to_dict(),
                "events": event_to_list(self.event),
                **({} if self.uncertainty is None else {"uncertainty": self.uncertainty.to_dict()}),
            }
            with self.reservation.noted():
                try:
                    self.reservation.settle(fingerprint(content))
                except NotSettledError as error:
                    error.release = self  # it was accounted for, so it is not to be lost
                    raise


@dataclass(frozen=True)
class FitPlan:
    """A fit that is planned and calibrated, with no row read yet. `FitOptions.plan` makes it, once per fit.

    Attributes
    ----------
    options : FitOptions
        What was asked for.
    problem : Problem
        What is minimised, with all that was left to rules.
    setting : Setting
        The problem's constants, the public n and the adjacency.
    solver : Solver
        The one that was chosen.
    calibrated : CalibratedPlan
        What will be asked, and its noise.
    statement : PrivacyStatement
        What is promised.
    n_features : int
        Columns of an encoded row.
    schema : Schema or None
        The declared schema with every number's encoding decided.
    """

    options: "FitOptions"
    problem: Problem
    setting: Setting
    solver: Solver
    calibrated: CalibratedPlan
    statement: PrivacyStatement
    n_features: int
    schema: Schema | None = None

    @property
    def privacy(self) -> PrivacyStatement:
        """The statement that a fit would carry, marked as a plan: there is nothing to release yet."""
        return replace(self.statement, caveats=(*self.statement.caveats, "this is a plan, nothing was fitted"))

    @property
    def event(self) -> Event:
        """The accounting event of what will run."""
        return self.calibrated.event()

    @property
    def settings(self) -> Any:
        """What the solver decided from public numbers."""
        return self.calibrated.plan.settings

    @property
    def passes(self) -> float:
        """Expected per-row gradients over n: how often the rows are read for one."""
        return self.calibrated.plan.passes

    @property
    def rests_on_rows(self) -> bool:
        """Whether n was read from the rows where it is not public."""
        return self.options.declared_n is None and bool(undeclared_n(self.setting.adjacency, self.setting.unit))

    def _repr_html_(self) -> str:
        """For notebooks: what would be promised, and whether it is worth fitting."""
        return plan_box(self.statement.promise_in_words, str(self))

    @cached_property
    def verdict(self) -> Verdict:
        """Whether it is worth fitting: what the noise is expected to cost beside predicting nothing."""
        return verdict_of(self)

    def __str__(self) -> str:
        """The statement, and the verdict."""
        return f"{self.privacy}\nverdict:    {self.verdict}"

    def plot_risk_of_epsilon(self, epsilons: Iterable[float] | None = None, ax: Any = None) -> Any:
        """Draw what more or less privacy is expected to cost, all else equal; it needs matplotlib.

        Parameters
        ----------
        epsilons : iterable of float, optional
            Where, besides the plan's own ε.
        ax : Axes, optional
            Where to draw.

        Returns
        -------
        Axes
        """
        from dperm.pictures.risk import plot_risk_of_epsilon
        from dperm.plan.outlook import risk_of_epsilon

        return plot_risk_of_epsilon(risk_of_epsilon(self.options, self.setting.n, self.n_features, epsilons), ax)

    def risk_of_max_rows(
        self, rows_per_unit: "float | RowsPerUnit | None" = None, choices: Iterable[int] = (1, 2, 5, 10, 20, 50)
    ) -> "RiskOfMaxRows":
        """What other max_rows than the unit's own are expected to cost, all else equal; no row is read.

        Parameters
        ----------
        rows_per_unit : float or RowsPerUnit, optional
            How many rows a unit has, from public knowledge, or what `dperm.rows_per_unit` released. Without it every
            line assumes that all units have at least so many rows.
        choices : iterable of int
            The max_rows to compare.

        Returns
        -------
        RiskOfMaxRows
            Prints as a table.
        """
        from dperm.plan.max_rows import risk_of_max_rows

        return risk_of_max_rows(self.options, self.setting.n, self.n_features, rows_per_unit, choices)

    @property
    def _charge(self) -> tuple[Event, Adjacency, PrivacyUnit | None, float]:
        return self.event, self.setting.adjacency, self.setting.unit, self.statement.delta

    def check_budget(self, budget: Budget | None) -> None:
        """Raise `BudgetExceededError` if the budget has no room for the fit now; the ledger is only read."""
        if budget is not None:
            budget.check(*self._charge)

    def run(
        self,
        source: Source,
        *,
        budget: Budget | None = None,
        random_state: Any = None,
        progress: Progress | None = None,
        row_warnings: bool = True,
        n_jobs: int | None = None,
    ) -> Release:
        """Reserve the cost, read the rows and release coefficients; whoever keeps them settles the reservation.

        Parameters
        ----------
        source : Source
            Where the rows come from.
        budget : Budget, optional
            Reserve the cost there before a row is read; the fit is refused where it does not fit.
        random_state : int, optional
            Makes the run repeatable, and the result not for release.
        progress : callable, optional
            Called with (steps done, steps planned). If it has a method `reading`, that is called with the number of a
            pass over rows in files or on a cluster, and how many it has read: for whoever holds the rows, not public.
        row_warnings : bool
            Whether to show an `DroppedRowsWarning` where most rows are ignored or clipped.
        n_jobs : int, optional
            Threads for sums over rows; by default as many as are worth starting. The result does not depend on it.
        """
        check_releasable(budget, random_state)
        source = source if self.schema is None else source.with_schema(self.schema)
        self._check_source(source)
        reading = getattr(progress, "reading", None)
        if reading is not None:
            source._watch(reading)
        reservation = None if budget is None else budget.reserve(*self._charge)
        with nullcontext() if reservation is None else reservation.noted():
            return self._release(source, reservation, random_state, progress, row_warnings, n_jobs)

    def _release(
        self,
        source: Source,
        reservation: Reservation | None,
        random_state: Any,
        progress: Progress | None,
        row_warnings: bool,
        n_jobs: int | None,
    ) -> Release:
        """Read the rows, whose cost is reserved."""
        randomness = Randomness.from_random_state(random_state)
        problem = self.problem
        # A run that diverges overflows on its way; one sentence says so instead of numpy's warnings.
        with (
            Oracle(source, problem, self.setting, self.calibrated, randomness, progress, n_jobs) as oracle,
            np.errstate(over="ignore", invalid="ignore", divide="ignore"),
        ):
            schema = oracle.complete(self.schema)
            w = self.solver.run(oracle, problem, self.calibrated.plan, problem.start(self.n_features))
            check_not_diverged(w)
            uncertainty = ask_uncertainty(oracle.ask, problem, self.calibrated, schema, w)
            if row_warnings:
                oracle.warn_about_rows()  # when nothing is left to depend on it
        return Release(w, self._statement_of_run(randomness), self.event, schema, reservation, uncertainty)

    def _check_source(self, source: Source) -> None:
        """The table must be one that the guarantee speaks of, and δ should be one that promises something."""
        if source.n_features != self.n_features:
            raise InvalidParameterError(
                f"the plan is for {self.n_features} columns, and the table has {source.n_features}."
            )
        if source.unit != self.setting.unit:
            raise InvalidParameterError("the plan protects another unit than the table's rows are grouped by.")
        check_count(source._n_units, self.setting.n, self.setting.adjacency, self.setting.unit)
        if self.options.noise is not None:
            warn_of_large_delta(self.statement.delta, self.setting.n, stacklevel=5, unit=self.setting.unit)

    def _statement_of_run(self, randomness: Randomness) -> PrivacyStatement:
        statement = self.statement
        if self.options.declared_n is None and self.options.noise is not None:
            statement = replace(
                statement, caveats=(*statement.caveats, *undeclared_n(self.setting.adjacency, self.setting.unit))
            )
        if randomness.seeded:
            statement = replace(statement, seeded=True, caveats=(*statement.caveats, "the noise came from a seed"))
        return statement


def warn_of_large_delta(delta: float, n: int, stacklevel: int, unit: PrivacyUnit | None = None) -> None:
    """Say so where δ promises nothing about a table of n rows or units."""
    if delta >= 1.0 / n:
        whose = "one row" if unit is None else f"all rows of one {unit.word}"
        warnings.warn(
            f"delta = {delta:g} is not below 1/n = {1.0 / n:g}: a promise this weak would allow publishing {whose} in "
            "the clear.",
            LargeDeltaWarning,
            stacklevel=stacklevel,
        )


def undeclared_n(adjacency: Adjacency, unit: PrivacyUnit | None = None) -> tuple[str, ...]:
    """What keeps a release from being published if nobody declared n."""
    if adjacency is Adjacency.ADD_REMOVE:
        return ("n was read from the rows, declare it under add_remove",)
    if unit is not None and unit.missing == "ignore":  # one that is replaced by rows without an id is not counted
        return ("n was read from the rows, declare it where rows without an id are ignored",)
    return ()


def check_releasable(budget: object, random_state: Any) -> None:
    """Raise unless it is a budget, or None, and what is charged to it can be released."""
    check_random_state(random_state)
    if budget is not None and not isinstance(budget, Budget):
        raise InvalidParameterError(f"budget must be a dperm Budget, got {type(budget).__name__}.")
    if budget is not None and random_state is not None:
        raise InvalidParameterError(
            "noise from a seed protects nobody, so it cannot be charged as a release: leave the seed or the budget out."
        )
