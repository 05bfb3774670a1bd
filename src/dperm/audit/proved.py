"""An attack beside the proved privacy curve of its plan, and beside the curves of less noise of the same shape."""

import numpy as np
from scipy.stats import binom

from dperm.accounting.attack import true_positive_rates
from dperm.accounting.composition import epsilon_of
from dperm.accounting.events import Event
from dperm.audit.bounds import Counts
from dperm.errors import DpermError
from dperm.plan.fit_plan import FitPlan
from dperm.privacy.guarantee import Adjacency

# False positive rates are looked at in this many intervals.
_INTERVALS = 400
# How much more or less noise is considered, and in how many halvings it is found: to 2 %.
_LARGEST_FACTOR, _ROUNDS = 64.0, 9


def p_value(event: Event, adjacency: Adjacency, counts: Counts) -> float:
    """The largest chance of this many more hits than alarms that the privacy curve of an event allows.

    Whatever the attack, its rates lie below the curve. For false positive rates in [a, b] there are at most as many
    hits as with the largest true positive rate at b, and at least as many alarms as with the rate a, so the chance is
    at most that of these two; the largest over all intervals is taken.
    """
    n, more = counts.of, counts.hits - counts.alarms
    edges = np.linspace(0.0, 1.0, _INTERVALS + 1)
    allowed = np.array(true_positive_rates(event, adjacency, edges[1:].tolist()))
    alarms = np.arange(n + 1)
    chances = binom.pmf(alarms, n, edges[:-1, None]) * binom.sf(more + alarms - 1, n, allowed[:, None])
    return min(1.0, float(chances.sum(axis=1).max()))


def contradiction(counts: Counts, chance: float, alpha: float) -> tuple[str, ...]:
    """The sentence that accuses, if the chance of the counts under the proved curve is below alpha."""
    if chance >= alpha:
        return ()
    return (
        f"an attack is right in {counts.hits} of {counts.of} fits and wrong in {counts.alarms} of {counts.of_others}; "
        f"under the proof the chance of that is at most {chance:.1g}",
    )


def epsilon_of_shape(plan: FitPlan, counts: Counts, alpha: float) -> float:
    """ε at the promised δ of the plan with the most noise that the proved curve allows the attack under.

    A lower bound for noise of the planned shape and any size; 0 where much more noise would do.

    Parameters
    ----------
    plan : FitPlan
        What is audited.
    counts : Counts
        On as many fits on D as on D', none of which chose anything about the attack.
    alpha : float
        The chance that the bound is wrong.
    """
    multiplier, planned = plan.calibrated.noise_multiplier or 1.0, plan.calibrated.plan

    def possible(factor: float) -> bool:
        try:
            return p_value(planned.event(multiplier * factor), plan.setting.adjacency, counts) > alpha
        except (DpermError, ArithmeticError):
            return True

    low, high = 1.0 / _LARGEST_FACTOR, _LARGEST_FACTOR  # noise that allows the attack, and noise that does not
    if counts.hits <= counts.alarms or possible(high):
        return 0.0
    for _ in range(_ROUNDS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if possible(middle) else (low, middle)
    return epsilon_of(planned.event(multiplier * high), plan.statement.delta, plan.setting.adjacency)
