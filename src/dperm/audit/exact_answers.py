"""How far the exact answer to a query moves between two tables, and how far it is said to move at most."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dperm.audit.watched import ExactOracle
from dperm.mechanisms import (
    AdaptedObjectiveQuery,
    DescentOutputQuery,
    LastIterateQuery,
    ObjectivePerturbationQuery,
    OutputPerturbationQuery,
    PrintedEpochQuery,
    Query,
    SlopeSizeQuery,
    StochasticStepsQuery,
)
from dperm.mechanisms.plan import PlannedQuery
from dperm.problem import Problem

Array = NDArray[np.float64]

# A step so short that the proximal step after it hardly changes what it measures.
_SHORT_STEP = 1e-3

# Shares of their bound at which slopes are clipped.
_SHARES = (1.0, 0.1)


@dataclass(frozen=True, eq=False)
class ExactAnswer:
    """The part of an answer that noise hides, on all rows, and the claimed bound on its move."""

    vector: Array
    claimed: float
    largest_entry: bool

    def move_to(self, other: "ExactAnswer") -> float:
        """The distance in the norm that the noise is for."""
        apart = self.vector - other.vector
        return float(np.abs(apart).max()) if self.largest_entry else float(np.linalg.norm(apart))


def exact_answer(oracle: ExactOracle, item: PlannedQuery, points: tuple[Array, ...]) -> ExactAnswer:
    """Ask for one step on all rows, without noise.

    A sampled answer is a sum over a batch divided by qn. Given that a row is in the batch, it moves 1/q times as far as
    the mean over all rows does; the claimed bound is multiplied by q instead.
    """
    query = item.query
    rate, whole = query.sampling_rate, one_step(query)
    asked = PlannedQuery(whole)
    if isinstance(query, StochasticStepsQuery):
        (w,) = points
        end = oracle.exact(asked, w, step_size=np.array([_SHORT_STEP])).answer[0]
        return ExactAnswer((w - end) / _SHORT_STEP, rate * query.sensitivity, False)
    if isinstance(query, PrintedEpochQuery):
        direction = oracle.exact(asked, *points, step_size=_SHORT_STEP).answer[2]
        anchor = query.setting.sum_sensitivity / query.setting.n  # the anchor's gradient is not sampled
        return ExactAnswer(direction, rate * query.sensitivity + anchor, False)
    if isinstance(query, ObjectivePerturbationQuery):
        moved = query.sensitivity_at(*points) / query.setting.n + 2.0 * query.tolerance
        return ExactAnswer(oracle.exact(asked, *points).answer, moved / query.strong_convexity, False)
    question = oracle.exact(asked, *points)
    first = question.passed[0]
    claimed = first.sensitivity if rate == 1.0 else rate * query.sensitivity_at(*points)
    return ExactAnswer(first.exact, claimed, query.distribution in ("Gumbel", "Laplace"))


def one_step(query: Query) -> Query:
    """The same query about all rows, and about one step where each step is accounted for."""
    if isinstance(query, LastIterateQuery):
        return replace(query, n_steps=1)
    if isinstance(query, (StochasticStepsQuery, PrintedEpochQuery)):
        return replace(query, sampling_rate=1.0, n_steps=1)
    return query if query.sampling_rate == 1.0 else replace(query, sampling_rate=1.0)  # type: ignore[call-arg]


def is_whole_fit(query: Query) -> bool:
    """Whether an answer is the end of a minimisation, whose start matters little."""
    return isinstance(query, (DescentOutputQuery, ObjectivePerturbationQuery, OutputPerturbationQuery))


def points_for(problem: Problem, n_features: int, query: Query) -> list[tuple[Array, ...]]:
    """Points that a query is asked at: the start, and points where margins are large or small."""
    start = problem.start(n_features)
    if query.n_points == 0:
        return [()]
    if isinstance(query, AdaptedObjectiveQuery):
        return [(start, np.array([share, query.ridge])) for share in _SHARES]
    if is_whole_fit(query):
        return [(start,)]
    width = n_features + bool(problem.intercept)
    outputs = start.size // width if problem.loss.n_outputs else 1
    signs = np.where(np.arange(outputs) % 2 == 0, 1.0, -1.0)
    found = [start]
    for direction in (np.eye(width)[0], np.ones(width) / np.sqrt(width)):
        unit = np.kron(signs, direction) if problem.loss.n_outputs else np.resize(direction, start.size)
        for margin in (10.0, -10.0, 1.0):
            found.append(problem.domain.project(start + margin / problem.full_row_norm * unit))
    if isinstance(query, SlopeSizeQuery):
        return [(w, np.array([share])) for w in found for share in _SHARES]
    if query.n_points == 1:
        return [(w,) for w in found]
    return [(w, anchor) for w, anchor in zip(found[1:] + found[2:], found[:-1] + found[:-2], strict=True)]
