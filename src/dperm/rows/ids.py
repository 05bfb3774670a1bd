"""Ids of units as they are passed: which rows have the same one. No value appears in a message.

Two ids are the same if they are written the same, as categories are: 2, 2.0 and "2" are one id. What becomes of one
entry does not depend on any other.
"""

from collections.abc import Sequence
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError, InvalidTableError
from dperm.kernel.units import Membership
from dperm.privacy.unit import PrivacyUnit
from dperm.rows.columns import Columns, different_entries, is_text, word
from dperm.rows.labels import one_by_one
from dperm.schema import Schema
from dperm.schema.checks import as_text

Codes = NDArray[np.int64]

# Equal values of one of these types are written alike, so each is written once.
_PLAIN = (str, int, float, bool, bytes)
# Texts of printable ASCII that neither begin nor end with a space, and those among them that `as_text` spells again.
_ASCII, _SPELLED = r"^[!-~]([ -~]*[!-~])?$", r"(\.0*$)|(^(?i:true|false)$)"


def codes_of_array(ids: Any, n_rows: int) -> Codes:
    """The index of every row's id among the different ones, −1 for what is none.

    Raises
    ------
    InvalidParameterError
        If their shape or type is another: both are public, as those of the table are.
    """
    values = _entries(ids)
    if values.shape != (n_rows,):
        raise InvalidParameterError("groups must be one id per row, in one dimension.")
    if values.dtype.kind in "cV":
        raise InvalidParameterError(f"groups must be ids, got {values.dtype}.")
    known = ~np.ma.getmaskarray(ids) if np.ma.isMaskedArray(ids) else np.ones(n_rows, dtype=bool)
    codes = np.full(n_rows, -1, dtype=np.int64)
    if values.dtype.kind in "iub":
        codes[known] = _codes_of_whole_numbers(values[known])
    elif values.dtype.kind == "f":
        different, places = np.unique(values[known], return_inverse=True)
        codes[known] = _codes_one_by_one(different.tolist())[places]
    else:
        codes[known] = _codes_one_by_one(values[known].tolist())
    return codes


def membership_of_array(ids: Any, n_rows: int, unit: PrivacyUnit | None) -> Membership | None:
    """The unit of every row; None where each row is its own unit."""
    return None if unit is None else Membership.of(unit, codes_of_array(ids, n_rows))


def membership_of(table: Any, schema: Schema) -> Membership | None:
    """Whose every row is, if the schema says that a unit is protected."""
    if schema.unit is None:
        return None
    codes = codes_of_column(Columns(table).arrow(schema.unit.name), schema.unit.name, schema.missing)
    return Membership.of(schema.unit, codes)


def codes_of_column(column: Any, name: str, missing: Sequence[str] = ()) -> Codes:
    """The same for an Arrow column; texts that stand for no value are not ids.

    Raises
    ------
    InvalidTableError
        If the column's type, which is public like its name, cannot hold ids.
    """
    import pyarrow as pa

    codes, texts = texts_of_column(column, name, missing)
    if pa.types.is_integer(column.type):  # different ones are written differently
        found = places_of(texts)
    else:
        found = texts.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.append(found, -1)[codes].astype(np.int64)


def places_of(texts: Any) -> NDArray[np.intp]:
    """The index of every text among those that are none of them null, −1 for a null."""
    is_id = texts.is_valid().to_numpy(zero_copy_only=False)
    return np.where(is_id, np.cumsum(is_id) - 1, -1)


def kind_of_ids(kind: Any) -> str | None:
    """What an Arrow type holds, None for nothing: ids of one kind are written alike wherever they stand."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return None
    if pa.types.is_integer(kind):
        return "whole numbers"
    return "text" if is_text(kind) else str(kind)


def texts_of_column(column: Any, name: str, missing: Sequence[str] = ()) -> tuple[Codes, Any]:
    """Which of a column's different entries every row has, −1 for none, and how each is written, null for no id.

    Two entries may be written the same.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_temporal(column.type):
        column = column.cast(pa.string())
    elif pa.types.is_nested(column.type):
        raise InvalidTableError(
            f"column {name!r} should contain ids and contains {column.type}; write it as text first."
        )
    codes, values = different_entries(column, name)
    texts = _texts(values)
    nothing = pc.is_in(texts, value_set=pa.array(["", "nan", *map(as_text, missing)], pa.string()))
    return codes.astype(np.int64), pc.if_else(nothing, pa.scalar(None, pa.string()), texts)


def _texts(values: Any) -> Any:
    """Different entries as they are written: all at once where that is plain, else one by one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(values.type):
        return values.cast(pa.string())
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
        plain = (np.abs(numbers) < 2.0**63) & (np.trunc(numbers) == numbers)
        written = pa.array(np.where(plain, numbers, 0.0).astype(np.int64)).cast(pa.string())
    elif pa.types.is_binary(values.type):
        plain = pc.and_not(
            pc.match_substring_regex(values, _ASCII), pc.match_substring_regex(values, _SPELLED)
        ).to_numpy(zero_copy_only=False)  # fmt: skip
        written = pc.if_else(pa.array(plain), values, pa.scalar(None, values.type)).cast(pa.string())
    else:
        plain, written = np.zeros(len(values), dtype=bool), pa.nulls(len(values), pa.string())
    if plain.all():
        return written
    others = np.full(len(values), None, dtype=object)
    entries = values.filter(pa.array(~plain)).to_pylist()
    # Other bytes are other ids; a letter and its accent are one however they are put together.
    others[~plain] = [normalize("NFC", word(entry, errors="backslashreplace")) for entry in entries]
    return pc.if_else(pa.array(plain), written, pa.array(others, pa.string()))


def _entries(ids: Any) -> NDArray[Any]:
    """Every entry as it is: numpy would make floats of whole numbers because of one that is missing, or very large."""
    if isinstance(getattr(ids, "dtype", None), np.dtype):
        return np.asarray(ids)
    for to_list in ("to_pylist", "to_list"):  # Arrow; polars, and the types of pandas' own
        if hasattr(ids, to_list):
            ids = getattr(ids, to_list)()
            break
    return np.asarray(one_by_one(ids), dtype=object)


def _codes_of_whole_numbers(values: NDArray[Any]) -> Codes:
    """Places among the different ones: looked up where the numbers lie close together, which is faster than sorting."""
    if not values.size:
        return np.empty(0, dtype=np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low > 8 * values.size:
        return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64)
    # Unsigned numbers may be beyond the signed ones, and small types too small for a difference.
    wide = values if values.dtype == np.uint64 else values.astype(np.int64)
    places = (wide - wide.dtype.type(low)).astype(np.intp)
    found = np.zeros(high - low + 1, dtype=bool)
    found[places] = True
    return np.asarray((np.cumsum(found) - 1)[places], dtype=np.int64)


def _codes_one_by_one(values: list[Any]) -> Codes:
    """Numbers of ids in the order in which they come first, −1 for what is none."""
    codes = np.empty(len(values), dtype=np.int64)
    found: dict[Any, int] = {}
    numbers: dict[str, int] = {}
    for row, value in enumerate(values):
        kind = type(value)
        code = found.get((kind, value)) if kind in _PLAIN else None
        if code is None:
            text = _text(value)
            code = -1 if text is None else numbers.setdefault(text, len(numbers))
            if kind in _PLAIN:
                found[kind, value] = code
        codes[row] = code
    return codes


def _text(value: Any) -> str | None:
    """A value as text; None for nothing, and for what cannot be an id, whatever it raises."""
    try:
        hash(value)
        if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
            return None
        # What is not UTF-8 stays apart from other bytes that are not.
        text = as_text(value.decode("utf-8", errors="backslashreplace") if isinstance(value, bytes) else value)
        return normalize("NFC", "".join(text)) or None  # a plain text, whatever the value's own kind of text does
    except Exception:
        return None
