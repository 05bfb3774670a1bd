"""The answer to `CellCounts`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError
from dperm.kernel.answers import Array, answers
from dperm.kernel.units import UnitRows, total_shares
from dperm.mechanisms.cell_counts import CellCounts


@answers(CellCounts)
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
