"""Rows in files that are read in pieces, so that memory does not depend on how many there are."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameter
from dperm.problem import Problem
from dperm.schema import Schema
from dperm.trusted.adding import add_up
from dperm.trusted.block import Block
from dperm.trusted.objectives import Objective
from dperm.trusted.parts import RowPart
from dperm.trusted.sources.base import LocalSource, Report, place_of
from dperm.trusted.sources.counts import ColumnPart
from dperm.trusted.sources.encoder import Encoder
from dperm.trusted.sources.encoding import check_table
from dperm.trusted.sources.files import check_columns, open_pieces
from dperm.trusted.sources.kept import KeptBlocks, Room, cache_folder
from dperm.trusted.sources.pieces import Piece
from dperm.trusted.threads import ONE_THREAD, n_threads

Array = NDArray[np.float64]

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}

# Shares of the memory that may be used. Blocks that are kept take up to a third; tables as they were read, where there
# are few, an eighth; the rest is for what is read and encoded now, and for Python itself.
KEPT, _RAW, _BLOCK = 3, 8, 32
_FEWEST_ROWS, _MOST_ROWS = 2**10, 2**20


class FileSource(LocalSource):
    r"""A table in files: read, encoded by a schema and kept for later passes, in memory and then on local disk.

    Parameters
    ----------
    data : path, list of paths or pyarrow dataset
        A Parquet or CSV file, a folder of such files, a pattern with `*`, or a pyarrow dataset.
    schema : Schema, optional
        Says how rows are encoded; a fit hands over its own.
    memory : int or str
        About how much memory a fit may take, in bytes or as "4 GB". It does not depend on the number of rows.
    cache : path or bool
        The folder for encoded rows that do not fit into memory: by default dperm's own among the user's caches. With
        False nothing is written, and every pass reads the files again.
    class_weights : sequence of float, optional
        A public weight for every declared class.
    n_rows : int, optional
        The declared number of rows, for CSV files that end in empty lines.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from dperm import Classes, FileSource, Number, PrivateLogisticRegression, Schema
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for part in range(3):
    ...     lines = [f"{age},{int(age > 50)}" for age in range(20, 90)]
    ...     _ = (folder / f"part-{part}.csv").write_text("\n".join(["age,ill", *lines]))
    >>> schema = Schema({"age": Number((18, 90))}, Classes("ill", [0, 1]))
    >>> model = PrivateLogisticRegression(1.0, 1e-5, schema=schema, row_warnings=False)
    >>> model.fit(FileSource(folder, memory="500 MB")).classes_.tolist()
    [0, 1]
    """

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
        self._data, self._memory, self._cache = data, bytes_of(memory), cache
        if cache is not True:
            cache_folder(cache)  # raises before anything is read
        self._declared, self._class_weights = n_rows, class_weights
        self._raw = _RawTables(self._memory // _RAW)
        self._pieces: list[Piece] = []
        self._encoder: Encoder | None = None
        self._kept: tuple[Problem, KeptBlocks, list[int | None]] | None = None
        self._report: Report | None = None
        self._passes = 0
        if schema is not None:
            self._use(schema)

    def _use(self, schema: Schema) -> None:
        if not self._pieces:
            declared = schema.n if self._declared is None else self._declared
            self._pieces = open_pieces(self._data, schema.header, schema.separator, n_rows=declared)
        self._encoder = Encoder(schema, self._class_weights)
        check_columns(self._pieces, self._encoder.columns)
        check_table(self._pieces[0].empty(), None, schema)

    def with_schema(self, schema: Schema, class_weights: Sequence[float] | None = None) -> "FileSource":
        """The same files, encoded by this schema; nothing that is kept of the rows is shared."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        other._kept, other._passes = None, 0
        other._class_weights = self._class_weights if class_weights is None else class_weights
        other._use(schema)
        return other

    @property
    def n_rows(self) -> int:
        """Number of rows: that of the files' own notes, or of lines."""
        self._encoding()
        return sum(piece.n_rows for piece in self._pieces)

    @property
    def n_features(self) -> int:
        """Number of columns of an encoded row."""
        return self._encoding().schema.n_features

    def is_slow(self, n: int, schema: Schema | None) -> bool:
        """Whether n encoded rows are more than is kept in memory."""
        return is_on_disk(n, self._encoding().schema if schema is None else schema, self._memory)

    def watch(self, report: Report) -> None:
        """Called with the number of the pass and the rows that it has read."""
        self._report = report

    def blocks(self, problem: Problem) -> Iterator[Block]:
        """Those that are kept, and the others read again."""
        return (block for _, block in self.placed(problem))

    def placed(self, problem: Problem) -> Iterator[tuple[int, Block]]:
        """Places are counted in every piece by itself."""
        encoder = self._encoding()
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
                for block in encoder.blocks(self._raw.of(number, piece, encoder.columns), problem, rows):
                    place = place_of(number, count)
                    kept.offer(place, block)
                    yield place, block
                    count += 1
                n_blocks[number] = count
            n_read += piece.n_rows
            if self._report is not None:
                self._report(self._passes, n_read)

    def total(self, problem: Problem, part: RowPart, objective: Objective, pool: Executor) -> Any:
        """Every thread takes a block; they are added up in order, by pairs."""

        def parts() -> Iterator[Any]:
            running = deque[Future[Any]]()
            for place, block in self.placed(problem):
                running.append(pool.submit(part.of, block, place, objective, ONE_THREAD))
                if len(running) > n_threads():
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()

        return add_up(parts())

    def only_block(self, problem: Problem) -> Block | None:
        """All rows, where they are few enough."""
        if self._kept is None or self._kept[0] is not problem:
            for _ in self.blocks(problem):
                pass
        assert self._kept is not None
        _, kept, n_blocks = self._kept
        return kept[0] if n_blocks == [1] and 0 in kept else None

    def count(self, part: ColumnPart) -> Array:
        """One pass over the columns that it counts."""
        encoder = self._encoding()
        tables = (
            table
            for number, piece in enumerate(self._pieces)
            for table in self._raw.of(number, piece, encoder.columns, part.columns)
        )
        return add_up(encoder.counts(tables, part))

    def close(self) -> None:
        """Drop what is kept of encoded rows."""
        if self._kept is not None:
            self._kept[1].close()
        self._kept = None

    def _encoding(self) -> Encoder:
        if self._encoder is None:
            raise InvalidParameter("rows in files are read by a schema: give the model one (schema=…).")
        return self._encoder


def is_on_disk(n: int, schema: Schema, memory: int | str) -> bool:
    """Whether n encoded rows are more than is kept in memory: public."""
    return n * Encoder(schema).bytes_per_row > bytes_of(memory) // KEPT


def rows_of_block(memory: int, encoder: Encoder) -> int:
    """Rows of a block, from public numbers."""
    return max(_FEWEST_ROWS, min(memory // _BLOCK // encoder.bytes_per_row, _MOST_ROWS))


class _RawTables:
    """Tables as they were read, if all of them are small: then files are read once, whatever is asked before a fit."""

    def __init__(self, memory: int) -> None:
        self._left, self._kept = memory, dict[int, list[Any]]()

    def of(
        self, number: int, piece: Piece, columns: Sequence[str], wanted: Sequence[str] | None = None
    ) -> Iterator[Any]:  # fmt: skip
        """The tables of a piece, with the wanted columns at least; all that are needed are read if that is kept."""
        if number in self._kept:
            yield from self._kept[number]
            return
        if self._left <= 0:
            yield from piece.tables(columns if wanted is None else wanted)
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


def bytes_of(memory: int | str) -> int:
    """A number of bytes, given as such or as text.

    Examples
    --------
    >>> bytes_of("1.5 GB"), bytes_of("512MiB")
    (1500000000, 536870912)
    """
    found = re.fullmatch(r"\s*([0-9]+\.?[0-9]*)\s*([A-Za-z]*)\s*", str(memory))
    if isinstance(memory, bool) or found is None or found[2].upper() not in _UNITS:
        raise InvalidParameter(f"memory must be a number of bytes such as '1 GB' or '512 MB', got {memory!r}.")
    size = float(found[1]) * _UNITS[found[2].upper()]
    if not 10**6 <= size < 2**60:
        raise InvalidParameter(f"memory must be at least 1 MB, got {memory!r}.")
    return int(size)
