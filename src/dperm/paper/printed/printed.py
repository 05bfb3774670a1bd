"""The printed forms of Algorithms 1 and 2: noise on the sum of a sampled difference and the anchor's gradient.

A share s of a step's noise variance counts for the anchor's gradient, the rest for the difference. With much noise the
anchor costs Δ²/s and the difference (2Δ)²/(1 − s), smallest at s = 1/3; below, the difference costs more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy.optimize import brentq

from dperm.accounting.central_limit import central_limit_precision
from dperm.accounting.composition import delta_of
from dperm.accounting.curve import gaussian_mu
from dperm.mechanisms import PrintedEpochQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.solvers.variance_reduced.anchored import EpochSolver

_AMPLE_NOISE_SHARE = 1.0 / 3.0
_SHARES = tuple(k / 100.0 for k in range(1, 100))


@dataclass(frozen=True)
class PrintedSolver(EpochSolver):
    """Settings common to both algorithms as printed; see a concrete one for what they do.

    Parameters
    ----------
    paper_constant : float
        c in the paper's formula for σ², used with noise="paper" only.
    """

    paper_constant: float = 1.0

    def _queries(
        self, setting: Setting, guarantee: Guarantee | None, inner: Sequence[int], smallest_rate: float
    ) -> tuple[PlannedQuery, ...]:
        """One query for every epoch, at the sampling rate that was given or at the default one."""
        rate = self.sampling_rate or printed_rate(setting, guarantee, sum(inner), smallest_rate)
        return printed_queries(setting, guarantee, rate, inner)


def printed_text(rate: float) -> str:
    """What a step costs, for the privacy statement."""
    return f"each accounted for in full at sampling rate {rate:.3g}"


def printed_queries(
    setting: Setting, guarantee: Guarantee | None, rate: float, inner: Sequence[int]
) -> tuple[PlannedQuery, ...]:
    """One query for every epoch, the noise divided so that the least of it is needed."""
    share = _AMPLE_NOISE_SHARE
    if guarantee is not None:
        share = least_noise_share(rate, sum(inner), gaussian_mu(guarantee), setting.adjacency)
    return _with_share(setting, rate, inner, share)


def printed_rate(setting: Setting, guarantee: Guarantee | None, steps: int, smallest: float) -> float:
    """The sampling rate from which on there is much noise.

    Its standard deviation is then 3√K Δ/(nμ) in K steps, and from this rate on its multiplier is at least 1.
    """
    if guarantee is None:
        return smallest
    return min(1.0, max(smallest, 2.0 * gaussian_mu(guarantee) / (3.0 * math.sqrt(steps))))


def calibrate_as_printed(plan: Plan[Any], sigma: float, epsilon: float) -> CalibratedPlan:
    """The plan with noise of this standard deviation on every step, divided so that the certified δ(ε) is smallest."""
    queries = [item.query for item in plan.planned if isinstance(item.query, PrintedEpochQuery)]
    setting, rate, inner = queries[0].setting, queries[0].sampling_rate, [query.n_steps for query in queries]
    multiplier = sigma / queries[0].sensitivity
    cheapest = min(_SHARES, key=lambda share: _cost(share, rate, multiplier, setting.adjacency))
    # The last one is for noise that hides nothing of the samples: it may as well all go to the anchors.
    choices = [
        CalibratedPlan(Plan(plan.mechanism, _with_share(setting, rate, inner, share), plan.settings), multiplier)
        for share in dict.fromkeys((cheapest, _AMPLE_NOISE_SHARE, _SHARES[-1]))
    ]
    return min(choices, key=lambda choice: delta_of(choice.event(), epsilon, setting.adjacency))


def least_noise_share(rate: float, steps: int, mu: float, adjacency: Adjacency) -> float:
    """The share with which so many steps need the least noise for μ, by the central limit theorem."""
    # With this multiplier the anchor alone costs more than μ². With 30 times as much, and at least 10, both together
    # cost less at every share: a sampled difference then costs at most 1.72 q²/ν².
    lowest = rate * math.sqrt(steps) / (2.0 * mu)
    highest = max(10.0, 30.0 * lowest)

    def needed(share: float) -> float:
        def excess(log_multiplier: float) -> float:
            return math.log(steps * _cost(share, rate, math.exp(log_multiplier), adjacency)) - 2.0 * math.log(mu)

        return float(brentq(excess, math.log(lowest), math.log(highest)))

    return min(_SHARES, key=needed)


def _with_share(setting: Setting, rate: float, inner: Sequence[int], share: float) -> tuple[PlannedQuery, ...]:
    return tuple(PlannedQuery(PrintedEpochQuery(setting, rate, steps, share)) for steps in inner)


def _cost(share: float, rate: float, multiplier: float, adjacency: Adjacency) -> float:
    """About the μ² of one step; the multiplier is relative to the difference's sensitivity, 2/q times the anchor's."""
    anchor = (rate / (2.0 * multiplier)) ** 2 / share
    return anchor + central_limit_precision(rate, math.sqrt(1.0 - share) * multiplier, adjacency)
