"""`dperm predict`: what a model file says of every row of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import numpy as np

from dperm.cli import output as outputs
from dperm.cli.context import CONTEXT
from dperm.cli.entry import ended_by_an_interrupt
from dperm.cli.output import FILE, output_option
from dperm.disk import WholeFile
from dperm.errors import InvalidParameterError
from dperm.printable import one_line

if TYPE_CHECKING:
    from dperm.models.base import PrivateEstimator


@click.command(context_settings=CONTEXT)
@click.argument("model_path", metavar="MODEL", type=FILE)
@click.argument("table", type=FILE)
@click.option("--keep", help="Columns of TABLE to copy to the output, separated by commas, e.g. an id.")
@output_option("CSV or Parquet file, by extension [default: CSV on standard output].")
def predict(model_path: Path, table: Path, keep: str | None, output: Path | None, force: bool) -> None:
    """Predict every row of TABLE with a MODEL file: writes a column `prediction`, in row order.

    TABLE is a CSV or Parquet file, a folder of such files or a glob pattern, of any size: it is streamed. Missing
    values are treated as the model's schema says; without a schema they are 0.

    Example: dperm predict model.json 'visits/*.parquet' --keep visit_id -o predictions.parquet
    """
    with ended_by_an_interrupt():
        from dperm.files.model_file import load_model
    if output is not None:
        outputs.check(output, force=force, inputs=[model_path, table])
    model, kept = load_model(model_path), [name.strip() for name in keep.split(",")] if keep else []
    if "prediction" in kept:
        raise InvalidParameterError("--keep cannot include 'prediction', the name of the output column.")
    tables = _predicted(model, table, kept)
    first = next(tables)  # raises what is wrong with the table before a file is made
    if output is None:
        for text in _lines(chain([first], tables)):
            click.echo(text, nl=False)
        return
    with WholeFile(output, replace=True) as file:
        stream = file.begin()
        if output.suffix.lower() in (".parquet", ".pq"):
            _write_parquet(first, tables, stream)
        else:
            for text in _lines(chain([first], tables)):
                stream.write(text.encode())
        file.finish()
    click.echo(f"wrote {one_line(output)}")


def _predicted(model: PrivateEstimator, path: Path, kept: list[str]) -> Iterator[Any]:
    """Arrow tables of kept columns and predictions, a few rows each."""
    import pyarrow as pa

    from dperm.rows import Table
    from dperm.rows.columns import number_columns

    schema = model.schema_
    if schema is None:
        stored, columns = Table(path).opened(), list(model.feature_names_in_)
    else:
        # A table without column names may leave the target out.
        features = None if schema.header is None else [name for name in schema.header if name != schema.target.column]
        stored = Table(path).opened(schema.header, schema.separator, features)
        columns = list(schema.columns)
    for rows in stored.parts([*dict.fromkeys([*columns, *kept])]):
        found = rows if schema is not None else _filled(number_columns(rows, columns))
        predicted = np.asarray(model.predict(found))  # type: ignore[attr-defined]
        beside = {name: _readable(rows.column(name)) for name in kept}
        yield pa.table({**beside, "prediction": pa.array(predicted.tolist())})


def _filled(rows: Any) -> Any:
    filled = [np.nan_to_num(column.to_numpy(), posinf=np.inf, neginf=-np.inf) for column in rows.columns]
    return rows.from_arrays(filled, names=rows.column_names)


def _readable(column: Any) -> Any:
    """Texts of a CSV file, which are read as bytes, as texts."""
    import pyarrow as pa

    return column.cast(pa.string()) if pa.types.is_binary(column.type) else column


def _write_parquet(first: Any, tables: Iterator[Any], stream: BinaryIO) -> None:
    from pyarrow import parquet

    with parquet.ParquetWriter(stream, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table.cast(first.schema))


def _lines(tables: Iterable[Any]) -> Iterator[str]:
    """CSV, a table at a time."""
    for place, table in enumerate(tables):
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        lines = [",".join(map(_field, row)) for row in rows]
        header = [",".join(map(_field, table.column_names))] if place == 0 else []
        yield "".join(f"{line}\n" for line in [*header, *lines])


def _field(value: object) -> str:
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text
