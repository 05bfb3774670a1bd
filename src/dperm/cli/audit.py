"""`dperm audit`: attacks on a plan, and on the owner's own table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dperm.cli import output as outputs
from dperm.cli.choices import ATTACKS
from dperm.cli.context import CONTEXT
from dperm.cli.entry import ended_by_an_interrupt
from dperm.cli.fit import rows_in_memory
from dperm.cli.options import build_estimator, fit_options, given_options, schema_option
from dperm.cli.output import FILE, output_option
from dperm.disk import write_whole
from dperm.errors import InvalidParameterError
from dperm.printable import one_line
from dperm.progress import ProgressBar
from dperm.schema import load_schema

if TYPE_CHECKING:
    from dperm.plan.fit_plan import FitPlan


@click.command(context_settings=CONTEXT)
@click.argument("table", required=False, type=FILE)
@click.option(
    "--of",
    type=FILE,
    metavar="MODEL",
    help="Audit the fit of this model file, which replaces the other options.",
)
@schema_option
@click.option("--target", help="With a TABLE: column to predict; a schema declares it.")
@click.option("--features", help="With a TABLE: feature columns, separated by commas [default: all others].")
@click.option("--n", type=int, help="Number of rows, or of privacy units, of the plan [default: the schema's].")
@click.option("--p", "n_features", type=int, help="Number of feature columns of the plan [default: the schema's].")
@click.option(
    "--attack", type=click.Choice(["all", *ATTACKS, "one-run"]), default="all", show_default=True,
    help="Only one-run reads a TABLE.",
)  # fmt: skip
@click.option("--fits", type=int, default=1000, show_default=True, help="Number of fits of the black-box attack.")
@click.option("--canaries", type=int, default=200, show_default=True, help="Synthetic rows (canaries) of one-run.")
@click.option(
    "--confidence", type=float, default=0.95, show_default=True,
    help="1 − the probability of accusing a correct mechanism, over all attacks together.",
)  # fmt: skip
@output_option("PNG of the proved bound and the best attack.")
@click.option("--json", "json_path", type=FILE, help="JSON file of the result, for `dperm report --audit`.")
@click.option("--dataset", help="Charge the fit of one-run to the budget of this dataset; see `dperm budget`.")
@click.option("--ledger", envvar="DPERM_LEDGER", help="Ledger: SQLite file or database URL [default: your own].")
@click.option("--seed", type=int, help="Make the audit reproducible.")
@fit_options(required=False)
def audit(
    table: Path | None, of: Path | None, schema: Path | None, target: str | None, features: str | None,
    n: int | None, n_features: int | None, attack: str, fits: int, canaries: int, confidence: float,
    output: Path | None, force: bool, json_path: Path | None, dataset: str | None, ledger: str | None, seed: int | None,
    **options: Any,
) -> None:  # fmt: skip
    """Audit a fit empirically: lower bounds on ε, compared with the guarantee.

    Without a TABLE all rows are synthetic, and nothing sensitive is read. With a TABLE one private fit is made on it
    with synthetic canaries (one-run), at the privacy cost of a fit. Exit code 0 if nothing contradicts the guarantee,
    1 if an attack does, 2 on errors.

    Example: dperm audit --model logistic --n 500 --p 5 --epsilon 1 --solver dp-gd -o audit.png

    Example: dperm audit --of model.json --json audit.json
    """
    with ended_by_an_interrupt():
        from dperm.audit import audit_plan, audit_table, draw_audit
        from dperm.ledger import Budget
        from dperm.pictures.canvas import offscreen
    if of is None and options["epsilon"] is None:
        raise InvalidParameterError("pass --epsilon, or a model file: --of MODEL.")
    if of is not None and (
        doubled := given_options("table", "schema", "n", "n_features", "target", "features", *options)
    ):
        raise InvalidParameterError(f"{doubled[0]} cannot be combined with --of: the model file describes its fit.")
    public = None if schema is None else load_schema(schema)
    if (table is not None) != (attack == "one-run"):
        raise InvalidParameterError(
            "one-run requires a TABLE, and a TABLE requires --attack one-run; other attacks read no table."
        )
    if output is not None and attack in ("replay", "one-run"):
        raise InvalidParameterError(f"{attack} has no curve to draw; remove -o.")
    if output is not None:
        offscreen()  # where matplotlib is missing, this says so before anything is fitted
    for path in (output, json_path):
        if path is not None:
            outputs.check(path, force=force, inputs=[table, of, schema], ledger=ledger)
    if table is not None:
        budget = None if dataset is None else Budget(dataset, ledger)
        model = build_estimator(**options, schema=public, n=n)
        rows, ids = rows_in_memory(table, public, target, features, model, model.options().declared_rows)
        with ProgressBar("one fit") as bar:
            result = audit_table(
                model,
                *rows,
                **ids,
                canaries=canaries,
                confidence=confidence,
                budget=budget,
                random_state=seed,
                progress=bar,
            )
        click.echo(str(result))
        click.echo(_whether_to_release(dataset, seed))
    else:
        if dataset is not None:
            raise InvalidParameterError("--dataset requires a TABLE: the other attacks read no sensitive rows.")
        if of is not None:
            plan = _plan_of(of)
        elif (n is None and (public is None or public.n is None)) or (public is None and n_features is None):
            raise InvalidParameterError("pass --n and --p, or a --schema that declares n.")
        else:
            plan = build_estimator(**options, schema=public, n=n).plan(n, n_features)
        with ProgressBar("fits") as bar:
            result = audit_plan(
                plan, attacks=ATTACKS if attack == "all" else (attack,), fits=fits, confidence=confidence,
                random_state=seed, progress=bar,
            )  # fmt: skip
        click.echo(str(result))
        if output is not None:
            write_whole(output, draw_audit(result, plan))
            click.echo(f"wrote {one_line(output)}")
    if json_path is not None:
        write_whole(json_path, json.dumps(result.to_dict(), indent=2, ensure_ascii=False) + "\n")
        click.echo(f"wrote {one_line(json_path)}")
    if not result.kept:
        click.get_current_context().exit(1)


def _plan_of(path: Path) -> FitPlan:
    """The plan of a model file's fit, recomputed."""
    from dperm.files.model_file import load_estimator

    model = load_estimator(path)
    return model.as_asked().plan(model.privacy_.n, None if model.schema_ is not None else model.privacy_.n_features)


def _whether_to_release(dataset: str | None, seed: int | None) -> str:
    if seed is not None:
        return "release:    NOT FOR RELEASE: the noise and the coins came from a seed"
    if dataset is None:
        return (
            "release:    NOT FOR RELEASE: the fit was not charged to a budget (--dataset), and the number of correct "
            "guesses reveals as much about the rows as the coefficients would"
        )
    name = one_line(dataset)
    return f"release:    the fit was charged to the budget of {name}; the result follows from what it released"
