"""A first draft of a schema, read from a table: for a person to correct, never for a release."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameter
from dperm.schema import Amount, Category, Classes, Column, Number, Schema
from dperm.trusted.columns import Columns, as_numbers, as_words, share_of_numbers

# Texts that usually stand for no value.
_NOTHING = ("?", "-", "NA", "N/A", "n/a", "nan", "NaN", "null", "NULL", "None")
# With more different texts than this a column is a name or an address and no category.
_MOST_CATEGORIES, _MOST_CLASSES = 100, 20
# Numbers with fewer different values than this may be codes.
_FEWEST_NUMBERS = 3


def draft_schema(table: Any, target: str, header: tuple[str, ...] | None = None) -> tuple[Schema, list[str]]:
    """Describe a table by what is in it, marked as derived from the data.

    Parameters
    ----------
    table : pandas, polars or Arrow table
        The sensitive table.
    target : str
        The column to predict.
    header : tuple of str, optional
        As in the schema, for a file that does not name its columns.

    Returns
    -------
    Schema, list of str
        The draft, and the columns that it leaves out because they hold too many different texts.
    """
    columns = Columns(table)
    columns.arrow(target)  # raises if there is none
    found: dict[str, Column] = {}
    left_out, nothing = [], set[str]()
    for name in columns.names:
        if name == target:
            continue
        column, texts = _describe(columns.arrow(name), _MOST_CATEGORIES)
        nothing |= texts
        if column is None:
            left_out.append(name)
        else:
            found[name] = column
    if not found:
        raise InvalidParameter("the table has no column that a schema could describe besides the target.")
    described, texts = _describe(columns.arrow(target), _MOST_CLASSES)
    if described is None or (isinstance(described, Category) and len(described.values) < 2):
        raise InvalidParameter(f"the target {target!r} has too many different texts for classes, or only one.")
    goal = Classes(target, described.values) if isinstance(described, Category) else Amount(target, described.range)
    return Schema(
        found, goal, n=len(columns), missing=tuple(sorted(nothing | texts)), header=header, derived_from_data=True
    ), left_out


def _describe(column: Any, most: int) -> tuple[Number | Category | None, set[str]]:
    """The column, and which of the usual texts for no value it holds."""
    codes, words = as_words(column)
    nothing = set(words) & set(_NOTHING)
    known = sorted({word for word in words if word and word not in _NOTHING})
    holes = bool(nothing) or bool((codes < 0).any()) or "" in words
    if known and share_of_numbers(column) * len(codes) >= 0.5 and all(_is_number(word) for word in known):
        numbers = as_numbers(column)
        finite = numbers[np.isfinite(numbers)]
        if len(known) >= _FEWEST_NUMBERS:
            return Number(_round_range(finite), missing="column" if holes else "middle"), nothing
    if not known or len(known) > most:
        return None, nothing
    return Category(tuple((word,) for word in known), missing="column" if holes else "none"), nothing


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _round_range(numbers: NDArray[np.float64]) -> tuple[float, float]:
    """The range of the values, rounded outwards to two digits."""
    low, high = float(numbers.min()), float(numbers.max())
    size = max(abs(low), abs(high), 1e-99)
    step = 10.0 ** (math.floor(math.log10(max(high - low, 1e-6 * size))) - 1)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    return float(f"{low:.10g}"), float(f"{high if high > low else low + step:.10g}")
