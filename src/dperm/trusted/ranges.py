"""Private ranges: the ends that a noisy bisection finds leave, and nothing else."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.mechanisms.range import RangeQuery
from dperm.schema import Schema
from dperm.trusted.noise import Randomness
from dperm.trusted.sources.columns import Columns, as_numbers
from dperm.trusted.sources.encoding import target_column

Array = NDArray[np.float64]


def release_ranges(
    table: Any, y: Any, schema: Schema, queries: tuple[RangeQuery, ...], randomness: Randomness, *, noisy: bool
) -> Schema:
    """The schema with the ranges that its queries paid for.

    Parameters
    ----------
    table, y : table and target, or None where the table holds the target
        The sensitive values.
    schema : Schema
        Its private ranges are those of the queries.
    queries : tuple of RangeQuery
        One a private range.
    randomness : Randomness
        Where the noise comes from.
    noisy : bool
        False is the explicit way to run without noise or privacy.
    """
    columns = Columns(table)
    ranges = {}
    for query in queries:
        is_target = query.column == schema.target.column
        column = target_column(table, y, schema) if is_target else columns.arrow(query.column)
        above, below = exact_counts(as_numbers(column, query.column, schema.missing), query)
        source = randomness if noisy else None
        high, from_the_top = _first(above, query, source), _first(below[::-1], query, source)
        low = len(query.candidates) - 1 - from_the_top
        ranges[query.column] = _rising(query, low, high)
    return schema.with_ranges(ranges)


def exact_counts(numbers: Array, query: RangeQuery) -> tuple[Array, Array]:
    """How many values lie above and below every candidate, before noise; a missing value counts for neither."""
    known, candidates = np.sort(numbers[~np.isnan(numbers)]), np.asarray(query.candidates)
    above = known.size - np.searchsorted(known, candidates, side="right")
    below = np.searchsorted(known, candidates, side="left")
    return above.astype(np.float64), below.astype(np.float64)


def _first(counts: Array, query: RangeQuery, randomness: Randomness | None) -> int:
    """The first place whose count is the wanted number of values or fewer, by bisection; counts fall."""
    first, last = 0, counts.size - 1
    for _ in range(query.n_steps):
        middle = (first + last) // 2
        noise = 0.0 if randomness is None else float(randomness.unit_noise(query.distribution, (1,))[0])
        if counts[middle] + query.scale * noise <= query.beyond:
            last = middle
        else:
            first = min(middle + 1, last)
    return last


def _rising(query: RangeQuery, low: int, high: int) -> tuple[float, float]:
    """The ends in order, and apart: of a column that hardly varies both may be the same candidate."""
    low, high = min(low, high), max(low, high)
    if low == high:
        low, high = max(low - 1, 0), min(high + 1, len(query.candidates) - 1)
    return query.candidates[low], query.candidates[high]
