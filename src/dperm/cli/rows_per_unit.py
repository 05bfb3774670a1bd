"""`dperm rows-per-unit`: a private histogram of rows per privacy unit."""

from pathlib import Path

import click

from dperm.cli import output as outputs
from dperm.cli.context import CONTEXT
from dperm.cli.entry import ended_by_an_interrupt
from dperm.cli.options import separator_by_option
from dperm.cli.output import FILE, output_option
from dperm.cli.schema import read_form
from dperm.printable import one_line
from dperm.privacy.unit import MISSING


@click.command(context_settings=CONTEXT)
@click.argument("table", type=FILE)
@click.option("--unit", required=True, help="Column identifying the privacy unit, e.g. patient_id.")
@click.option("--epsilon", type=float, required=True, help="ε of the histogram; a small share of the budget is enough.")
@click.option(
    "--delta", type=float, default=0.0, show_default=True,
    help="0 gives the least noise for this release alone; above 0 composes better with others.",
)  # fmt: skip
@click.option("--adjacency", type=click.Choice(["replace_one", "add_remove"]), default="replace_one", show_default=True)
@click.option("--n", type=int, help="Public number of privacy units; required under add_remove.")
@click.option("--missing-units", type=click.Choice(MISSING), default="separate", show_default=True)
@click.option("--header", help="Column names, separated by commas, if the file has no header.")
@click.option("--separator", default=",", show_default=True, help="Field separator: , ; | or tab.")
@click.option("--dataset", help="Charge the budget of this dataset; see `dperm budget`.")
@click.option("--ledger", envvar="DPERM_LEDGER", help="Ledger: SQLite file or database URL [default: your own].")
@click.option("--seed", type=int, help="Make the result reproducible; a seeded result is not for release.")
@output_option("JSON file for the histogram and its statement.")
def rows_per_unit(
    table: Path, unit: str, epsilon: float, delta: float, adjacency: str, n: int | None, missing_units: str,
    header: str | None, separator: str, dataset: str | None, ledger: str | None, seed: int | None,
    output: Path | None, force: bool,
) -> None:  # fmt: skip
    """Private histogram of rows per privacy unit of the sensitive TABLE, for choosing --max-rows-per-unit.

    It is a release with its own ε: charge it to the same budget as the fits.

    Example: dperm rows-per-unit visits.csv --unit patient_id --epsilon 0.05 --dataset visits
    """
    with ended_by_an_interrupt():
        from dperm.files.model_file import save_model
        from dperm.plan import rows_per_unit as counting
        from dperm.rows import Table
    if output is not None:
        outputs.check(output, force=force, inputs=[table], ledger=ledger)
    budget = outputs.charged_budget(dataset, ledger)
    names, between = read_form(table, header, separator)
    with separator_by_option():
        rows = Table(table).opened(names, between)
    found = counting.rows_per_unit(
        rows.ids(unit), unit, epsilon=epsilon, delta=delta, adjacency=adjacency, n=n,
        missing_units=missing_units, budget=budget, random_state=seed,
    )  # fmt: skip
    click.echo(str(found))
    if output is not None:
        save_model(found, output)
        click.echo(f"wrote {one_line(output)}")
