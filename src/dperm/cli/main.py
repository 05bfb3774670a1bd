"""The command line: fit, predict, plan, budget, schema, verify, report, solvers, demo, reproduce."""

import math
import os
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from dperm import __version__
from dperm.accounting.guarantee import Guarantee
from dperm.accounting.ledger import Budget
from dperm.accounting.renyi import has_renyi_bound, rdp_epsilon
from dperm.cli.budget import budget as budget_commands
from dperm.cli.options import CONTEXT, build_estimator, fit_options, schema_option
from dperm.cli.release import report, verify
from dperm.cli.schema import schema as schema_commands
from dperm.errors import DpermError, InvalidParameter
from dperm.files import write_whole
from dperm.planning.fitting import PricedFit
from dperm.release.model_file import load_model, save_model
from dperm.schema import Schema, load_schema
from dperm.solvers import SOLVERS, predictions
from dperm.trusted.sources.files import TableFile


@click.group(context_settings=CONTEXT)
@click.version_option(__version__, prog_name="dperm")
def app() -> None:
    """Differentially private empirical risk minimization.

    Example: dperm fit people.csv --schema people.toml --epsilon 1 --delta 1e-6 -o model.json
    """


@app.command(context_settings=CONTEXT)
@click.argument("table", type=click.Path(path_type=Path))
@schema_option
@click.option("--target", help="Column to predict; with a schema it is declared there.")
@click.option("--features", help="Feature columns, separated by commas [default: all others].")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Where the model file goes.")
@click.option("--n", type=int, help="Public number of rows [default: the schema's, or that of the table].")
@click.option("--dataset", help="Charge the fit to this dataset's budget; see `dperm budget`.")
@click.option("--ledger", envvar="DPERM_LEDGER", help="Where budgets are kept: URL or SQLite file [default: your own].")
@click.option("--seed", type=int, help="Make the fit repeatable; the result is then not for release.")
@fit_options
def fit(
    table: Path, schema: Path | None, target: str | None, features: str | None, output: Path, n: int | None,
    dataset: str | None, ledger: str | None, seed: int | None, **options: Any,
) -> None:  # fmt: skip
    """Fit a model on the sensitive TABLE (CSV or Parquet) and write what may be released.

    With a schema, columns may hold categories and missing values; without one they must hold numbers.

    Example: dperm fit people.csv --schema people.toml --epsilon 1 --delta 1e-6 --dataset people -o model.json
    """
    if ledger is not None and dataset is None and not os.environ.get("DPERM_LEDGER"):
        raise InvalidParameter("--ledger goes with --dataset: whose budget is it?")
    budget = None if dataset is None else Budget(dataset, ledger)
    public = None if schema is None else load_schema(schema)
    model = build_estimator(**options, schema=public, n=n, budget=budget, random_state=seed, verbose=True)
    model.check_parameters()  # before the table is opened
    if not output.parent.is_dir() or output.is_dir() or not os.access(output.parent, os.W_OK):
        raise InvalidParameter(f"{output} cannot be written.")
    if public is not None:
        if target is not None or features is not None:
            raise InvalidParameter("with a schema leave --target and --features out: it declares them.")
        model.check_room()  # before the table is opened
        model.fit(TableFile(table, public.header, public.separator).table)
    else:
        model.fit(*_numbers_and_target(table, target, features, options["model"] == "linear"))
    save_model(model, output)
    click.echo(str(model.privacy_))
    if budget is not None:
        click.echo(f"budget:     {dataset}: {budget.account().summary}")
    click.echo(f"wrote {output}")


def _numbers_and_target(table: Path, target: str | None, features: str | None, regression: bool) -> tuple[Any, Any]:
    """Columns of numbers and the target of a table without a schema."""
    if target is None:
        raise InvalidParameter("name the column to predict: --target, or a --schema.")
    source = TableFile(table)
    source.require([target])
    columns = (
        [name.strip() for name in features.split(",")]
        if features
        else [name for name in source.names if name != target]
    )
    if target in columns:
        raise InvalidParameter(f"the target {target!r} cannot be a feature as well.")
    if not columns:
        raise InvalidParameter(f"{table} has no column besides the target.")
    labels = source.numbers([target]).column(0).to_numpy() if regression else source.labels(target)
    return source.numbers(columns), labels


@app.command(context_settings=CONTEXT)
@click.argument("model_path", metavar="MODEL", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="CSV file [default: standard output].")
def predict(model_path: Path, table: Path, output: Path | None) -> None:
    """Predict for every row of TABLE with a MODEL file: one column, `prediction`.

    A missing value means what the model's schema says; without a schema it is 0.

    Example: dperm predict model.json people.csv -o predictions.csv
    """
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
        click.echo(f"wrote {output}")


def _rows_to_predict(table: Path, schema: Schema) -> Any:
    """A table to predict; one without column names may leave the target out."""
    if schema.header is None:
        return TableFile(table, separator=schema.separator).table
    try:
        return TableFile(table, schema.header, schema.separator).table
    except InvalidParameter:
        features = [name for name in schema.header if name != schema.target.column]
        return TableFile(table, features, schema.separator).table


@app.command(context_settings=CONTEXT)
@schema_option
@click.option("--n", type=int, help="Number of rows, public [default: the schema's].")
@click.option("--p", "n_features", type=int, help="Number of feature columns, public [default: the schema's].")
@click.option("--explain", is_flag=True, help="What every solver is expected to do: how auto chooses.")
@fit_options
def plan(schema: Path | None, n: int | None, n_features: int | None, explain: bool, **options: Any) -> None:
    """The price and the noise of a fit from public numbers alone; no data is touched.

    Example: dperm plan --n 200000 --p 54 --epsilon 1 --delta 1e-6 --explain
    """
    if explain and options["noise"] != "certified":
        raise InvalidParameter("--explain compares solvers with certified noise; leave --noise out.")
    public = None if schema is None else load_schema(schema)
    if public is not None and n_features is not None:
        raise InvalidParameter("with a schema leave --p out: it knows the number of columns.")
    if (n is None and (public is None or public.n is None)) or (public is None and n_features is None):
        raise InvalidParameter("a plan needs --n and --p, or a --schema that declares n.")
    model = build_estimator(**options, schema=public)
    model.check_parameters()
    priced = model.plan(n, n_features)
    constants, settings = priced.setting.constants, priced.paid.plan.settings
    click.echo(str(priced.privacy))
    click.echo(
        f"constants:  G = {constants.lipschitz:g}, L = {constants.smoothness:g}, μ = {constants.strong_convexity:g}, "
        f"diameter {constants.diameter:g}, {constants.dimension} coefficients"
    )
    click.echo(
        f"solver:     {priced.solver.name}, " + ", ".join(f"{key} = {_short(value)}" for key, value in settings.items())
    )
    click.echo(f"cost:       {_passes(priced.paid.plan.passes)}")
    if priced.privacy.noise == "certified":
        click.echo(f"checked:    {_cross_check(priced)}")
    if explain:
        _explain(priced)


@app.command(context_settings=CONTEXT)
@click.argument("names", nargs=-1, metavar="[NAME]...")
def solvers(names: tuple[str, ...]) -> None:
    """List the solvers, from the code: each with its row of the paper's comparison tables.

    Utility bounds are on the excess empirical risk and leave out constants and log(1/δ). Gradients are counted per
    example. p is the number of coefficients, κ = L/μ, G_C the Gaussian width of the domain C.

    Example: dperm solvers kifer-objective
    """
    unknown = set(names) - set(SOLVERS)
    if unknown:
        raise InvalidParameter(f"there is no solver {', '.join(sorted(unknown))}; the names are {', '.join(SOLVERS)}.")
    for name in names or SOLVERS:
        profile = asdict(SOLVERS[name].profile)
        click.echo(f"{name}: {profile.pop('summary')}")
        for heading, text in profile.items():
            click.echo(f"  {heading + ':':<14}{text}")
        click.echo(f"  {'guarantee:':<14}{'δ = 0 (pure ε) or δ > 0' if SOLVERS[name].pure else 'δ > 0'}")


@app.command(context_settings=CONTEXT)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    help="Folder for the picture.",
)
@click.option("--rows", type=int, default=200_000, show_default=True, help="Training rows.")
def demo(output: Path, rows: int) -> None:
    """Private logistic regression on the bundled Covertype data against the non-private optimum.

    Example: dperm demo --output demo-output
    """
    from dperm.studies.demo import run_demo

    run_demo(output, Console(), rows)


@app.command(context_settings=CONTEXT)
@click.argument("study")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("reproduction"),
    show_default=True,
    help="Folder for what is measured and written.",
)
@click.option("--quick", is_flag=True, help="Fewer rows, seeds and settings: under two minutes for all.")
def reproduce(study: str, output: Path, quick: bool) -> None:
    """Measure a figure or a table of the paper again, and say whether its claims hold.

    STUDY is figure-1, figure-2, table-1, table-2, table-3, privacy, or all. Each writes a picture, Markdown and CSV;
    all together make one HTML page. What was measured is kept in the folder: an interrupted run goes on where it was.

    Example: dperm reproduce figure-1 --output reproduction
    """
    from dperm.studies.reproduce import STUDIES
    from dperm.studies.reproduce import reproduce as run_studies

    if study not in {*STUDIES, "all"}:
        raise InvalidParameter(f"there is no study {study!r}; the names are {', '.join(STUDIES)} and all.")
    try:
        run_studies(list(STUDIES) if study == "all" else [study], output, Console(), quick)
    except KeyboardInterrupt:
        kept = f"interrupted; what was measured is kept in {output}, and the same call goes on from there."
        raise DpermError(kept) from None


app.add_command(budget_commands)
app.add_command(schema_commands)
app.add_command(verify)
app.add_command(report)


def run() -> None:
    """Entry point: every error is one line and exit code 2."""
    sys.exit(run_with(sys.argv[1:]))


def run_with(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            ended = app.main(arguments, prog_name="dperm", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        return _fail(error.format_message())
    except DpermError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename or 'the file'}: {error.strerror or 'cannot be used'}.")
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted; nothing was written.")
    except Exception as error:  # its message or traceback could show a value of the table
        return _fail(f"internal error ({type(error).__name__}); please report how you called dperm, without the data.")
    return ended if isinstance(ended, int) else 0  # `verify` ends with 1 where a statement is not true


def _fail(message: str) -> int:
    click.echo(f"dperm: {' '.join(message.split())}", err=True)
    return 2


def _show_warning(message: Warning | str, *_details: Any, **_more: Any) -> None:
    click.echo(f"dperm: warning: {message}", err=True)


def _explain(priced: PricedFit) -> None:
    """Every solver that takes the problem, the smallest expected risk first."""
    guarantee = Guarantee(priced.privacy.epsilon, priced.privacy.delta)
    click.echo("\nexpected excess risk of every solver that takes this problem, and its passes over the rows:")
    for solver, risk in predictions(priced.problem, priced.setting, guarantee):
        passes = solver.plan(priced.setting, guarantee).passes
        expected = f"{risk:.1e}" if math.isfinite(risk) else "unknown"
        cost = f"{passes:.3g}" if math.isfinite(passes) else "until solved"
        click.echo(f"  {solver.name:<22}{expected:>9}  {cost:>12}")
    click.echo("These are estimates from public numbers: they rank the solvers and may be off by a factor of several.")


def _field(value: object) -> str:
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text


def _passes(passes: float) -> str:
    if passes == float("inf"):
        return "as many passes over the rows as the minimiser takes, which is not published"
    return f"{round(passes, 1):g} passes over the rows"


def _cross_check(priced: PricedFit) -> str:
    """What an accountant that shares no code with the first one says."""
    event, statement = priced.paid.event(), priced.privacy
    if not has_renyi_bound(event):
        return f"evaluated again, ε = {statement.certified_epsilon:.4g}; Rényi accounting does not know this noise"
    check = rdp_epsilon(event, statement.delta, priced.setting.adjacency)
    verdict = "looser as it must be" if check >= statement.certified_epsilon else "which is less than ours"
    return f"Rényi accounting gives ε ≤ {check:.4g}, {verdict}"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
