"""Sums over rows that nothing is minimised with: clipped here, added up, and released with noise."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError, PlanExceededError
from dperm.kernel.adding import add_up
from dperm.kernel.noise import Noise, Randomness
from dperm.kernel.units import UnitRows, total_shares
from dperm.mechanisms.base import Mechanism
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.cell_counts import CellCounts
from dperm.mechanisms.held_out import HeldOutChoice
from dperm.mechanisms.plan import Planned
from dperm.mechanisms.setting import MOST_ROWS, summation_block
from dperm.mechanisms.sums_plan import CalibratedSums

Array = NDArray[np.float64]
Exact = TypeVar("Exact", bound=Callable[..., Array])

_EXACT: dict[type[Mechanism], Callable[..., Array]] = {}


def adds(kind: type[Mechanism]) -> Callable[[Exact], Exact]:
    """Register how the parts of a mechanism are bounded and added up.

    It gets the mechanism, one part, and whose its rows are: None where every row is protected by itself.
    """

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
    A sum is counted before it is computed. What every row adds is bounded here, whatever the parts hold, and multiplied
    by its weight in its unit after that. It leaves through `Noise` alone.
    """

    def __init__(self, calibrated: CalibratedSums, randomness: Randomness) -> None:
        self._calibrated, self._randomness = calibrated, randomness
        self._left = Counter(calibrated.plan.planned)

    def release(self, item: Planned, parts: Iterable[NDArray[Any]], units: UnitRows | None = None) -> Array:
        """The noisy sum over all rows.

        Parameters
        ----------
        item : Planned
            One of the plan's own.
        parts : iterable of arrays
            What rows add, one row of an array for each: vectors of a `BoundedSum`; of `CellCounts` the place of the
            row's cell in every histogram, −1 for none. It may be computed while it is read.
        units : UnitRows, optional
            Whose the rows of all parts are, in their order: needed where the plan protects a unit.
        """
        exact = self._exact(item, parts, units)
        return Noise(item, self._calibrated, self._randomness).release(exact, item.query.sensitivity)

    def choose(self, item: Planned, parts: Iterable[NDArray[Any]], units: UnitRows | None = None) -> int:
        """The place of the smallest of the sums after noise, and nothing else.

        Parameters
        ----------
        item, parts, units
            As of `release`, for a `HeldOutChoice`.
        """
        exact = self._exact(item, parts, units)
        return Noise(item, self._calibrated, self._randomness).choose(-exact, item.query.sensitivity)

    def _exact(self, item: Planned, parts: Iterable[NDArray[Any]], units: UnitRows | None) -> Array:
        """The sum over all rows, counted before it is computed."""
        if (item.query.setting.unit is None) != (units is None):
            raise PlanExceededError("the plan protects units and the rows have none, or the other way round.")
        if units is not None:
            units.check()
        if self._left[item] < 1:
            raise PlanExceededError("the plan does not contain this sum, or it was released already.")
        self._left[item] -= 1
        query: Any = item.query  # one that is registered has a size
        exact = (_EXACT[type(query)](query, block, whose) for block, whose in _blocks(parts, units))
        first = next(exact, None)
        return np.zeros(query.size) if first is None else add_up(chain([first], exact))


def _blocks(
    parts: Iterable[NDArray[Any]], units: UnitRows | None
) -> Iterator[tuple[NDArray[Any], UnitRows | None]]:  # fmt: skip
    """At most as many rows at once as the padding for rounding counts on, and whose they are."""
    done = 0
    for part in parts:
        table = np.asarray(part)
        if table.ndim != 2:
            raise InvalidParameterError("what rows add must be a table with one line per row.")
        for first in range(0, max(len(table), 1), MOST_ROWS):
            block = table[first : first + MOST_ROWS]
            yield block, None if units is None else units[done : done + len(block)]
            done += len(block)
    if units is not None and done != units.weights.size:
        raise PlanExceededError("there are units for more or fewer rows than were added up.")


@adds(CellCounts)
def counted(query: CellCounts, cells: NDArray[Any], units: UnitRows | None = None) -> Array:
    """A row counts at most once in every histogram, and nowhere with a cell that there is not.

    Whole numbers are added up, or whole multiples of a small share of a unit, so that the sums are exact.
    """
    if cells.shape[1] != len(query.sizes):
        raise InvalidParameterError(f"there are {len(query.sizes)} histograms, and cells of {cells.shape[1]}.")
    counts = []
    for places, size in zip(cells.T, query.sizes, strict=True):
        known = (places >= 0) & (places < size)
        there = places[known].astype(np.intp)
        if units is None:
            counts.append(np.bincount(there, minlength=size).astype(np.float64))
            continue
        shares = np.zeros(size, dtype=np.int64)
        np.add.at(shares, there, units.shares[known])
        counts.append(total_shares(shares))
    return np.concatenate(counts)


@adds(BoundedSum)
def added(query: BoundedSum, vectors: NDArray[Any], units: UnitRows | None = None) -> Array:
    """The sum of vectors that are clipped to their bound."""
    return _in_blocks(query.size, vectors, units, lambda block: clipped(query, block))


@adds(HeldOutChoice)
def added_losses(query: HeldOutChoice, losses: NDArray[Any], units: UnitRows | None = None) -> Array:
    """The sum of every candidate's losses, each clipped to [0, 1]; one that is no number counts as 1."""
    return _in_blocks(query.size, losses, units, lambda block: np.nan_to_num(np.clip(block, 0.0, 1.0), nan=1.0))


def _in_blocks(
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
