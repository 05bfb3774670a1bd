"""Tables on disk: which files they are, and whether they fit together."""

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dperm.errors import InvalidTableError
from dperm.printable import one_line
from dperm.rows.columns import is_text
from dperm.rows.csv_file import UNPACKERS, CsvPiece
from dperm.rows.dask_client import is_frame
from dperm.rows.pieces import ParquetPiece, Piece, dataset_pieces, frame_pieces

_PARQUET, _CSV = (".parquet", ".pq"), (".csv", ".tsv")


class OtherSeparatorError(InvalidTableError):
    """No line has the fields; `fact` says so without the remedy, which depends on whether there is a schema."""

    fact = ""


def is_files(data: Any) -> bool:
    """Whether it names files: a path, a pattern, a list of paths or a pyarrow dataset."""
    if isinstance(data, list | tuple):
        return bool(data) and all(issubclass(type(path), str | Path) for path in data)  # isinstance would ask a row
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
            raise InvalidTableError(f"{shown(data)} has Parquet and CSV files; name those of one kind.")
        pieces = [_open(path, root, header, separator, shorter_header) for path, root in paths]
    pieces = filled_pieces(pieces, (n_rows or 0) - sum(piece.n_rows for piece in pieces))
    if not any(piece.n_rows for piece in pieces):
        raise InvalidTableError(f"{shown(data)} has no rows.")
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


def shown(data: Any) -> str:
    """How messages call what was handed over."""
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
