"""`dperm predict`: what a model file says of every row of a table."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from dperm.cli import output as outputs
from dperm.cli.context import CONTEXT
from dperm.cli.output import FILE, output_option
from dperm.files import write_whole
from dperm.printable import one_line
from dperm.release.model_file import load_model
from dperm.schema import Schema
from dperm.trusted.sources.files import TableFile


@click.command(context_settings=CONTEXT)
@click.argument("model_path", metavar="MODEL", type=FILE)
@click.argument("table", type=FILE)
@output_option("CSV file [default: standard output].")
def predict(model_path: Path, table: Path, output: Path | None, force: bool) -> None:
    """Predict for every row of TABLE with a MODEL file: one column, `prediction`.

    A missing value means what the model's schema says; without a schema it is 0.

    Example: dperm predict model.json people.csv -o predictions.csv
    """
    if output is not None:
        outputs.check(output, force=force, inputs=[model_path, table])
    model = load_model(model_path)
    if model.schema_ is not None:
        rows = _rows_to_predict(table, model.schema_)
    else:
        rows = TableFile(table).numbers(list(model.feature_names_in_))
        filled = [np.nan_to_num(column.to_numpy(), posinf=np.inf, neginf=-np.inf) for column in rows.columns]
        rows = rows.from_arrays(filled, names=rows.column_names)
    lines = "\n".join(["prediction", *map(_field, model.predict(rows))]) + "\n"
    if output is None:
        click.echo(lines, nl=False)
    else:
        write_whole(output, lines)
        click.echo(f"wrote {one_line(output)}")


def _rows_to_predict(table: Path, schema: Schema) -> Any:
    """A table to predict; one without column names may leave the target out."""
    features = None if schema.header is None else [name for name in schema.header if name != schema.target.column]
    return TableFile(table, schema.header, schema.separator, shorter_header=features).table


def _field(value: object) -> str:
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text
