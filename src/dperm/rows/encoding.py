"""From a table to bounded rows, by a schema alone: nothing is learned from the values.

Every column of the schema becomes one block of the row, of norm at most 1: one entry of size at most 1, or two at the
ends of a bin. So a row of k columns has norm at most √k, whatever the table holds. Every interaction adds one entry of
a fixed size.
"""

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.errors import InvalidParameterError, InvalidTableError
from dperm.rows.columns import Columns, as_arrow, as_numbers, as_words, is_array
from dperm.schema import Amount, Bins, Category, Classes, Column, Number, Schema
from dperm.schema.checks import as_text
from dperm.schema.crosses import CROSS_ENTRY, LEVELS, Cross

Array = NDArray[np.float64]
Places = NDArray[np.intp]

# Wider rows are kept sparse: they hold one or two numbers a column of the schema.
WIDEST_DENSE = 64

# Takes what rounding may add, at most 4 · 2⁻⁵³, off the norm of two entries.
_ROUNDED_DOWN = 1.0 - 2.0**-50


def check_table(table: Any, y: Any, schema: Schema) -> None:
    """Raise if a column is missing, named twice, or of a type that cannot be encoded: public facts, and no value."""
    n_rows = len(Columns(table))  # raises for what is not a table
    anywhere = _linear(schema)
    empty = table[:0] if is_array(table) else table.slice(0, 0) if hasattr(table, "slice") else table.head(0)
    encode_rows(empty, anywhere, fitting=True)
    if y is None:
        encode_target(empty, None, anywhere)
        return
    if isinstance(y, str | bytes | Mapping | Set) or not hasattr(y, "__len__"):
        raise InvalidParameterError(f"the target must be a column of values, got {type(y).__name__}.")
    # Which entries of a list are lists counts as public if most of them are; one unit may have most of them.
    nested = len(y.shape) != 1 if hasattr(y, "shape") else schema.unit is None and 2 * sum(map(_is_nested, y)) > len(y)
    if nested:
        raise InvalidParameterError("the target must have one dimension.")
    if len(y) != n_rows:
        raise InvalidParameterError(f"the table has {n_rows} rows and the target {len(y)}.")


def _linear(schema: Schema) -> Schema:
    """The same columns with ranges that are known and no bins: enough to look at types."""
    numbers = dict.fromkeys(schema.numbers, Number((0.0, 1.0)))
    target = (
        replace(schema.target, range=(0.0, 1.0), within=None, transform=None)
        if isinstance(schema.target, Amount)
        else schema.target
    )
    return replace(schema, columns={**schema.columns, **numbers}, target=target)


def _is_nested(value: Any) -> bool:
    try:
        return isinstance(value, list | tuple | Mapping | Set) or getattr(value, "shape", ()) != ()
    except Exception:  # whatever an object raises that is asked what it is
        return False


def encode_rows(table: Any, schema: Schema, *, fitting: bool) -> Any:
    """Encode the features: a dense array, or CSR where rows are wide.

    Parameters
    ----------
    table : pandas, polars or Arrow table, or array
        It must have the schema's columns; others are left alone. An array must have as many, called x0, x1, ….
    schema : Schema
        All ranges must be known.
    fitting : bool
        Whether the policy "row" turns a whole row into NaN, which is ignored. A row that is to be predicted is
        encoded without the value instead.
    """
    columns = Columns(table)
    if is_array(table) and table.shape[1] != len(schema.columns):
        raise InvalidTableError(f"the array has {table.shape[1]} columns, and {len(schema.columns)} are declared.")
    dropped, first = np.zeros(len(columns), dtype=bool), 0
    all_places, all_values, blocks = [], [], {}
    for name, column in schema.columns.items():
        places, values, drop = _encode_column(columns.arrow(name), name, column, schema.missing)
        blocks[name] = (places, values)
        all_places.append(first + places)
        all_values.append(values)
        dropped |= drop
        first += len(column.column_names(name))
    for cross in schema.crosses:
        all_places.append(first + _cell(cross, schema, blocks)[:, None])
        all_values.append(np.full((len(columns), 1), CROSS_ENTRY))
        first += cross.n_cells
    places, values = np.concatenate(all_places, axis=1), np.concatenate(all_values, axis=1)
    if fitting:
        values[dropped] = np.nan
    return _matrix(places, _shortened(values) if fitting else values, first)


def _shortened(values: Array) -> NDArray[np.float32]:
    """Values in half the space, rounded towards 0 so that no norm grows: rows to fit on are kept for many passes."""
    short = values.astype(np.float32)
    longer = np.abs(short) > np.abs(values)
    short[longer] = np.nextafter(short[longer], np.float32(0.0))
    return short


def _cell(cross: Cross, schema: Schema, blocks: Mapping[str, tuple[Places, Array]]) -> Places:
    """Which cell of a cross every row is in: the levels of its columns as digits."""
    total: Any = 0
    for digit, name in enumerate(cross.columns):
        column, (places, values) = schema.columns[name], blocks[name]
        total = total + LEVELS**digit * _levels(cross, name, column, places, values)
    return np.asarray(total, dtype=np.intp)


def _levels(cross: Cross, name: str, column: Column, places: Places, values: Array) -> Places:
    """The level of a column: of its nearest entry, or of a linear number itself; of nothing the first."""
    width = len(column.column_names(name))
    if isinstance(column, Number) and not column.binned:
        number = np.floor((values[:, 0] + 1.0) / 2.0 * LEVELS).astype(np.intp)
        return np.where(places[:, 0] > 0, 0, np.minimum(number, LEVELS - 1))
    nearest = np.take_along_axis(places, values.argmax(axis=1)[:, None], axis=1)[:, 0]
    levels = np.asarray(cross.levels(name, width, ordered=not isinstance(column, Category)))[nearest]
    return np.where(values.any(axis=1), levels, 0)


def target_column(table: Any, y: Any, schema: Schema) -> Any:
    """The target as an Arrow array: `y`, or the table's own column where that is None."""
    return Columns(table).arrow(schema.target.column) if y is None else as_arrow(y)


def encode_target(table: Any, y: Any, schema: Schema, onto: tuple[float, float] = (-1.0, 1.0)) -> Array:
    """Encode the target, from `y` or from the table's own column: −1 and 1, indices among many classes, or a number.

    A number's declared range becomes `onto`. NaN, which drops the row, where there is no class or number.
    """
    if isinstance(schema.target, Amount):
        number = schema.target.number
        return _scaled(
            number.transformed(np.clip(target_numbers(table, y, schema), *number.bounds)), *number.span, onto
        )
    numbers = _label_numbers(target_column(table, y, schema), schema.target)
    return 2.0 * numbers - 1.0 if len(schema.target.classes) == 2 else numbers


def target_numbers(table: Any, y: Any, schema: Schema) -> Array:
    """The target as numbers in its own units, NaN where there is none."""
    return as_numbers(target_column(table, y, schema), schema.target.column, schema.missing)


def label_numbers(table: Any, y: Any, schema: Schema) -> Array:
    """Index of every label among the declared classes, NaN where it is none of them."""
    if not isinstance(schema.target, Classes):
        raise InvalidParameterError("the schema's target has no classes.")
    return _label_numbers(target_column(table, y, schema), schema.target)


def _label_numbers(column: Any, target: Classes) -> Array:
    codes, words = as_words(column, target.column)
    positions = target.positions
    places = _lookup([positions.get(word, -1) for word in words], codes, -1)
    return np.where(places < 0, np.nan, places.astype(np.float64))


def _encode_column(column: Any, name: str, rule: Column, missing: tuple[str, ...]) -> tuple[Places, Array, Any]:
    """Positions and values of a block's entries, a row each, and whether the row is ignored."""
    match rule:
        case Number() if rule.binned:
            return _encode_knots(as_numbers(column, name, missing), rule)
        case Number():
            places, values, drop = _encode_number(as_numbers(column, name, missing), rule)
        case Bins():
            places, values, drop = _encode_bins(as_numbers(column, name, missing), rule)
        case Category():
            places, values, drop = _encode_category(*as_words(column, name), rule, missing)
    return places[:, None], values[:, None], drop


def _encode_knots(numbers: Array, rule: Number) -> tuple[Places, Array, Any]:
    """Two entries, at the ends of the bin that a number is in, of norm 1 together: (1 − t, t) scaled."""
    numbers, knots = rule.in_range(numbers), rule.transformed(rule.knots)
    absent = np.isnan(numbers)
    inside = rule.transformed(np.clip(np.where(absent, _stand_in(rule), numbers), *rule.bounds))
    bin_of = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, knots.size - 2)
    t = np.clip((inside - knots[bin_of]) / (knots[bin_of + 1] - knots[bin_of]), 0.0, 1.0)
    values = np.stack([1.0 - t, t], axis=1)
    values *= _ROUNDED_DOWN / np.sqrt((values**2).sum(axis=1, keepdims=True))
    places = np.stack([bin_of, bin_of + 1], axis=1)
    if rule.missing == "column":
        places[absent], values[absent] = (knots.size - 1, knots.size), (0.0, 1.0)
    return places, values, absent & (rule.missing == "row")


def _encode_number(numbers: Array, rule: Number) -> tuple[Places, Array, Any]:
    numbers = rule.in_range(numbers)
    absent = np.isnan(numbers)
    places = np.zeros(numbers.size, dtype=np.intp)
    inside = np.clip(np.where(absent, _stand_in(rule), numbers), *rule.bounds)
    values = _scaled(rule.transformed(inside), *rule.span)
    if rule.missing == "column":
        places[absent], values[absent] = 1, 1.0
    return places, values, absent & (rule.missing == "row")


def _stand_in(rule: Number) -> float:
    return rule.middle if isinstance(rule.missing, str) else rule.missing


def _scaled(numbers: Array, low: float, high: float, onto: tuple[float, float] = (-1.0, 1.0)) -> Array:
    """[low, high] to `onto`, clipped; the ends are met exactly and infinities are clipped as well."""
    inside, (first, last) = np.clip(numbers, low, high), onto
    return np.asarray(np.clip((inside - low) / (high - low) * (last - first) + first, first, last))


def _encode_bins(numbers: Array, rule: Bins) -> tuple[Places, Array, Any]:
    if not isinstance(rule.missing, str):
        numbers = np.where(np.isnan(numbers), rule.missing, numbers)
    absent = np.isnan(numbers)
    places = np.searchsorted(np.asarray(rule.edges), np.where(absent, rule.edges[0], numbers), side="right")
    values = np.ones(numbers.size)
    if rule.missing == "column":
        places[absent] = len(rule.edges) + 1
    else:
        values[absent] = 0.0
    return places, values, absent & (rule.missing == "row")


def _encode_category(
    codes: Places, words: list[str], rule: Category, missing: tuple[str, ...]
) -> tuple[Places, Array, Any]:
    positions, nothing = rule.positions, {"", *map(as_text, missing)}
    kinds = {kind: rule.place_of(kind) for kind in ("missing", "unseen")}

    def place_of(word: str) -> int:
        found: int | None = positions.get(word)
        if found is None:
            found = kinds["missing" if word in nothing else "unseen"]
        return -2 if found is None else found

    absent = -2 if kinds["missing"] is None else kinds["missing"]
    places = _lookup([place_of(word) for word in words], codes, absent)
    return np.maximum(places, 0), (places >= 0).astype(np.float64), places == -1


def _lookup(table: list[int], codes: Places, absent: int) -> Places:
    """The entry of every code; the last one, for the code −1, where there is nothing."""
    return np.asarray([*table, absent], dtype=np.intp)[codes]


def _matrix(places: Places, values: NDArray[Any], n_columns: int) -> Any:
    n_rows, n_entries = places.shape
    if n_columns <= WIDEST_DENSE:
        dense = np.zeros((n_rows, n_columns), dtype=values.dtype)
        np.put_along_axis(dense, places, values, axis=1)
        return dense
    starts = np.arange(n_rows + 1) * n_entries
    return sparse.csr_matrix((values.ravel(), places.ravel(), starts), shape=(n_rows, n_columns))
