"""CSV and Parquet tables. No message holds a value, and no single row decides what happens.

A CSV record is one line. A line with the wrong number of fields or an unclosed quote, and an empty one, hold no value;
bytes that are not UTF-8 are replaced, wherever they stand. Lines that are empty at the end of a file are no rows,
unless the declared number of rows says that they are: a row that is replaced by an empty line must not end a fit.
"""

import bz2
import csv
import gzip
import lzma
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import DpermError, InvalidTable
from dperm.trusted.sources.columns import Columns, as_numbers, as_words, count_texts

_UNPACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
}

# Characters; a longer line is no record.
_LONGEST_LINE = 2**24


class TableFile:
    """A table on disk, its columns in Arrow arrays.

    Parameters
    ----------
    path : Path
        A CSV or Parquet file; a CSV file may be compressed (.gz, .bz2, .xz).
    header : sequence of str, optional
        Names of the columns of a CSV file without a first line that names them, whatever its ending.
    separator : str
        What stands between its fields.
    shorter_header : sequence of str, optional
        Names to take where no line has as many fields as `header` names.
    n_rows : int, optional
        The declared number of rows: as many empty lines at the end are rows as are needed to reach it.
    """

    def __init__(
        self,
        path: Path,
        header: Sequence[str] | None = None,
        separator: str = ",",
        *,
        shorter_header: Sequence[str] | None = None,
        n_rows: int | None = None,
    ) -> None:
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise DpermError("reading tables needs pyarrow: pip install 'dperm[tables]'.") from None
        if not path.is_file():
            raise InvalidTable(f"there is no file {path}.")
        ending = (path.with_suffix("") if path.suffix.lower() in _UNPACKERS else path).suffix.lower()
        if ending in (".parquet", ".pq"):
            self.table = _read_parquet(path)
        elif ending in (".csv", ".tsv") or header is not None:
            found = _read_csv(path, header, separator, n_rows or 0)
            if found is None and shorter_header is not None:
                found = _read_csv(path, shorter_header, separator, n_rows or 0)
            if found is None:
                fields = "the named fields" if header is None else f"{len(header)} fields"
                raise InvalidTable(f"no line of {path} has {fields} between {separator!r}.")
            self.table = found
        else:
            raise InvalidTable(
                f"{path} must end in .csv, .tsv (.gz, .bz2, .xz) or .parquet, or a schema name its columns."
            )
        self.names = list(self.table.column_names)
        if len(set(self.names)) != len(self.names):
            raise InvalidTable(f"{path} has two columns of the same name.")
        if self.table.num_rows == 0:
            raise InvalidTable(f"{path} has no rows.")
        self._path = path
        self._columns = Columns(self.table)

    def require(self, names: Sequence[str]) -> None:
        """Raise if a column is missing."""
        missing = [name for name in names if name not in self.names]
        if missing:
            # The columns are not listed: in a file without a header they would be a row.
            raise InvalidTable(f"{self._path} has no column {missing[0]!r}; its first line must name the columns.")

    def numbers(self, names: Sequence[str]) -> Any:
        """Columns as an Arrow table of floats, NaN where there is no number.

        Whether a column holds numbers is decided by the majority of its entries and counts as public, like its name.
        """
        import pyarrow as pa

        self.require(names)
        columns = {}
        for name in names:
            column = self._columns.arrow(name)
            numbers = as_numbers(column, name)
            if 2 * np.count_nonzero(~np.isnan(numbers)) < count_texts(column):
                raise InvalidTable(
                    f"column {name!r} holds text; declare its categories in a --schema or leave it out with --features."
                )
            columns[name] = pa.array(numbers)
        return pa.table(columns)

    def labels(self, name: str) -> NDArray[Any]:
        """A column as text."""
        self.require([name])
        codes, words = as_words(self._columns.arrow(name), name)
        return np.asarray(np.array([*words, ""], dtype=object)[codes])


def _read_csv(path: Path, header: Sequence[str] | None, separator: str, n_rows: int) -> Any | None:
    """The table, None if no line has the right number of fields."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    lines = _text(path).replace("\r\n", "\n").split("\n")
    names = list(header) if header is not None else _header(lines.pop(0), separator) if lines else []
    if not names:
        raise InvalidTable(f"{path} is empty; its first line must name the columns.")
    if len(lines) > n_rows and lines[-1] == "":  # the end of the last line
        lines.pop()
    # A record of two fields has a separator at least.
    while len(lines) > n_rows and len(names) > 1 and lines[-1] == "":
        lines.pop()
    if not any(lines):
        return pa.table({name: pa.nulls(0, pa.binary()) for name in dict.fromkeys(names)})
    # Fields are quoted as a whole, with every quote in them doubled, or have no quote at all.
    field = rf'(?:"(?:""|[^"])*"|[^"{re.escape(separator)}]*)'
    record = re.compile(f"{field}(?:{re.escape(separator)}{field})*")
    whole = np.array([_is_record(line, record) for line in lines])
    places = np.flatnonzero(whole)
    if not places.size:
        return None

    def note_odd_line(row: Any) -> str:
        whole[places[row.number - 1]] = False
        return "skip"

    longest = max(2**20, 8 * max(len(lines[place]) for place in places))  # bytes; a line must fit into a block
    table = None
    with suppress(pa.ArrowException):
        table = arrow_csv.read_csv(
            pa.BufferReader("\n".join(lines[place] for place in places).encode()),
            read_options=arrow_csv.ReadOptions(column_names=names, use_threads=False, block_size=longest),
            parse_options=arrow_csv.ParseOptions(
                delimiter=separator, invalid_row_handler=note_odd_line, ignore_empty_lines=False
            ),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary())),
        )
    if table is None or table.num_rows != whole.sum():
        raise InvalidTable(f"{path} cannot be read as CSV.")
    if not whole.any():
        return None
    # A line that is none keeps its place, so that predictions stay beside their rows.
    return table if whole.all() else table.take(pa.array(np.cumsum(whole) - 1, mask=~whole))


def _is_record(line: str, record: re.Pattern[str]) -> bool:
    """Whether a line is one record by itself, and cannot become part of another or several."""
    if "\r" in line or not line or len(line) > _LONGEST_LINE:
        return False
    return '"' not in line or record.fullmatch(line) is not None


def _text(path: Path) -> str:
    content, unpack = path.read_bytes(), _UNPACKERS.get(path.suffix.lower())
    if unpack is not None:
        try:
            content = unpack(content)
        except (OSError, EOFError, lzma.LZMAError, ValueError):
            content = b""
        if not content:
            raise InvalidTable(f"{path} cannot be unpacked.")
    return content.decode("utf-8-sig", errors="replace")


def _header(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator), [])
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
    raise InvalidTable(f"{path} cannot be read as Parquet.")
