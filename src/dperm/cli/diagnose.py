"""`dperm diagnose`: exact diagnostics of a fit, for the data holder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from dperm.cli.context import CONTEXT
from dperm.cli.entry import ended_by_an_interrupt
from dperm.cli.output import FILE
from dperm.errors import InvalidParameterError

if TYPE_CHECKING:
    from dperm.models.base import PrivateEstimator


@click.command(context_settings=CONTEXT)
@click.argument("model_path", metavar="MODEL", type=FILE)
@click.argument("table", type=FILE)
@click.option("--target", help="Column to predict; a model with a schema declares it.")
def diagnose(model_path: Path, table: Path, target: str | None) -> None:
    """Exact diagnostics of MODEL on its training TABLE, for the data holder. Output is not private: NOT FOR RELEASE.

    Shows how many rows were dropped or clipped, which columns carry no information, and how much better the same fit
    is without noise. No budget is charged, so do not publish the output, nor anything chosen by looking at it.

    Example: dperm diagnose model.json people.csv
    """
    with ended_by_an_interrupt():
        from dperm.files.model_file import load_estimator
    model = load_estimator(model_path)
    X, y, ids = _rows(model, table, target)
    click.echo(str(model.diagnose(X, y, groups=ids)))


def _rows(model: PrivateEstimator, path: Path, target: str | None) -> tuple[Any, Any, Any]:
    """What the model was fitted on: a table with its own target, or numbers with the target and ids of units beside."""
    from dperm.rows import Table

    schema = model.schema_
    if schema is not None:
        if target is not None:
            raise InvalidParameterError("--target cannot be combined with a schema, which declares it.")
        return Table(path).opened(schema.header, schema.separator).table, None, None
    if target is None:
        raise InvalidParameterError("pass --target: the model has no schema that declares it.")
    source = Table(path).opened()
    is_text = hasattr(model, "classes_") and model.classes_.dtype.kind == "U"
    labels = (
        source.labels(target, model.classes_.tolist()) if is_text else np.asarray(source.numbers([target]).column(0))
    )
    ids = None if model.privacy_.unit is None else source.ids(model.privacy_.unit.name)
    return source.numbers(list(model.feature_names_in_)), labels, ids
