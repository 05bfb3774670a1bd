"""Rows in files that are read in pieces, so that memory does not depend on how many there are."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.adding import add_up
from dperm.kernel.block import Block
from dperm.kernel.objectives import Objective
from dperm.kernel.parts import RowPart
from dperm.kernel.threads import ONE_THREAD, n_threads
from dperm.problem import Problem
from dperm.rows.base import LocalSource, place_of
from dperm.rows.by_schema import SchemaSource
from dperm.rows.counts import ColumnPart
from dperm.rows.digests import DigestedRows, IdColumn
from dperm.rows.encoder import Encoder
from dperm.rows.encoding import check_table
from dperm.rows.files import check_columns, filled_pieces
from dperm.rows.kept import KeptBlocks, Room, cache_folder
from dperm.rows.memory import KEPT, RAW, is_on_disk, rows_of_block
from dperm.rows.pieces import Piece
from dperm.schema import Schema

Array = NDArray[np.float64]


class FileSource(SchemaSource, LocalSource):
    r"""A table in files: read, encoded by a schema and kept for later passes, in memory and then on local disk.

    Parameters
    ----------
    data : path, list of paths or pyarrow dataset
        A Parquet or CSV file, a folder of such files, a pattern with `*`, or a pyarrow dataset.
    schema : Schema, optional
        Says how rows are encoded; a fit hands over its own.
    memory : int or str
        Approximate memory limit for rows, in bytes or as "4 GB", however many there are. It is not that of the whole
        process (docs/scale.md).
    cache : path or bool
        The folder for encoded rows that do not fit into memory: by default the one that the environment variable
        DPERM_CACHE names, dperm's own among the user's caches, or a temporary one, the first that can be written. With
        False nothing is written, and every pass reads the files again.
    class_weights : sequence of float, optional
        A public weight for every declared class.
    n_rows : int, optional
        The declared number of rows, for CSV files that end in empty lines.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from dperm import Classes, Number, PrivateLogisticRegression, Schema
    >>> from dperm.rows import FileSource
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for part in range(3):
    ...     lines = [f"{age},{int(age > 50)}" for age in range(20, 90)]
    ...     _ = (folder / f"part-{part}.csv").write_text("\n".join(["age,ill", *lines]))
    >>> schema = Schema({"age": Number((18, 90))}, Classes("ill", [0, 1]))
    >>> model = PrivateLogisticRegression(1.0, 1e-5, schema=schema, row_warnings=False)
    >>> model.fit(FileSource(folder, memory="500 MB")).classes_.tolist()
    [0, 1]
    """

    _where = "in files"

    def __init__(
        self,
        data: Any,
        schema: Schema | None = None,
        *,
        memory: int | str = "1 GB",
        cache: Any = True,
        class_weights: Sequence[float] | None = None,
        n_rows: int | None = None,
    ) -> None:
        super().__init__(data, memory, cache, class_weights, n_rows)
        if cache is not True:
            cache_folder(cache)  # raises before anything is read
        self._raw = _RawTables(self._memory // RAW)
        self._pieces: list[Piece] = []
        self._kept: tuple[Problem, KeptBlocks, list[int | None]] | None = None
        if schema is not None:
            self._encode_by(schema)

    def _use(self, encoder: Encoder) -> None:
        if not self._pieces:
            self._pieces = self._open_pieces(encoder.schema)
        check_columns(self._pieces, encoder.columns)
        check_table(self._pieces[0].empty(), None, encoder.schema)

    def _forget(self) -> None:
        self._kept = None

    def _digested(self, ids: IdColumn) -> Iterator[DigestedRows]:
        columns, pieces = self._encoding().columns, enumerate(self._pieces)
        return ids.read(table for k, piece in pieces for table in self._raw.of(k, piece, columns, (ids.name,)))

    def _fill(self, n_missing: int) -> bool:
        before, self._pieces = self._pieces, filled_pieces(self._pieces, n_missing)
        self._raw = _RawTables(self._memory // RAW)
        return self._pieces != before

    @property
    def _n_rows(self) -> int:
        """Number of rows: that of the files' own notes, or of lines."""
        self._encoding()
        return sum(piece.n_rows for piece in self._pieces)

    def is_slow(self, n: int, schema: Schema | None) -> bool:
        """Whether n encoded rows are more than is kept in memory."""
        return is_on_disk(n, self._encoding().schema if schema is None else schema, self._memory)

    def _blocks(self, problem: Problem) -> Iterator[Block]:
        """Those that are kept, and the others read again."""
        return (block for _, block in self._placed(problem))

    def _placed(self, problem: Problem) -> Iterator[tuple[int, Block]]:
        """Places are counted in every piece by itself."""
        encoder, units = self._encoding(), self._chosen_rows()
        if self._kept is None or self._kept[0] is not problem:
            self.close()
            kept = KeptBlocks(Room(self._memory // KEPT), None if self._cache is False else cache_folder(self._cache))
            self._kept = (problem, kept, [None] * len(self._pieces))
        _, kept, n_blocks = self._kept
        self._passes += 1
        rows, n_read = rows_of_block(self._memory, encoder), 0
        for number, piece in enumerate(self._pieces):
            known, first = n_blocks[number], place_of(number, 0)
            if known is not None and all(first + k in kept for k in range(known)):
                for place in range(first, first + known):
                    kept.expect(place + 1)
                    yield place, kept[place]
            else:
                count = 0
                tables = self._raw.of(number, piece, encoder.columns, encoder.encoded_columns)
                own = None if units is None else units.beginning_at(n_read)
                for block in encoder.blocks(tables, problem, rows, units=own):
                    place = place_of(number, count)
                    kept.offer(place, block)
                    yield place, block
                    count += 1
                n_blocks[number] = count
            n_read += piece.n_rows
            if self._report is not None:
                self._report(self._passes, n_read)

    def _total(self, problem: Problem, part: RowPart, objective: Objective, pool: Executor) -> Any:
        """Every thread takes a block; they are added up in order, by pairs."""

        def parts() -> Iterator[Any]:
            running = deque[Future[Any]]()
            for place, block in self._placed(problem):
                running.append(pool.submit(part.of, block, place, objective, ONE_THREAD))
                if len(running) > n_threads():
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()

        return add_up(parts())

    def _only_block(self, problem: Problem) -> Block | None:
        """All rows, where they are few enough."""
        if self._kept is None or self._kept[0] is not problem:
            for _ in self._blocks(problem):
                pass
        assert self._kept is not None
        _, kept, n_blocks = self._kept
        return kept[0] if n_blocks == [1] and 0 in kept else None

    def _count(self, part: ColumnPart) -> Array:
        """One pass over the columns that it counts."""
        encoder = self._encoding()
        tables = (
            table
            for number, piece in enumerate(self._pieces)
            for table in self._raw.of(number, piece, encoder.columns, part.columns)
        )
        return add_up(encoder.counts(tables, part, self._chosen_rows()))

    def close(self) -> None:
        """Drop what is kept of encoded rows."""
        if self._kept is not None:
            self._kept[1].close()
        self._kept = None


class _RawTables:
    """Tables as they were read, if all of them are small: then files are read once, whatever is asked before a fit."""

    def __init__(self, memory: int) -> None:
        self._left, self._kept = memory, dict[int, list[Any]]()

    def of(
        self, number: int, piece: Piece, columns: Sequence[str], wanted: Sequence[str]
    ) -> Iterator[Any]:  # fmt: skip
        """The tables of a piece, with the wanted columns at least; all that are needed are read if that is kept."""
        if number in self._kept:
            yield from self._kept[number]
            return
        # Numbers take four bytes or more: a piece that cannot be kept is not read as a whole for a few of its columns.
        if 4 * piece.n_rows * len(columns) >= self._left:
            self._left = 0
            self._kept.clear()
            yield from piece.tables(wanted)
            return
        tables: list[Any] = []
        for table in piece.tables(columns):
            self._left -= table.nbytes
            if self._left > 0:
                tables.append(table)
            yield table
        if self._left > 0:
            self._kept[number] = tables
        else:
            self._kept.clear()
