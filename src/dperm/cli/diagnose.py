"""`dperm diagnose`: what became of the rows of a fit, for the person who holds them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from dperm.cli.context import CONTEXT
from dperm.cli.entry import ended_by_an_interrupt
from dperm.cli.output import FILE
from dperm.errors import InvalidParameterError
from dperm.printable import one_line

if TYPE_CHECKING:
    from dperm.models.base import PrivateEstimator


@click.command(context_settings=CONTEXT)
@click.argument("model_path", metavar="MODEL", type=FILE)
@click.argument("table", type=FILE)
@click.option("--target", help="Column to predict; a model with a schema knows it.")
def diagnose(model_path: Path, table: Path, target: str | None) -> None:
    """Exact facts about the rows of TABLE and what noise did to MODEL: NOT FOR RELEASE.

    For the person who holds the rows: how many were ignored or clipped, which columns tell nothing, and how much better
    the same fit is without noise. Nothing is charged to a budget, so nothing of it may be published, and nothing that
    was chosen by looking at it.

    Example: dperm diagnose model.json people.csv
    """
    with ended_by_an_interrupt():
        from dperm.files.model_file import load_model
    model = load_model(model_path)
    if model.parameters_ is None:
        raise InvalidParameterError(f"{one_line(model_path)} does not describe its fit, which is needed to repeat it.")
    X, y, ids = _rows(model, table, target)
    click.echo(str(model.diagnose(X, y, groups=ids)))


def _rows(model: PrivateEstimator, path: Path, target: str | None) -> tuple[Any, Any, Any]:
    """What the model was fitted on: a table with its own target, or numbers with the target and ids of units beside."""
    from dperm.rows.files import TableFile

    schema = model.schema_
    if schema is not None:
        if target is not None:
            raise InvalidParameterError("with a schema leave --target out: it declares the target.")
        return TableFile(path, schema.header, schema.separator).table, None, None
    if target is None:
        raise InvalidParameterError("name the column to predict: --target; the model has no schema that does.")
    source = TableFile(path)
    is_text = hasattr(model, "classes_") and model.classes_.dtype.kind == "U"
    labels = (
        source.labels(target, model.classes_.tolist()) if is_text else np.asarray(source.numbers([target]).column(0))
    )
    ids = None if model.privacy_.unit is None else source.ids(model.privacy_.unit.name)
    return source.numbers(list(model.feature_names_in_)), labels, ids
