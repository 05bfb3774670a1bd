"""Sensitive rows through a step that learns nothing from them."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.errors import InvalidParameter
from dperm.trusted.block import as_table

Array = NDArray[np.float64]


@contextmanager
def quietly() -> Iterator[None]:
    """Without warnings: what numpy or a step says of a value is a fact about the rows."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def through(step: Any, X: Any, like: Any) -> Any:
    """The rows after a public step. No value makes it fail: a row that it cannot take comes out as missing.

    Parameters
    ----------
    step : transformer
        Fitted on made-up rows; it treats every row by itself.
    X : table, or sequence of texts
        Rows.
    like : table
        The made-up rows after the step: what comes out has their form, names and width, whatever the values are.
    """
    from sklearn.utils import get_tags  # not every user of dperm needs it

    tags, width = get_tags(step), like.shape[1]
    numbers_only = tags.input_tags.two_d_array and not (tags.no_validation or tags.input_tags.allow_nan)
    with quietly():
        table = _numbers(X) if numbers_only else None
        if table is None:
            return _in_form(_transformed(step, X, width), like)
        missing = ~np.isfinite(table).all(axis=1, keepdims=True)
        filled = np.where(missing, 0.0, table)
        named = filled if not hasattr(X, "columns") else type(X)(filled, columns=X.columns)
        return _in_form(np.where(missing, np.nan, dense(_transformed(step, named, width))), like)


def _in_form(out: Any, like: Any) -> Any:
    """Sparse, named or neither, as the made-up rows are: what values there are must not decide it."""
    if sparse.issparse(like):
        return out if sparse.issparse(out) else sparse.csr_matrix(out)
    if hasattr(like, "columns"):
        return out if hasattr(out, "columns") else type(like)(dense(out), columns=like.columns)
    return dense(out)


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
