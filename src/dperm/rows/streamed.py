"""Rows in files that are read in pieces, so that memory does not depend on how many there are."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.source import EncodedRows, LocalSource, TablePiece
from dperm.problem import Problem
from dperm.rows.by_schema import SchemaSource
from dperm.rows.digests import DigestedRows, IdColumn
from dperm.rows.kept import KeptBlocks, Room, cache_folder
from dperm.rows.memory import is_on_disk
from dperm.rows.pieces import Piece, Reading
from dperm.schema import Schema

Array = NDArray[np.float64]


class FileSource(SchemaSource, LocalSource):
    """A table in files: read, encoded by a schema and kept for later passes, in memory and then on local disk.

    Parameters as of `SchemaSource`.
    """

    _where = "in files"
    _block_by_block: ClassVar[bool] = True

    def __init__(self, data: Any, schema: Schema | None = None, *, cache: Any = True, **settings: Any) -> None:
        if cache is not True:
            cache_folder(cache)  # raises before anything is read
        super().__init__(data, schema, cache=cache, **settings)
        self._raw = _RawTables(self._budget.raw)

    def _forget(self) -> None:
        self._kept = None

    def _digested(self, ids: IdColumn) -> Iterator[DigestedRows]:
        return ids.read(self._tables((ids.name,)))

    def _fill(self, n_missing: int) -> bool:
        self._raw = _RawTables(self._budget.raw)
        return super()._fill(n_missing)

    @property
    def _n_rows(self) -> int:
        """Number of rows: that of the files' own notes, or of lines."""
        self._encoding()
        return sum(piece.n_rows for piece in self._opened)

    def is_slow(self, n: int, schema: Schema | None) -> bool:
        """Whether n encoded rows are more than is kept in memory."""
        return is_on_disk(n, self._encoding().schema if schema is None else schema, self._budget)

    def _store(self) -> KeptBlocks:
        """In memory, and on disk beyond that."""
        return KeptBlocks(Room(self._budget.kept), cache_folder(self._cache))

    def _pieces(self) -> list[TablePiece]:
        """The files."""
        return [TablePiece(piece.n_rows, partial(self._read, k, piece)) for k, piece in enumerate(self._opened)]

    def _read(self, number: int, piece: Piece, problem: Problem) -> Iterator[EncodedRows]:
        encoder, budget = self._encoding(), self._budget
        tables = self._raw.of(number, piece, encoder.columns, encoder.encoded_columns, self._reading())
        return encoder.blocks(tables, problem, budget.rows_of_block(encoder), budget.ahead)

    def _columns(self, names: Sequence[str]) -> tuple[Schema, Iterator[Mapping[str, Array]]]:
        """One pass over these columns."""
        encoder = self._encoding()
        return encoder.schema, encoder.columns_of(self._tables(names), names)

    def _tables(self, names: Sequence[str]) -> Iterator[Any]:
        columns, reading = self._encoding().columns, self._reading()
        for number, piece in enumerate(self._opened):
            yield from self._raw.of(number, piece, columns, names, reading)

    def _reading(self) -> Reading:
        return self._budget.reading(self._cache, self._encoding())


class _RawTables:
    """Tables as they were read, if all of them are small: then files are read once, whatever is asked before a fit."""

    def __init__(self, memory: int) -> None:
        self._left, self._kept = memory, dict[int, list[Any]]()

    def of(
        self, number: int, piece: Piece, columns: Sequence[str], wanted: Sequence[str], reading: Reading
    ) -> Iterator[Any]:  # fmt: skip
        """The tables of a piece, with the wanted columns at least; all that are needed are read if that is kept."""
        if number in self._kept:
            yield from self._kept[number]
            return
        # Numbers take four bytes or more: a piece that cannot be kept is not read as a whole for a few of its columns.
        if 4 * piece.n_rows * len(columns) >= self._left:
            self._left = 0
            self._kept.clear()
            yield from piece.tables(wanted, reading)
            return
        tables: list[Any] = []
        for table in piece.tables(columns, reading):
            self._left -= table.nbytes
            if self._left > 0:
                tables.append(table)
            yield table
        if self._left > 0:
            self._kept[number] = tables
        else:
            self._kept.clear()
