"""Verdicts: whether a claim holds, computed from what was measured and from nothing else; and if not, why not."""

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

# With so many seeds nothing is worth deciding: what is asked for lies on the line.
_MOST_SEEDS = 5_000


class Outcome(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "undecided"


@dataclass(frozen=True)
class Finding:
    """What became of a claim or of a part of it, and if it is undecided, why."""

    outcome: Outcome
    why: str = ""

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.OPEN) != bool(self.why):
            raise ValueError("a reason belongs to what is undecided, and to nothing else")

    def about(self, part: str) -> "Finding":
        """The same, with the part of the claim that it is about named in the reason."""
        return Finding(self.outcome, f"{part}: {self.why}") if self.why else self


@dataclass(frozen=True)
class Verdict:
    """A claim, what became of it, and the figures that say so."""

    claim: str
    finding: Finding
    because: str

    @property
    def outcome(self) -> Outcome:
        """What became of it."""
        return self.finding.outcome


def undecided(why: str) -> Finding:
    """The finding of what cannot be decided."""
    return Finding(Outcome.OPEN, why)


def all_of(findings: Iterable[Finding]) -> Finding:
    """A claim in several parts holds if all do, and fails if one does."""
    found = list(findings)
    outcomes = {one.outcome for one in found}
    if Outcome.FAILS in outcomes:
        return Finding(Outcome.FAILS)
    if outcomes == {Outcome.HOLDS}:
        return Finding(Outcome.HOLDS)
    return undecided("; ".join(dict.fromkeys(one.why for one in found if one.why)) or "nothing was measured")


def is_true(condition: bool) -> Finding:
    """The outcome of a claim about numbers that have no spread."""
    return Finding(Outcome.HOLDS if condition else Outcome.FAILS)


def is_smaller(first: Sequence[float], second: Sequence[float], parts: int = 1) -> Finding:
    """Whether one positive quantity is smaller than another, by Welch's interval for the mean of their logarithms.

    Parameters
    ----------
    first, second : sequence of float
        What was measured, one number for every seed.
    parts : int
        Of how many comparisons this is one: all of them together are at the 95 % level.

    Examples
    --------
    >>> is_smaller([1.0, 1.1, 0.9], [5.0, 6.0, 5.5]).outcome
    <Outcome.HOLDS: 'holds'>
    """
    if (refusal := _cannot_compare([first, second])) is not None:
        return refusal
    logs = [np.log(np.maximum(values, 1e-300)) for values in (first, second)]
    difference = float(logs[0].mean() - logs[1].mean())
    variances = [float(values.var(ddof=1)) / len(values) for values in logs]
    if sum(variances) == 0.0:
        return is_true(difference < 0.0)
    freedom = sum(variances) ** 2 / sum(v**2 / (len(x) - 1) for v, x in zip(variances, logs, strict=True))
    half = float(stats.t.ppf(1.0 - 0.025 / parts, freedom)) * math.sqrt(sum(variances))
    if abs(difference) > half:
        return is_true(difference < 0.0)
    low, high = np.exp([difference - half, difference + half])
    fewest = min(len(first), len(second))
    return undecided(
        f"the interval of the ratio, {low:.3g} to {high:.3g}, contains 1 with {fewest} seeds; "
        f"{_enough(fewest, half, abs(difference))}"
    )


def mean_is_below(values: Sequence[float], bound: float, parts: int = 1) -> Finding:
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
    >>> mean_is_below([1.0, 1.1, 0.9], 2.0).outcome
    <Outcome.HOLDS: 'holds'>
    """
    if not math.isfinite(bound):
        return undecided("no bound is known")
    if (refusal := _cannot_compare([values])) is not None:
        return refusal
    t = float(stats.t.ppf(1.0 - 0.025 / parts, len(values) - 1))
    mean, half = float(np.mean(values)), t * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    if abs(mean - bound) > half:
        return is_true(mean < bound)
    return undecided(
        f"the interval of the mean, {mean - half:.2g} to {mean + half:.2g}, contains the bound, {bound:.2g}, with "
        f"{len(values)} seeds; {_enough(len(values), half, abs(mean - bound))}"
    )


def _cannot_compare(samples: Sequence[Sequence[float]]) -> Finding | None:
    """Why these have no interval, if they have none."""
    if min(len(values) for values in samples) < 2:
        return undecided("one seed has no spread")
    if not all(np.all(np.isfinite(values)) for values in samples):
        return undecided("a fit failed")
    return None


def _enough(seeds: int, half: float, distance: float) -> str:
    """How many seeds would bring an interval's half width below this distance; it falls with their square root."""
    needed = seeds * (half / distance) ** 2 if distance > 0.0 else math.inf
    if needed > _MOST_SEEDS:
        return "it lies on the line that decides, and no affordable number of seeds would tell"
    return f"about {max(float(f'{needed:.2g}'), seeds + 1.0):.0f} would tell, if the mean stays where it is"


@dataclass(frozen=True)
class Exponent:
    """The power of x with which something grows, a 95 % interval for it, and the power of a bound on the same points.

    `share` is the most that it is of the bound with all constants set to 1.
    """

    value: float
    low: float
    high: float
    bound: float
    share: float
    seeds: int = 1

    def keeps_the_bound(self) -> Finding:
        """Whether growth is no faster than the bound's, give or take `TOLERANCE`.

        What grows faster but lies below the bound all the same may yet bend: that is undecided.
        """
        most = self.bound + TOLERANCE
        if self.high <= most:
            return Finding(Outcome.HOLDS)
        exceeded = self.share > ROOM
        if self.low > most and exceeded:
            return Finding(Outcome.FAILS)
        below = f"no value is above {self.share:.2g} times the bound, constants set to 1, and {ROOM:g} times is allowed"
        if self.low > most:
            return undecided(
                f"it is above the bound's {self.bound:.2f} + {TOLERANCE:g}, but {below}: more seeds cannot decide this"
            )
        straddles = f"the interval straddles {most:.2f}, the bound's power + {TOLERANCE:g}, with {self.seeds} seeds"
        if self.value > most and not exceeded:
            return undecided(f"{straddles}; if the mean stays where it is, more seeds do not decide this, as {below}")
        return undecided(f"{straddles}; {_enough(self.seeds, self.high - self.value, abs(most - self.value))}")

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
    share = float(np.max(np.mean(series, axis=0) / np.sum(terms, axis=0)))
    return Exponent(value, value - half, value + half, max(slope(x, term) for term in terms), share, len(slopes))


def slope(x: Sequence[float], values: Sequence[float]) -> float:
    """The power of x that fits best, in logarithms."""
    return float(np.polyfit(np.log(x), np.log(np.maximum(values, 1e-300)), 1)[0])
