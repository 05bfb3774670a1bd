"""A fit that is planned, and what comes out when it runs."""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.events import Event, event_to_list
from dperm.disk import fingerprint
from dperm.errors import InvalidParameterError
from dperm.kernel.oracle import Oracle
from dperm.kernel.source import Source
from dperm.ledger import Budget
from dperm.mechanisms.setting import Setting
from dperm.plan.intervals import ask_uncertainty
from dperm.plan.release_plan import ReleasePlan
from dperm.plan.statement import statement_of
from dperm.plan.transaction import Transaction, undeclared_n
from dperm.plan.uncertainty import Uncertainty
from dperm.plan.verdict import Verdict, verdict_of
from dperm.privacy.statement import FitStatement
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
    privacy : FitStatement
        Prints as six lines.
    event : Event
        The accounting event of the run; `event.to_dp_event()` is what any other accountant reads.
    schema : Schema or None
        The schema, with every number's encoding and with the ranges and bins that this run released.
    ledger_entry : dict or None
        What the ledger holds for it.
    uncertainty : Uncertainty or None
        What intervals rest on, if they were asked for.
    """

    w: Array
    privacy: FitStatement
    event: Event
    schema: Schema | None = None
    ledger_entry: dict[str, Any] | None = None
    uncertainty: Uncertainty | None = None

    @property
    def fingerprint(self) -> str:
        """Of what was released, for the ledger."""
        content = {
            "w": self.w.tolist(),
            "privacy": self.privacy.to_dict(),
            "events": event_to_list(self.event),
            **({} if self.uncertainty is None else {"uncertainty": self.uncertainty.to_dict()}),
        }
        return fingerprint(content)


@dataclass(frozen=True)
class FitPlan(ReleasePlan):
    """A fit that is planned and calibrated, with no row read yet. `FitOptions.plan` makes it, once per fit.

    Attributes
    ----------
    options : FitOptions
        What was asked for.
    problem : Problem
        What is minimised, with all that was left to rules.
    solver : Solver
        The one that was chosen.
    n_features : int
        Columns of an encoded row.
    schema : Schema or None
        The declared schema with every number's encoding decided.
    """

    _: KW_ONLY
    options: "FitOptions"
    problem: Problem
    solver: Solver
    n_features: int
    schema: Schema | None = None

    @property
    def setting(self) -> Setting:
        """The problem's constants, the public n, the adjacency and the unit."""
        return self.calibrated.plan.planned[0].query.setting

    @cached_property
    def statement(self) -> FitStatement:
        """What is promised; what happens in a run, a seed for instance, is added there."""
        options, calibrated = self.options, self.calibrated
        return statement_of(
            self.problem, self.n_features, self.setting, calibrated,
            f"{self.solver.name} without noise" if options.noise is None else calibrated.plan.mechanism,
            guarantee=self.promise.guarantee, noise=options.noise, accountant=options.accountant,
            target_transform=None if options.schema is None else getattr(options.schema.target, "transform", None),
        )  # fmt: skip

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

    @cached_property
    def verdict(self) -> Verdict:
        """Whether it is worth fitting: the expected cost of noise, relative to the loss of a constant predictor."""
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
        """Reserve the cost, read the rows, release coefficients and tell the ledger.

        Parameters
        ----------
        source : Source
            Where the rows come from.
        budget : Budget, optional
            The dataset's budget in a ledger. Reserved before a row is read; a fit that exceeds it is refused.
        random_state : int, optional
            Seed. Makes the run reproducible, and the result not for release.
        progress, row_warnings, n_jobs
            As of `answer`.
        """
        with self.transaction(source, budget, random_state) as transaction:
            release = self.answer(transaction, progress, row_warnings, n_jobs)
            transaction.write(release, lambda: release.fingerprint)
        return release

    def transaction(self, source: Source, budget: Budget | None, random_state: Any) -> Transaction:
        """What the fit is charged by, for these rows; nothing is reserved before it is entered.

        Parameters
        ----------
        source, budget, random_state
            As of `run`.
        """
        rows = source if self.schema is None else source.with_schema(self.schema)
        if rows.n_features != self.n_features:
            raise InvalidParameterError(
                f"the plan is for {self.n_features} columns, and the table has {rows.n_features}."
            )
        declared = self.options.declared_n is not None or self.options.noise is None
        return Transaction(
            self, budget, random_state, found=rows._n_units, unit=rows.unit, n_declared=declared, rows=rows
        )

    def answer(
        self,
        transaction: Transaction,
        progress: Progress | None = None,
        row_warnings: bool = True,
        n_jobs: int | None = None,
    ) -> Release:
        """Read the rows, whose cost is reserved; whoever keeps what is released writes it.

        Parameters
        ----------
        transaction : Transaction
            The one of this plan, which has the rows.
        progress : callable, optional
            Called with (steps done, steps planned). If it has a method `reading`, that is called with the number of a
            pass over rows in files or on a cluster, and how many it has read: for whoever holds the rows, not public.
        row_warnings : bool
            Emit a `DroppedRowsWarning` when many rows are dropped or clipped.
        n_jobs : int, optional
            Threads for sums over rows; by default as many as are worth starting. The result does not depend on it.
        """
        source, problem = transaction.rows, self.problem
        assert source is not None
        reading = getattr(progress, "reading", None)
        if reading is not None:
            source._watch(reading)
        # A run that diverges overflows on its way; one sentence says so instead of numpy's warnings.
        with (
            Oracle(source, problem, self.setting, self.calibrated, transaction.randomness, progress, n_jobs) as oracle,
            np.errstate(over="ignore", invalid="ignore", divide="ignore"),
        ):
            schema = oracle.complete(self.schema)
            w = self.solver.run(oracle, problem, self.calibrated.plan, problem.start(self.n_features))
            check_not_diverged(w)
            uncertainty = ask_uncertainty(oracle.ask, problem, self.calibrated, schema, w)
            if row_warnings:
                oracle.warn_about_rows()  # when nothing is left to depend on it
        statement = self.statement.of_run(seeded=transaction.randomness.seeded, caveats=transaction.caveats)
        return Release(w, statement, self.event, schema, transaction.ledger_entry, uncertainty)
