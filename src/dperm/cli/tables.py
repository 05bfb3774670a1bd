"""CSV and Parquet tables. No message holds a value, and no single row decides what happens.

A CSV record is one line. A line with the wrong number of fields or an unclosed quote, an empty one, and a text where a
number belongs make their row count as nothing; bytes that are not UTF-8 are replaced, wherever they stand.
Whether a column holds numbers is decided by the majority of its entries and counts as public, like its name.
"""

import csv
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import DpermError, InvalidParameter

_NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"


class TableFile:
    """A table on disk, its columns in Arrow arrays."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise DpermError("reading tables needs pyarrow: pip install 'dperm[tables]'.") from None
        if not path.is_file():
            raise InvalidParameter(f"there is no file {path}.")
        readers = {".csv": _read_csv, ".parquet": _read_parquet, ".pq": _read_parquet}
        reader = readers.get(path.suffix.lower())
        if reader is None:
            raise InvalidParameter(f"{path} must end in .csv or .parquet.")
        self._path = path
        self._table = reader(path)
        self.names = list(self._table.column_names)
        if len(set(self.names)) != len(self.names):
            raise InvalidParameter(f"{path} has two columns of the same name.")
        if self._table.num_rows == 0:
            raise InvalidParameter(f"{path} has no rows.")

    def require(self, names: Sequence[str]) -> None:
        """Raise if a column is missing."""
        missing = [name for name in names if name not in self.names]
        if missing:
            # The columns are not listed: in a file without a header they would be a row.
            raise InvalidParameter(f"{self._path} has no column {missing[0]!r}; its first line must name the columns.")

    def numbers(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Columns as floats, NaN where there is no number."""
        self.require(names)
        table = np.empty((self._table.num_rows, len(names)))
        for position, name in enumerate(names):
            table[:, position] = _as_numbers(self._table.column(name), name)
        return table

    def labels(self, name: str) -> NDArray[Any]:
        """A column as text."""
        import pyarrow as pa

        self.require([name])
        column = self._table.column(name)
        if not pa.types.is_binary(column.type):
            simple = pa.types.is_primitive(column.type) or pa.types.is_string(column.type)
            if not simple and not pa.types.is_large_string(column.type):
                raise InvalidParameter(f"column {name!r} holds {column.type}, which cannot be a class.")
            column = column.cast(pa.string()).cast(pa.binary())
        encoded = column.combine_chunks().dictionary_encode()
        words = [value.decode("utf-8", errors="replace").strip() for value in encoded.dictionary.to_pylist()]
        positions = encoded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
        return np.asarray(np.array([*words, ""], dtype=object)[positions])


def _read_csv(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    lines = path.read_bytes().decode("utf-8-sig", errors="replace").replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    names = _header(lines[0]) if lines else []
    if not names:
        raise InvalidParameter(f"{path} is empty; its first line must name the columns.")
    whole = [line for line in lines[1:] if line and line.count('"') % 2 == 0]
    odd_lines = len(lines) - 1 - len(whole)

    def count_odd_line(_row: Any) -> str:
        nonlocal odd_lines
        odd_lines += 1
        return "skip"

    table = None
    if whole:
        with suppress(pa.ArrowInvalid):
            table = arrow_csv.read_csv(
                pa.BufferReader("\n".join(whole).encode()),
                read_options=arrow_csv.ReadOptions(column_names=names, use_threads=False),
                parse_options=arrow_csv.ParseOptions(invalid_row_handler=count_odd_line, ignore_empty_lines=False),
                convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary())),
            )
        if table is None:
            raise InvalidParameter(f"{path} cannot be read as CSV.")
    void = pa.Table.from_arrays([pa.nulls(odd_lines, pa.binary()) for _ in names], names=names)
    return void if table is None else pa.concat_tables([table, void])


def _header(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _read_parquet(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.read_table(path)
    except (pa.ArrowInvalid, OSError):
        pass
    # Raised here and not above, so that no message of the reader is kept as its context.
    raise InvalidParameter(f"{path} cannot be read as Parquet.")


def _as_numbers(column: Any, name: str) -> NDArray[np.float64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column, kind = column.cast(pa.binary()), pa.binary()
    if pa.types.is_binary(kind):
        matches = pc.fill_null(pc.match_substring_regex(column, _NUMBER), False)
        filled = pc.sum(pc.greater(pc.binary_length(column), 0)).as_py() or 0
        if 2 * (pc.sum(matches).as_py() or 0) < filled:
            raise InvalidParameter(f"column {name!r} holds text; encode it as numbers or leave it out with --features.")
        text = pc.if_else(matches, column, pa.scalar(None, pa.binary())).cast(pa.string())
        column = pc.utf8_ltrim(pc.utf8_trim_whitespace(text), characters="+").cast(pa.float64())
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64(), safe=False)
    elif not pa.types.is_floating(kind):
        raise InvalidParameter(f"column {name!r} holds {kind}; encode it as numbers or leave it out with --features.")
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
