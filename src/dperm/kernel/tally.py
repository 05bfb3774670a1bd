"""Sums over rows that nothing is minimised with: clipped here, added up, and released with noise."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError, PlanExceededError
from dperm.kernel.adding import add_up
from dperm.kernel.answers import answer_to
from dperm.kernel.noise import Noise, Randomness
from dperm.kernel.units import UnitRows
from dperm.mechanisms.plan import Planned
from dperm.mechanisms.setting import MOST_ROWS
from dperm.mechanisms.sums_plan import CalibratedSums

Array = NDArray[np.float64]


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
            raise PlanExceededError("the plan and the rows must both have a privacy unit, or neither.")
        if self._left[item] < 1:
            raise PlanExceededError("sum is not in the plan, or was already released.")
        self._left[item] -= 1
        query: Any = item.query  # one that is a sum has a size
        answer = answer_to(query)
        exact = (answer(query, block, whose) for block, whose in _blocks(parts, units))
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
            raise InvalidParameterError("contributions must have one line per row.")
        for first in range(0, max(len(table), 1), MOST_ROWS):
            block = table[first : first + MOST_ROWS]
            yield block, None if units is None else units[done : done + len(block)]
            done += len(block)
    if units is not None and done != units.weights.size:
        raise PlanExceededError("the number of unit ids does not match the number of rows.")
