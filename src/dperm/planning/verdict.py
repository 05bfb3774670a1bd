"""Whether a fit is worth making: what its noise is expected to cost beside predicting nothing, from public numbers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dperm.planning.costs import costs_at, why_unknown
from dperm.unit import counted

if TYPE_CHECKING:
    from dperm.planning.fit_plan import FitPlan

# Beyond this ε hardly anything is promised, so that it is no advice; and nobody collects more rows than this.
_LARGEST_ADVISED_EPSILON, _MOST_ADVISED_ROWS = 10.0, 10**10
# The advice is rounded to two digits: a finer search would show no more.
_HALVINGS = 5


@dataclass(frozen=True)
class Verdict:
    """What the noise of a fit is expected to cost; an estimate, right to a factor of several, and no promise.

    It speaks of the noise alone: whether the columns predict the target at all is not a public number.

    Attributes
    ----------
    word : str
        "useful", "doubtful", "hopeless"; or "unknown" where there is no prediction, "exact" where there is no noise.
    noise_cost : float
        By how much noise is expected to raise the mean loss, about E[F^r(w) − min F^r]; NaN if unknown.
    nothing_cost : float
        By how much w = 0, predicting nothing, is expected to raise it.
    useful_n : int or None
        From about how many rows or units on it is useful, all else equal; None if it is, or if no number would do.
    useful_epsilon : float or None
        From about which ε on it is useful, all else equal; None if it is, or if no ε up to 10 would do.
    why_unknown : str
        Why there is no prediction.
    counted : str
        What n is the number of.
    """

    word: str
    noise_cost: float = math.nan
    nothing_cost: float = math.nan
    useful_n: int | None = None
    useful_epsilon: float | None = None
    why_unknown: str = ""
    counted: str = "rows"

    @property
    def ratio(self) -> float:
        """What the noise is expected to cost, in multiples of what predicting nothing costs."""
        return self.noise_cost / self.nothing_cost if self.nothing_cost > 0.0 else math.inf

    def __str__(self) -> str:
        """One line of plain English."""
        if self.word == "exact":
            return "exact: no noise is added, so none costs anything"
        if self.word == "unknown":
            return f"unknown: {self.why_unknown}"
        if self.word == "useful":
            cost = f"about {_two_digits(self.noise_cost)}" if self.noise_cost >= 1e-4 else "less than 0.0001"
            share = f"{100.0 * self.ratio:.0f} %" if self.ratio >= 0.01 else "less than 1 %"
            return f"useful: noise is expected to add {cost} to the loss, {share} of what predicting nothing costs"
        times = f"{100.0 * self.ratio:.0f} % of" if self.ratio < 1.0 else f"{_two_digits(self.ratio)} times"
        return f"{self.word}: noise is expected to cost {times} what predicting nothing costs; {self._advice}"

    @property
    def _advice(self) -> str:
        ways = []
        if self.useful_n is not None:
            ways.append(f"from about n = {_two_digits(self.useful_n)} {self.counted}")
        if self.useful_epsilon is not None:
            ways.append(f"from about ε = {_two_digits(self.useful_epsilon)}")
        if not ways:
            return f"neither more {self.counted} nor an ε up to {_LARGEST_ADVISED_EPSILON:g} would make it useful"
        return f"it becomes useful {' or '.join(ways)}"


def verdict_of(plan: "FitPlan") -> Verdict:
    """What is to be expected of a plan; predictions only, nothing is calibrated and no row is read.

    Parameters
    ----------
    plan : FitPlan
        The plan. Its n and its ε are varied with everything else as it is.
    """
    options, guarantee = plan.options, plan.options.guarantee
    if options.noise is None or guarantee is None:
        return Verdict("exact")
    why = why_unknown(options, plan.setting)
    if why is not None:
        return Verdict("unknown", why_unknown=why)
    now = (float(plan.setting.n), guarantee.epsilon)
    costs = costs_at(options, plan.n_features, *now, plan.solver)
    if costs.word == "unknown":
        return Verdict("unknown", why_unknown=f"{plan.solver.name} does not predict what its noise costs")
    if costs.word == "useful":
        return Verdict("useful", *costs)
    n = _useful_from(plan, now[0], _MOST_ADVISED_ROWS, lambda n: (n, now[1]))
    epsilon = _useful_from(plan, now[1], _LARGEST_ADVISED_EPSILON, lambda epsilon: (now[0], epsilon))
    useful_n = None if n is None else math.ceil(n)
    return Verdict(costs.word, *costs, useful_n, epsilon, counted=counted(plan.setting.unit))


def is_hopeless(plan: "FitPlan") -> bool:
    """Whether noise is expected to cost as much as predicting nothing; False where nothing is known of it."""
    guarantee = plan.options.guarantee
    if guarantee is None or why_unknown(plan.options, plan.setting) is not None:
        return False
    return (
        costs_at(plan.options, plan.n_features, float(plan.setting.n), guarantee.epsilon, plan.solver).word
        == "hopeless"
    )


def _useful_from(
    plan: "FitPlan", now: float, most: float, numbers: Callable[[float], tuple[float, float]]
) -> float | None:
    """About the least number above `now` at which the solver that was asked for, or that "auto" takes, is useful."""

    def is_useful(number: float) -> bool:
        return costs_at(plan.options, plan.n_features, *numbers(number)).word == "useful"

    return _first(is_useful, now, most)


def _first(holds: Callable[[float], bool], low: float, most: float) -> float | None:
    """About the least number above `low`, where it does not hold, from which on it does; None if none up to `most`."""
    high = low
    while not holds(high):
        if high >= most:
            return None
        low, high = high, min(2.0 * high, most)
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _two_digits(number: float) -> str:
    """The number with two digits, and spaces between thousands."""
    rounded = float(f"{number:.2g}")
    return f"{rounded:,.0f}".replace(",", " ") if rounded >= 10.0 else f"{rounded:g}"
