"""How numbers become entries of a row: decided from public numbers, when a fit is planned."""

import math
from dataclasses import replace

from dperm.accounting.curve import gaussian_mu
from dperm.plan.ranges import count_deviation
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.schema import Schema
from dperm.schema.number import Number

# With s the precision below, the noise of one coefficient that rests on all rows is as 1/s, and K bins a column cost
# about 2·K²/s² in mean log loss: each coefficient rests on 1/K of the rows. What K bins cannot express falls about as
# 1/K², up to a factor that no public number tells. So the best K grows as √s; the factor is that of effects which bend
# by about one unit of log odds.
_BINS_PER_ROOT = 0.3
_FEWEST_BINS, _MOST_BINS = 4, 32
# Below this the fewest bins cost 2·4²/20² = 0.08 a column, more than a tenth of the log loss of knowing nothing, ln 2.
_LEAST_PRECISION = 20.0
# Quantiles are looked for where a bin holds this many times the noise of one count.
_BIN_OVER_NOISE = 4.0


def decide(
    schema: Schema, n: int, guarantee: Guarantee, adjacency: Adjacency, *, edges: bool = True, slopes: bool = False
) -> Schema:
    """The schema with every number's encoding decided.

    Parameters
    ----------
    schema : Schema
        What was declared.
    n : int
        The public number of rows.
    guarantee : Guarantee
        Of the fit.
    adjacency : Adjacency
        Of the fit.
    edges : bool
        Whether the fit may find where bins are cut.
    slopes : bool
        Whether a number that is left to "auto" is to have one slope, which has an interval; neighbouring knots are hard
        to tell apart.
    """
    n_bins = None if slopes else bins_for(schema, n, guarantee, adjacency)
    asked = sum(column.encode != "linear" for column in schema.numbers.values())
    few = max(n_bins or 0, _FEWEST_BINS)
    well_known = edges and n / few >= _BIN_OVER_NOISE * count_deviation(max(asked, 1), adjacency, guarantee)
    decided = {
        name: _decide_column(column, column.encode or schema.encode, n_bins, "private" if well_known else "even")
        for name, column in schema.numbers.items()
    }
    return replace(schema, columns={**schema.columns, **decided})


def bins_for(schema: Schema, n: int, guarantee: Guarantee, adjacency: Adjacency) -> int | None:
    """How many bins a number is cut into, None where it is better left linear."""
    # A Gaussian release of one mean gradient has a noise of 1/s a coordinate.
    mu = guarantee.epsilon / 2.0 if guarantee.delta == 0.0 else gaussian_mu(guarantee)
    precision = n * mu / (adjacency.records_moved * math.sqrt(schema.largest_norm**2 + 1.0))
    if precision < _LEAST_PRECISION:
        return None
    return min(max(math.floor(_BINS_PER_ROOT * math.sqrt(precision)), _FEWEST_BINS), _MOST_BINS)


def _decide_column(column: Number, encode: str, n_bins: int | None, edges: str) -> Number:
    if encode == "auto":
        wanted = column.bins is not None or column.n_bins is not None
        encode = "bins" if wanted or n_bins is not None else "linear"
    if encode == "linear":
        return replace(column, encode="linear", bins=None, n_bins=None)
    return replace(column, encode="bins", bins=column.bins or edges, n_bins=column.n_bins or n_bins or _FEWEST_BINS)
