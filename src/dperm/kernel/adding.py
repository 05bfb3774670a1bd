"""Sums of many parts with few additions on the way of each, and what a row adds to them at most."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError
from dperm.kernel.units import UnitRows
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.setting import summation_block

Array = NDArray[np.float64]

Sum = TypeVar("Sum")

# Parts that are added up one after another.
_TOGETHER = 16


def add_up(parts: Iterable[Sum]) -> Sum:
    """A sum of a few parts after one another, and of such sums by pairs: few parts wait, and few are large.

    No part goes through more than 16 + log₂(number of parts) additions, so the padding of sensitivities for rounding
    (`summation_slack`) covers any number of blocks.
    """
    waiting: list[tuple[int, Any]] = []
    total: Any = None
    n_together = 0
    for part in parts:
        total, n_together = part if n_together == 0 else total + part, n_together + 1
        if n_together == _TOGETHER:
            level, n_together = 0, 0
            while waiting and waiting[-1][0] == level:
                total, level = waiting.pop()[1] + total, level + 1
            waiting.append((level, total))
            total = None
    if n_together == 0:
        _, total = waiting.pop()
    while waiting:
        total = waiting.pop()[1] + total
    found: Sum = total
    return found


def in_blocks(
    size: int, vectors: NDArray[Any], units: UnitRows | None, bounded: Callable[[NDArray[Any]], Array]
) -> Array:  # fmt: skip
    """The sum of bounded vectors, in blocks, so that no entry goes through more additions than the padding counts."""
    if vectors.shape[1] != size:
        raise InvalidParameterError(f"a row adds {size} numbers here, got {vectors.shape[1]}.")
    at_once = summation_block(max(len(vectors), 1))
    total = np.zeros(size)
    for first in range(0, len(vectors), at_once):
        chosen = slice(first, first + at_once)
        total += weighted(bounded(vectors[chosen]), units, chosen).sum(axis=0)
    return total


def weighted(bounded: Array, units: UnitRows | None, chosen: slice) -> Array:
    """What rows add, with their weights in their units: those of one unit are no longer than one row all together."""
    return bounded if units is None else bounded * units.weights[chosen, None]


def clipped(query: BoundedSum, vectors: NDArray[Any]) -> Array:
    """What rows add: 0 for one that is not finite, and never longer than the bound."""
    values = np.array(vectors, dtype=np.float64)
    values[~np.isfinite(values).all(axis=1)] = 0.0
    if query.nonnegative:
        np.maximum(values, 0.0, out=values)
    # Scaled by the largest entry first: squares of large numbers overflow, and of small ones vanish.
    largest = np.abs(values).max(axis=1, initial=0.0)
    units = values / np.where(largest > 0.0, largest, 1.0)[:, None]
    with np.errstate(over="ignore"):  # infinite is above every bound
        norms = np.linalg.norm(units, ord=query.order, axis=1) * largest
    limit = query.bound * (1.0 - 8.0 * query.size * 2.0**-53)  # a few ulp below, for rounding here
    long = norms > limit
    values[long] = units[long] * (limit / np.linalg.norm(units[long], ord=query.order, axis=1))[:, None]
    return values
