"""What the noise of a fit is expected to cost, as a share of the loss of a constant predictor, from public numbers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dperm.plan.costs import SMALL, cost_at, why_unknown
from dperm.privacy.unit import counted

if TYPE_CHECKING:
    from dperm.plan.fit_plan import FitPlan

# Beyond this ε hardly anything is promised, so that it is no advice; and nobody collects more rows than this.
_LARGEST_ADVISED_EPSILON, _MOST_ADVISED_ROWS = 10.0, 10**10
# The advice is rounded to two digits: a finer search would show no more.
_HALVINGS = 5


@dataclass(frozen=True)
class Verdict:
    """What the noise of a fit is expected to cost: an estimate with a measured spread, and no promise.

    It speaks of the noise alone: whether the columns predict the target at all is not a public number.

    Attributes
    ----------
    word : str
        What the noise is: "small", "large" or "hopeless"; "unknown" where nothing is known, "exact" without noise.
    most : float
        Up to how much noise is expected to raise the mean loss, over the loss of the best constant predictor; NaN if
        unknown. Nine of ten measured fits lost no more.
    small_n : int or None
        From about how many rows or units on noise is small, all else equal; None if it is, or if no number would do.
    small_epsilon : float or None
        From about which ε on noise is small, all else equal; None if it is, or if no ε up to 10 would do.
    why_unknown : str
        Why there is no prediction.
    counted : str
        What n is the number of.
    """

    word: str
    most: float = math.nan
    small_n: int | None = None
    small_epsilon: float | None = None
    why_unknown: str = ""
    counted: str = "rows"

    def __str__(self) -> str:
        """One line of plain English."""
        if self.word == "exact":
            return "exact: no noise is added, so none costs anything"
        if self.word == "unknown":
            return f"unknown: {self.why_unknown}"
        if self.word == "hopeless":
            return f"hopeless: the noise hides whatever the columns explain; {self._advice}"
        share = "all, or more," if self.most == 1.0 else f"up to {_two_digits(max(100.0 * self.most, 0.1))} %"
        worth = "useful if the columns explain more" if self.word == "small" else self._advice
        return f"noise is expected to cost {share} of the loss of a constant predictor; {worth}"

    @property
    def _advice(self) -> str:
        ways = []
        if self.small_n is not None:
            ways.append(f"n = {_two_digits(self.small_n)} {self.counted}")
        if self.small_epsilon is not None:
            ways.append(f"ε = {_two_digits(self.small_epsilon)}")
        if not ways:
            return f"neither more {self.counted} nor an ε up to {_LARGEST_ADVISED_EPSILON:g} would make it small"
        return f"up to {100.0 * SMALL:g} % from about {' or '.join(ways)}"


def verdict_of(plan: "FitPlan") -> Verdict:
    """What is to be expected of a plan; predictions only, nothing is calibrated and no row is read.

    Parameters
    ----------
    plan : FitPlan
        The plan. Its n and its ε are varied with everything else as it is.
    """
    if plan.options.noise is None or plan.options.guarantee is None:
        return Verdict("exact")
    now = (float(plan.setting.n), plan.options.guarantee.epsilon)
    cost = cost_at(plan.options, plan.n_features, *now)
    # What noise hides from a whole gradient no solver finds.
    why = why_unknown(plan.options, plan.problem, None if cost.word == "hopeless" else plan.solver)
    if why is not None:
        return Verdict("unknown", why_unknown=why)
    if cost.word == "unknown":
        return Verdict("unknown", why_unknown="the numbers are too large or too small for a prediction")
    if cost.word == "small":
        return Verdict("small", cost.most)

    def is_small(n: float, epsilon: float) -> bool:
        return cost_at(plan.options, plan.n_features, n, epsilon).word == "small"

    n = _first(lambda n: is_small(n, now[1]), now[0], _MOST_ADVISED_ROWS)
    epsilon = _first(lambda epsilon: is_small(now[0], epsilon), now[1], _LARGEST_ADVISED_EPSILON)
    small_n = None if n is None else math.ceil(n)
    return Verdict(cost.word, cost.most, small_n, epsilon, counted=counted(plan.setting.unit))


def is_mostly_noise(plan: "FitPlan") -> bool:
    """Whether noise is expected to cost half of the loss of a constant predictor; False where nothing is known."""
    guarantee = plan.options.guarantee
    if guarantee is None or why_unknown(plan.options, plan.problem, plan.solver) is not None:
        return False
    return cost_at(plan.options, plan.n_features, float(plan.setting.n), guarantee.epsilon).share >= 0.5


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
