"""Arithmetic in which what comes out for a row depends on that row alone, bit for bit.

BLAS and einsum round a row according to its place and to how many rows there are: one row less would move the others.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]

# Of a block that is copied at once: it then stays in the processor's cache.
_ROWS, _COLUMNS = 4096, 32


def products(rows: Any, weights: Array) -> Array:
    """Every row times every vector of `weights`: an array of shape (rows, vectors).

    Parameters
    ----------
    rows : array or CSR matrix of shape (rows, columns)
        Any real numbers. What is not finite gives what is not finite, in its own row.
    weights : array of shape (vectors, columns)
        Numbers.
    """
    if sparse.issparse(rows):
        # scipy goes from row to row, and within one in the order of its entries.
        return np.asarray(rows @ np.ascontiguousarray(weights.T), dtype=np.float64)
    found = np.empty((rows.shape[0], len(weights)))
    with np.errstate(all="ignore"):  # a warning would tell of a value
        for first in range(0, len(found), _ROWS):
            total = np.zeros((len(weights), min(_ROWS, len(found) - first)))
            product = np.empty_like(total)
            for start in range(0, rows.shape[1], _COLUMNS):
                block = rows[first : first + _ROWS, start : start + _COLUMNS]
                # One rounded product and one rounded sum at a time, the columns in order.
                for place, column in enumerate(np.array(block.T, dtype=np.float64, order="C"), start):
                    total += np.multiply.outer(weights[:, place], column, out=product)
            found[first : first + _ROWS] = total.T
    return found


def sums(table: Array) -> Array:
    """The sum of every row, its columns added in order."""
    total = np.zeros(len(table))
    for column in table.T:
        total += column
    return total


def softmax(scores: Array) -> Array:
    """Probabilities of classes from their scores, a row each."""
    with np.errstate(all="ignore"):
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(odds / sums(odds)[:, None])
