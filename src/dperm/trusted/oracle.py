"""The oracle: answers what the plan paid for, with noise, and nothing else."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from dperm.errors import InvalidParameter, PlanExceeded
from dperm.mechanisms import (
    DescentOutputQuery,
    DifferenceQuery,
    GradientQuery,
    HessianQuery,
    LastIterateQuery,
    LocalGradientQuery,
    ObjectivePerturbationQuery,
    OutputPerturbationQuery,
    PrintedEpochQuery,
    SmallestEigenvalueQuery,
    StochasticStepsQuery,
    VertexQuery,
)
from dperm.mechanisms.plan import CalibratedPlan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.problem import Problem
from dperm.problem.domains.mirror import EntropicDomain
from dperm.problem.prox import coordinate_prox
from dperm.trusted.differences import Batches
from dperm.trusted.hessians import to_matrix, to_vector
from dperm.trusted.kernels import n_threads
from dperm.trusted.minimiser import minimiser
from dperm.trusted.noise import Randomness
from dperm.trusted.rows import Rows
from dperm.validation import check_not_diverged, positive

Array = NDArray[np.float64]

# Numbers that one piece of many steps may hold, drawn beforehand.
_CHUNK = 1_000_000

# Hessians are added up by one thread: a seeded result does not depend on the machine's number of them.
_BLAS = ThreadpoolController()


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
    paid : CalibratedPlan
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
        paid: CalibratedPlan,
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

    def ask(self, item: PlannedQuery, *points: Array, step_size: float | Array | None = None) -> Array:
        """Answer a query of the plan at released points.

        Parameters
        ----------
        item : PlannedQuery
            One of the plan's own.
        *points : arrays
            w for a gradient, a Hessian, a vertex or a descent, w and the anchor for a difference, the start and the
            anchor for a printed epoch, the start for stochastic steps.
        step_size : float or array, optional
            η of a printed epoch, η_1 … η_k of k stochastic steps: public, and of no weight for privacy since every step
            is paid for.

        Raises
        ------
        PlanExceeded
            If the plan did not pay for this query, or for one more of it.
        InvalidParameter
            If the points, their number or the step size do not fit the query. It is charged all the same.
        """
        self._spend(item)
        n_points = 2 if isinstance(item.query, DifferenceQuery | PrintedEpochQuery) else 1
        if len(points) != n_points:
            raise InvalidParameter(f"this query is asked at {n_points} point(s), got {len(points)}.")
        if step_size is not None and not isinstance(item.query, PrintedEpochQuery | StochasticStepsQuery):
            raise InvalidParameter("only a printed epoch or stochastic steps are asked with a step_size.")
        released = [self._check_point(point) for point in points]
        match item.query:
            case LastIterateQuery():
                return self._descend(item.query, item, *released)
            case DifferenceQuery():
                return self._noisy_difference(item.query, item, *released)
            case PrintedEpochQuery():
                return self._printed_epoch(item.query, item, positive("step_size", step_size), *released)
            case StochasticStepsQuery():
                return self._stochastic_steps(item.query, item, step_size, *released)
            case GradientQuery():
                return self._noisy_gradient(item.query, item, *released)
            case LocalGradientQuery():
                return self._noisy_local_gradient(item.query, item, *released)
            case HessianQuery():
                return self._noisy_hessian(item, *released)
            case SmallestEigenvalueQuery():
                return self._add_noise(self._exact_eigenvalue(*released), self._paid.sigma(item))
            case DescentOutputQuery():
                return self._noisy_descent(item.query, item, *released)
            case OutputPerturbationQuery():
                return self._noisy_minimiser(item.query, item, *released)
            case ObjectivePerturbationQuery():
                return self._perturbed_minimiser(item.query, item, *released)
            case VertexQuery():
                return self._noisy_vertex(item.query, item, *released)
            case _:
                raise PlanExceeded("the oracle has no answer to this kind of query.")

    def _check_point(self, point: object) -> Array:
        """The point in float64: distances and kernels would otherwise round it differently."""
        try:
            vector = np.asarray(point, dtype=np.float64)
        except (TypeError, ValueError):
            vector = np.empty(0)
        if vector.shape != (self._setting.constants.dimension,):
            raise InvalidParameter("the point asked about must be a vector of numbers of the problem's dimension.")
        check_not_diverged(vector)
        return vector

    def _spend(self, item: PlannedQuery) -> None:
        with self._lock:
            if self._left[item] < 1:
                raise PlanExceeded("the plan did not pay for this query.")
            self._left[item] -= 1

    def _noisy_gradient(self, query: GradientQuery, item: PlannedQuery, w: Array) -> Array:
        whole = query.sampling_rate == 1.0
        rows = self._rows if whole else self._rows.take(self._batches(query.sampling_rate, 1).rows)
        exact = self._exact_gradient(rows, w, query.sampling_rate * self._setting.n)
        here = None if self._paid.constant else query.sensitivity_at(float(np.linalg.norm(w)))
        return self._add_noise(exact, self._paid.sigma(item, here))

    def _noisy_local_gradient(self, query: LocalGradientQuery, item: PlannedQuery, w: Array) -> Array:
        norm = float(np.linalg.norm(w))
        exact = self._exact_gradient(self._rows, w, self._setting.n, query.record_bound(norm))
        return self._add_noise(exact, self._paid.sigma(item, query.sensitivity_at(norm)))

    def _noisy_hessian(self, item: PlannedQuery, w: Array) -> Array:
        # Noise on a vector of the same Frobenius norm is noise on the space of symmetric matrices.
        return to_matrix(self._add_noise(self._exact_hessian(w), self._paid.sigma(item)), w.size)

    def _exact_hessian(self, w: Array) -> Array:
        """The mean Hessian before noise, as a vector."""
        with _BLAS.limit(limits=1, user_api="blas"):
            return to_vector(self._rows.hessian_sum(self._problem, w) / self._setting.n)

    def _exact_eigenvalue(self, w: Array) -> Array:
        """The smallest eigenvalue of the mean Hessian before noise."""
        with _BLAS.limit(limits=1, user_api="blas"):
            matrix = self._rows.hessian_sum(self._problem, w) / self._setting.n
            return np.asarray(np.linalg.eigvalsh(matrix)[:1], dtype=np.float64)

    def _noisy_vertex(self, query: VertexQuery, item: PlannedQuery, w: Array) -> Array:
        noisy = self._add_noise(self._exact_gains(w), self._paid.sigma(item), distribution=query.distribution)
        # Only the winner leaves. What it and the others scored is not paid for.
        chosen = np.zeros(noisy.size)
        chosen[noisy.argmax()] = 1.0
        return self._vertices.coefficients(chosen)

    def _exact_gains(self, w: Array) -> Array:
        """Before noise: how steeply the mean risk falls towards every vertex, −⟨v, ∇F(w)⟩."""
        return -self._vertices.pull_back(self._rows.gradient_sum(self._problem, w, self._pool) / self._setting.n)

    @property
    def _vertices(self) -> EntropicDomain:
        if not isinstance(self._problem.domain, EntropicDomain):
            raise InvalidParameter(f"the domain {self._problem.domain.name} does not list its vertices.")
        return self._problem.domain

    def _descend(self, query: LastIterateQuery, item: PlannedQuery, w: Array) -> Array:
        # Algorithm 4 with a proximal step, run behind the wall: only the last iterate leaves.
        if float(np.linalg.norm(w)) > self._setting.constants.norm_bound * (1.0 + 1e-9):
            raise InvalidParameter("a path of which only the end leaves must start in the domain.")
        sigma = self._paid.sigma(item)
        for _ in range(query.n_steps):
            gradient = self._add_noise(self._exact_gradient(self._rows, w, self._setting.n), sigma)
            w = self._problem.prox(w - query.step_size * gradient, query.step_size)
        return w

    def _noisy_descent(self, query: DescentOutputQuery, item: PlannedQuery, w: Array) -> Array:
        return self._add_noise(self._exact_descent(query, w), self._paid.sigma(item), n_steps=0)

    def _exact_descent(self, query: DescentOutputQuery, w: Array) -> Array:
        for _ in range(query.n_steps):
            gradient = self._rows.gradient_sum(self._problem, w, self._pool) / self._setting.n
            w = self._problem.prox(w - query.step_size * gradient, query.step_size)
            self._advance(1)
        return w

    def _noisy_minimiser(self, query: OutputPerturbationQuery, item: PlannedQuery, start: Array) -> Array:
        exact = self._exact_minimiser(start, np.zeros(start.size), 0.0, query.tolerance)
        return self._add_noise(exact, self._paid.sigma(item), distribution=query.distribution)

    def _perturbed_minimiser(self, query: ObjectivePerturbationQuery, item: PlannedQuery, start: Array) -> Array:
        linear = self._add_noise(
            np.zeros(start.size), self._paid.sigma(item), n_steps=0, distribution=query.distribution
        )  # fmt: skip
        exact = self._exact_minimiser(start, linear, query.ridge, query.tolerance, query.slope_share)
        return self._add_noise(exact, query.remainder_scale, distribution="Gamma")

    def _exact_minimiser(
        self, start: Array, linear: Array, ridge: float, tolerance: float, slope_share: float = 1.0
    ) -> Array:
        """The minimiser before output noise, solved to the tolerance or not returned at all."""
        return minimiser(
            self._problem, self._rows, self._setting, linear, ridge, tolerance, start, self._pool, slope_share
        )  # fmt: skip

    def _noisy_difference(self, query: DifferenceQuery, item: PlannedQuery, w: Array, anchor: Array) -> Array:
        distance = float(np.linalg.norm(w - anchor))
        sigma = self._paid.sigma(item, query.sensitivity_at(distance))
        chosen = self._batches(query.sampling_rate, 1).rows
        exact = self._exact_difference(query, query.record_bound(distance), chosen, w, anchor)
        return self._add_noise(exact, sigma)

    def _printed_epoch(
        self, query: PrintedEpochQuery, item: PlannedQuery, step_size: float, start: Array, anchor: Array
    ) -> Array:
        # Lines 3 to 10 of Algorithm 1 as printed. Leaves: the last iterate, the mean iterate and the mean direction.
        sigma = self._paid.sigma(item)
        anchor_gradient = self._exact_gradient(self._rows, anchor, self._setting.n)
        w, total, direction = start, np.zeros(start.size), np.zeros(start.size)
        # Cut by the public n: how far an epoch has come is reported, and must not tell the number of rows.
        for steps in _chunks(query.n_steps, max(query.sampling_rate * self._setting.n, start.size)):
            batches = self._batches(query.sampling_rate, steps)
            noise = self._add_noise(np.zeros((steps, start.size)), sigma, steps)
            iterates, directions = self._printed_steps(
                query, batches, w, anchor, anchor_gradient, noise, step_size
            )  # fmt: skip
            w, total, direction = iterates[-1], total + iterates.sum(axis=0), direction + directions.sum(axis=0)
        return np.stack([w, total / query.n_steps, direction / query.n_steps])

    def _printed_steps(
        self, query: PrintedEpochQuery, batches: Batches, w: Array, anchor: Array, anchor_gradient: Array,
        noise: Array, step_size: float,
    ) -> tuple[Array, Array]:  # fmt: skip
        prox = coordinate_prox(self._problem.regularizer, self._problem.domain) or self._problem.prox
        return self._rows.printed_steps(
            self._problem, 2.0 * self._setting.constants.lipschitz, query.sampling_rate * self._setting.n,
            batches, w, anchor, anchor_gradient, noise, step_size, prox,
        )  # fmt: skip

    def _stochastic_steps(self, query: StochasticStepsQuery, item: PlannedQuery, schedule: object, w: Array) -> Array:
        # As many noisy SGD steps as there are step sizes. Leaves: the last iterate and the mean iterate.
        step_sizes = np.asarray(schedule, dtype=np.float64)
        if step_sizes.ndim != 1 or not step_sizes.size or not (np.isfinite(step_sizes) & (step_sizes > 0.0)).all():
            raise InvalidParameter("step_size must be one finite number above 0 for every stochastic step.")
        if step_sizes.size > query.n_steps:
            raise PlanExceeded(f"the plan paid for {query.n_steps} stochastic steps, not for {step_sizes.size}.")
        sigma, total, first = self._paid.sigma(item), np.zeros(w.size), 0
        # Cut by the public n, as in a printed epoch.
        for steps in _chunks(step_sizes.size, max(query.sampling_rate * self._setting.n, w.size)):
            batches = self._batches(query.sampling_rate, steps)
            noise = self._add_noise(np.zeros((steps, w.size)), sigma, steps)
            iterates, _ = self._gradient_steps(query, batches, w, noise, step_sizes[first : first + steps])
            w, total, first = iterates[-1], total + iterates.sum(axis=0), first + steps
        return np.stack([w, total / step_sizes.size])

    def _gradient_steps(
        self, query: StochasticStepsQuery, batches: Batches, w: Array, noise: Array, step_sizes: Array
    ) -> tuple[Array, Array]:
        prox = coordinate_prox(self._problem.regularizer, self._problem.domain) or self._problem.prox
        divisor = query.sampling_rate * self._setting.n
        return self._rows.stochastic_steps(self._problem, divisor, batches, w, noise, step_sizes, prox)

    def _batches(self, rate: float, n_steps: int) -> Batches:
        # Poisson sampling of every row at every step: a binomial number of (step, row) cells, then a uniformly
        # random set of that size. Sorted, so that equal batches are added up in the same order.
        n = len(self._rows)
        cells = n_steps * n
        if rate == 1.0:
            chosen = np.arange(cells)
        else:
            size = self._randomness.sampling.binomial(cells, rate)
            chosen = np.sort(self._randomness.sampling.choice(cells, size, replace=False, shuffle=False))
        return Batches(chosen % n, np.searchsorted(chosen, n * np.arange(n_steps + 1)))

    def _exact_difference(
        self, query: DifferenceQuery, bound: float, chosen: NDArray[np.intp], w: Array, anchor: Array
    ) -> Array:
        """The mean difference before noise, every row's part at most `bound` long."""
        total = self._rows.difference_sum(self._problem, bound, chosen, w, anchor, self._pool)
        return total / (query.sampling_rate * self._setting.n)

    def _exact_gradient(self, rows: Rows, w: Array, divisor: float, bound: float | None = None) -> Array:
        """The mean before noise. An empty batch gives zeros, and still gets noise."""
        return rows.gradient_sum(self._problem, w, self._pool, bound) / divisor

    def _add_noise(
        self, exact: Array, scale: float, n_steps: int = 1, distribution: str = "Gaussian"
    ) -> Array:  # fmt: skip
        """The one gate: what passes here may leave."""
        self._advance(n_steps)
        if self._paid.noise_multiplier is None:
            return exact
        return exact + scale * self._randomness.unit_noise(distribution, exact.shape)

    def _advance(self, n_steps: int) -> None:
        """Report how far the plan has come: public numbers only."""
        self._done += n_steps
        if self._progress is not None:
            self._progress(self._done, self._paid.plan.n_steps)


def _chunks(n_steps: int, numbers_per_step: float) -> Iterator[int]:
    """Cut steps into pieces that need about as much memory as a piece may."""
    largest = max(1, int(_CHUNK / numbers_per_step))
    for first in range(0, n_steps, largest):
        yield min(largest, n_steps - first)
