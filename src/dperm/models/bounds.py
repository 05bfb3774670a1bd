"""Columns of an array with declared bounds: a schema of linear numbers, so that they are scaled as a table's are."""

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.kernel.block import bounded_rows
from dperm.kernel.coded import plain
from dperm.mechanisms.range import TooFewRowsError
from dperm.rows.columns import Columns, array_names, as_arrow
from dperm.rows.encoding import encode_rows
from dperm.schema import Number, Schema

# What the target is called in such a schema, unless a column is called so.
_TARGET = "target"

SAY_THE_SCALE = (
    "the scale of the columns is unknown: pass bounds=(lower, upper) as public numbers, bounds='private' to find "
    "them with a share of the budget, a schema, or row_norm."
)


def read_bounds(bounds: Any, width: int) -> list[tuple[float, float]] | str:
    """The ends of every column's range, or "private".

    Parameters
    ----------
    bounds : (lower, upper) or "private"
        Two numbers or two sequences of one number per column.
    width : int
        How many columns there are.
    """
    if isinstance(bounds, str) and bounds == "private":
        return bounds
    if (
        width == 2
        and isinstance(bounds, list)
        and len(bounds) == 2
        and all(isinstance(part, tuple) and len(part) == 2 for part in bounds)
    ):
        first, last = zip(*bounds, strict=True)
        raise InvalidParameterError(
            "bounds is (lower, upper), and a list of two pairs may mean one pair per column: write "
            f"bounds=({first}, {last}) if it does, and otherwise bounds={tuple(bounds)}."
        )
    try:
        lower, upper = (np.asarray(ends, dtype=np.float64) for ends in bounds)
        ends = np.broadcast_to(lower, width), np.broadcast_to(upper, width)
    except (TypeError, ValueError):
        raise InvalidParameterError(
            f"bounds must be 'private' or (lower, upper), each a number or one for each of the {width} columns."
        ) from None
    return list(zip(*(end.tolist() for end in ends), strict=True))


def names_of(model: Any, X: Any) -> list[str]:
    """The names of a table's columns but for the ids: x0, x1, … in an array."""
    return [name for name in Columns(X).names if name != model.unit]


def by_schema(model: Any, names: list[str], y: Any = None) -> Any:
    """The same estimator with a schema of these columns in place of its bounds.

    Parameters
    ----------
    model : PrivateEstimator
        With bounds.
    names : list of str
        Of the columns.
    y : array, optional
        A boolean type declares the classes.
    """
    if model.schema is not None:
        raise InvalidParameterError("bounds cannot be combined with a schema, which declares the ranges.")
    if getattr(model, "entry_bound", None) is not None:
        raise InvalidParameterError("entry_bound cannot be combined with bounds: scaled entries are at most 1.")
    ranges = read_bounds(model.bounds, len(names))
    columns = {}
    for place, name in enumerate(names):
        try:
            columns[name] = Number(ranges if isinstance(ranges, str) else ranges[place], encode="linear")
        except InvalidParameterError as error:
            raise InvalidParameterError(f"bounds of column {name!r}: {error}") from None
    target = _TARGET
    while target in (*names, model.unit):
        target += "_"
    asked = copy.copy(model)
    asked.bounds = None
    asked.schema = Schema(columns, asked._move_target(target, y), row_norm=getattr(model, "row_norm", None))
    if hasattr(asked, "row_norm"):
        asked.row_norm = None
    return asked


@contextmanager
def saying_bounds() -> Iterator[None]:
    """Where private bounds need more rows than there are, name the remedy that an estimator has."""
    try:
        yield
    except TooFewRowsError as error:
        raise InvalidParameterError(f"{error.why}: pass bounds=(lower, upper) instead, or a larger epsilon.") from None


def with_ids(model: Any, X: Any, groups: Any) -> Any:
    """The table with the ids of its rows as the column that a schema reads them from."""
    if groups is None:
        return X
    import pyarrow as pa

    columns = Columns(X)
    if model.unit is None:
        raise InvalidParameterError("groups requires unit, the name of the privacy unit, e.g. unit='patient'.")
    if model.unit in columns.names:
        raise InvalidParameterError(f"ids are in the column {model.unit!r} and in groups: remove one.")
    if len(groups) != len(columns):
        raise InvalidParameterError(f"the table has {len(columns)} rows and groups {len(groups)}.")
    return pa.table({name: columns.arrow(name) for name in columns.names} | {model.unit: as_arrow(groups)})


def encoded(X: Any, schema: Schema, row_norm: float, entry_bound: float | None) -> Any:
    """Rows of a table as the fit by this schema has them; also a step of what `to_sklearn` returns.

    Parameters
    ----------
    X : table or array
        With the schema's columns.
    schema : Schema
        Of the fit.
    row_norm, entry_bound : float
        What rows are clipped to if the schema has a `row_norm`; otherwise they are as short as they must be.
    """
    rows = plain(encode_rows(X, schema, fitting=False))
    return rows if schema.row_norm is None or row_norm == math.inf else bounded_rows(rows, row_norm, entry_bound)


def behind_encoding(model: Any, plain: Any) -> Any:
    """An estimator of scikit-learn for the arrays that were fitted, scaled as the model scales them.

    With a schema of a table's columns, and not of x0, x1, …, it stays alone, for rows as `encode` returns them.
    """
    from sklearn.pipeline import Pipeline  # not every user of dperm needs it
    from sklearn.preprocessing import FunctionTransformer

    schema, said = model.schema_, model.privacy_
    if schema is None or (model.bounds is None and list(schema.columns) != list(array_names(len(schema.columns)))):
        return plain
    facts = {"schema": schema, "row_norm": said.row_norm, "entry_bound": said.entry_bound}
    return Pipeline([("scale", FunctionTransformer(encoded, kw_args=facts)), ("model", plain)])
