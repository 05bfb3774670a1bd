"""`dperm plot`: a model file as a picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from dperm.cli import output as outputs
from dperm.cli.context import CONTEXT
from dperm.cli.entry import ended_by_an_interrupt
from dperm.cli.output import FILE, output_option
from dperm.disk import write_whole
from dperm.errors import InvalidParameterError
from dperm.printable import one_line

if TYPE_CHECKING:
    from dperm.models.base import PrivateEstimator

WHAT = ("coefficients", "effects", "attack", "risk")
_FORMATS = (".png", ".svg", ".pdf")


@click.command(context_settings=CONTEXT)
@click.argument("model_path", metavar="MODEL", type=FILE)
@click.option("--what", type=click.Choice(WHAT), required=True, help="What to plot.")
@click.option("--column", help="With effects: plot only this column of the schema.")
@output_option("Output file: .png, .svg or .pdf.", required=True)
def plot(model_path: Path, what: str, column: str | None, output: Path, force: bool) -> None:
    """Plot a MODEL file. Only released and public numbers are used, so the plot may be published with the model.

    coefficients: the largest, with error bars for the privacy noise. effects: what each column adds to the score over
    its range. attack: the bound on any attacker. risk: the expected cost of more or less privacy.

    Example: dperm plot model.json --what effects -o effects.png
    """
    with ended_by_an_interrupt():
        from dperm.files.model_file import load_estimator
        from dperm.pictures.canvas import offscreen
    if output.suffix.lower() not in _FORMATS:
        raise InvalidParameterError(f"the output file must end in {', '.join(_FORMATS)}.")
    if column is not None and what != "effects":
        raise InvalidParameterError("--column requires --what effects.")
    outputs.check(output, force=force, inputs=[model_path])
    offscreen()  # where matplotlib is missing, this says so before the file is read
    axes = _drawn(load_estimator(model_path), what, column)
    write_whole(output, _as_bytes(np.atleast_1d(axes).flat[0].figure, output.suffix.lower().removeprefix(".")))
    click.echo(f"wrote {one_line(output)}")


def _drawn(model: PrivateEstimator, what: str, column: str | None) -> Any:
    match what:
        case "coefficients":
            return model.plot_coefficients()
        case "effects":
            return model.plot_effects() if column is None else model.plot_effect(column)
        case "attack":
            return model.plot_attack()
        case _:
            return model.plot_risk_of_epsilon()


def _as_bytes(figure: Any, kind: str) -> bytes:
    """The picture as a file holds it: without a date, so that the same model gives the same file."""
    import matplotlib

    from dperm.pictures.canvas import offscreen

    dateless = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    stream = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "dperm", "svg.fonttype": "none"}):
        figure.savefig(stream, format=kind, dpi=120, metadata=dateless[kind])
    offscreen().close(figure)
    return stream.getvalue()
