"""What rows add to the sums that preprocessing is made of: moments and cells of columns within declared bounds.

Every entry is bounded by itself: infinite ones count at the end of the range, missing ones as each function says.
Nothing is raised for a value.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.block import as_table
from dperm.rows.table import NumberColumns

Array = NDArray[np.float64]

# So many numbers at once: what is computed from them takes a few times as much memory.
_AT_ONCE = 2**20


def rows_of(X: Any) -> Iterator[Array]:
    """The rows of a table as floats, a piece after the other.

    Parameters
    ----------
    X : array of shape (rows, columns), or NumberColumns
        Dense.
    """
    step = max(1, _AT_ONCE // max(1, X.shape[1]))
    if isinstance(X, NumberColumns):
        return X.blocks(step)
    table = as_table(X)
    return (table[first : first + step].astype(np.float64) for first in range(0, len(table), step))


def moments_of(X: Any, low: Array, high: Array) -> Iterator[Array]:
    """(u, u² − 1) of every column, u the place in its range from −1 to 1; a missing value is in the middle, at (0, −1).

    Its norm is at most 1, so that of a whole row at most √(columns): docs/proofs/preprocessing.md.
    """
    middle, half = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
    for rows in rows_of(X):
        places = (np.clip(rows, low, high) - middle) / half
        places[np.isnan(places)] = 0.0
        yield np.hstack([places, places * places - 1.0])


def cells_of(X: Any, edges: tuple[Array, ...]) -> Iterator[NDArray[np.intp]]:
    """The cell of every entry, by the inner edges of its column's cells; a missing one counts nowhere, at −1."""
    for rows in rows_of(X):
        cells = [np.searchsorted(inner, column, side="right") for inner, column in zip(edges, rows.T, strict=True)]
        yield np.where(np.isnan(rows), -1, np.column_stack(cells))
