"""Tables on disk: which files they are, and the columns of one that is read as a whole."""

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidTableError
from dperm.printable import one_line
from dperm.rows.columns import Columns, as_numbers, as_words, as_written, count_texts, is_text
from dperm.rows.csv_file import UNPACKERS, CsvPiece
from dperm.rows.dask_client import is_frame
from dperm.rows.ids import codes_of_column
from dperm.rows.pieces import ParquetPiece, Piece, dataset_pieces, frame_pieces
from dperm.schema.checks import as_text

_PARQUET, _CSV = (".parquet", ".pq"), (".csv", ".tsv")


class OtherSeparatorError(InvalidTableError):
    """No line has the fields; `fact` says so without the remedy, which depends on whether there is a schema."""

    fact = ""


def is_files(data: Any) -> bool:
    """Whether it names files: a path, a pattern, a list of paths or a pyarrow dataset."""
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(path, str | Path) for path in data)
    return isinstance(data, str | Path) or _is_dataset(data)


def _is_dataset(data: Any) -> bool:
    return type(data).__module__.startswith("pyarrow.") and hasattr(data, "get_fragments")


def open_pieces(
    data: Any,
    header: Sequence[str] | None = None,
    separator: str = ",",
    *,
    n_rows: int | None = None,
    shorter_header: Sequence[str] | None = None,
) -> list[Piece]:
    """The pieces of a table on disk, in the order of their names.

    Parameters
    ----------
    data : path, list of paths, pyarrow dataset or Dask frame
        A Parquet or CSV file, a folder of such files, or a pattern with `*`; a CSV file may be packed (.gz, .bz2, .xz).
    header : sequence of str, optional
        Names of the columns of CSV files without a first line that names them, whatever their ending.
    separator : str
        What stands between their fields.
    n_rows : int, optional
        The declared number of rows: as many empty lines at the ends of CSV files are rows as are needed to reach it.
    shorter_header : sequence of str, optional
        Names to take where no line has as many fields as `header` names.
    """
    if is_frame(data):
        pieces = frame_pieces(data)
    elif _is_dataset(data):
        pieces = dataset_pieces(data)
    else:
        paths = [found for path in _listed(data) for found in _files(path)]
        kinds = {_kind(path, header) for path, _ in paths}
        if len(kinds) > 1:
            raise InvalidTableError(f"{_shown(data)} has Parquet and CSV files; name those of one kind.")
        pieces = [_open(path, root, header, separator, shorter_header) for path, root in paths]
    pieces = filled_pieces(pieces, (n_rows or 0) - sum(piece.n_rows for piece in pieces))
    if not any(piece.n_rows for piece in pieces):
        raise InvalidTableError(f"{_shown(data)} has no rows.")
    return pieces


def filled_pieces(pieces: Sequence[Piece], n_missing: int) -> list[Piece]:
    """The same pieces, as many empty lines at the ends of CSV files being rows as are missing."""
    found: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, CsvPiece) and n_missing > 0:
            piece = piece.filled(n_missing)
            n_missing -= piece.n_filled
        found.append(piece)
    return found


def check_columns(pieces: Sequence[Piece], names: Sequence[str]) -> None:
    """Raise unless every piece has these columns, with values of one kind: names and types are public."""
    first = _types(pieces[0])
    for piece in pieces:
        columns = _types(piece)
        for name in names:
            if name not in columns:
                # The columns are not listed: in a file without a header they would be a row.
                raise InvalidTableError(f"{one_line(piece.name)} has no column {name!r}{_read_as(piece)}.")
            ours, theirs = columns[name], first[name]
            if _value_kind(ours) != _value_kind(theirs) and "nothing" not in (_value_kind(ours), _value_kind(theirs)):
                raise InvalidTableError(
                    f"column {name!r} holds {theirs} in {one_line(pieces[0].name)} and {ours} in "
                    f"{one_line(piece.name)}; write all files with one type."
                )


def _read_as(piece: Piece) -> str:
    return f", read as UTF-8 text with fields between {piece.separator!r}" if isinstance(piece, CsvPiece) else ""


def _types(piece: Piece) -> dict[str, Any]:
    """The type of every column by its name."""
    schema = piece.empty().schema
    return dict(zip(schema.names, schema.types, strict=True))


def _value_kind(kind: Any) -> str:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return "nothing"
    if (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    ):
        return "numbers"
    return "text" if is_text(kind) else str(kind)


def _listed(data: Any) -> list[Path]:
    return [Path(path) for path in data] if isinstance(data, list | tuple) else [Path(data)]


def _shown(data: Any) -> str:
    if is_frame(data) or _is_dataset(data):
        return "the frame" if is_frame(data) else "the dataset"
    return ", ".join(one_line(path) for path in _listed(data)[:3])


def _files(path: Path) -> list[tuple[Path, Path]]:
    """The files that a path stands for, each with the folder that was named."""
    if path.is_dir():
        found = sorted(one for one in path.rglob("*") if one.is_file() and not _is_hidden(one.relative_to(path)))
        tables = [one for one in found if _ending(one) in (*_PARQUET, *_CSV)]
        if not tables:
            raise InvalidTableError(f"{one_line(path)} holds no Parquet or CSV file.")
        return [(one, path) for one in tables]
    if glob.has_magic(str(path)) and not path.exists():
        matching = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
        if not matching:
            raise InvalidTableError(f"no file matches {one_line(path)}.")
        return [pair for one in matching for pair in (_files(one) if one.is_dir() else [(one, one.parent)])]
    if not path.is_file():
        raise InvalidTableError(f"there is no file {one_line(path)}.")
    return [(path, path.parent)]


def _is_hidden(path: Path) -> bool:
    """Notes of the programs that write folders of files, such as `_SUCCESS` and `.part-0.crc`."""
    return any(name.startswith((".", "_")) for name in path.parts)


def _ending(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() in UNPACKERS else path).suffix.lower()


def _kind(path: Path, header: Sequence[str] | None) -> str:
    if _ending(path) in _PARQUET:
        return "Parquet"
    if _ending(path) in _CSV or header is not None:
        return "CSV"
    raise InvalidTableError(
        f"{one_line(path)} must end in .csv, .tsv (.gz, .bz2, .xz) or .parquet, or a schema name its columns."
    )


def _open(
    path: Path, root: Path, header: Sequence[str] | None, separator: str, shorter_header: Sequence[str] | None
) -> Piece:
    if _kind(path, header) == "Parquet":
        folders = [name.partition("=") for name in path.relative_to(root).parts[:-1]]
        return ParquetPiece.open(str(path), constants={name: value for name, found, value in folders if found})
    piece = CsvPiece.open(str(path), header, separator)
    if piece is None and shorter_header is not None:
        piece = CsvPiece.open(str(path), shorter_header, separator)
    if piece is None:
        fields = "the named fields" if header is None else f"{len(header)} fields"
        fact = f"no line of {one_line(path)} has {fields} between {separator!r}; if the separator differs, "
        error = OtherSeparatorError(f"{fact}declare it as the separator in the schema.")
        error.fact = fact
        raise error
    return piece


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


def columns_on_disk(path: Path, header: Sequence[str] | None = None, separator: str = ",") -> Columns:
    """The columns of a table on disk: of Parquet files each is read when it is asked for, of CSV files all at once."""
    pieces = open_pieces(path, header, separator)
    if all(isinstance(piece, ParquetPiece) for piece in pieces):
        return _StoredColumns(pieces)
    return Columns(TableFile(path, header, separator).table)


class _StoredColumns(Columns):
    """Columns that are read one by one, so that one is in memory at a time."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(pieces[0].empty())
        check_columns(pieces, self.names)
        self._pieces, self.n_rows = pieces, sum(piece.n_rows for piece in pieces)

    def arrow(self, name: str) -> Any:
        """Read the column."""
        import pyarrow as pa

        super().arrow(name)  # raises unless there is one
        parts = [table.select([name]) for piece in self._pieces for table in piece.tables([name])]
        return pa.concat_tables(parts, promote_options="permissive").column(name)


class TableFile:
    """A stored table that is read as a whole, its columns in Arrow arrays; parameters as of `open_pieces`."""

    def __init__(
        self,
        data: Any,
        header: Sequence[str] | None = None,
        separator: str = ",",
        *,
        n_rows: int | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        pieces = open_pieces(data, header, separator, n_rows=n_rows)
        import pyarrow as pa

        self.names = list(pieces[0].empty().column_names if names is None else names)
        check_columns(pieces, self.names)
        parts = [table for piece in pieces for table in piece.tables(self.names)]
        self.table = pa.concat_tables(parts, promote_options="permissive").combine_chunks()
        self._name, self._columns = _shown(data), Columns(self.table)

    def require(self, names: Sequence[str]) -> None:
        """Raise if a column is missing."""
        missing = [name for name in names if name not in self.names]
        if missing:
            # The columns are not listed: in a file without a header they would be a row.
            raise InvalidTableError(f"{self._name} has no column {missing[0]!r}; its first line must name the columns.")

    def numbers(self, names: Sequence[str], majority: bool = True) -> Any:
        """Columns as an Arrow table of floats, NaN where there is no number; `majority` as of `number_columns`."""
        self.require(names)
        return number_columns(self.table, names, majority)

    def frame(self, names: Sequence[str]) -> Any:
        """Columns as a pandas frame of their own types; the text of CSV files as numbers, NaN where there is none."""
        import pyarrow as pa

        self.require(names)
        columns = {name: self.table.column(name) for name in names}
        return pa.table({
            name: pa.array(as_numbers(column, name)) if pa.types.is_binary(column.type) else column
            for name, column in columns.items()
        }).to_pandas()  # fmt: skip

    def ids(self, name: str) -> NDArray[Any]:
        """A column as ids of units: the same whole number for the same id, None for a row without one."""
        self.require([name])
        codes = codes_of_column(self._columns.arrow(name), name)
        ids = codes.astype(object)
        ids[codes < 0] = None
        return ids

    def labels(self, name: str, classes: Sequence[Any] | None = None) -> NDArray[Any]:
        """A column as labels, spelled as the declared classes are; without those as the column does."""
        self.require([name])
        column = self._columns.arrow(name)
        if classes is None:
            codes, labels = as_written(column, name)
        else:
            declared = {as_text(label): label for label in classes}
            codes, words = as_words(column, name)
            labels = [declared.get(text, text) for text in words]
        return np.asarray(np.array([*labels, ""], dtype=object)[codes])
