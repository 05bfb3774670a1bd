"""`dperm schema`: a first draft of a table's public facts."""

from dataclasses import replace
from pathlib import Path

import click

from dperm.cli import output as outputs
from dperm.cli.context import CONTEXT
from dperm.cli.output import FILE, output_option
from dperm.files import write_whole
from dperm.printable import one_line
from dperm.schema.plain import schema_to_toml
from dperm.schema.table import SEPARATORS
from dperm.trusted.sources.files import columns_on_disk
from dperm.unsafe import draft_schema
from dperm.validation import one_of


@click.group(context_settings=CONTEXT)
def schema() -> None:
    """The public facts about a table: ranges, categories, classes.

    Example: dperm schema draft people.csv --target income -o people.toml
    """


@schema.command(context_settings=CONTEXT)
@click.argument("table", type=FILE)
@click.option("--target", required=True, help="Column to predict.")
@click.option("--header", help="Names of the columns, separated by commas, if the file does not name them.")
@click.option("--separator", default=",", show_default=True, help="What stands between fields: , ; | or tab.")
@click.option("--unit", help="Column that says whose a row is, such as patient_id: no feature, but whom to protect.")
@output_option("TOML file [default: standard output].")
def draft(
    table: Path, target: str, header: str | None, separator: str, unit: str | None, output: Path | None, force: bool
) -> None:  # fmt: skip
    """Write a first schema for TABLE, for a person to correct.

    A draft is read from the data, so it shows something of it and is marked as such: `dperm fit` refuses it until every
    number and list is what is public knowledge and the mark is removed. Of Parquet files one column is in memory at a
    time; a CSV file is read as a whole.

    Example: dperm schema draft visits.csv --target ill --unit patient_id -o visits.toml
    """
    if output is not None:
        outputs.check(output, force=force, inputs=[table])
    names = None if header is None else tuple(name.strip() for name in header.split(","))
    between = one_of("--separator", "\t" if separator == "tab" else separator, SEPARATORS)
    rows = columns_on_disk(table, names, between)
    drafted, left_out = draft_schema(rows, target, unit)
    text = schema_to_toml(replace(drafted, header=names, separator=between))
    for name, reason in left_out.items():
        text += f"# {name!r} is left out: {reason}.\n"
    if unit is not None and drafted.n == len(rows):
        text += f"# No two rows have the same {unit!r}: what is protected so is one row.\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        write_whole(output, text)
        click.echo(f"wrote {one_line(output)}; correct it to what is public, then remove the line derived_from_data")
