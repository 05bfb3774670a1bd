"""Attack (a): the plan's questions on adversarial neighbours, and what is claimed of them, checked one by one."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import binom, gamma, kstest, laplace, norm

from dperm.audit.exact_answers import ExactAnswer, exact_answer, is_whole_fit, points_for
from dperm.audit.result import Attack
from dperm.audit.subject import Run, Subject
from dperm.audit.tables import Canary, Surroundings, Table, neighbour_pairs
from dperm.audit.watched import ExactOracle, Passed, Question
from dperm.errors import DpermError
from dperm.mechanisms import PrintedEpochQuery, Query, StochasticStepsQuery
from dperm.mechanisms.plan import PlannedQuery
from dperm.problem import Problem

Array = NDArray[np.float64]

# Norms of differences are rounded.
_ROUNDING = 1e-9
# Questions of a run that are asked again; they are all of a kind.
_QUESTIONS_AGAIN = 3
# Numbers of noise that are looked at, and the fits that they may take.
_NUMBERS, _FITS = 400, 30
# How often a sampled query is asked to see how often it takes a row.
_DRAWS, _MOST_DRAWS = 1000, 4000
# A step that hardly changes where a gradient is taken.
_SHORT_STEP = 1e-3
# Noise that is the same to this is the same: rounding leaves eight digits or more of it.
_SAME = 1e-7


def replay(subject: Subject, alpha: float) -> Attack:
    """Check the shifts, the noise, the samples, and that the solver knows nothing but answers.

    Parameters
    ----------
    subject : Subject
        What is audited.
    alpha : float
        The chance that a correct mechanism is accused: a half is for the size of the noise, a half for the samples. All
        other checks are exact.
    """
    ordinary, canaries = subject.surroundings(ignored=False, crowded=True), subject.canaries()
    table = ordinary.table(canaries[0])
    first, second = subject.run(table, None), subject.run(table, None)
    ratio, where = largest_shift(subject, ordinary, canaries, first)
    broken = []
    if ratio > 1.0 + _ROUNDING:
        broken.append(f"an exact answer moves {ratio:.4g} times as far as claimed ({where})")
    noisy, n_numbers, n_fits = _noise_is_too_small(subject, table, alpha / 2.0)
    broken += noisy
    broken += _repeated_noise(first, second)
    broken += _samples_too_many(subject, alpha / 2.0)
    other = ordinary.table(canaries[1])
    if not _follows_from_answers(subject, first, other):
        broken.append("the output does not depend on the noisy answers alone")
    found = (
        f"exact answers to {len(_kinds(subject))} quer{'ies' if len(_kinds(subject)) != 1 else 'y'} move at most "
        f"{ratio:.3g} times as far as claimed; {n_numbers} numbers of noise were measured"
    )
    return Attack("replay", None, 2 + n_fits, found, tuple(broken))


def _kinds(subject: Subject) -> list[PlannedQuery]:
    """The planned queries, equal ones once."""
    plan = subject.plan.calibrated.plan
    return list({item.query: item for item in plan.everything}.values())


def largest_shift(subject: Subject, shared: Surroundings, canaries: list[Canary], run: Run) -> tuple[float, str]:
    """The largest move of an exact answer over the claimed one, over all queries, points and neighbours.

    Of units with too many rows all tables use the same ones, but for those of the canary: by the same key.
    """
    questions = []
    for item in _kinds(subject):
        points = points_for(subject.plan.problem, subject.plan.n_features, item.query)
        if not is_whole_fit(item.query):
            asked = [question.points for question in run.transcript if question.item.query == item.query]
            points = points + asked[:_QUESTIONS_AGAIN]
        questions += [(item, at) for at in points]
    answers: dict[Canary | None, list[ExactAnswer]] = {}
    for canary in (*canaries, None):  # one table at a time is in memory
        with subject.exact(shared.table(canary), key=0) as oracle, np.errstate(all="ignore"):
            answers[canary] = [exact_answer(oracle, item, at) for item, at in questions]
    worst, where = 0.0, "nowhere"
    for one, two in neighbour_pairs(canaries, subject.plan.setting.adjacency):
        for place, (item, _) in enumerate(questions):
            ratio = answers[one][place].move_to(answers[two][place]) / answers[one][place].claimed
            if not ratio <= worst:  # a number that is none counts as well
                worst, where = (
                    np.nan_to_num(ratio, nan=np.inf, posinf=np.inf),
                    f"{_name(item.query)}: {one.name}; {two.name if two else 'nothing'}",
                )
    return worst, where


def _name(query: Query) -> str:
    return type(query).__name__.removesuffix("Query")


def _noise_is_too_small(subject: Subject, table: Table, alpha: float) -> tuple[list[str], int, int]:
    """Whether what was added is smaller than the plan's noise, by a one-sided Kolmogorov–Smirnov test of each kind."""
    sizes: dict[str, list[Array]] = {}
    fits = 0
    while fits < _FITS and _size(sizes) < _NUMBERS:
        fits += 1
        transcript = subject.run(table, fits).transcript
        measured = [pair for question in transcript for pair in _sizes_of_noise(subject, question)]
        for distribution, size in [*measured, *_sizes_in_steps(subject, fits)]:
            sizes.setdefault(distribution, []).append(size)
    broken = []
    for distribution, parts in sizes.items():
        numbers = np.concatenate(parts)
        # The chance of each is uniform under the law that is claimed, or smaller where there is more noise.
        if kstest(numbers, "uniform", alternative="greater").pvalue < alpha / len(sizes):
            broken.append(f"the {distribution} noise is smaller than the plan says")
    return broken, _size(sizes), fits


def _size(sizes: dict[str, list[Array]]) -> int:
    return sum(part.size for parts in sizes.values() for part in parts)


def _sizes_of_noise(subject: Subject, question: Question) -> Iterator[tuple[str, Array]]:
    """The probability of less noise than was added, for every number of it (every vector, where it has a direction)."""
    distribution = question.item.query.distribution
    multiplier = question.item.multiplier(subject.plan.calibrated.noise_multiplier or 0.0)
    for passed in question.passed:
        scale = multiplier * passed.sensitivity  # by the plan, whatever was drawn
        if passed.is_choice:
            if distribution == "Gumbel":
                yield distribution, _chance_of_a_better_one(passed, scale)
            continue
        noise = (passed.released - passed.exact).ravel() / scale
        if distribution == "Gaussian":
            yield distribution, 2.0 * norm.cdf(np.abs(noise)) - 1.0
        elif distribution == "Laplace":
            yield distribution, 2.0 * laplace.cdf(np.abs(noise)) - 1.0
        elif distribution == "Gamma":
            yield distribution, np.atleast_1d(gamma.cdf(np.linalg.norm(noise), noise.size))


def _chance_of_a_better_one(passed: Passed, scale: float) -> Array:
    """The probability that a choice by the exponential mechanism wins with a better score, ties broken at random."""
    chances, won = softmax(passed.exact / scale), passed.exact[passed.released.argmax()]
    tie = np.random.default_rng(list(passed.exact.view(np.uint64))).random()
    return np.atleast_1d(chances[passed.exact > won].sum() + tie * chances[passed.exact == won].sum())


def _sizes_in_steps(subject: Subject, number: int) -> Iterator[tuple[str, Array]]:
    """The same for noise inside a loop of steps: on ignored rows a step, or the mean direction, is noise alone."""
    plan, problem = subject.plan, subject.plan.problem
    start = problem.start(plan.n_features)
    ignored = subject.surroundings(ignored=True).table(None)
    for place, item in enumerate(_kinds(subject)):
        query = item.query
        scale = item.multiplier(plan.calibrated.noise_multiplier or 0.0) * query.sensitivity
        if isinstance(query, PrintedEpochQuery):
            direction = subject.ask(ignored, number + 100 * place, item, start, start, step_size=_SHORT_STEP)[2]
            yield "Gaussian", 2.0 * norm.cdf(np.abs(direction) / (scale / np.sqrt(query.n_steps))) - 1.0
        elif isinstance(query, StochasticStepsQuery):
            step = _SHORT_STEP / max(1.0, scale)
            if _hardly_moved(problem, start, step, step * scale):
                end = subject.ask(ignored, number + 100 * place, item, start, step_size=np.array([step]))[0]
                yield "Gaussian", 2.0 * norm.cdf(np.abs(start - end) / (step * scale)) - 1.0


def _hardly_moved(problem: Problem, start: Array, step: float, size: float) -> bool:
    """Whether the proximal step leaves a move of this size from the start nearly as it is."""
    for sign in (1.0, -1.0):
        moved = sign * size * np.where(np.arange(start.size) % 2 == 0, 1.0, 0.5)
        if np.abs(problem.prox(start + moved, step) - start - moved).max() > 1e-3 * size:
            return False
    return True


def _repeated_noise(first: Run, second: Run) -> list[str]:
    """Whether two releases, of one fit or of two, have the same noise; by chance not even two numbers agree."""
    by_size: dict[int, list[Array]] = {}
    for question in (*first.transcript, *second.transcript):
        for passed in question.passed:
            noise = (passed.released - passed.exact).ravel() / max(passed.scale, 1e-300)
            if noise.size > 1 and not passed.is_choice:
                by_size.setdefault(noise.size, []).append(noise)
    for vectors in by_size.values():
        ordered = np.array(sorted(vectors, key=lambda noise: float(noise[0])))
        apart = np.abs(np.diff(ordered, axis=0)).max(axis=1, initial=0.0) if len(ordered) > 1 else np.ones(1)
        if (apart <= _SAME * (1.0 + np.abs(ordered[: apart.size]).max(initial=0.0))).any():
            return ["two releases have the same noise"]
    for one, two in zip(first.transcript, second.transcript, strict=False):
        stepped = isinstance(one.item.query, (StochasticStepsQuery, PrintedEpochQuery))
        if stepped and not one.passed and np.array_equal(one.answer, two.answer):
            return ["two fits have the same noise"]
    return []


def _samples_too_many(subject: Subject, alpha: float) -> list[str]:
    """Whether a sampled query takes a row, or any row of a unit, more often than its rate says."""
    sampled = {(type(item.query), item.query.sampling_rate): item for item in _kinds(subject)}
    sampled = {key: item for key, item in sampled.items() if key[1] < 1.0}
    if not sampled:
        return []
    plan, problem = subject.plan, subject.plan.problem
    whose = "a row was" if plan.setting.unit is None else f"rows of one {plan.setting.unit.word} were"
    with subject.exact(subject.surroundings(ignored=True).table(subject.canaries()[0])) as oracle:
        for (_, rate), item in sampled.items():
            draws = min(_MOST_DRAWS, max(_DRAWS, round(20.0 / rate)))
            taken = sum(_takes_the_canary(oracle, item, problem, plan.n_features, draws))
            if binom.sf(taken - 1, draws, rate) < alpha / len(sampled):
                return [f"{whose} in {taken} of {draws} batches, where the rate {rate:.3g} was claimed"]
    return []


def _takes_the_canary(
    oracle: ExactOracle, item: PlannedQuery, problem: Problem, n_features: int, draws: int
) -> Iterator[bool]:
    """For every draw, whether any of the rows that count is in the batch: only then does the answer move."""
    query = item.query
    points = points_for(problem, n_features, query)[1]  # margins are large there, and the two points differ
    more: dict[str, Any] = {}
    if isinstance(query, (StochasticStepsQuery, PrintedEpochQuery)):
        query = replace(query, n_steps=1)
        more = {"step_size": np.array([_SHORT_STEP]) if isinstance(query, StochasticStepsQuery) else _SHORT_STEP}
    asked = PlannedQuery(query)
    # Without the canary in the batch: a step along nothing, or along the anchor's gradient alone.
    if isinstance(query, PrintedEpochQuery):
        empty = oracle.exact(asked, points[1], points[1], **more).answer[2]
    elif isinstance(query, StochasticStepsQuery):
        empty = problem.prox(points[0], _SHORT_STEP)
    else:
        empty = np.zeros(1)
    for _ in range(draws):
        answer = oracle.exact(asked, *points, **more).answer
        seen = answer[2] if isinstance(query, PrintedEpochQuery) else answer
        seen = answer[0] if isinstance(query, StochasticStepsQuery) else seen
        yield bool(np.abs(seen - empty).max() > 1e-12 * (np.abs(empty).max() + 1e-3))


def _follows_from_answers(subject: Subject, run: Run, other: Table) -> bool:
    """Whether the solver comes to the same end from the same answers, with another table behind them."""
    try:
        again = subject.play_back(run, other)
    except (DpermError, IndexError, AttributeError):
        return False
    return bool(np.allclose(again, run.w, rtol=1e-9, atol=1e-12 * (1.0 + float(np.abs(run.w).max()))))
