"""Verdicts: whether a claim holds, computed from what was measured and from nothing else."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import stats

# A bound's power may be missed by so much before it is said to fail: the tables of rows are finite.
TOLERANCE = 0.1

# O(·) hides a constant: a bound is exceeded by more than so many times what it is with all constants set to 1.
ROOM = 10.0


class Outcome(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "undecided"


@dataclass(frozen=True)
class Verdict:
    """A claim, what became of it, and the figures that say so."""

    claim: str
    outcome: Outcome
    because: str


def all_of(outcomes: Iterable[Outcome]) -> Outcome:
    """A claim in several parts holds if all do, and fails if one does."""
    found = set(outcomes)
    if Outcome.FAILS in found:
        return Outcome.FAILS
    return Outcome.HOLDS if found == {Outcome.HOLDS} else Outcome.OPEN


def is_true(condition: bool) -> Outcome:
    """The outcome of a claim about numbers that have no spread."""
    return Outcome.HOLDS if condition else Outcome.FAILS


def is_smaller(first: Sequence[float], second: Sequence[float], parts: int = 1) -> Outcome:
    """Whether one positive quantity is smaller than another, by Welch's interval for the mean of their logarithms.

    Parameters
    ----------
    first, second : sequence of float
        What was measured, one number for every seed.
    parts : int
        Of how many comparisons this is one: all of them together are at the 95 % level.

    Examples
    --------
    >>> is_smaller([1.0, 1.1, 0.9], [5.0, 6.0, 5.5])
    <Outcome.HOLDS: 'holds'>
    """
    if min(len(first), len(second)) < 2 or not np.all(np.isfinite([*first, *second])):
        return Outcome.OPEN
    logs = [np.log(np.maximum(values, 1e-300)) for values in (first, second)]
    difference = float(logs[0].mean() - logs[1].mean())
    variances = [float(values.var(ddof=1)) / len(values) for values in logs]
    if sum(variances) == 0.0:
        return is_true(difference < 0.0)
    freedom = sum(variances) ** 2 / sum(v**2 / (len(x) - 1) for v, x in zip(variances, logs, strict=True))
    half = float(stats.t.ppf(1.0 - 0.025 / parts, freedom)) * math.sqrt(sum(variances))
    if abs(difference) <= half:
        return Outcome.OPEN
    return is_true(difference < 0.0)


def mean_is_below(values: Sequence[float], bound: float, parts: int = 1) -> Outcome:
    """Whether the expectation of what was measured is below a bound, by the t interval for its mean.

    Parameters
    ----------
    values : sequence of float
        What was measured, one number for every seed.
    bound : float
        What it should stay below.
    parts : int
        Of how many comparisons this is one, as for `is_smaller`.

    Examples
    --------
    >>> mean_is_below([1.0, 1.1, 0.9], 2.0)
    <Outcome.HOLDS: 'holds'>
    """
    if len(values) < 2 or not np.all(np.isfinite([*values, bound])):
        return Outcome.OPEN
    t = float(stats.t.ppf(1.0 - 0.025 / parts, len(values) - 1))
    mean, half = float(np.mean(values)), t * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    if abs(mean - bound) <= half:
        return Outcome.OPEN
    return is_true(mean < bound)


@dataclass(frozen=True)
class Exponent:
    """The power of x with which something grows, a 95 % interval for it, and the power of a bound on the same points.

    `above` says whether any of it exceeds the bound, `ROOM` left for its constant.
    """

    value: float
    low: float
    high: float
    bound: float
    above: bool

    def keeps_the_bound(self) -> Outcome:
        """Whether growth is no faster than the bound's, give or take `TOLERANCE`.

        What grows faster but lies below the bound all the same may yet bend: that is undecided.
        """
        if self.low > self.bound + TOLERANCE:
            return Outcome.FAILS if self.above else Outcome.OPEN
        return Outcome.HOLDS if self.high <= self.bound + TOLERANCE else Outcome.OPEN

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.value:.2f} (bound {self.bound:.2f})"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}] (bound {self.bound:.2f})"


def fit_exponent(x: Sequence[float], series: Sequence[Sequence[float]], terms: Sequence[Sequence[float]]) -> Exponent:
    """Fit a power of x to every seed's own series, and take the mean power with its t interval over seeds.

    Parameters
    ----------
    x : sequence of float
        Where it was measured.
    series : sequence of sequences of float
        One for every seed, as long as x. A single one, for numbers without spread, has no interval.
    terms : sequence of sequences of float
        The terms of the bound at each x. Their constants are unknown, so the bound's power is that of the fastest.
    """
    slopes = np.array([slope(x, values) for values in series])
    half = 0.0
    if len(slopes) > 1:
        half = float(stats.t.ppf(0.975, len(slopes) - 1)) * float(slopes.std(ddof=1)) / math.sqrt(len(slopes))
    value = float(slopes.mean())
    above = bool(np.any(np.mean(series, axis=0) > ROOM * np.sum(terms, axis=0)))
    return Exponent(value, value - half, value + half, max(slope(x, term) for term in terms), above)


def slope(x: Sequence[float], values: Sequence[float]) -> float:
    """The power of x that fits best, in logarithms."""
    return float(np.polyfit(np.log(x), np.log(np.maximum(values, 1e-300)), 1)[0])
