"""Compiled measurements of rows: their norms, and whether sparse ones are well formed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.kernel.coded import CodedRows
from dperm.kernel.compiling import compile_exact, compile_kernel

Array = NDArray[np.float64]

# A larger entry drops its row: beyond it a product with a coefficient could overflow.
LARGEST_ENTRY = 1e150


def is_canonical(table: Any) -> bool:
    """Whether every row of a CSR matrix names its columns in strictly increasing order.

    A column named twice would add up in the gradient beyond the row's norm, so the matrix's own flag is not trusted.
    """
    if table.indptr.shape[0] != table.shape[0] + 1 or table.indices.shape[0] < table.data.shape[0]:
        return False
    return bool(_csr_is_canonical(table.indices, table.indptr, table.shape[1], table.data.shape[0]))


def row_norms(table: Any) -> tuple[Array, Array]:
    """l2 norm and largest entry of every row; NaN where an entry is not finite or larger than `LARGEST_ENTRY`."""
    if isinstance(table, CodedRows):
        return table.norms()
    norms, entries = np.empty(table.shape[0]), np.empty(table.shape[0])
    if sparse.issparse(table):
        _csr_norms(table.data, table.indptr, norms, entries)
    else:
        _dense_norms(table, norms, entries)
    return norms, entries


@compile_exact
def _dense_norms(X, norms, entries):  # type: ignore[no-untyped-def]
    # Four at a time and in this order, however the table is stored: a norm depends on its row alone, bit for bit.
    whole = X.shape[1] - X.shape[1] % 4
    for i in range(X.shape[0]):
        first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for j in range(0, whole, 4):
            first += np.float64(X[i, j]) * np.float64(X[i, j])
            second += np.float64(X[i, j + 1]) * np.float64(X[i, j + 1])
            third += np.float64(X[i, j + 2]) * np.float64(X[i, j + 2])
            fourth += np.float64(X[i, j + 3]) * np.float64(X[i, j + 3])
            a, b = _larger(a, X[i, j]), _larger(b, X[i, j + 1])
            c, d = _larger(c, X[i, j + 2]), _larger(d, X[i, j + 3])
        for j in range(whole, X.shape[1]):
            first += np.float64(X[i, j]) * np.float64(X[i, j])
            a = _larger(a, X[i, j])
        largest = max(max(a, b), max(c, d))
        norms[i] = np.sqrt((first + second) + (third + fourth)) if largest <= LARGEST_ENTRY else np.nan
        entries[i] = largest if largest <= LARGEST_ENTRY else np.nan


@compile_exact
def _larger(largest, value):  # type: ignore[no-untyped-def]
    # Written so that a NaN makes the result infinite, and that it stays so.
    size = abs(np.float64(value))
    if not size <= LARGEST_ENTRY:
        return np.inf
    return size if size > largest else largest


@compile_kernel
def _csr_is_canonical(indices, indptr, n_columns, n_stored):  # type: ignore[no-untyped-def]
    for i in range(indptr.shape[0] - 1):
        if indptr[i] < 0 or indptr[i + 1] < indptr[i] or indptr[i + 1] > n_stored:
            return False
        previous = -1
        for k in range(indptr[i], indptr[i + 1]):
            if indices[k] <= previous or indices[k] >= n_columns:
                return False
            previous = indices[k]
    return True


@compile_kernel
def _csr_norms(data, indptr, norms, entries):  # type: ignore[no-untyped-def]
    for i in range(norms.shape[0]):
        total, largest = 0.0, 0.0
        for k in range(indptr[i], indptr[i + 1]):
            entry = np.float64(data[k])
            total += entry * entry
            largest = max(largest, abs(entry)) if abs(entry) <= LARGEST_ENTRY else np.inf
        norms[i] = np.sqrt(total) if largest <= LARGEST_ENTRY else np.nan
        entries[i] = largest if largest <= LARGEST_ENTRY else np.nan
