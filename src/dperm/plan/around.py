"""What is asked besides a solver's own questions, before it and after it, with noise that is settled in advance."""

import math
from dataclasses import dataclass, replace
from typing import Any

from dperm.accounting.curve import gaussian_epsilon, gaussian_mu
from dperm.mechanisms import Query
from dperm.mechanisms.histogram import HistogramQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.range import RangeQuery
from dperm.plan.intervals import in_words
from dperm.privacy.guarantee import Guarantee

Fixed = tuple[PlannedQuery, ...]


@dataclass(frozen=True)
class Beside:
    """What is asked besides the solver's own questions.

    Attributes
    ----------
    before : tuple of PlannedQuery
        What finds private ranges and bins.
    after : tuple of PlannedQuery
        What intervals need.
    """

    before: Fixed
    after: Fixed

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.before or self.after)

    def around(self, plan: Plan[Any]) -> Plan[Any]:
        """The solver's plan with this before and after it."""
        queries = tuple(item.query for item in self.before)
        words = [*(_in_words(query, queries) for query in queries), plan.mechanism, in_words(self.after)]
        mechanism = ", then ".join(text for text in words if text is not None)
        return replace(plan, ranges=self.before, afterwards=self.after, mechanism=mechanism)


def fixed(query: RangeQuery | HistogramQuery) -> PlannedQuery:
    """The query, to be asked once with the noise that it names."""
    return PlannedQuery(query, relative_noise=query.scale, fixed=True)


def what_is_left(guarantee: Guarantee, asked: Fixed) -> Guarantee:
    """About what a solver may count on when it plans beside these; the noise is then found for all together."""
    if not asked:
        return guarantee
    if guarantee.delta == 0.0:
        spent = sum(item.query.n_steps / item.relative_noise for item in asked)
        return Guarantee(guarantee.epsilon - spent, 0.0)
    spent = sum(item.query.n_steps / item.relative_noise**2 for item in asked)
    return Guarantee(gaussian_epsilon(math.sqrt(gaussian_mu(guarantee) ** 2 - spent), guarantee.delta), guarantee.delta)


def _in_words(query: Query, queries: tuple[Query, ...]) -> str | None:
    """What is found, said once for all ranges."""
    if isinstance(query, HistogramQuery):
        scale = query.scale * query.sensitivity
        return f"the bins of {', '.join(query.columns)} by noisy histograms ({query.distribution}, scale {scale:.3g})"
    ranges = [other for other in queries if isinstance(other, RangeQuery)]
    if not isinstance(query, RangeQuery) or query is not ranges[0]:
        return None
    counts, names = sum(other.n_steps for other in ranges), ", ".join(other.column for other in ranges)
    return f"the range of {names} by {counts} noisy counts ({query.distribution}, scale {query.scale:.3g})"
