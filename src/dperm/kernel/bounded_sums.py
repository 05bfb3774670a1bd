"""Exact sums over rows that nothing is minimised with: what every row adds is clipped here, and added up."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError, PlanExceededError
from dperm.kernel.adding import add_up
from dperm.kernel.answers import answer_to
from dperm.kernel.units import UnitRows
from dperm.mechanisms.setting import MOST_ROWS

Array = NDArray[np.float64]


def exact_sum(query: Any, parts: Iterable[NDArray[Any]], units: UnitRows | None) -> Array:
    """The sum over all rows of what each adds, bounded here whatever the parts hold and then weighted in its unit.

    Parameters
    ----------
    query : mechanism
        One whose answer adds up bounded parts.
    parts : iterable of arrays
        What rows add, one row of an array for each: vectors of a `BoundedSum`; of `CellCounts` the index of the row's
        cell in every histogram, −1 for none. It may be computed while it is read.
    units : UnitRows or None
        Whose the rows of all parts are, in their order: needed where the plan protects a unit.
    """
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
