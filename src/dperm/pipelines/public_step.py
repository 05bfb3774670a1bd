"""Sensitive rows through a step that learns nothing from them."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.kernel.block import as_table
from dperm.rows.cells import number_table

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

    tags = get_tags(step)
    numbers_only = tags.input_tags.two_d_array and not (tags.no_validation or tags.input_tags.allow_nan)
    with quietly():
        table = _numbers(X) if numbers_only else None
        if table is None:
            out = _transformed(step, X, like)
        else:
            missing = np.logical_not(np.isfinite(table).all(axis=1))
            filled = np.where(missing[:, np.newaxis], 0.0, table)
            named = filled if not hasattr(X, "columns") else type(X)(filled, columns=X.columns)
            out = _without(missing, _transformed(step, named, like))
    return type(like)(out, columns=like.columns) if hasattr(like, "iloc") else out


def _without(missing: NDArray[np.bool_], out: Any) -> Any:
    """The same table with some rows missing: NaN everywhere; in a sparse one in the first column, which is enough."""
    if not sparse.issparse(out):
        return np.where(missing[:, np.newaxis], np.nan, out)
    (places,) = missing.nonzero()
    marks = sparse.csr_matrix((np.full(places.size, np.nan), (places, np.zeros_like(places))), shape=out.shape)
    return sparse.diags(np.where(missing, 0.0, 1.0), format="csr") @ out + marks


def _numbers(X: Any) -> Array | None:
    """A copy of a dense table of numbers; None for any other, of which the step takes what it can.

    Types decide, not values: else one text would change what becomes of other rows.
    """
    kinds = X.dtypes if hasattr(X, "dtypes") else [getattr(X, "dtype", None)]
    if sparse.issparse(X) or any(getattr(kind, "kind", "O") not in "fiub" for kind in kinds):
        return None
    return np.array(as_table(number_table(X, majority=False)), dtype=np.float64)


def _transformed(step: Any, X: Any, like: Any) -> Any:
    """All rows at once, or where that fails in halves, down to the row that fails.

    A step that gives back another number of rows or columns counts as failing: an exception would tell of a value.
    Sparse or dense as the made-up rows are, and floats: what values there are must not decide it.
    """
    n_rows, shape = rows_in(X), (rows_in(X), like.shape[1])
    try:
        out = step.transform(X)
        out = dense(out) if not (sparse.issparse(like) and sparse.issparse(out)) else out
        if out.shape == shape:
            return sparse.csr_matrix(out, dtype=np.float64) if sparse.issparse(like) else out
    except Exception:  # whatever a value makes a step raise
        pass
    if n_rows > 1:
        half, rows = n_rows // 2, getattr(X, "iloc", X)
        parts = [_transformed(step, part, like) for part in (rows[:half], rows[half:])]
        return sparse.vstack(parts, format="csr") if sparse.issparse(like) else np.vstack(parts)
    return _without(np.ones(n_rows, dtype=bool), sparse.csr_matrix(shape) if sparse.issparse(like) else np.zeros(shape))


def rows_in(X: Any) -> int:
    """How many rows a table or a list of texts has."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def dense(table: Any) -> Array:
    """Any table as an array of floats."""
    return np.atleast_2d(np.asarray(table.toarray() if sparse.issparse(table) else table, dtype=np.float64))
