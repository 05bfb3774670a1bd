"""`dperm tune`: a search among models, from a table on disk to a model file."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dperm.cli import output as outputs
from dperm.cli.choices import METHODS, SCORES
from dperm.cli.context import CONTEXT
from dperm.cli.entry import ended_by_an_interrupt
from dperm.cli.fit import ROOM, Writing, rows_in_memory
from dperm.cli.options import build_estimator, fit_options, schema_option
from dperm.cli.output import FILE, output_option
from dperm.disk import WholeFile, read_text
from dperm.errors import InvalidParameterError
from dperm.printable import one_line
from dperm.schema import load_schema

if TYPE_CHECKING:
    from dperm.models.base import PrivateEstimator

# What is the same for all candidates.
_OF_THE_SEARCH = frozenset(
    ("epsilon", "delta", "adjacency", "noise", "accountant", "classes",
     "unit", "max_rows_per_unit", "contribution", "missing_units")
)  # fmt: skip

_MOST_BYTES = 2**20


@click.command(context_settings=CONTEXT)
@click.argument("table", type=FILE)
@schema_option
@click.option("--target", help="Column to predict; a schema declares it.")
@click.option("--features", help="Feature columns, separated by commas [default: all others].")
@output_option("Output path of the model file.", required=True)
@click.option(
    "--grid", type=FILE, help='TOML file with a list of values for each option, e.g. penalty = ["auto", 0.1].'
)
@click.option(
    "--try",
    "tried",
    multiple=True,
    metavar="OPTION=VALUE,VALUE",
    help="Values to try for an option of `dperm fit`, e.g. penalty=auto,0.1 or schema=a.toml,b.toml. Can be repeated; "
    "all combinations are then candidates.",
)
@click.option("--scoring", type=click.Choice(["auto", *SCORES]), default="auto", show_default=True)
@click.option("--method", type=click.Choice(["auto", *METHODS]), default="auto", show_default=True)
@click.option(
    "--share", type=float, default=0.25, show_default=True, help="Share of the precision spent on the search."
)
@click.option("--held-out", type=float, default=0.25, show_default=True, help="Share of rows held out for scoring.")
@click.option("--trials", type=int, help="Expected number of trials, with --method random-trials.")
@click.option("--noisy-trials", is_flag=True, help="Search even if noise is expected to dominate a trial.")
@click.option("--n", type=int, help="Public number of rows or privacy units [default: the schema's or the table's].")
@click.option("--dataset", help="Charge the search and the fit to the budget of this dataset; see `dperm budget`.")
@click.option("--ledger", envvar="DPERM_LEDGER", help="Ledger: SQLite file or database URL [default: your own].")
@click.option("--seed", type=int, help="Make the result reproducible; a seeded result is not for release.")
@fit_options()
def tune(
    table: Path, schema: Path | None, target: str | None, features: str | None, output: Path, force: bool,
    grid: Path | None, tried: tuple[str, ...], scoring: str, method: str, share: float, held_out: float,
    trials: int | None, noisy_trials: bool, n: int | None, dataset: str | None, ledger: str | None, seed: int | None,
    **options: Any,
) -> None:  # fmt: skip
    """Select a model on the sensitive TABLE, fit it on all rows and write a releasable model file.

    One (ε, δ) covers the search and the fit. The options of `dperm fit` apply to all candidates, except those varied
    by --try or --grid. TABLE is read into memory.

    Example: dperm tune people.csv --schema people.toml --try penalty=auto,0.1 --epsilon 1 --delta 1e-6 -o model.json
    """
    with ended_by_an_interrupt():
        from dperm.models.search import PrivateSearch
        from dperm.models.units import protected_unit
    outputs.check(output, force=force, inputs=[table, schema, grid], ledger=ledger)
    budget = outputs.charged_budget(dataset, ledger)
    points = _points(grid, tried)
    models = [_model(point, schema, options) for point in points]
    public = models[0].schema
    search = PrivateSearch(
        epsilon=options["epsilon"], delta=options["delta"], candidates=models, scoring=scoring, method=method,
        share=share, held_out=held_out, trials=trials, noisy_trials=noisy_trials,
        adjacency=options["adjacency"], n=n, budget=budget, random_state=seed, row_warnings=sys.stderr.isatty(),
    )  # fmt: skip
    if public is not None and (target is not None or features is not None):
        raise InvalidParameterError("--target and --features cannot be combined with --schema, which declares them.")
    search.check()  # what is wrong with the parameters, before the table is opened
    n_rows = n or (None if public is None else public.n)
    if protected_unit(models[0]) is not None:  # how many rows its units have is not public
        n_rows = None
    rows, ids = rows_in_memory(table, public, target, features, models[0], n_rows)
    with WholeFile(output, replace=force, room=ROOM) as file:
        written = Writing(file, output)
        search.fit(*rows, **ids, save=written)
    written.check()
    click.echo(str(search.privacy_))
    click.echo(f"winner:     {_in_words(points[search.best_index_])}")
    if budget is not None:
        click.echo(f"budget:     {one_line(dataset)}: {budget.account().summary}")
    click.echo(f"wrote {one_line(output)}")


def _points(grid: Path | None, tried: tuple[str, ...]) -> list[dict[str, Any]]:
    """All combinations of the values that are to be tried."""
    if (grid is None) == (not tried):
        raise InvalidParameterError("pass the candidates: --try OPTION=VALUE,VALUE, or --grid FILE.")
    values = _from_file(grid) if grid is not None else dict(map(_from_text, tried))
    if grid is None and len(values) < len(tried):
        raise InvalidParameterError("an option occurs in two --try: list all of its values in one.")
    for name, several in values.items():
        if name in _OF_THE_SEARCH:
            raise InvalidParameterError(f"{name!r} must be the same for all candidates and cannot be varied.")
        if not isinstance(several, list) or not several:
            raise InvalidParameterError(f"{name!r} needs a list of at least one value to try.")
    points = [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]
    if len(points) < 2:
        raise InvalidParameterError("the grid has a single candidate: list at least two values of an option.")
    return points


def _from_text(text: str) -> tuple[str, list[str]]:
    name, equals, values = text.partition("=")
    listed = [value.strip() for value in values.split(",") if value.strip()]
    if not equals or not listed:
        raise InvalidParameterError(f"--try must be OPTION=VALUE,VALUE, got {one_line(text)!r}.")
    return name.strip().lstrip("-").replace("-", "_"), listed


def _from_file(grid: Path) -> dict[str, Any]:
    import tomllib

    try:
        content = tomllib.loads(read_text(grid, _MOST_BYTES))
    except tomllib.TOMLDecodeError as error:
        raise InvalidParameterError(f"{one_line(grid)} is not TOML: {error}.") from None
    return {name.replace("-", "_"): values for name, values in content.items()}


def _model(point: dict[str, Any], schema: Path | None, options: dict[str, Any]) -> PrivateEstimator:
    """The candidate with these options."""
    known = {*options, "schema"}
    for name in point:
        if name not in known:
            raise InvalidParameterError(f"{name!r} is not an option of dperm fit that can be varied.")
    given = options | {name: _value(name, value, options.get(name)) for name, value in point.items()}
    path = given.pop("schema", schema)
    return build_estimator(**given, schema=None if path is None else load_schema(Path(path)))


def _value(name: str, value: Any, usual: Any) -> Any:
    """The value of an option, as the command line would read it."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(usual, bool):
        if text not in ("true", "false"):
            raise InvalidParameterError(f"{name} must be true or false, got {one_line(text)!r}.")
        return text == "true"
    if isinstance(usual, float) or name in ("row_norm", "entry_bound", "target_bound"):
        try:
            return float(text)
        except ValueError:
            raise InvalidParameterError(f"{name} must be a number, got {one_line(text)!r}.") from None
    return text


def _in_words(point: dict[str, Any]) -> str:
    return one_line(", ".join(f"{name} = {value}" for name, value in point.items()))
