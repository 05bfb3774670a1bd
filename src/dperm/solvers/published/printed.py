"""The printed forms of Algorithms 1 and 2: noise on the sum of a sampled difference and the anchor's gradient.

`TwoFormSolver` chooses between them and the anchored forms.

A share s of a step's noise variance counts for the anchor's gradient, the rest for the difference. Where noise abounds
the anchor costs Δ²/s and the difference (2Δ)²/(1 − s), smallest at s = 1/3; below, the difference costs more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy.optimize import brentq

from dperm.accounting.central_limit import central_limit_precision
from dperm.accounting.composition import delta_of
from dperm.accounting.curve import gaussian_mu
from dperm.accounting.guarantee import Adjacency, Guarantee
from dperm.errors import InvalidParameter
from dperm.mechanisms import PrintedEpochQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.solvers.variance_reduced.anchored import AnchoredSolver, anchored_text
from dperm.validation import one_of, positive

_AMPLE_NOISE_SHARE = 1.0 / 3.0
_SHARES = tuple(k / 100.0 for k in range(1, 100))


@dataclass(frozen=True)
class TwoFormSolver(AnchoredSolver):
    """Settings of the methods that come anchored and as printed; see a concrete one for what they do.

    Parameters
    ----------
    form : {"anchored", "printed"}, optional
        The default is "anchored", and "printed" with noise="paper".
    paper_constant : float
        c in the paper's formula for σ², used with noise="paper" only.
    """

    form: str | None = None
    paper_constant: float = 1.0

    def __post_init__(self) -> None:
        """Check the settings that were given."""
        super().__post_init__()
        if self.form is not None:
            one_of("form", self.form, ("anchored", "printed"))
        positive("paper_constant", self.paper_constant)

    def _epochs(
        self,
        setting: Setting,
        guarantee: Guarantee | None,
        inner: Sequence[int],
        condition: float,
        smallest_rate: float,
    ) -> tuple[tuple[PlannedQuery, ...], str]:
        """The queries of the chosen form, and a phrase for them; parameters as for `_anchored_queries`."""
        if self.form == "printed":
            rate = self.sampling_rate or printed_rate(setting, guarantee, sum(inner), smallest_rate)
            text = f"as printed in the paper, each paid for in full at sampling rate {rate:.3g}"
            return printed_queries(setting, guarantee, rate, inner), text
        planned = self._anchored_queries(setting, guarantee, inner, condition, smallest_rate)
        return planned, anchored_text(planned[-1].query.sampling_rate)

    def _plan_as_in_the_paper(
        self, setting: Setting, guarantee: Guarantee, *, n_epochs: int, n_inner: int | None, step_size: float
    ) -> Plan:
        """The printed form in batches of one row on average; what the solver was given stays as it is."""
        if self.form == "anchored":
            raise InvalidParameter(
                "the paper's noise is for its printed step; use form='printed' or noise='certified'."
            )
        return replace(
            self,
            form="printed",
            n_epochs=self.n_epochs or n_epochs,
            n_inner=self.n_inner or n_inner,
            sampling_rate=self.sampling_rate or 1.0 / setting.n,
            step_size=self.step_size or step_size,
        ).plan(setting, guarantee)


def printed_queries(
    setting: Setting, guarantee: Guarantee | None, rate: float, inner: Sequence[int]
) -> tuple[PlannedQuery, ...]:
    """One query for every epoch, the noise divided so that the least of it is needed."""
    share = _AMPLE_NOISE_SHARE
    if guarantee is not None:
        share = least_noise_share(rate, sum(inner), gaussian_mu(guarantee), setting.adjacency)
    return _with_share(setting, rate, inner, share)


def printed_rate(setting: Setting, guarantee: Guarantee | None, steps: int, smallest: float) -> float:
    """The sampling rate from which on noise abounds.

    Its standard deviation is then 3√K Δ/(nμ) in K steps, and from this rate on its multiplier is at least 1.
    """
    if guarantee is None:
        return smallest
    return min(1.0, max(smallest, 2.0 * gaussian_mu(guarantee) / (3.0 * math.sqrt(steps))))


def pay_as_printed(plan: Plan, sigma: float, epsilon: float) -> CalibratedPlan:
    """The plan with noise of this standard deviation on every step, divided so that the certified δ(ε) is smallest."""
    queries = [item.query for item in plan.planned if isinstance(item.query, PrintedEpochQuery)]
    setting, rate, inner = queries[0].setting, queries[0].sampling_rate, [query.n_steps for query in queries]
    multiplier = sigma / queries[0].sensitivity
    cheapest = min(_SHARES, key=lambda share: _price(share, rate, multiplier, setting.adjacency))
    # The last one is for noise that hides nothing of the samples: it may as well all go to the anchors.
    paid = [
        CalibratedPlan(Plan(plan.mechanism, _with_share(setting, rate, inner, share), plan.settings), multiplier)
        for share in dict.fromkeys((cheapest, _AMPLE_NOISE_SHARE, _SHARES[-1]))
    ]
    return min(paid, key=lambda choice: delta_of(choice.event(), epsilon, setting.adjacency))


def least_noise_share(rate: float, steps: int, mu: float, adjacency: Adjacency) -> float:
    """The share with which so many steps need the least noise for μ, by the central limit theorem."""
    # With this multiplier the anchor alone costs more than μ². With 30 times as much, and at least 10, both together
    # cost less at every share: a sampled difference then costs at most 1.72 q²/ν².
    lowest = rate * math.sqrt(steps) / (2.0 * mu)
    highest = max(10.0, 30.0 * lowest)

    def needed(share: float) -> float:
        def excess(log_multiplier: float) -> float:
            return math.log(steps * _price(share, rate, math.exp(log_multiplier), adjacency)) - 2.0 * math.log(mu)

        return float(brentq(excess, math.log(lowest), math.log(highest)))

    return min(_SHARES, key=needed)


def _with_share(setting: Setting, rate: float, inner: Sequence[int], share: float) -> tuple[PlannedQuery, ...]:
    return tuple(PlannedQuery(PrintedEpochQuery(setting, rate, steps, share)) for steps in inner)


def _price(share: float, rate: float, multiplier: float, adjacency: Adjacency) -> float:
    """About the μ² of one step; the multiplier is relative to the difference's sensitivity, 2/q times the anchor's."""
    anchor = (rate / (2.0 * multiplier)) ** 2 / share
    return anchor + central_limit_precision(rate, math.sqrt(1.0 - share) * multiplier, adjacency)
