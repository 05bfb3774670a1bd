"""Sums over rows that nothing is minimised with: clipped here, added up, and released with noise."""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameter, PlanExceeded
from dperm.mechanisms.base import Mechanism
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.cell_counts import CellCounts
from dperm.mechanisms.held_out import HeldOutChoice
from dperm.mechanisms.plan import Planned
from dperm.mechanisms.setting import MOST_ROWS, summation_block
from dperm.mechanisms.sums_plan import CalibratedSums
from dperm.trusted.adding import add_up
from dperm.trusted.noise import Noise, Randomness

Array = NDArray[np.float64]
Exact = TypeVar("Exact", bound=Callable[..., Array])

_EXACT: dict[type[Mechanism], Callable[..., Array]] = {}


def adds(kind: type[Mechanism]) -> Callable[[Exact], Exact]:
    """Register how the parts of a mechanism are bounded and added up: it gets the mechanism and one part."""

    def register(function: Exact) -> Exact:
        _EXACT[kind] = function
        return function

    return register


class Tally:
    """Releases the sums of one calibrated plan, each once.

    Parameters
    ----------
    calibrated : CalibratedSums
        Which sums may be released, and their noise.
    randomness : Randomness
        Where noise is drawn.

    Guarantees
    ----------
    A sum is counted before it is computed. What every row adds is bounded here, whatever the parts hold, and leaves
    through `Noise` alone.
    """

    def __init__(self, calibrated: CalibratedSums, randomness: Randomness) -> None:
        self._calibrated, self._randomness = calibrated, randomness
        self._left = Counter(calibrated.plan.planned)

    def release(self, item: Planned, parts: Iterable[NDArray[Any]]) -> Array:
        """The noisy sum over all rows.

        Parameters
        ----------
        item : Planned
            One of the plan's own.
        parts : iterable of arrays
            What rows add, one row of an array for each: vectors of a `BoundedSum`; of `CellCounts` the place of the
            row's cell in every histogram, −1 for none. It may be computed while it is read.
        """
        exact = self._exact(item, parts)
        return Noise(item, self._calibrated, self._randomness).release(exact, item.query.sensitivity)

    def choose(self, item: Planned, parts: Iterable[NDArray[Any]]) -> int:
        """The place of the smallest of the sums after noise, and nothing else.

        Parameters
        ----------
        item, parts
            As of `release`, for a `HeldOutChoice`.
        """
        exact = self._exact(item, parts)
        return Noise(item, self._calibrated, self._randomness).choose(-exact, item.query.sensitivity)

    def _exact(self, item: Planned, parts: Iterable[NDArray[Any]]) -> Array:
        """The sum over all rows, counted before it is computed."""
        if self._left[item] < 1:
            raise PlanExceeded("the plan does not contain this sum, or it was released already.")
        self._left[item] -= 1
        query: Any = item.query  # one that is registered has a size
        exact = (_EXACT[type(query)](query, block) for part in parts for block in _blocks(part))
        first = next(exact, None)
        return np.zeros(query.size) if first is None else add_up(chain([first], exact))


def _blocks(part: NDArray[Any]) -> Iterable[NDArray[Any]]:
    """At most as many rows at once as the padding for rounding counts on."""
    table = np.asarray(part)
    if table.ndim != 2:
        raise InvalidParameter("what rows add must be a table with one line per row.")
    return (table[first : first + MOST_ROWS] for first in range(0, max(len(table), 1), MOST_ROWS))


@adds(CellCounts)
def counted(query: CellCounts, cells: NDArray[Any]) -> Array:
    """Whole numbers: a row counts at most once in every histogram, and nowhere with a cell that there is not."""
    if cells.shape[1] != len(query.sizes):
        raise InvalidParameter(f"there are {len(query.sizes)} histograms, and cells of {cells.shape[1]}.")
    counts = []
    for places, size in zip(cells.T, query.sizes, strict=True):
        there = places[(places >= 0) & (places < size)].astype(np.intp)
        counts.append(np.bincount(there, minlength=size).astype(np.float64))
    return np.concatenate(counts)


@adds(BoundedSum)
def added(query: BoundedSum, vectors: NDArray[Any]) -> Array:
    """The sum of vectors that are clipped to their bound."""
    return _in_blocks(query.size, vectors, lambda block: clipped(query, block))


@adds(HeldOutChoice)
def added_losses(query: HeldOutChoice, losses: NDArray[Any]) -> Array:
    """The sum of every candidate's losses, each clipped to [0, 1]; one that is no number counts as 1."""
    return _in_blocks(query.size, losses, lambda block: np.nan_to_num(np.clip(block, 0.0, 1.0), nan=1.0))


def _in_blocks(size: int, vectors: NDArray[Any], bounded: Callable[[NDArray[Any]], Array]) -> Array:
    """The sum of bounded vectors, in blocks, so that no entry goes through more additions than the padding counts."""
    if vectors.shape[1] != size:
        raise InvalidParameter(f"a row adds {size} numbers here, got {vectors.shape[1]}.")
    at_once = summation_block(max(len(vectors), 1))
    total = np.zeros(size)
    for first in range(0, len(vectors), at_once):
        total += bounded(vectors[first : first + at_once]).sum(axis=0)
    return total


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
