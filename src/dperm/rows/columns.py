"""Columns of any table as numbers or as words. No value changes the control flow or appears in a message."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidTableError
from dperm.schema.checks import as_text

_NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"
# Booleans are 1 and 0, as text too: a column of them must read the same when one entry is something else.
_TRUE, _FALSE = r"^\s*(?i:true)\s*$", r"^\s*(?i:false)\s*$"

# Bytes of a column in chunks that is copied into one: the different entries of many chunks take long to put together.
_SHORT = 2**28


class Columns:
    """A table of named columns: Arrow, pandas or polars, as it was handed in, or an array with columns x0, x1, ….

    Parameters
    ----------
    table : pyarrow.Table, pandas.DataFrame, polars.DataFrame or array of two dimensions
        The table; it is not copied.
    """

    def __init__(self, table: Any) -> None:
        import pyarrow as pa

        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        module = type(table).__module__.split(".")[0]
        framed = module in ("pandas", "polars") and len(getattr(table, "shape", ())) == 2
        if not (isinstance(table, pa.Table) or framed or is_array(table)):
            raise InvalidTableError(
                "with a schema or bounds the rows must be a pandas, polars or Arrow table or a dense array, got "
                f"{type(table).__name__}."
            )
        self._table = table
        if is_array(table):
            self.names = array_names(table.shape[1])
        else:
            self.names = list(table.column_names if isinstance(table, pa.Table) else table.columns)
        self._counts = Counter(self.names)
        self.n_rows = int(table.shape[0])

    def __len__(self) -> int:
        """Number of rows."""
        return self.n_rows

    def arrow(self, name: str) -> Any:
        """A column as an Arrow array, in one or several chunks.

        Raises
        ------
        InvalidTableError
            If there is none of this name, or more than one.
        """
        import pyarrow as pa

        if self._counts[name] != 1:
            # The columns are not listed: in a file without a header they would be a row.
            how_many = "no column" if name not in self._counts else "two columns"
            nameless = ", as columns of an array are called x0, x1, …" if is_array(self._table) else ""
            raise InvalidTableError(f"the table has {how_many} {name!r}{nameless}.")
        if isinstance(self._table, pa.Table):
            return self._table.column(name)
        return as_arrow(self._table[:, self.names.index(name)] if is_array(self._table) else self._table[name])


def is_array(table: Any) -> bool:
    """Whether it is an array of two dimensions, whose columns have positions and no names."""
    return isinstance(table, np.ndarray) and table.ndim == 2


def array_names(width: int) -> list[str]:
    """What the columns of an array are called."""
    return [f"x{place}" for place in range(width)]


def as_arrow(values: Any) -> Any:
    """A series or an array of any kind as an Arrow array, in one or several chunks.

    Python objects are written as texts one by one: what becomes of one must not depend on the kinds of the others.
    """
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray | pa.Array):
        return values
    if hasattr(values, "to_arrow"):
        if str(values.dtype) == "Object":
            return pa.array([_object_text(value) for value in values.to_list()], type=pa.binary())
        return values.to_arrow()
    kind = getattr(values, "dtype", None)
    if getattr(kind, "kind", "O") in "iufbMm" or getattr(kind, "storage", None) == "pyarrow":
        try:
            return pa.array(values, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
            pass  # whatever it says is about the type, but could show a value
        raise InvalidTableError(f"a column of the type {kind} cannot be read; convert it to plain numbers first.")
    return pa.array([_object_text(value) for value in values], type=pa.binary())


def _object_text(value: Any) -> bytes | None:
    """A value as text; None for nothing, and for what cannot be written, whatever it raises."""
    try:
        if isinstance(value, np.generic):
            value = value.item()
        if _is_nothing(value):
            return None
        if isinstance(value, float) and math.isinf(value):
            return b"1e999" if value > 0 else b"-1e999"  # read back as infinite
        if isinstance(value, bytes):
            return bytes(value)
        text = str(value) if isinstance(value, str | bool) else as_text(value)  # those keep their spelling
        return str.encode(text, "utf-8", errors="replace")
    except Exception:
        return None


def _is_nothing(value: Any) -> bool:
    # pandas has two more kinds of nothing, which have no boolean; other kinds of nan differ from themselves.
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def as_numbers(column: Any, name: str, missing: Sequence[str] = ()) -> NDArray[np.float64]:
    """A column as floats: NaN where there is no number, or one that stands for a missing value.

    Raises
    ------
    InvalidTableError
        If the column's type, which is public like its name, holds neither numbers nor texts.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _plain(column)
    kind = column.type
    if pa.types.is_binary(kind):
        column = _numbers_in_text(column)
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64(), safe=False)
    elif not (pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise InvalidTableError(f"column {name!r} should contain numbers and contains {kind}.")
    column = column.cast(pa.float64())
    numbers = np.array(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    if missing:
        codes = pc.drop_null(_numbers_in_text(pa.array([text.encode() for text in missing], pa.binary())))
        numbers[np.isin(numbers, codes.to_numpy(zero_copy_only=False))] = np.nan
    return numbers


def count_texts(column: Any) -> int:
    """How many entries are texts that are not empty: none in a column of numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _plain(column)
    return pc.sum(pc.greater(pc.binary_length(column), 0)).as_py() or 0 if pa.types.is_binary(column.type) else 0


def number_columns(table: Any, names: Sequence[str], majority: bool = True) -> Any:
    """Columns of an Arrow table as floats, NaN where there is no number.

    Whether a column holds numbers is decided by the majority of its entries and counts as public, like its name. Where
    one unit, or one row, may be the majority nothing is decided.
    """
    import pyarrow as pa

    columns = {}
    for name in names:
        column = table.column(name)
        numbers = as_numbers(column, name)
        n_others = count_texts(column) - np.count_nonzero(~np.isnan(numbers))  # numbers of a CSV file are texts too
        if majority and 2 * n_others > len(column):
            raise InvalidTableError(
                f"column {name!r} holds text; declare its categories in a --schema or leave it out with --features."
            )
        columns[name] = pa.array(numbers)
    return pa.table(columns)


def _numbers_in_text(column: Any) -> Any:
    """Binary texts as floats, null where there is no number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for words, digit in ((_TRUE, b"1"), (_FALSE, b"0")):
        column = pc.if_else(pc.fill_null(pc.match_substring_regex(column, words), False), digit, column)
    matches = pc.fill_null(pc.match_substring_regex(column, _NUMBER), False)
    text = pc.if_else(matches, column, pa.scalar(None, pa.binary())).cast(pa.string())
    return pc.utf8_ltrim(pc.utf8_trim_whitespace(text), characters="+").cast(pa.float64())


def _plain(column: Any) -> Any:
    """Dictionaries decoded, texts as bytes."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.binary()) if is_text(column.type) else column


def is_text(kind: Any) -> bool:
    """Whether an Arrow type holds texts, or bytes."""
    import pyarrow as pa

    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(
        holds(kind) for holds in (*texts, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    )


def as_words(column: Any, name: str) -> tuple[NDArray[np.intp], list[str]]:
    """A column as texts: which of the different ones stands in every row, −1 where there is none, and those texts.

    Raises
    ------
    InvalidTableError
        If the column's type, which is public like its name, cannot be written as text.
    """
    codes, values = different_entries(column, name)
    return codes, list(map(word, values.to_pylist()))


def as_written(column: Any, name: str) -> tuple[NDArray[np.intp], list[Any]]:
    """As `as_words`, with every text as the column itself spells it, and numbers and booleans as such.

    Of several spellings of one text, True and TRUE for instance, the most frequent stands for all.
    """
    codes, values = different_entries(column, name)
    entries = [value.decode("utf-8", errors="replace").strip() if isinstance(value, bytes) else value
               for value in values.to_pylist()]  # fmt: skip
    counts = np.bincount(codes[codes >= 0], minlength=len(entries))
    words, spelled = list(map(word, entries)), {"": ""}
    for place in np.argsort(-counts, kind="stable"):
        spelled.setdefault(words[place], entries[place])
    return codes, [spelled[text] for text in words]


def different_entries(column: Any, name: str) -> tuple[NDArray[np.intp], Any]:
    """Which of a column's different entries stands in every row, −1 where there is none, and those, texts as bytes."""
    import pyarrow as pa

    column = _plain(column)
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), -1, dtype=np.intp), pa.array([], pa.binary())
    if pa.types.is_decimal(kind):
        column = column.cast(pa.string()).cast(pa.binary())
    elif not (pa.types.is_binary(kind) or (pa.types.is_primitive(kind) and not pa.types.is_temporal(kind))):
        raise InvalidTableError(
            f"column {name!r} should contain categories and contains {kind}; write it as text first."
        )
    if isinstance(column, pa.ChunkedArray) and column.num_chunks > 1 and column.nbytes < _SHORT:
        column = column.combine_chunks()
    encoded = column.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):  # only the codes are put together: texts may be too long for one array
        encoded = encoded.unify_dictionaries().combine_chunks()
    return encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp), encoded.dictionary


def word(value: Any, errors: str = "replace") -> str:
    """How an entry is written, the same for all that mean the same; nothing is an empty text."""
    if isinstance(value, bytes):
        return as_text(value.decode("utf-8", errors=errors))
    return "" if _is_nothing(value) else as_text(value)
