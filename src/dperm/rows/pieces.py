"""Pieces of a table that can be read by themselves, again and again: Parquet files, CSV files, Arrow datasets.

No message holds a value, and no single row decides what happens. A piece is plain data, so that it can be sent to where
it is read.
"""

import mmap
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from dperm.errors import ClusterError, InvalidTableError
from dperm.printable import one_line
from dperm.rows.encoder import ROWS_AT_ONCE
from dperm.rows.kept import cache_folder

# Bytes of a column that are read ahead of what is decoded: a row group may be larger than memory.
_BUFFER = 2**16
# Bytes that decoding a column takes with pages of the usual size: one of them, packed and not, and a dictionary.
_COLUMN = 3 * 2**20


@dataclass(frozen=True)
class Reading:
    """How much is read at once.

    Attributes
    ----------
    rows : int
        Of a table.
    memory : int
        Bytes for what is being decoded.
    cache : path or bool
        Where columns wait that are too many to be decoded side by side, as of `cache_folder`; False to decode them side
        by side anyway.
    """

    rows: int = ROWS_AT_ONCE
    memory: int = 2**28
    cache: Any = False


USUAL = Reading()


@dataclass(frozen=True)
class Stamp:
    """What tells two states of a file apart without reading it."""

    size: int
    modified: int

    @classmethod
    def of(cls, path: str) -> "Stamp":
        """Of the file as it is now; raises one sentence if it is gone."""
        with suppress(OSError, ValueError):
            found = Path(path).stat()
            return cls(found.st_size, found.st_mtime_ns)
        raise InvalidTableError(f"{one_line(path)} cannot be read: it is gone, or not for this user.")


class Piece(ABC):
    """Rows that are read one table after another, always the same ones in the same order."""

    @property
    @abstractmethod
    def name(self) -> str:
        """How messages call it."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows, read without looking at a value."""

    @abstractmethod
    def empty(self) -> Any:
        """An Arrow table with the columns and types, and no rows."""

    @abstractmethod
    def _tables(self, columns: Sequence[str], reading: Reading) -> Iterator[Any]:
        """Arrow tables of these columns, of any number of rows."""

    def split(self, rows: int) -> "list[Piece]":
        """Smaller pieces of about so many rows, where that is possible."""
        return [self]

    def tables(self, columns: Sequence[str], reading: Reading = USUAL) -> Iterator[Any]:
        """Arrow tables of these columns, at least one; raises if the rows are not those that were counted.

        All but the last have as many rows as are to be read at once, however they are stored.
        """
        import pyarrow as pa

        n_rows, n_waiting, waiting = 0, 0, list[Any]()
        for table in self._tables(columns, reading):
            n_rows, n_waiting, waiting = n_rows + table.num_rows, n_waiting + table.num_rows, [*waiting, table]
            if n_waiting >= reading.rows:
                whole = pa.concat_tables(waiting)
                n_waiting %= reading.rows
                for first in range(0, whole.num_rows - n_waiting, reading.rows):
                    yield whole.slice(first, reading.rows)
                waiting = [whole.slice(whole.num_rows - n_waiting)]
        if n_rows != self.n_rows:
            raise self._changed()
        if n_waiting or n_rows == 0:
            yield pa.concat_tables(waiting) if n_waiting else self.empty().select(list(columns))

    def _changed(self) -> InvalidTableError:
        return InvalidTableError(
            f"{one_line(self.name)} has changed since it was opened, so it cannot be read consistently."
        )


@dataclass(frozen=True, eq=False, repr=False)
class ParquetPiece(Piece):
    """Row groups of a Parquet file.

    Attributes
    ----------
    path : str
        Of the file.
    filesystem : pyarrow.fs.FileSystem or None
        Where it is; None for the local one.
    row_groups : tuple of int
        Which of them.
    rows : tuple of int
        How many each has.
    constants : dict of str to value
        Columns that the names of its folders stand for, as in `year=2024/`.
    stamp : Stamp or None
        The state of a local file when it was opened.
    """

    path: str
    filesystem: Any
    row_groups: tuple[int, ...]
    rows: tuple[int, ...]
    constants: dict[str, Any]
    stamp: Stamp | None
    columns: Any

    @classmethod
    def open(cls, path: str, filesystem: Any = None, constants: dict[str, Any] | None = None) -> "ParquetPiece":
        """Read what the file says about itself."""
        stamp = Stamp.of(path) if filesystem is None else None
        with _parquet(path, filesystem) as file:
            metadata, columns = file.metadata, file.schema_arrow
            groups = range(metadata.num_row_groups)
            rows = tuple(metadata.row_group(group).num_rows for group in groups)
        if len(set(columns.names)) != len(columns.names):
            raise InvalidTableError(f"{one_line(path)} has two columns of the same name.")
        return cls(path, filesystem, tuple(groups), rows, constants or {}, stamp, columns)

    @property
    def name(self) -> str:
        """The file's path."""
        return self.path

    @property
    def n_rows(self) -> int:
        """By the file's own metadata."""
        return sum(self.rows)

    def empty(self) -> Any:
        """Folder names are text."""
        return self._with_constants(self.columns.empty_table())

    def split(self, rows: int) -> list[Piece]:
        """Row groups are not cut."""
        pieces: list[Piece] = []
        chosen: list[int] = []
        for place in range(len(self.row_groups)):
            if chosen and sum(self.rows[k] for k in chosen) + self.rows[place] > rows:
                pieces.append(self._take(chosen))
                chosen = []
            chosen.append(place)
        return [*pieces, self._take(chosen)]

    def _take(self, places: list[int]) -> "ParquetPiece":
        groups, rows = (tuple(values[k] for k in places) for values in (self.row_groups, self.rows))
        return replace(self, row_groups=groups, rows=rows)

    def _tables(self, columns: Sequence[str], reading: Reading) -> Iterator[Any]:
        import pyarrow as pa

        if self.stamp is not None and Stamp.of(self.path) != self.stamp:
            raise self._changed()
        stored = [name for name in columns if name not in self.constants]
        with _parquet(self.path, self.filesystem) as file:
            if file.schema_arrow != self.columns or file.metadata.num_row_groups < len(self.row_groups):
                raise self._changed()
            tables = self._decoded(file, stored, reading)
            while True:
                table = None
                try:
                    table = next(tables, None)
                except (pa.ArrowException, OSError):
                    file = None
                # Raised here and not above, so that no message of the reader is kept as its context.
                if file is None:
                    raise InvalidTableError(f"{one_line(self.path)} cannot be read as Parquet.")
                if table is None:
                    return
                yield self._with_constants(table)

    def _decoded(self, file: Any, columns: list[str], reading: Reading) -> Iterator[Any]:
        """Row groups whose columns can be decoded side by side together, the others one by one."""
        together: list[int] = []
        for group in self.row_groups:
            parts = _parts(file.metadata.row_group(group), columns, reading.memory // 2)
            if len(parts) <= 1 or reading.cache is False:
                together.append(group)
                continue
            yield from _side_by_side(file, together, columns, reading)
            together = []
            yield _one_after_another(file, group, parts, reading).select(columns)
        yield from _side_by_side(file, together, columns, reading)

    def _with_constants(self, table: Any) -> Any:
        import pyarrow as pa

        for name, value in self.constants.items():
            if name not in table.column_names:
                table = table.append_column(name, pa.array([value] * table.num_rows, pa.string()))
        return table


def _parts(group: Any, columns: Sequence[str], memory: int) -> list[list[str]]:
    """Columns of a row group, in parts that can be decoded side by side."""
    sizes = dict.fromkeys(columns, 0)
    for place in range(group.num_columns):
        chunk = group.column(place)
        name = chunk.path_in_schema.partition(".")[0]
        if name in sizes:
            sizes[name] += min(2 * chunk.total_uncompressed_size, _COLUMN)
    parts: list[list[str]] = [[]]
    for name in columns:
        if parts[-1] and sum(sizes[one] for one in parts[-1]) + sizes[name] > memory:
            parts.append([])
        parts[-1].append(name)
    return parts


def _side_by_side(file: Any, groups: list[int], columns: list[str], reading: Reading) -> Iterator[Any]:
    import pyarrow as pa

    if not groups:
        return
    found = [file.metadata.row_group(group) for group in groups]
    bytes_per_row = sum(group.total_byte_size for group in found) // max(sum(group.num_rows for group in found), 1)
    # More rows at once are decoded faster than few.
    rows = reading.memory // 4 // max(bytes_per_row, 8 * len(columns), 1)
    for batch in file.iter_batches(min(max(rows, reading.rows), 4 * reading.rows), groups, columns=columns):
        yield pa.Table.from_batches([batch])


def _one_after_another(file: Any, group: int, parts: list[list[str]], reading: Reading) -> Any:
    """A row group some of whose columns are decoded after others: it waits in files without a name, mapped."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for part in parts:
        with tempfile.TemporaryFile(dir=cache_folder(reading.cache), prefix="dperm-") as stream:
            batches = file.iter_batches(reading.rows, [group], columns=part)
            first = next(batches)
            with pa.ipc.new_stream(pa.PythonFile(stream, "w"), first.schema) as writer:
                for batch in chain([first], batches):
                    writer.write_batch(batch)
            stream.flush()
            mapped = pa.py_buffer(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
        table = pa.ipc.open_stream(mapped).read_all()
        columns |= dict(zip(table.column_names, table.columns, strict=True))
    return pa.table(columns)


def _parquet(path: str, filesystem: Any) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    with suppress(pa.ArrowException, OSError):
        return parquet.ParquetFile(path, filesystem=filesystem, buffer_size=_BUFFER, pre_buffer=False)
    # Raised here and not above, so that no message of the reader is kept as its context.
    raise InvalidTableError(f"{one_line(path)} cannot be read as Parquet.")


@dataclass(frozen=True, eq=False, repr=False)
class DatasetPiece(Piece):
    """A pyarrow dataset whose files are of another kind, or which filters its rows.

    Attributes
    ----------
    dataset : pyarrow.dataset.Dataset
        Read by pyarrow itself.
    count : int
        Of its rows.
    """

    dataset: Any
    count: int

    @classmethod
    def open(cls, dataset: Any) -> "DatasetPiece":
        """Count the rows."""
        import pyarrow as pa

        names = dataset.schema.names
        if len(set(names)) != len(names):
            raise InvalidTableError("the dataset has two columns of the same name.")
        with suppress(pa.ArrowException, OSError):
            return cls(dataset, int(dataset.count_rows()))
        raise InvalidTableError("the dataset cannot be read.")

    @property
    def name(self) -> str:
        """It may have no path."""
        return "the dataset"

    @property
    def n_rows(self) -> int:
        """As counted."""
        return self.count

    def empty(self) -> Any:
        """Of the dataset's own schema."""
        return self.dataset.schema.empty_table()

    def _tables(self, columns: Sequence[str], reading: Reading) -> Iterator[Any]:
        import pyarrow as pa

        failed, batches = False, None
        with suppress(pa.ArrowException, OSError):
            batches = self.dataset.to_batches(
                columns=list(columns), batch_size=reading.rows, batch_readahead=2, fragment_readahead=1
            )
        while batches is not None:
            batch = None
            try:
                batch = next(batches, None)
            except (pa.ArrowException, OSError):
                failed = True
            if failed or batch is None:
                break
            yield pa.Table.from_batches([batch])
        if failed or batches is None:
            raise InvalidTableError("the dataset cannot be read.")


def dataset_pieces(dataset: Any) -> list[Piece]:
    """The pieces of a pyarrow dataset: its Parquet files, or the dataset as a whole where it is anything else."""
    from pyarrow import dataset as arrow_dataset
    from pyarrow import fs

    fragments: list[Any] = []
    with suppress(ValueError):  # of a dataset that filters its rows
        fragments = list(dataset.get_fragments())
    if not (fragments and all(isinstance(part, arrow_dataset.ParquetFileFragment) for part in fragments)):
        return [DatasetPiece.open(dataset)]
    pieces: list[Piece] = []
    for part in fragments:
        keys = arrow_dataset.get_partition_keys(part.partition_expression)
        constants = {name: None if value is None else str(value) for name, value in keys.items()}
        local = isinstance(part.filesystem, fs.LocalFileSystem)
        pieces.append(ParquetPiece.open(part.path, None if local else part.filesystem, constants))
    return pieces


@dataclass(frozen=True, eq=False, repr=False)
class FramePiece(Piece):
    """A partition of a Dask frame, computed whenever it is read.

    Attributes
    ----------
    partition : Delayed
        Gives a data frame.
    columns : pandas frame
        Without rows.
    count : int
        Of its rows.
    """

    partition: Any
    columns: Any
    count: int

    @property
    def name(self) -> str:
        """It has no path."""
        return "a partition of the frame"

    @property
    def n_rows(self) -> int:
        """As counted."""
        return self.count

    def empty(self) -> Any:
        """By the frame's own types."""
        import pyarrow as pa

        return pa.Table.from_pandas(self.columns, preserve_index=False)

    def _tables(self, columns: Sequence[str], reading: Reading) -> Iterator[Any]:
        import pyarrow as pa

        frame = _computed(self.partition)[list(columns)]
        for first in range(0, len(frame), reading.rows):
            table = None
            with suppress(pa.ArrowException):
                table = pa.Table.from_pandas(frame.iloc[first : first + reading.rows], preserve_index=False)
            # Raised here and not above, so that no message with a value is kept as its context.
            if table is None:
                raise InvalidTableError("a column of the frame has values of several types; write it with one type.")
            yield table


def frame_pieces(frame: Any) -> list[Piece]:
    """The partitions of a Dask frame, whose rows are counted where they are."""
    lengths = _computed(frame.map_partitions(len, meta=("rows", "i8")))
    return [FramePiece(part, frame._meta, int(n)) for part, n in zip(frame.to_delayed(), lengths, strict=True)]


def _computed(task: Any) -> Any:
    kind = ""
    try:
        return task.compute()
    except Exception as error:  # of Dask, or of the frame's own tasks: it may show a value
        kind = type(error).__name__
    raise ClusterError(f"a partition of the frame cannot be computed ({kind}).")
