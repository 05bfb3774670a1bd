"""CSV files, read in blocks of lines. No message holds a value, and no single line decides what happens.

A record is one line. A line with the wrong number of fields or an unclosed quote, one of more than 4 million
characters, and an empty one hold no value, and neither does a cell of more than 64 KB: what a line costs has a public
limit. Bytes that are not UTF-8 are replaced, wherever they stand. Lines that are empty at the end of a file are no
rows, unless the declared number of rows says that they are: a row that is replaced by an empty line must not end a fit.
"""

import bz2
import csv
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from dperm.errors import InvalidTableError
from dperm.printable import one_line
from dperm.rows.pieces import Piece, Reading, Stamp

UNPACKERS: dict[str, Callable[[str], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

# Characters; a longer line is not a record.
_LONGEST_LINE = 2**22
# Bytes; a longer cell is missing.
_LONGEST_CELL = 2**16
# Bytes that are read at once.
_BLOCK = 2**20
# Stands for a line that is too long to be kept: no record either.
_NO_RECORD = b"\r"


@dataclass(frozen=True, repr=False)
class CsvPiece(Piece):
    """A CSV file.

    Attributes
    ----------
    path : str
        Of the file; one that ends in .gz, .bz2 or .xz is unpacked.
    names : tuple of str
        Of its columns.
    has_header : bool
        Whether the first line has the names.
    separator : str
        What stands between fields.
    n_lines : int
        Lines that are rows.
    n_blank : int
        Empty lines at the end, which are none.
    n_filled : int
        How many of those are rows after all.
    stamp : Stamp
        The state of the file when it was opened.
    """

    path: str
    names: tuple[str, ...]
    has_header: bool
    separator: str
    n_lines: int
    n_blank: int
    n_filled: int
    stamp: Stamp

    @classmethod
    def open(cls, path: str, header: Sequence[str] | None = None, separator: str = ",") -> "CsvPiece | None":
        """Count the lines; None if not one has the right number of fields."""
        stamp = Stamp.of(path)
        first, blocks = _header_and_blocks(path, with_header=header is None)
        if b"\0" in first:
            raise InvalidTableError(f"{one_line(path)} is not UTF-8 text: write it as UTF-8 first (it may be UTF-16).")
        names = tuple(header) if header is not None else tuple(_fields(first, separator))
        if not names:
            raise InvalidTableError(f"{one_line(path)} is empty; its first line must name the columns.")
        if len(set(names)) != len(names):
            raise InvalidTableError(f"{one_line(path)} has two columns of the same name.")
        piece = cls(path, names, header is None, separator, 0, 0, 0, stamp)
        n_lines, n_blank, found = 0, 1, False
        for lines, n_empty in piece._lines(blocks):
            if lines:
                n_lines, n_blank = n_lines + (n_blank - 1) + lines.count(b"\n") + 1, n_empty
                found = found or not piece._parse(lines, names[:1])[1].all()
            else:
                n_blank += n_empty
        # A blank line of one column is a row without a value; only what ends the last line is none.
        if len(names) == 1 and n_blank > 1:
            n_lines, n_blank = n_lines + n_blank - 1, 1
        return replace(piece, n_lines=n_lines, n_blank=n_blank) if found or n_lines == 0 else None

    @property
    def name(self) -> str:
        """The file's path."""
        return self.path

    @property
    def n_rows(self) -> int:
        """Lines, and empty ones at the end that are rows after all."""
        return self.n_lines + self.n_filled

    def filled(self, n_missing: int) -> "CsvPiece":
        """With as many empty lines at the end as rows as are missing, or as there are; a file without rows has none."""
        return replace(self, n_filled=min(max(n_missing, 0), self.n_blank) if self.n_lines else 0)

    def empty(self) -> Any:
        """Every field is text."""
        return self._nothing(0, self.names)

    def _tables(self, columns: Sequence[str], reading: Reading) -> Iterator[Any]:
        if Stamp.of(self.path) != self.stamp:
            raise self._changed()
        _, blocks = _header_and_blocks(self.path, self.has_header)
        n_left, n_blank = self.n_lines, 0
        for lines, n_empty in self._lines(blocks):
            if not lines:
                n_blank += n_empty
                continue
            between, n_blank = self._nothing(min(n_blank, n_left), columns), max(n_empty - 1, 0)
            table, _ = self._parse(lines, columns)
            n_left -= between.num_rows + table.num_rows
            yield between
            yield table
        n_left += self.n_filled
        for first in range(0, n_left, reading.rows):
            yield self._nothing(min(reading.rows, n_left - first), columns)

    @staticmethod
    def _lines(blocks: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
        """Lines without the end of the last one, and how many line ends follow it; no lines if all are empty."""
        for block in blocks:
            lines = block.rstrip(b"\n")
            yield lines, len(block) - len(lines)

    def _parse(self, lines: bytes, columns: Sequence[str]) -> tuple[Any, Any]:
        """Columns of a table with one row a line, and which lines are not records."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        n_lines = lines.count(b"\n") + 1
        odd = np.zeros(n_lines, dtype=bool)
        if b'"' in lines or b"\r" in lines or b"\n\n" in lines or lines[:1] == b"\n" or len(lines) > _LONGEST_LINE:
            each = lines.decode().split("\n")
            # Fields are quoted as a whole, with every quote in them doubled, or have no quote at all. Nothing is tried
            # twice (*+): else the matcher keeps a note of a hundred bytes for every character of a long field.
            field = rf'(?:"[^"]*+(?:""[^"]*+)*+"|[^"{re.escape(self.separator)}]*+)'
            record = re.compile(f"{field}(?:{re.escape(self.separator)}{field})*+")
            odd = np.array([not _is_record(line, record) for line in each])
            lines = "\n".join(line for line, is_odd in zip(each, odd, strict=True) if not is_odd).encode()
        places = np.flatnonzero(~odd)
        if not places.size:
            return self._nothing(n_lines, columns), odd

        def note_odd_line(row: Any) -> str:
            odd[places[row.number - 1]] = True
            return "skip"

        table = None
        with suppress(pa.ArrowException):
            table = arrow_csv.read_csv(
                pa.BufferReader(lines),
                read_options=arrow_csv.ReadOptions(
                    column_names=list(self.names), use_threads=False, block_size=max(len(lines) + 1, 2**16)
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self.separator, invalid_row_handler=note_odd_line, ignore_empty_lines=False
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(self.names, pa.binary()), include_columns=list(columns)
                ),
            )
        if table is None or table.num_rows != n_lines - odd.sum():
            raise InvalidTableError(f"{one_line(self.path)} cannot be read as CSV.")
        table = _without_long_cells(table)
        if not odd.any():
            return table, odd
        if odd.all():
            return self._nothing(n_lines, columns), odd
        # A line that is none keeps its position, so that predictions stay beside their rows.
        return table.take(pa.array(np.maximum(np.cumsum(~odd) - 1, 0), mask=odd)), odd

    @staticmethod
    def _nothing(n_rows: int, columns: Sequence[str]) -> Any:
        import pyarrow as pa

        return pa.table({name: pa.nulls(n_rows, pa.binary()) for name in columns})


def _without_long_cells(table: Any) -> Any:
    """The same table with nothing in place of a cell that is too long to be a number, a category, a label or an id."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, column in enumerate(table.columns):
        too_long = pc.greater(pc.binary_length(column), _LONGEST_CELL)
        if pc.any(too_long).as_py():
            kept = pc.if_else(pc.fill_null(too_long, False), pa.scalar(None, column.type), column)
            table = table.set_column(place, table.column_names[place], kept)
    return table


def _is_record(line: str, record: re.Pattern[str]) -> bool:
    """Whether a line is one record on its own, and cannot become part of another or several."""
    if "\r" in line or not line or len(line) > _LONGEST_LINE:
        return False
    return '"' not in line or record.fullmatch(line) is not None


def _header_and_blocks(path: str, with_header: bool) -> tuple[bytes, Iterator[bytes]]:
    """The first line, if it names the columns, and the blocks of lines behind it."""
    blocks = _blocks(path)
    if not with_header:
        return b"", blocks
    block = next(blocks, b"")
    first, _, rest = block.partition(b"\n")
    return first, chain([rest] if rest else [], blocks)


def _blocks(path: str) -> Iterator[bytes]:
    """Whole lines, in UTF-8, that end in a line feed alone; the last line may have no end."""
    ending = "." + path.rpartition(".")[2].lower()
    is_packed, failed = ending in UNPACKERS, False
    rest, is_first, is_too_long = b"", True, False
    stream = UNPACKERS[ending](path) if is_packed else open(path, "rb")  # noqa: SIM115 - closed below
    with stream:
        while True:
            content = b""
            try:
                content = stream.read(_BLOCK)
            except (OSError, EOFError, lzma.LZMAError, zlib.error, ValueError):
                failed = True
            # Raised here and not above, so that no message of the reader is kept as its context.
            if failed or (is_packed and is_first and not content):
                what = "unpacked" if is_packed else "read"
                raise InvalidTableError(f"{one_line(path)} cannot be {what}.")
            if not content:
                break
            if is_first:
                content, is_first = content.removeprefix(b"\xef\xbb\xbf"), False
            if is_too_long:  # go on behind its end
                _, found, content = content.partition(b"\n")
                is_too_long = not found
                content = _NO_RECORD + b"\n" + content if found else b""
            whole, found, rest_of_block = content.rpartition(b"\n")
            if found:
                yield _plain(rest + whole + found)
                rest = rest_of_block
            else:
                rest += content
            if len(rest) > 4 * _LONGEST_LINE:
                rest, is_too_long = b"", True
        if is_too_long:
            rest = _NO_RECORD
        if rest:
            yield _plain(rest)


def _plain(block: bytes) -> bytes:
    if b"\r\n" in block:
        block = block.replace(b"\r\n", b"\n")
    try:
        block.decode()
    except UnicodeDecodeError:
        return block.decode(errors="replace").encode()
    return block


def _fields(line: bytes, separator: str) -> list[str]:
    try:
        return next(csv.reader([line.decode()], delimiter=separator), [])
    except csv.Error:
        return []
