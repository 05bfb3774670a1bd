"""From counts to lower bounds on ε: Clopper–Pearson for many fits, and the theorem of one-run auditing.

Every bound holds with probability 1 − alpha over the noise, whatever the mechanism. See docs/audit.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv
from scipy.stats import binom

Array = NDArray[np.float64]

# Thresholds that are tried on the fits that choose one.
_THRESHOLDS = 200
# Where the search for ε ends; nobody can show more with the fits that there is time for.
_LARGEST_EPSILON = 60.0


def rate_at_least(hits: int, trials: int, alpha: float) -> float:
    """Clopper–Pearson: the probability is at least this, but for a chance of alpha."""
    return 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, alpha))


def rate_at_most(hits: int, trials: int, alpha: float) -> float:
    """Clopper–Pearson: the probability is at most this, but for a chance of alpha."""
    return 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1.0 - alpha))


@dataclass(frozen=True)
class Counts:
    """How often something was seen in fits on D (`hits` of `of`) and on D' (`alarms` of `of_others`)."""

    hits: int
    of: int
    alarms: int
    of_others: int

    def rates(self, alpha: float) -> tuple[float, float]:
        """A false positive rate that is at most the first number, and a true one that is at least the second."""
        return (
            rate_at_most(self.alarms, self.of_others, alpha / 2.0),
            rate_at_least(self.hits, self.of, alpha / 2.0),
        )

    def epsilon(self, delta: float, alpha: float) -> float:
        """ε that the counts prove, whatever the mechanism: P_D[S] ≤ e^ε P_D'[S] + δ.

        Parameters
        ----------
        delta : float
            Of the guarantee.
        alpha : float
            The chance that the bound is wrong; half of it for each of the two probabilities.
        """
        wrong, right = self.rates(alpha)
        return max(0.0, math.log((right - delta) / wrong)) if right > delta else 0.0

    @property
    def advantage(self) -> float:
        """How much more often it was seen on D."""
        return self.hits / self.of - self.alarms / self.of_others


@dataclass(frozen=True)
class Threshold:
    """What an attacker looks for: a score above it as a sign of D, or not above it as a sign of D'."""

    value: float
    above: bool

    def counts(self, of_first: Array, of_second: Array) -> Counts:
        """How often it is seen among scores of fits on D and on D'."""
        if self.above:
            seen, others = of_first > self.value, of_second > self.value
        else:
            seen, others = of_second <= self.value, of_first <= self.value
        return Counts(int(seen.sum()), seen.size, int(others.sum()), others.size)


def best_threshold(of_first: Array, of_second: Array, worth: Callable[[Counts], float]) -> tuple[float, Threshold]:
    """The threshold that is worth most on these scores. It proves nothing there: use it on other fits."""
    pooled = np.unique(np.concatenate([of_first, of_second]))
    places = np.unique(np.linspace(0, pooled.size - 1, _THRESHOLDS).astype(int))
    found = [Threshold(float(pooled[place]), above) for place in places for above in (True, False)]
    worths = [worth(threshold.counts(of_first, of_second)) for threshold in found]
    best = int(np.argmax(worths))
    return worths[best], found[best]


def guesses_p_value(m: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The chance of at least this many right guesses about m fair coins under (ε, δ)-differential privacy.

    Theorem 5.2 of Steinke, Nasr and Jagielski 2023: with f(v) = P[Binomial(guesses, e^ε/(1 + e^ε)) ≥ v] it is at most
    f(v) + 2mδ · max over i ≥ 1 of (f(v − i) − f(v))/i.

    Parameters
    ----------
    m : int
        Rows that were put in or left out, each by a fair coin of its own.
    guesses : int
        About how many of them a guess was made; the number is fixed in advance.
    right : int
        How many guesses were right.
    epsilon, delta : float
        The guarantee that is put to the test.
    """
    accuracy = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, accuracy))
    if right == 0:
        return 1.0
    missing = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, accuracy))
    worst = float((missing / np.arange(1, right + 1)).max())
    return min(1.0, tail + 2.0 * m * delta * worst)


def epsilon_from_guesses(m: int, guesses: int, right: int, delta: float, alpha: float) -> float:
    """The smallest ε at which this many right guesses are not rarer than alpha."""
    low, step = 0.0, 0.05
    if guesses_p_value(m, guesses, right, low, delta) > alpha:
        return 0.0
    while guesses_p_value(m, guesses, right, low + step, delta) <= alpha:
        low += step
        if low > _LARGEST_EPSILON:
            return low
    high = low + step
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if guesses_p_value(m, guesses, right, middle, delta) <= alpha else (low, middle)
    return low
