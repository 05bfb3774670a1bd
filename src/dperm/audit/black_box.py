"""Attack (b): many fits on two adversarial neighbours, a score, a threshold fixed on some fits and tested on others.

The attacker knows both tables and sees all that is accounted for: every answer that the solver got, and what it made of
them. Whatever the score, the bound holds; a better score proves more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dperm.audit.bounds import Counts, best_threshold
from dperm.audit.exact_answers import ExactAnswer, exact_answer, is_whole_fit, points_for
from dperm.audit.proved import contradiction, epsilon_of_shape, p_value
from dperm.audit.result import Attack, rounded_down
from dperm.audit.subject import Progress, Run, Subject
from dperm.audit.tables import Canary, Table, neighbour_pairs
from dperm.audit.watched import ExactOracle, Question
from dperm.mechanisms import (
    DescentOutputQuery,
    DifferenceQuery,
    GradientQuery,
    HessianQuery,
    LocalGradientQuery,
    OutputPerturbationQuery,
    Query,
    SlopeSizeQuery,
    SmallestEigenvalueQuery,
    VertexQuery,
)
from dperm.mechanisms.plan import PlannedQuery
from dperm.problem.domains.polytope import EntropicDomain

Array = NDArray[np.float64]

# The share of the fits that choose the score and the threshold; the others test them.
_CHOOSING = 1.0 / 3.0
# Answers whose noise is added to them as it stands, so that the likelihood is known.
_PLAIN = (
    GradientQuery, LocalGradientQuery, DifferenceQuery, HessianQuery, SmallestEigenvalueQuery, DescentOutputQuery,
    OutputPerturbationQuery, SlopeSizeQuery,
)  # fmt: skip
# Beyond this many numbers per fit that chooses, a direction cannot be learned.
_FITS_PER_NUMBER = 5


def black_box(subject: Subject, fits: int, alpha: float, progress: Progress | None = None) -> Attack:
    """The largest ε that a threshold on a score proves.

    Parameters
    ----------
    subject : Subject
        What is audited.
    fits : int
        In all: half of them on each table.
    alpha : float
        The chance that the bound is wrong.
    progress : callable, optional
        Called with (fits done, fits planned).
    """
    first, second = worst_pair(subject)
    half, delta = fits // 2, subject.plan.statement.delta
    with _Known(subject, first) as of_first, _Known(subject, second) as of_second:
        shift = subject.without_noise(first) - subject.without_noise(second)
        seen: list[list[tuple[float, Array]]] = [[], []]
        for which, run in subject.runs((first, second), 2 * half, 1_000, progress):
            seen[which].append((_likelihood_ratio(subject, run, of_first, of_second), _rest(run)))
    chosen = max(2, round(_CHOOSING * half))
    scores = _scores(seen, shift, chosen)
    # Half of alpha for each of two thresholds: one for ε by counting, one to lay beside the proved curve.
    counted = _tested(scores, chosen, lambda counts: counts.epsilon(delta, alpha / 2.0))
    beside = _tested(scores, chosen, lambda counts: counts.advantage)
    chance = p_value(subject.plan.event, subject.plan.setting.adjacency, beside.counts)
    broken = contradiction(beside.counts, chance, alpha / 2.0)
    of_shape = epsilon_of_shape(subject.plan, beside.counts, alpha / 2.0)
    found = f"ε ≥ {rounded_down(of_shape)} for noise of this shape, by {beside.name}"
    return Attack(
        "black box", counted.counts.epsilon(delta, alpha / 2.0), 2 * half, found, broken, beside.roc, of_shape
    )


@dataclass(frozen=True, eq=False)
class _Tested:
    """The best way to rank fits by those that choose, and what it is worth on the others."""

    name: str
    counts: Counts
    roc: tuple[tuple[float, float], ...]


def _tested(scores: dict[str, tuple[Array, Array]], chosen: int, worth: Callable[[Counts], float]) -> _Tested:
    choices = {name: best_threshold(one[:chosen], two[:chosen], worth) for name, (one, two) in scores.items()}
    name = max(choices, key=lambda name: choices[name][0])
    one, two = (part[chosen:] for part in scores[name])
    return _Tested(name, choices[name][1].counts(one, two), roc(one, two))


class _Known:
    """Exact answers about one table; the end of a minimisation is computed once."""

    def __init__(self, subject: Subject, table: Table) -> None:
        self._oracle = subject.exact(table)
        self._ends: dict[PlannedQuery, ExactAnswer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._oracle.__exit__(None, None, None)

    def answer(self, question: Question) -> ExactAnswer:
        """The exact answer to a question of a run."""
        item = question.item
        if not is_whole_fit(item.query):
            return exact_answer(self._oracle, item, question.points)
        if item not in self._ends:
            self._ends[item] = exact_answer(self._oracle, item, question.points)
        return self._ends[item]


def worst_pair(subject: Subject) -> tuple[Table, Table]:
    """The neighbours that the plan's noise tells apart best: the largest sum of squared shifts over noise.

    All others are ignored, so that what is sampled is the canary or nothing.
    """
    alone, canaries = subject.surroundings(ignored=True), subject.canaries()
    answers: dict[Canary | None, list[Array]] = {}
    for canary in (*canaries, None):
        with subject.exact(alone.table(canary)) as oracle, np.errstate(all="ignore"):
            answers[canary] = [_over_noise(subject, oracle, item) for item in subject.plan.calibrated.plan.planned]
    one, two = max(
        neighbour_pairs(canaries, subject.plan.setting.adjacency),
        key=lambda pair: sum(
            float(np.sum((a - b) ** 2)) for a, b in zip(answers[pair[0]], answers[pair[1]], strict=True)
        ),
    )
    return alone.table(one), alone.table(two)


def _over_noise(subject: Subject, oracle: ExactOracle, item: PlannedQuery) -> Array:
    """The first exact answer to a planned query, over the noise of all its answers together."""
    plan = subject.plan
    (at, *_) = points_for(plan.problem, plan.n_features, item.query)
    answer = exact_answer(oracle, item, at)
    noise = item.multiplier(plan.calibrated.noise_multiplier or 1.0) * answer.claimed
    steps = item.count * (1 if is_whole_fit(item.query) else item.query.n_steps)
    return np.asarray(np.sqrt(steps) * item.query.sampling_rate * answer.vector.ravel() / noise)


def _likelihood_ratio(subject: Subject, run: Run, of_first: "_Known", of_second: "_Known") -> float:
    """The log-likelihood ratio of the first table to the second, by those answers whose noise is seen."""
    total = 0.0
    for question in run.transcript:
        if isinstance(question.item.query, (*_PLAIN, VertexQuery)):
            with np.errstate(all="ignore"):
                ratio = _log_density(subject, question, of_first) - _log_density(subject, question, of_second)
            total += float(np.nan_to_num(ratio, posinf=1e300, neginf=-1e300))
    return total


def _log_density(subject: Subject, question: Question, known: "_Known") -> float:
    query = question.item.query
    exact = known.answer(question)
    rate = query.sampling_rate
    multiplier = question.item.multiplier(subject.plan.calibrated.noise_multiplier or 0.0)
    scale = multiplier * exact.claimed / rate
    if isinstance(query, VertexQuery):
        return _log_vertex(subject, question.answer, exact.vector / scale)
    answer = _as_released(query, question.answer)
    if query.distribution == "Gamma":
        return -float(np.linalg.norm(answer - exact.vector)) / scale
    moved = exact.vector / rate  # with the canary in the batch; without it the answer is noise alone
    with_canary = float(2.0 * answer @ moved - moved @ moved) / (2.0 * scale**2)
    return with_canary if rate == 1.0 else float(np.logaddexp(np.log1p(-rate), np.log(rate) + with_canary))


def _as_released(query: Query, answer: Array) -> Array:
    """The answer as the vector that noise was added to."""
    if isinstance(query, HessianQuery):
        above = np.triu_indices(answer.shape[0], 1)
        return np.asarray(np.concatenate([np.diagonal(answer), np.sqrt(2.0) * answer[above]]), dtype=np.float64)
    return np.asarray(answer.ravel(), dtype=np.float64)


def _log_vertex(subject: Subject, answer: Array, scores: Array) -> float:
    """By the softmax that Gumbel noise makes of the scores; for Laplace noise it is near enough to order outcomes."""
    domain = subject.plan.problem.domain
    if not isinstance(domain, EntropicDomain):
        return 0.0
    winner = int(np.argmax(domain.pull_back(answer)))
    return float(scores[winner] - np.logaddexp.reduce(scores))


def _rest(run: Run) -> Array:
    """What else the attacker sees, as numbers: coefficients, and answers whose likelihood is not known."""
    others = [q.answer.ravel() for q in run.transcript if not isinstance(q.item.query, (*_PLAIN, VertexQuery))]
    whole = [part for part in others if part.shape != run.w.shape or not np.array_equal(part, run.w)]
    return np.asarray(np.nan_to_num(np.concatenate([run.w, *whole[-2:]])), dtype=np.float64)


def _scores(seen: list[list[tuple[float, Array]]], shift: Array, chosen: int) -> dict[str, tuple[Array, Array]]:
    """Ways to rank fits, each for both tables; what is learned is learned from the first `chosen` fits."""
    ratios = tuple(np.array([ratio for ratio, _ in fits]) for fits in seen)
    rest = tuple(np.array([numbers for _, numbers in fits]) for fits in seen)
    scores = {}
    if any(ratio.any() for ratio in ratios):
        scores["the likelihood of the answers"] = (ratios[0], ratios[1])
    if shift.any():
        projected = [numbers[:, : shift.size] @ shift for numbers in rest]
        scores["the coefficients along their expected shift"] = (projected[0], projected[1])
    if rest[0].shape[1] * _FITS_PER_NUMBER <= chosen or not scores:
        direction = _learned(rest[0][:chosen], rest[1][:chosen])
        scores["a learned direction"] = (rest[0] @ direction, rest[1] @ direction)
    return scores


def _learned(one: Array, two: Array) -> Array:
    """Fisher's discriminant with a small ridge."""
    spread = np.atleast_2d(np.cov(one.T)) + np.atleast_2d(np.cov(two.T))
    ridge = 1e-6 * (float(np.trace(spread)) / len(spread) + 1e-300)
    return np.asarray(np.linalg.solve(spread + ridge * np.eye(len(spread)), one.mean(axis=0) - two.mean(axis=0)))


def roc(of_first: Array, of_second: Array, points: int = 100) -> tuple[tuple[float, float], ...]:
    """False and true positive rates of a score at thresholds through its whole range."""
    pooled = np.unique(np.concatenate([of_first, of_second]))[::-1]
    places = np.unique(np.linspace(0, pooled.size - 1, points).astype(int))
    found = [(float(np.mean(of_second >= pooled[k])), float(np.mean(of_first >= pooled[k]))) for k in places]
    return ((0.0, 0.0), *found, (1.0, 1.0))
