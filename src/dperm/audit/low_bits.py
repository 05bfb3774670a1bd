"""Attack (d): could floats have made this number? Noise that is a float times a scale, added in floats, leaves gaps.

An attacker who knows the other rows knows x under both tables. A released y is impossible under x if no float z gives
fl(x + fl(σ z)) = y. See docs/audit.md.
"""

import numpy as np
from numpy.typing import NDArray

from dperm.audit.bounds import Counts
from dperm.audit.proved import contradiction, p_value
from dperm.audit.result import Attack
from dperm.audit.subject import Progress, Run, Subject
from dperm.audit.tables import Canary, longest, rows_of_a_canary, targets_of
from dperm.audit.watched import ExactOracle, Question
from dperm.mechanisms import ObjectivePerturbationQuery
from dperm.privacy.guarantee import Adjacency

Array = NDArray[np.float64]

# How many neighbours of (y − x)/σ are tried on either side; its rounding is less than two.
_NEIGHBOURS = 8
# Answers of a fit that are looked at.
_ANSWERS = 20


def low_bits(subject: Subject, fits: int, alpha: float, progress: Progress | None = None) -> Attack:
    """The ε that impossible numbers prove: some number is impossible under D', and none is under D.

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
    plan, problem = subject.plan, subject.plan.problem
    shared, n_rows = subject.surroundings(ignored=False), rows_of_a_canary(plan.setting.unit)
    canary, other = (
        Canary("generic", longest(problem, direction)[None, :], np.array([target])).times(n_rows)
        for direction, target in zip(
            np.random.default_rng(2).normal(size=(2, plan.n_features)), targets_of(problem), strict=True
        )
    )
    without = plan.setting.adjacency is Adjacency.ADD_REMOVE
    tables = (shared.table(canary), shared.table(None if without else other))
    half, events, looked_at = fits // 2, [0, 0], 0
    with subject.exact(tables[0]) as of_first, subject.exact(tables[1]) as of_second:
        for which, run in subject.runs(tables, 2 * half, 5_000_000, progress):
            under_first, under_second, numbers = _impossible(run, of_first, of_second)
            looked_at += numbers
            if not numbers:
                return Attack("low bits", None, 1, "no answer is a number plus noise: nothing to test")
            events[which] += int(under_second > 0 and under_first == 0)
    counts = Counts(events[0], half, events[1], half)
    # Half of alpha for ε by counting, half to lay the counts beside the proved curve.
    broken = contradiction(counts, p_value(plan.event, plan.setting.adjacency, counts), alpha / 2.0)
    found = (
        f"some number was impossible under the other table only in {events[0]} of {half} fits on D and {events[1]} of "
        f"{half} on D', {looked_at} numbers in all"
    )
    roc = ((0.0, 0.0), (events[1] / half, events[0] / half), (1.0, 1.0))
    return Attack("low bits", counts.epsilon(plan.statement.delta, alpha / 2.0), 2 * half, found, broken, roc)


def _impossible(run: Run, of_first: ExactOracle, of_second: ExactOracle) -> tuple[int, int, int]:
    """How many released numbers no float noise explains, under each table, and how many were looked at."""
    first = second = numbers = 0
    for oracle in (of_first, of_second):
        oracle.know(run.schema)
    for question in [question for question in run.transcript if _is_plain(question)][:_ANSWERS]:
        scale = question.passed[0].scale
        with np.errstate(all="ignore"):
            exact = [
                oracle.exact(question.item, *question.points, step_size=question.step_size).passed[0].exact
                for oracle in (of_first, of_second)
            ]
        first += int((~is_possible(question.answer, exact[0], scale)).sum())
        second += int((~is_possible(question.answer, exact[1], scale)).sum())
        numbers += question.answer.size
    return first, second, numbers


def _is_plain(question: Question) -> bool:
    """Whether the answer is one exact vector plus noise, and the exact vector does not depend on chance."""
    return (
        question.item.query.sampling_rate == 1.0
        and not isinstance(question.item.query, ObjectivePerturbationQuery)
        and len(question.passed) == 1
        and not question.passed[0].is_choice
        and question.answer.shape == question.passed[0].released.shape
        and np.array_equal(question.answer, question.passed[0].released)
    )


def is_possible(released: Array, exact: Array, scale: float) -> NDArray[np.bool_]:
    """Whether some float z gives fl(exact + fl(scale · z)) = released, number by number."""
    centre = (released - exact) / scale
    found = np.zeros(released.shape, dtype=bool)
    for direction in (-np.inf, np.inf):
        z = centre
        for _ in range(_NEIGHBOURS):
            found |= exact + scale * z == released
            z = np.nextafter(z, direction)
    return found
