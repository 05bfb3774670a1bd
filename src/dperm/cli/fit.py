"""`dperm fit`: from a table on disk to a model file."""

import os
from pathlib import Path
from typing import Any

import click

from dperm.accounting.ledger import Budget
from dperm.cli.context import CONTEXT
from dperm.cli.options import build_estimator, fit_options, schema_option
from dperm.errors import InvalidParameter
from dperm.estimators.base import PrivateGLM
from dperm.release.model_file import save_model
from dperm.schema import Amount, load_schema
from dperm.trusted.sources.files import TableFile


@click.command(context_settings=CONTEXT)
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
    asked = model.options()  # raises what is wrong with the parameters before the table is opened
    if not output.parent.is_dir() or output.is_dir() or not os.access(output.parent, os.W_OK):
        raise InvalidParameter(f"{output} cannot be written.")
    if public is None:
        model.fit(*_numbers_and_target(table, target, features, model))
    elif target is not None or features is not None:
        raise InvalidParameter("with a schema leave --target and --features out: it declares them.")
    else:
        plan = None if asked.declared_n is None else asked.plan()
        if plan is not None:
            plan.check_budget(budget)  # before the table is opened
        model.fit(TableFile(table, public.header, public.separator).table, plan=plan)
    save_model(model, output)
    click.echo(str(model.privacy_))
    if budget is not None:
        click.echo(f"budget:     {dataset}: {budget.account().summary}")
    click.echo(f"wrote {output}")


def _numbers_and_target(table: Path, target: str | None, features: str | None, model: PrivateGLM) -> tuple[Any, Any]:
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
    is_number = model.target_kind is Amount
    labels = source.numbers([target]).column(0).to_numpy() if is_number else source.labels(target)
    return source.numbers(columns), labels
