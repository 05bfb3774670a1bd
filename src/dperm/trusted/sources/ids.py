"""Ids of units as they are handed over: which rows have the same one. No value appears in a message.

Two ids are the same if they are written the same, as categories are: 2, 2.0 and "2" are one id. What becomes of one
entry does not depend on any other.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameter, InvalidTable
from dperm.schema.checks import as_text
from dperm.trusted.sources.labels import one_by_one

Codes = NDArray[np.int64]


def codes_of_array(ids: Any, n_rows: int) -> Codes:
    """The place of every row's id among the different ones, −1 for what is none.

    Raises
    ------
    InvalidParameter
        If their shape or type is another: both are public, as those of the table are.
    """
    given = ids if hasattr(ids, "dtype") else one_by_one(ids)
    missing = np.ma.getmaskarray(given) if np.ma.isMaskedArray(given) else None
    values = np.asarray(given)
    if values.shape != (n_rows,):
        raise InvalidParameter(f"groups must be one id per row: {n_rows} rows, groups of shape {values.shape}.")
    if values.dtype.kind in "cV":
        raise InvalidParameter(f"groups must be ids, got {values.dtype}.")
    if values.dtype.kind in "iub":
        _, codes = np.unique(values, return_inverse=True)
    else:
        codes = _codes_one_by_one(values.tolist())
    codes = codes.astype(np.int64).reshape(n_rows)
    if missing is not None:
        codes[missing] = -1
    return codes


def codes_of_column(column: Any, name: str, missing: Sequence[str] = ()) -> Codes:
    """The same for an Arrow column; texts that stand for no value are no ids.

    Raises
    ------
    InvalidTable
        If the column's type, which is public like its name, cannot hold ids.
    """
    codes, texts = texts_of_column(column, name, missing)
    found = _numbered(np.array([*texts, None], dtype=object))
    return found[codes]


def texts_of_column(column: Any, name: str, missing: Sequence[str] = ()) -> tuple[Codes, list[str | None]]:
    """Which of a column's different entries every row has, −1 for none, and how each is written, None for no id."""
    import pyarrow as pa

    from dperm.trusted.sources.columns import as_words

    if pa.types.is_temporal(column.type):
        column = column.cast(pa.string())
    elif pa.types.is_nested(column.type):
        raise InvalidTable(f"column {name!r} should hold ids and holds {column.type}; write it as text first.")
    codes, words = as_words(column, name)
    nothing = {"", "nan", *map(as_text, missing)}
    return codes.astype(np.int64), [None if word in nothing else word for word in words]


def _codes_one_by_one(values: list[Any]) -> Codes:
    """Every kind of value is written once; 1 and True are equal and written differently, so the type is looked at."""
    codes = np.empty(len(values), dtype=np.int64)
    found: dict[Any, int] = {}
    numbers: dict[str, int] = {}
    for row, value in enumerate(values):
        try:
            code = found.get((type(value), value))
        except Exception:  # what cannot be looked up is no id, whatever it raises
            codes[row] = -1
            continue
        if code is None:
            text = _text(value)
            code = -1 if text is None else numbers.setdefault(text, len(numbers))
            if value is None or value == value:
                found[type(value), value] = code
        codes[row] = code
    return codes


def _numbered(texts: NDArray[Any]) -> Codes:
    """Numbers of texts in the order in which they come first, −1 for None."""
    numbers: dict[str, int] = {}
    return np.array(
        [-1 if text is None else numbers.setdefault(text, len(numbers)) for text in texts.tolist()], dtype=np.int64
    )


def _text(value: Any) -> str | None:
    """A value as text; None for nothing, and for what cannot be an id, whatever it raises."""
    try:
        hash(value)
        if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
            return None
        text = as_text(value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value)
    except Exception:
        return None
    return text or None
