"""One table, whatever it is made of: arrays, frames, Arrow, CSV and Parquet files, datasets, Dask."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError, InvalidTableError
from dperm.kernel.source import Source
from dperm.kernel.units import Membership
from dperm.privacy.unit import PrivacyUnit
from dperm.rows.arrays import ArraySource, TableSource
from dperm.rows.by_schema import SchemaSource
from dperm.rows.cluster import ClusterSource
from dperm.rows.columns import Columns, as_numbers, as_words, as_written, number_columns
from dperm.rows.dask_client import is_frame
from dperm.rows.digests import IdColumn, Numbering
from dperm.rows.encoder import ROWS_AT_ONCE, Encoder
from dperm.rows.files import check_columns, is_files, open_pieces, shown
from dperm.rows.ids import codes_of_column
from dperm.rows.kept import cache_folder
from dperm.rows.memory import MemoryBudget
from dperm.rows.pieces import ParquetPiece, Piece, Reading
from dperm.rows.streamed import FileSource
from dperm.schema import Schema
from dperm.schema.checks import as_text

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    r"""A table of rows, with settings for how it is read: taken by every `fit`, search, evaluation and audit.

    Whatever takes rows makes one of them itself, so it is needed only for other settings than the usual ones.

    Parameters
    ----------
    data : array, sparse matrix, pandas, polars or Arrow table, path, list of paths, pyarrow dataset or Dask data frame
        A path names a Parquet or CSV file, a folder of them, or a pattern with `*`. Files and Dask frames are stored:
        they are read a few rows at a time.
    memory : int or str
        What a fit takes at most for a stored table, in bytes or as "4 GB", however many rows there are; 100 MB or more.
        Python and its libraries come on top (docs/scale.md).
    cache : path or bool
        The folder for encoded rows that do not fit into memory: by default the one that the environment variable
        DPERM_CACHE names, dperm's own among the user's caches, or a temporary one, the first that can be written. With
        False nothing is written, and every pass reads the files again.
    client : distributed.Client, optional
        Of the cluster whose workers are to read files; for a Dask frame by default the current one.
    n_rows : int, optional
        The declared number of rows, for CSV files that end in empty lines.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from dperm import Classes, Number, PrivateLogisticRegression, Schema
    >>> from dperm.rows import Table
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for part in range(3):
    ...     lines = [f"{age},{int(age > 50)}" for age in range(20, 90)]
    ...     _ = (folder / f"part-{part}.csv").write_text("\n".join(["age,ill", *lines]))
    >>> schema = Schema({"age": Number((18, 90))}, Classes("ill", [0, 1]))
    >>> model = PrivateLogisticRegression(1.0, 1e-5, schema=schema, row_warnings=False)
    >>> model.fit(Table(folder, memory="500 MB")).classes_.tolist()
    [0, 1]
    """

    data: Any
    memory: int | str | MemoryBudget = field(default="1 GB", kw_only=True)
    cache: Any = field(default=True, kw_only=True)
    client: Any = field(default=None, kw_only=True)
    n_rows: int | None = field(default=None, kw_only=True)

    @classmethod
    def of(cls, data: Any) -> "Table":
        """Of whatever a caller hands over; one that is a table already stays as it is."""
        return data if isinstance(data, cls) else cls(data)

    @property
    def is_stored(self) -> bool:
        """Whether its rows are in files or on a cluster, and not in memory."""
        return isinstance(self.data, Source) or is_files(self.data) or is_frame(self.data)

    def source(
        self, y: Any = None, schema: Schema | None = None, weights: Any = None,
        class_weights: Sequence[float] | None = None, groups: Any = None, unit: PrivacyUnit | None = None,
    ) -> Source:  # fmt: skip
        """The rows for one fit.

        Parameters
        ----------
        y : column of values, optional
            The target, of a table in memory without a schema, or whose target is no column of it.
        schema : Schema, optional
            Says how rows are encoded; without one they must be numbers in memory.
        weights : array, optional
            Weight per row, of a table in memory.
        class_weights : sequence of float, optional
            A public weight for every declared class.
        groups : array, optional
            The id of every row's unit, of a table in memory without a schema.
        unit : PrivacyUnit, optional
            What these ids stand for.
        """
        if schema is not None and groups is not None:
            raise InvalidParameterError("groups cannot be combined with a schema: ids are a column of the table.")
        if not self.is_stored:
            if schema is None:
                return ArraySource(self.data, y, weights, groups, unit)
            return TableSource(self.data, y, schema, class_weights, weights)
        if y is not None or weights is not None or groups is not None:
            raise InvalidParameterError("y, weights and groups cannot be combined with files, Dask frames or sources.")
        if isinstance(self.data, Source):
            return self.data if schema is None else self.data.with_schema(schema, class_weights)
        settings: dict[str, Any] = {"memory": self.memory, "cache": self.cache, "class_weights": class_weights}
        if is_frame(self.data) or self.client is not None:
            return ClusterSource(self.data, self.client, schema, n_rows=self.n_rows, **settings)
        return FileSource(self.data, schema, n_rows=self.n_rows, **settings)

    def opened(
        self, header: Sequence[str] | None = None, separator: str = ",", shorter_header: Sequence[str] | None = None
    ) -> "StoredTable":  # fmt: skip
        """The columns of a stored table as they are, for whoever does not minimise over rows.

        Parameters
        ----------
        header : sequence of str, optional
            Names of the columns of CSV files whose first line does not name them.
        separator : str
            What stands between their fields.
        shorter_header : sequence of str, optional
            Names to take where no line has as many fields as `header` names.
        """
        data, n_rows = self.data, self.n_rows
        if isinstance(data, SchemaSource):
            data, n_rows = data._data, data._declared
        if isinstance(data, Source):
            raise InvalidParameterError("a source of rows can only be fitted: pass the table itself.")
        pieces = open_pieces(data, header, separator, n_rows=n_rows, shorter_header=shorter_header)
        return StoredTable(pieces, shown(data), MemoryBudget.of(self.memory).reading(self.cache))


def in_memory(X: Any, schemas: Sequence[Schema]) -> Any:
    """A table in memory as it is; of any other the columns that the schemas name, read as an Arrow table."""
    table = taken(X)
    if not isinstance(table, Table):
        return table
    if not schemas:
        raise InvalidParameterError("files and clusters require a schema: pass schema=.")
    names = [name for schema in schemas for name in Encoder(schema).columns]
    return table.opened(schemas[0].header, schemas[0].separator).read(list(dict.fromkeys(names))).combine_chunks()


def taken(X: Any) -> Any:
    """What a caller hands over: a table in memory as it is, any other as a `Table`."""
    table = Table.of(X)
    return table if table.is_stored else table.data


class StoredTable:
    """The columns of a table in files or on a cluster, read a few rows at a time or as a whole.

    Parameters
    ----------
    pieces : sequence of Piece
        What it is made of.
    name : str
        How messages call it.
    reading : Reading
        How much of it is read at once.
    """

    def __init__(self, pieces: Sequence[Piece], name: str, reading: Reading) -> None:
        self._pieces, self._name, self._reading = pieces, name, reading

    @cached_property
    def names(self) -> list[str]:
        """Of its columns."""
        return [str(name) for name in self._pieces[0].empty().column_names]

    def __len__(self) -> int:
        """Number of rows, read without looking at a value."""
        return sum(piece.n_rows for piece in self._pieces)

    def empty(self) -> Any:
        """An Arrow table with the columns and types, and no rows."""
        return self._pieces[0].empty()

    def require(self, names: Sequence[str]) -> None:
        """Raise unless every piece has these columns, with values of one kind."""
        check_columns(self._pieces, names)

    def parts(self, names: Sequence[str]) -> Iterator[Any]:
        """Arrow tables of a few rows, as its pieces have them."""
        self.require(names)
        return (table for piece in self._pieces for table in piece.tables(names, self._reading))

    def tables(self, names: Sequence[str], rows: int = ROWS_AT_ONCE) -> Iterator[Any]:
        """Arrow tables of so many rows: how long a text is must not move others to another place."""
        kept = None
        for table in self.parts(names):
            kept = table if kept is None else _together([kept, table])
            while kept.num_rows > rows:
                yield kept.slice(0, rows)
                kept = kept.slice(rows)
        if kept is not None:
            yield kept

    def read(self, names: Sequence[str]) -> Any:
        """All rows of these columns, as one Arrow table."""
        return _together(list(self.parts(names)))

    @cached_property
    def table(self) -> Any:
        """All rows of all columns, kept in memory."""
        return self.read(self.names).combine_chunks()

    def arrow(self, name: str) -> Any:
        """A column of all rows, as of `Columns`: of Parquet files read by itself, of others with the rest, and once."""
        Columns(self.empty()).arrow(name)  # raises unless there is one
        by_itself = all(isinstance(piece, ParquetPiece) for piece in self._pieces)
        return (self.read([name]) if by_itself else self.table).column(name)

    def select(self, names: Sequence[str]) -> Any:
        """Columns of the whole table; raises if one is missing."""
        missing = [name for name in names if name not in self.names]
        if missing:
            # The columns are not listed: in a file without a header they would be a row.
            raise InvalidTableError(f"{self._name} has no column {missing[0]!r}; its first line must name the columns.")
        return self.table.select(list(names))

    def numbers(self, names: Sequence[str], majority: bool = True) -> Any:
        """Columns as an Arrow table of floats, NaN where there is no number; `majority` as of `number_columns`."""
        return number_columns(self.select(names), names, majority)

    def frame(self, names: Sequence[str]) -> Any:
        """Columns as a pandas frame of their own types; the text of CSV files as numbers, NaN where there is none."""
        import pyarrow as pa

        columns = {name: self.select(names).column(name) for name in names}
        return pa.table({
            name: pa.array(as_numbers(column, name)) if pa.types.is_binary(column.type) else column
            for name, column in columns.items()
        }).to_pandas()  # fmt: skip

    def ids(self, name: str) -> NDArray[Any]:
        """A column as ids of units: the same whole number for the same id, None for a row without one."""
        codes = codes_of_column(self.select([name]).column(name), name)
        return np.where(codes < 0, None, codes)  # type: ignore[call-overload, no-any-return]

    def labels(self, name: str, classes: Sequence[Any] | None = None) -> NDArray[Any]:
        """A column as labels, spelled as the declared classes are; without those as the column does."""
        column = self.select([name]).column(name)
        if classes is None:
            codes, labels = as_written(column, name)
        else:
            declared = {as_text(label): label for label in classes}
            codes, words = as_words(column, name)
            labels = [declared.get(text, text) for text in words]
        return np.asarray(np.array([*labels, ""], dtype=object)[codes])

    def membership(self, unit: PrivacyUnit | None, missing: Sequence[str] = ()) -> Membership | None:
        """Whose every row is; None where every row is protected by itself. It reads the column of ids alone."""
        if unit is None:
            return None
        memory, folder = self._reading.memory, cache_folder(self._reading.cache)
        rows = IdColumn.of(unit, missing, memory).read(self.parts([unit.name]))
        return Numbering.of(rows, memory, folder).membership(unit)


def _together(tables: list[Any]) -> Any:
    """One Arrow table; files may hold numbers of different types, and no value raises that does not fit another's."""
    import pyarrow as pa

    schema = pa.unify_schemas([table.schema for table in tables], promote_options="permissive")
    return pa.concat_tables([table.select(schema.names).cast(schema, safe=False) for table in tables])


@dataclass(frozen=True, eq=False, repr=False)
class NumberColumns:
    """Columns of a stored table as numbers, for whoever takes an array piece by piece.

    Attributes
    ----------
    table : StoredTable
        Where they are.
    names : tuple of str
        Which they are.
    """

    table: StoredTable
    names: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.table), len(self.names)

    def __getitem__(self, key: tuple[slice, NDArray[np.intp]]) -> "NumberColumns":
        """Some of the columns, as of an array."""
        return NumberColumns(self.table, tuple(self.names[place] for place in key[1]))

    def blocks(self, rows: int) -> Iterator[Array]:
        """Arrays of so many rows."""
        for table in self.table.tables(self.names, rows):
            # By themselves a few rows, or one, must not decide what a column holds.
            columns = number_columns(table, self.names, majority=False).columns
            yield np.column_stack([column.to_numpy() for column in columns])


def made_up_row(names: Sequence[str]) -> Any:
    """A table of one row of zeros with these columns: what checks of names and shapes are shown of a stored table."""
    import pyarrow as pa

    return pa.table({name: [0.0] for name in names})
