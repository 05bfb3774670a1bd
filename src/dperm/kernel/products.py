"""Sums of products of rows: arrays are multiplied by BLAS, sparse and coded rows by native code, a row at a time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.kernel import native
from dperm.kernel.coded import as_narrow_array

Array = NDArray[np.float64]

# Rows that are taken at once: those of an array are held a second time.
ROWS_AT_ONCE = 16_384


def counted_rows(table: Any, chosen: slice, weight: Array) -> tuple[Any, NDArray[np.intp]]:
    """Some rows that count, as they are multiplied, and their numbers; those of weight 0 may hold what is no number."""
    numbers = np.arange(*chosen.indices(len(weight)))
    counted = weight[numbers] != 0.0
    part = as_narrow_array(table[chosen])
    if not counted.all():
        part = part[counted]
    # Sums in one order, whether or not a row was left out.
    return np.ascontiguousarray(part) if isinstance(part, np.ndarray) else part, numbers[counted]


def product_sum(rows: Any, factors: Array, at_once: int) -> Array:
    """Σ factor_i x_i x_iᵀ, no factor below 0, of so many rows at a time."""
    width = rows.shape[1]
    total = np.zeros((width, width))
    if isinstance(rows, np.ndarray):
        roots = np.sqrt(factors)[:, None]
        for chosen in _slices(len(rows), at_once):
            weighted = roots[chosen] * rows[chosen]
            total += weighted.T @ weighted
        return total
    if width == 1:
        return square_sums(rows, factors[:, None])
    native.add_products(native.Rows(rows), factors, at_once, total)
    for j in range(width):  # every product is at one of its two places
        total[j, j + 1 :] += total[j + 1 :, j]
        total[j + 1 :, j] = total[j, j + 1 :]
    return total


def square_sums(rows: Any, factors: Array) -> Array:
    """Σ factor_i x_ij² for every column j and every factor of a row: of shape (factors, columns)."""
    if isinstance(rows, np.ndarray):
        return np.asarray(factors.T @ np.square(rows, dtype=np.float64))
    totals, table = np.zeros((factors.shape[1], rows.shape[1])), native.Rows(rows)
    for k, total in enumerate(totals):
        native.add_products(table, np.ascontiguousarray(factors[:, k]), len(factors) or 1, total[None])
    return totals


def weighted_sums(rows: Any, factors: Array, at_once: int) -> Array:
    """Σ factor_ik x_i for every factor k of a row, of so many rows at a time: of shape (columns, factors)."""
    totals = np.zeros((factors.shape[1], rows.shape[1]))
    if isinstance(rows, np.ndarray):
        for chosen in _slices(len(rows), at_once):
            totals += factors[chosen].T @ rows[chosen]
    else:
        native.add_rows(native.Rows(rows), np.ascontiguousarray(factors), None, 0, len(factors), at_once, totals)
    return totals.T


def margins_of(rows: Any, points: Array) -> Array:
    """⟨w_k, x⟩ of every row and point, of shape (rows, points); each depends on its row alone, bit for bit."""
    return native.margins(native.Rows(rows), np.ascontiguousarray(points, dtype=np.float64), None, 0, rows.shape[0])


def _slices(n: int, at_once: int) -> list[slice]:
    return [slice(first, first + at_once) for first in range(0, n, at_once)]
