"""The noise of private ranges and bins, fixed before a plan is calibrated."""

import math

from dperm.accounting.curve import gaussian_mu
from dperm.mechanisms import HistogramQuery, RangeQuery
from dperm.mechanisms.range import search_steps
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import SMALLEST_EPSILON, Adjacency, Guarantee
from dperm.schema import Schema

# The share of the fit's precision (of μ², or of a pure ε) that all histograms together cost: the solver's noise grows
# by 2 %, and quantiles of a few thousand rows are known to a few per cent.
HISTOGRAM_SHARE = 0.04


def range_queries(schema: Schema, setting: Setting, guarantee: Guarantee) -> tuple[RangeQuery, ...]:
    """What a fit must ask for before it can encode a row, with equal noise on every count.

    All of it alone would keep (`range_share`·ε, δ).
    """
    private = schema.private_ranges
    n_counts = sum(2 * search_steps(column.candidates) for column in private.values())
    share = Guarantee(max(schema.range_share * guarantee.epsilon, SMALLEST_EPSILON), guarantee.delta)
    if guarantee.delta == 0.0:
        scale, distribution = n_counts / share.epsilon, "Laplace"
    else:
        scale, distribution = math.sqrt(n_counts) / gaussian_mu(share), "Gaussian"
    return tuple(
        RangeQuery(setting, name, column.candidates, scale * (1.0 + 1e-11), distribution)
        for name, column in private.items()
    )


def histogram_scale(guarantee: Guarantee) -> float:
    """The noise multiplier with which all histograms together cost their share of a guarantee."""
    if guarantee.delta == 0.0:
        return 1.0 / (HISTOGRAM_SHARE * guarantee.epsilon) * (1.0 + 1e-11)
    return 1.0 / (math.sqrt(HISTOGRAM_SHARE) * gaussian_mu(guarantee)) * (1.0 + 1e-11)


def histogram_query(columns: tuple[str, ...], setting: Setting, guarantee: Guarantee) -> HistogramQuery:
    """The query that a fit asks for its bins."""
    distribution = "Laplace" if guarantee.delta == 0.0 else "Gaussian"
    return HistogramQuery(setting, columns, histogram_scale(guarantee), distribution)


def count_deviation(n_columns: int, adjacency: Adjacency, guarantee: Guarantee) -> float:
    """Standard deviation of the noise on one count of this many columns."""
    moved = n_columns * adjacency.records_moved
    if guarantee.delta == 0.0:
        return math.sqrt(2.0) * moved * histogram_scale(guarantee)
    return math.sqrt(moved) * histogram_scale(guarantee)
