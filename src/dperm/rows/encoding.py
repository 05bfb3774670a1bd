"""From a table to bounded rows, by a schema alone: nothing is learned from the values.

Every column of the schema becomes one block of the row, of norm at most 1: one entry of size at most 1, or two at the
ends of a bin. So a row of k columns has norm at most √k, whatever the table holds. Every interaction adds one entry of
a fixed size. Rows are made as codes (`kernel/coded.py`), one or two small integers for a column, and stay so.
"""

import functools
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError, InvalidTableError
from dperm.kernel import native
from dperm.kernel.coded import PARTS, CodedColumn, CodedLayout, CodedRows
from dperm.rows.columns import Columns, as_arrow, as_numbers, as_words, is_array
from dperm.schema import Amount, Bins, Category, Classes, Column, Number, Schema
from dperm.schema.checks import as_text
from dperm.schema.crosses import LEVELS

Array = NDArray[np.float64]
Places = NDArray[np.intp]


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
    """Encode the features: as codes, or an array of numbers where all columns are linear numbers.

    Parameters
    ----------
    table : pandas, polars or Arrow table, or array
        It must have the schema's columns; others are left alone. An array must have as many, called x0, x1, ….
    schema : Schema
        All ranges must be known.
    fitting : bool
        Whether the policy "row" drops a whole row, which is then ignored. A row that is to be predicted is encoded
        without the value instead.
    """
    columns, layout = Columns(table), layout_of(schema)
    if is_array(table) and table.shape[1] != len(schema.columns):
        raise InvalidTableError(f"the array has {table.shape[1]} columns, and {len(schema.columns)} are declared.")
    linear = layout.n_entries == layout.shapes[2]
    kinds = layout.code_type, np.uint8, np.float64 if linear and not fitting else np.float32
    room = [np.empty((len(columns), width), kind) for width, kind in zip(layout.shapes, kinds, strict=True)]
    dropped = np.zeros(len(columns), dtype=bool)
    for (name, rule), places in zip(schema.columns.items(), _places(schema), strict=True):
        own = [room[kind][:, at] for kind, at in places]
        dropped |= _encode_column(columns.arrow(name), name, rule, schema.missing, own)
    codes, fractions, numbers = room
    if fitting:
        codes[dropped], numbers[dropped] = np.iinfo(codes.dtype).max, np.nan
    return numbers if linear else CodedRows(layout, codes, fractions, numbers)


def _blocks(name: str, rule: Column) -> tuple[CodedColumn, ...]:
    """What a column becomes: one block, or for a linear number that may be missing two."""
    if not isinstance(rule, Number):
        return (CodedColumn("place", len(rule.column_names(name))),)
    if rule.binned:
        return (CodedColumn("knots", len(rule.column_names(name))),)
    return (CodedColumn("number"), CodedColumn("place")) if rule.missing == "column" else (CodedColumn("number"),)


@functools.lru_cache(16)
def layout_of(schema: Schema) -> CodedLayout:
    """Where every column of a schema is in an encoded row."""
    columns: list[CodedColumn] = []
    where = {}
    for name, rule in schema.columns.items():
        where[name] = len(columns)
        columns += _blocks(name, rule)
    crosses = []
    for cross in schema.crosses:
        digits = []
        for name in cross.columns:
            column, ordered = columns[where[name]], not isinstance(schema.columns[name], Category)
            levels = () if column.kind == "number" else cross.levels(name, column.n_places, ordered=ordered)
            digits.append((where[name], levels))
        crosses.append(tuple(digits))
    return CodedLayout(tuple(columns), tuple(crosses), LEVELS)


@functools.lru_cache(16)
def _places(schema: Schema) -> tuple[list[tuple[int, int]], ...]:
    """What is written for every column: a code (0), fraction (1) or number (2), and which of them."""
    left = iter(layout_of(schema).where)
    return tuple(
        [(kind, at) for _ in _blocks(name, rule) for kind, at in enumerate(next(left)[2:]) if at >= 0]
        for name, rule in schema.columns.items()
    )


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
    # The last one, for the code −1, where there is nothing.
    return np.asarray([*(positions.get(word, np.nan) for word in words), np.nan])[codes]


def _encode_column(column: Any, name: str, rule: Column, missing: tuple[str, ...], own: list[NDArray[Any]]) -> Any:
    """Write a column's code, fraction and number, of those it has; whether the row is ignored."""
    match rule:
        case Number() if rule.binned:
            return _encode_knots(as_numbers(column, name, missing), rule, *own)
        case Number():
            return _encode_number(as_numbers(column, name, missing), rule, *own)
        case Bins():
            return _encode_bins(as_numbers(column, name, missing), rule, *own)
        case Category():
            return _encode_category(*as_words(column, name), rule, missing, *own)


def _encode_knots(numbers: Array, rule: Number, codes: NDArray[Any], fractions: NDArray[np.uint8]) -> Any:
    """Two entries, at the ends of the bin that a number is in: which bin, and how far from one end to the other."""
    inside, absent = _inside(numbers, rule)
    knots = rule.transformed(rule.knots)
    native.take_codes(np.ascontiguousarray(inside), knots, codes, fractions, PARTS)
    if rule.missing == "column":
        codes[absent], fractions[absent] = knots.size - 1, PARTS
    return absent & (rule.missing == "row")


def _encode_number(numbers: Array, rule: Number, *own: NDArray[Any]) -> Any:
    inside, absent = _inside(numbers, rule)
    values = _scaled(inside, *rule.span)
    if rule.missing == "column":
        values[absent], own[1][:] = 0.0, ~absent  # the only place, or none
    if own[0].dtype == np.float32:
        native.shorten(values, own[0])
    else:
        own[0][:] = values
    return absent & (rule.missing == "row")


def _inside(numbers: Array, rule: Number) -> tuple[Array, NDArray[np.bool_]]:
    """Numbers clipped to the range, transformed, with what stands in for those that are absent; which those are."""
    absent = np.isnan(numbers)
    if rule.outside == "missing":
        absent |= np.isnan(rule.in_range(numbers))
    inside = np.clip(numbers, *rule.bounds)
    inside[absent] = np.clip(rule.middle if isinstance(rule.missing, str) else rule.missing, *rule.bounds)
    return rule.transformed(inside), absent


def _scaled(numbers: Array, low: float, high: float, onto: tuple[float, float] = (-1.0, 1.0)) -> Array:
    """[low, high] to `onto`, clipped; the ends are met exactly and infinities are clipped as well."""
    first, last = onto
    values = np.clip(numbers, low, high)
    values -= low  # in place: memory for every step would cost more than the steps
    values /= high - low
    values *= last - first
    values += first
    return np.clip(values, first, last, out=values)


def _encode_bins(numbers: Array, rule: Bins, codes: NDArray[Any]) -> Any:
    if not isinstance(rule.missing, str):
        numbers = np.where(np.isnan(numbers), rule.missing, numbers)
    absent = np.isnan(numbers)
    codes[:] = np.searchsorted(np.asarray(rule.edges), numbers, side="right")
    codes[absent] = len(rule.edges) + 1  # the place after all bins, or none
    return absent & (rule.missing == "row")


def _encode_category(
    found: Places, words: list[str], rule: Category, missing: tuple[str, ...], codes: NDArray[Any]
) -> Any:  # fmt: skip
    positions, nothing, none = rule.positions, {"", *map(as_text, missing)}, len(rule.column_names(""))
    kinds = {kind: rule.place_of(kind) for kind in ("missing", "unseen")}

    def place_of(word: str) -> int | None:
        return positions.get(word, kinds["missing" if word in nothing else "unseen"])

    places = [*map(place_of, words), kinds["missing"]]  # the last one, for the code −1, where there is nothing
    codes[:] = np.asarray([none if place is None or place < 0 else place for place in places], codes.dtype)[found]
    return np.asarray([place == -1 for place in places])[found]
