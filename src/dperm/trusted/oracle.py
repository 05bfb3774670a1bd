"""The oracle: answers what the plan paid for, with noise, and nothing else."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameter, PlanExceeded
from dperm.privacy.plan import PaidPlan, PlannedQuery
from dperm.privacy.queries import GradientQuery, LastIterateQuery
from dperm.privacy.setting import Setting
from dperm.problem import Problem
from dperm.trusted.kernels import n_threads
from dperm.trusted.noise import Randomness
from dperm.trusted.rows import Rows

Array = NDArray[np.float64]


class Oracle:
    """Holds the rows and answers the queries of one paid plan.

    Parameters
    ----------
    rows : Rows
        The bounded rows.
    problem : Problem
        What is minimised.
    setting : Setting
        The public n and the adjacency; its constants must be the problem's own, and so must every query's.
    paid : PaidPlan
        Which queries may be asked how often, and their noise.
    randomness : Randomness
        Streams for noise, sampling and public choices.
    progress : callable, optional
        Called with (steps done, steps planned): both are public.

    Guarantees
    ----------
    Every answer is counted before it is computed, so a crash never under-counts. Everything that leaves went
    through `_add_noise`.
    """

    def __init__(
        self,
        rows: Rows,
        problem: Problem,
        setting: Setting,
        paid: PaidPlan,
        randomness: Randomness,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        own = Setting(problem.constants(rows.table.shape[1]), setting.n, setting.adjacency)
        if setting != own or any(item.query.setting != own for item in paid.plan.planned):
            raise PlanExceeded("a planned query rests on other bounds than the problem declares.")
        self._rows = rows
        self._problem = problem
        self._setting = setting
        self._paid = paid
        self._randomness = randomness
        self._left: Counter[PlannedQuery] = Counter()
        for item in paid.plan.planned:
            self._left[item] += item.count
        self._lock = Lock()
        self._progress = progress
        self._done = 0
        self._pool = ThreadPoolExecutor(n_threads(), thread_name_prefix="dperm")

    def __enter__(self) -> Self:
        """Use as a context manager, so that the threads end with the fit."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the threads."""
        self._pool.shutdown()

    @property
    def public_coin(self) -> np.random.Generator:
        """Randomness for public choices, independent of the noise."""
        return self._randomness.public_coin

    def ask(self, item: PlannedQuery, *points: Array) -> Array:
        """Answer a query of the plan at released points.

        Raises
        ------
        PlanExceeded
            If the plan did not pay for this query, or for one more of it.
        """
        self._spend(item)
        for point in points:
            if np.shape(point) != (self._setting.constants.dimension,) or not np.isfinite(point).all():
                raise InvalidParameter("the point asked about must be a finite vector of the problem's dimension.")
        if isinstance(item.query, LastIterateQuery):
            return self._descend(item.query, item, *points)
        return self._noisy_gradient(item.query, item, *points)

    def _spend(self, item: PlannedQuery) -> None:
        with self._lock:
            if self._left[item] < 1:
                raise PlanExceeded("the plan did not pay for this query.")
            self._left[item] -= 1

    def _noisy_gradient(self, query: GradientQuery, item: PlannedQuery, w: Array) -> Array:
        rows = self._rows if query.sampling_rate == 1.0 else self._sample(query.sampling_rate)
        exact = self._exact_gradient(rows, w, query.sampling_rate * self._setting.n)
        return self._add_noise(exact, self._paid.sigma(item))

    def _descend(self, query: LastIterateQuery, item: PlannedQuery, w: Array) -> Array:
        # Algorithm 4 with a proximal step, run behind the wall: only the last iterate leaves.
        sigma = self._paid.sigma(item)
        for _ in range(query.n_steps):
            gradient = self._add_noise(self._exact_gradient(self._rows, w, self._setting.n), sigma)
            w = self._problem.prox(w - query.step_size * gradient, query.step_size)
        return w

    def _sample(self, rate: float) -> Rows:
        # Poisson sampling: a binomial number of rows, then a uniformly random set of that size.
        size = self._randomness.sampling.binomial(len(self._rows), rate)
        chosen = self._randomness.sampling.choice(len(self._rows), size, replace=False, shuffle=False)
        return self._rows.take(np.sort(chosen))  # equal batches are added up in the same order

    def _exact_gradient(self, rows: Rows, w: Array, divisor: float) -> Array:
        """The mean before noise. An empty batch gives zeros, and still gets noise."""
        return rows.gradient_sum(self._problem, w, self._pool) / divisor

    def _add_noise(self, exact: Array, sigma: float) -> Array:
        """The one gate: what passes here may leave."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._paid.plan.n_steps)
        if self._paid.noise_multiplier is None:
            return exact
        return exact + sigma * self._randomness.noise.standard_normal(exact.shape)
