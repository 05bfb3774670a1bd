"""CSV and Parquet tables. No message holds a value, and no single row decides what happens.

A CSV line with the wrong number of fields and a text where a number belongs make their row count as nothing.
Whether a column holds numbers is decided by the majority of its entries and counts as public, like its name.
"""

import csv
from collections.abc import Sequence
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
            raise InvalidParameter(
                f"{self._path} has no column {missing[0]!r}; it has {', '.join(map(repr, self.names[:20]))}"
                + (" and more." if len(self.names) > 20 else ".")
            )

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
            column = column.cast(pa.string()).cast(pa.binary())
        encoded = column.combine_chunks().dictionary_encode()
        words = [value.decode("utf-8", errors="replace").strip() for value in encoded.dictionary.to_pylist()]
        positions = encoded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
        return np.asarray(np.array([*words, ""], dtype=object)[positions])


def _read_csv(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        names = next(csv.reader(stream), [])
    if not names:
        raise InvalidParameter(f"{path} is empty; its first line must name the columns.")
    odd_lines = 0

    def count_odd_line(_row: Any) -> str:
        nonlocal odd_lines
        odd_lines += 1
        return "skip"

    try:
        table = arrow_csv.read_csv(
            path,
            read_options=arrow_csv.ReadOptions(column_names=names, skip_rows=1),
            parse_options=arrow_csv.ParseOptions(invalid_row_handler=count_odd_line),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary())),
        )
    except pa.ArrowInvalid:
        table = None
    if table is None:
        raise InvalidParameter(f"{path} cannot be read as CSV.")
    empty = pa.table({name: pa.nulls(odd_lines, pa.binary()) for name in names}) if odd_lines else None
    return table if empty is None else pa.concat_tables([table, empty])


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
