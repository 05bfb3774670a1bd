"""Sensitive rows through a step that learns nothing from them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import get_tags

from dperm.errors import InvalidParameter
from dperm.trusted.block import as_table

Array = NDArray[np.float64]


def through(step: Any, X: Any, width: int) -> Any:
    """The rows after a public step. No value makes it fail: a row that it cannot take comes out as missing.

    Parameters
    ----------
    step : transformer
        Fitted on made-up rows; it treats every row by itself.
    X : table, or sequence of texts
        Rows.
    width : int
        How many columns come out.
    """
    tags = get_tags(step)
    numbers_only = tags.input_tags.two_d_array and not (tags.no_validation or tags.input_tags.allow_nan)
    with np.errstate(all="ignore"):  # what numpy says of a value is a fact about the rows
        table = _numbers(X) if numbers_only else None
        if table is None:
            return _transformed(step, X, width)
        missing = np.logical_not(np.isfinite(table)).any(axis=1)
        table[missing] = 0.0
        out = _transformed(step, table if not hasattr(X, "columns") else type(X)(table, columns=X.columns), width)
        return out if not missing.any() else np.where(np.atleast_1d(missing)[:, None], np.nan, dense(out))


def _numbers(X: Any) -> Array | None:
    """A copy of a dense table of numbers; None for any other, of which the step takes what it can."""
    if sparse.issparse(X):
        return None
    try:
        return np.array(as_table(X), dtype=np.float64)
    except (InvalidParameter, TypeError, ValueError):
        return None


def _transformed(step: Any, X: Any, width: int) -> Any:
    """All rows at once, or where that fails in halves, down to the row that fails."""
    try:
        return step.transform(X)
    except Exception:  # whatever a value makes a step raise
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if n_rows <= 1:
            return np.full((n_rows, width), np.nan)
        half, rows = n_rows // 2, getattr(X, "iloc", X)
        return np.vstack([dense(_transformed(step, part, width)) for part in (rows[:half], rows[half:])])


def dense(table: Any) -> Array:
    """Any table as an array of floats."""
    return np.atleast_2d(np.asarray(table.toarray() if sparse.issparse(table) else table, dtype=np.float64))
