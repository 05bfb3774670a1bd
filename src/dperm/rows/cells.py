"""Tables without a schema as numbers, cell by cell: no cell raises, speaks, or changes what becomes of another.

numpy and scikit-learn read a table as a whole: one text makes every number of a list a text, one complex number makes
all of them complex, and one object can raise whatever it likes. Here types and shapes decide, which are public, and a
cell that is not a number is a missing value.
"""

import math
import numbers
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.errors import InvalidParameterError

Array = NDArray[np.float64]

# What a cell may be to be read as a number: a text that is none is caught. Complex numbers and arrays would be cast.
_READABLE = (numbers.Real, np.bool_, Decimal, str, bytes)
_NO_NUMBERS = "the table must be a 2-d array of real numbers; encode text first."


def number_or_nan(value: Any) -> float:
    """A value as a number; NaN if it is none, whatever it is."""
    try:
        return float(value) if isinstance(value, _READABLE) else math.nan
    except Exception:  # whatever an object raises that is not a number
        return math.nan


def is_nothing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, pandas' two kinds of nothing, an empty text."""
    try:
        return (
            value is None
            or (isinstance(value, numbers.Real) and value != value)
            or type(value).__name__ in ("NAType", "NaTType")
            or (isinstance(value, str | bytes) and not value.strip())
        )
    except Exception:
        return False


def as_rows(X: Any, *, majority: bool) -> Any:
    """A list of rows as an array of objects; anything else as it is.

    Rows have the length that most of them have, which counts as public. A row of another length, like a line of a CSV
    file with another number of fields, holds no value. Where one unit may have most rows there is no `majority`, and a
    list is refused.
    """
    if not isinstance(X, list | tuple):
        return X
    if not majority:
        raise InvalidParameterError(
            "with a unit, rows must be an array or a data frame, whose shape is public; got a list."
        )
    rows = [_cells(row) for row in X]
    (width, _), *_ = Counter(None if row is None else len(row) for row in rows).most_common(1) or [(None, 0)]
    if width is None:
        return np.fromiter(X, dtype=object, count=len(X))
    nothing = [math.nan] * width
    flat = [cell for row in rows for cell in (row if row is not None and len(row) == width else nothing)]
    return np.fromiter(flat, dtype=object, count=len(flat)).reshape(len(rows), width)


def _cells(row: Any) -> list[Any] | None:
    """The cells of a row, None for what is not a row."""
    try:
        return None if isinstance(row, str | bytes | dict | set) else list(row)
    except Exception:
        return None


def number_table(X: Any, *, majority: bool) -> Any:
    """A table as numbers, NaN for a cell that is none; as it is where its type says that it holds numbers only.

    Parameters
    ----------
    X : array, sparse matrix, data frame or list of rows
        Data frames stay data frames, with their names.
    majority : bool
        Whether a column of which most cells are no numbers raises, which counts as public. Where one unit may have most
        rows nothing is decided.
    """
    X = as_rows(X, majority=majority)
    if sparse.issparse(X):
        return X
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(object) if X.dtype.kind in "OUS" else X.astype(np.float64), np.nan)
    if hasattr(X, "columns") and len(getattr(X, "shape", ())) == 2:
        return _numbers_of_frame(X, majority)
    kind = getattr(getattr(X, "dtype", None), "kind", "O")
    if kind not in "OUS":
        return X
    table = _array(X)
    if table.dtype.kind not in "OUS" or table.ndim != 2:
        return table
    return np.column_stack([_numbers(table[:, place].tolist(), majority) for place in range(table.shape[1])])


def _array(X: Any) -> NDArray[Any]:
    try:
        return np.atleast_1d(np.asarray(X))
    except Exception:  # whatever it raises, it could show a value
        pass
    raise InvalidParameterError(f"a {type(X).__name__} cannot be read as a table: pass an array or a data frame.")


def _numbers_of_frame(X: Any, majority: bool) -> Any:
    """A pandas, polars or Arrow table as one of numbers with the same names."""
    if hasattr(X, "column_names"):  # Arrow
        X = X.to_pandas()
    if not hasattr(X, "iloc"):
        if not hasattr(X, "get_columns"):  # neither pandas nor polars
            return X
        if all(kind.is_numeric() or str(kind) == "Boolean" for kind in X.dtypes):
            return X
        columns = [_polars_numbers(column, majority) for column in X.get_columns()]
        return type(X)(dict(zip(X.columns, columns, strict=True)))
    if all(isinstance(kind, np.dtype) and kind.kind in "fiub" for kind in X.dtypes):
        return X
    found = [_pandas_numbers(X.iloc[:, place], majority) for place in range(X.shape[1])]
    return type(X)(np.column_stack(found) if found else np.empty(X.shape), columns=X.columns, index=X.index)


def _pandas_numbers(column: Any, majority: bool) -> Array:
    kind = getattr(column.dtype, "kind", "O")
    if kind in "fiub":  # of numpy, or pandas' own with missing values
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind in "cMmV":
        raise InvalidParameterError(f"the table must contain real numbers, and a column has {column.dtype}.")
    return _numbers(list(column), majority)


def _polars_numbers(column: Any, majority: bool) -> Array:
    if column.dtype.is_temporal():
        raise InvalidParameterError(f"the table must contain real numbers, and a column has {column.dtype}.")
    return _numbers(column.to_list(), majority)


def _numbers(cells: list[Any], majority: bool) -> Array:
    found = np.fromiter(map(number_or_nan, cells), dtype=np.float64, count=len(cells))
    if majority:
        absent = np.flatnonzero(np.isnan(found))
        odd = sum(not is_nothing(cells[place]) for place in absent)
        if 2 * odd > found.size:
            raise InvalidParameterError(_NO_NUMBERS)
    return found
