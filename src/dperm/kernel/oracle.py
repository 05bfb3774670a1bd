"""The oracle: answers what the plan accounted for, with noise, and nothing else.

It answers solvers, which ask about the rows of a source, and adds up what rows contribute to sums that nothing is
minimised with.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Lock
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError, PlanExceededError
from dperm.kernel.answers import Asked, answer_to
from dperm.kernel.bounded_sums import exact_sum
from dperm.kernel.noise import Noise, Randomness
from dperm.kernel.source import Source
from dperm.kernel.sums import RowSums
from dperm.kernel.threads import threads_for
from dperm.kernel.units import UnitRows
from dperm.mechanisms import HistogramQuery, RangeQuery
from dperm.mechanisms.plan import CalibratedPlan, Planned, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.problem import Problem
from dperm.schema import Schema
from dperm.schema.binning import cell_edges, quantile_cuts
from dperm.validation import check_not_diverged

Array = NDArray[np.float64]


class Oracle:
    """Answers the queries of one calibrated plan. For sums that nothing is minimised with: `of_sums`.

    Parameters
    ----------
    source : Source or None
        The rows that a solver asks about.
    problem : Problem or None
        What is minimised.
    setting : Setting or None
        The public n and the adjacency; its constants must be the problem's own, and so must every query's.
    calibrated : CalibratedPlan
        Which queries may be asked how often, and their noise.
    randomness : Randomness
        Streams for noise, sampling and public choices.
    progress : callable, optional
        Called with (steps done, steps planned): both are public.
    n_jobs : int, optional
        Threads for sums over rows.

    Guarantees
    ----------
    Every question is counted before it is answered, so a crash never under-counts. Everything that leaves went
    through the query's `Noise`.
    """

    def __init__(
        self,
        source: Source | None,
        problem: Problem | None,
        setting: Setting | None,
        calibrated: CalibratedPlan,
        randomness: Randomness,
        progress: Callable[[int, int], None] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self._calibrated = calibrated
        self._randomness = randomness
        self._left: Counter[Planned] = Counter()
        for item in calibrated.plan.everything:
            self._left[item] += item.count
        self._lock = Lock()
        self._opened = ExitStack()
        self._pool: ThreadPoolExecutor | None = None
        if source is None or problem is None or setting is None:
            return
        own = Setting(problem.constants(source.n_features), setting.n, setting.adjacency, source.unit)
        if setting != own or any(item.query.setting != own for item in self._left):
            raise PlanExceededError("a planned query has different bounds or a different unit from the fit.")
        self._problem = problem
        self._setting = setting
        self._progress = progress
        self._done = 0
        self._pool = ThreadPoolExecutor(threads_for(n_jobs), thread_name_prefix="dperm")
        self._sums = self._sums_over(source)

    @classmethod
    def of_sums(cls, calibrated: CalibratedPlan, randomness: Randomness) -> Self:
        """An oracle for sums over rows that are handed to it; there is no source to ask about."""
        return cls(None, None, None, calibrated, randomness)

    def __enter__(self) -> Self:
        """Use as a context manager, so that the threads end with the fit."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the threads, and drop what was kept of the rows."""
        if self._pool is not None:
            self._pool.shutdown()
        self._opened.close()

    @property
    def public_coin(self) -> np.random.Generator:
        """Randomness for public choices, independent of the noise."""
        return self._randomness.public_coin

    def complete(self, schema: Schema | None) -> Schema | None:
        """Ask for the plan's private ranges and bins, and encode rows by the schema with them from here on.

        Parameters
        ----------
        schema : Schema or None
            What the source encodes rows by.
        """
        for item in self._calibrated.plan.ranges:
            if schema is None:
                raise InvalidParameterError("private ranges and bins need a schema.")
            answer = self.ask(item)
            if isinstance(item.query, HistogramQuery):
                schema = schema.with_edges(self._cuts(item.query, answer, schema, self._calibrated.deviation(item)))
            elif isinstance(item.query, RangeQuery):
                schema = schema.with_ranges({item.query.column: (float(answer[0]), float(answer[1]))})
            self._sums = self._sums_over(self._sums.source.with_schema(schema))
        return schema

    @staticmethod
    def _cuts(query: HistogramQuery, counts: Array, schema: Schema, deviation: float) -> dict[str, tuple[float, ...]]:
        """Where the bins are cut, from noisy counts alone."""
        cuts, first = {}, 0
        for name in query.columns:
            column = schema.numbers[name]
            last = first + cell_edges(column.bounds).size + 1
            cuts[name] = quantile_cuts(counts[first:last], column.bounds, column.n_bins or 0, deviation)
            first = last
        return cuts

    def warn_about_rows(self) -> None:
        """Show whoever called the fit what is wrong with its rows; nothing of it is kept, and nothing depends on it."""
        self._sums.source._warn(self._sums.facts())

    def ask(self, item: PlannedQuery, *points: Array, step_size: Any = None) -> Array:
        """Answer a query of the plan at released points.

        Parameters
        ----------
        item : PlannedQuery
            One of the plan's own.
        *points : arrays
            w for a gradient, a Hessian, a vertex or a descent, w and the anchor for a difference, the start and the
            anchor for a printed epoch, the start for stochastic steps; some queries take a few numbers besides.
        step_size : float or array, optional
            η of a printed epoch, η_1 … η_k of k stochastic steps: public, and of no weight for privacy since every step
            is accounted for.

        Raises
        ------
        PlanExceededError
            If the plan does not contain this query, or one more of it.
        InvalidParameterError
            If the points, their number or the step size do not fit the query. It is charged all the same.
        """
        self._spend(item)
        query = item.query
        if len(points) != query.n_points:
            raise InvalidParameterError(f"this query takes {query.n_points} point(s), got {len(points)}.")
        if step_size is not None and not query.takes_step_size:
            raise InvalidParameterError("only printed epochs and stochastic steps take a step_size.")
        released = [_check_point(point, size) for point, size in zip(points, query.point_sizes, strict=True)]
        asked = Asked(self._problem, self._setting, self._sums, self._noise_of(item), self._advance, step_size)
        return answer_to(query)(query, asked, *released)

    def add_up(self, item: Planned, parts: Iterable[NDArray[Any]], units: UnitRows | None = None) -> Array:
        """The noisy sum over all rows.

        Parameters
        ----------
        item : Planned
            One of the plan's own.
        parts : iterable of arrays
            What rows add, one row of an array for each.
        units : UnitRows, optional
            Whose the rows of all parts are, in their order: needed where the plan protects a unit.
        """
        exact = self._exact(item, parts, units)
        return self._noise_of(item).release(exact, item.query.sensitivity)

    def choose(self, item: Planned, parts: Iterable[NDArray[Any]], units: UnitRows | None = None) -> int:
        """The index of the smallest of the sums after noise, and nothing else.

        Parameters
        ----------
        item, parts, units
            As of `add_up`, for a `HeldOutChoice`.
        """
        exact = self._exact(item, parts, units)
        return self._noise_of(item).choose(-exact, item.query.sensitivity)

    def _exact(self, item: Planned, parts: Iterable[NDArray[Any]], units: UnitRows | None) -> Array:
        """The sum over all rows, counted before it is computed."""
        if (item.query.setting.unit is None) != (units is None):
            raise PlanExceededError("the plan and the rows must both have a privacy unit, or neither.")
        if units is not None:
            units.check()
        self._spend(item)
        return exact_sum(item.query, parts, units)

    def _spend(self, item: Planned) -> None:
        with self._lock:
            if self._left[item] < 1:
                raise PlanExceededError("query is not in the plan, or was asked more often than planned.")
            self._left[item] -= 1

    def _sums_over(self, source: Source) -> RowSums:
        self._opened.callback(source.close)
        source.draw_units(self._randomness.unit_key)
        assert self._pool is not None
        return RowSums(source, self._problem, self._pool, self._randomness.sampling)

    def _noise_of(self, item: Planned) -> Noise:
        return Noise(item, self._calibrated, self._randomness)

    def _advance(self, n_steps: int) -> None:
        """Report how far the plan has come: public numbers only."""
        self._done += n_steps
        if self._progress is not None:
            self._progress(self._done, self._calibrated.plan.n_steps)


def _check_point(point: object, size: int) -> Array:
    """The point in float64: distances and kernels would otherwise round it differently."""
    try:
        vector = np.asarray(point, dtype=np.float64)
    except (TypeError, ValueError):
        vector = np.empty(0)
    if vector.shape != (size,):
        raise InvalidParameterError(f"the point must be a vector of {size} numbers, the problem's dimension.")
    check_not_diverged(vector)
    return vector
