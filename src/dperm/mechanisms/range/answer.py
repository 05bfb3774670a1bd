"""The answer to `RangeQuery`: the ends that a noisy bisection finds are released, and nothing else."""

import numpy as np

from dperm.kernel.answers import Array, Asked, answers
from dperm.kernel.counts import BeyondPart
from dperm.kernel.noise import Noise
from dperm.mechanisms.range import RangeQuery


@answers(RangeQuery)
def noisy_range(query: RangeQuery, asked: Asked) -> Array:
    """The lower and the upper end."""
    above, below = asked.sums.source._count(BeyondPart((query.column,), query.candidates))
    high, from_the_top = first_place(above, query, asked.noise), first_place(below[::-1], query, asked.noise)
    return np.array(_rising(query, len(query.candidates) - 1 - from_the_top, high))


def first_place(counts: Array, query: RangeQuery, noise: Noise) -> int:
    """The first place whose count is the wanted number of values or fewer, by bisection; counts fall."""
    first, last = 0, counts.size - 1
    for _ in range(query.steps_per_end):
        middle = (first + last) // 2
        if noise.release(counts[middle : middle + 1], query.sensitivity)[0] <= query.beyond:
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
