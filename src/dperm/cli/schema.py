"""`dperm schema`: draft a schema, and check a table against one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dperm.cli import output as outputs
from dperm.cli.context import CONTEXT
from dperm.cli.entry import ended_by_an_interrupt
from dperm.cli.options import given_options, schema_option, separator_by_option
from dperm.cli.output import FILE, output_option
from dperm.disk import write_whole
from dperm.errors import InvalidParameterError, InvalidTableError
from dperm.printable import one_line
from dperm.schema import load_schema
from dperm.schema.plain import schema_to_toml
from dperm.schema.table import SEPARATORS
from dperm.validation import one_of

if TYPE_CHECKING:
    from dperm.rows.column_facts import Finding

_FOR_THE_HOLDER = "For the data holder, not for release: exact facts about the rows, without noise."

_form_options = (
    click.option("--header", help="Column names, separated by commas, if the file has no header."),
    click.option("--separator", help="Field separator: , ; | or tab [default: tab for .tsv, else ,]."),
)


def _form(command: Any) -> Any:
    """Add what says how a CSV file is read."""
    for option in reversed(_form_options):
        command = option(command)
    return command


def read_form(table: Path, header: str | None, separator: str | None) -> tuple[tuple[str, ...] | None, str]:
    """Names and separator of a CSV file, as far as they are told."""
    names = None if header is None else tuple(name.strip() for name in header.split(","))
    plain = table.name.lower().removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz")
    if separator is None:
        separator = "tab" if plain.endswith(".tsv") else ","
    between = one_of("--separator", "\t" if separator == "tab" else separator, SEPARATORS)
    return names, between


def _check_form(names: Sequence[str], separator: str) -> None:
    """Raise if a first line that names one column holds another separator: only the holder of the rows is told."""
    others = [other for other in SEPARATORS if len(names) == 1 and other in names[0]]
    if others:
        other = "tab" if others[0] == "\t" else others[0]
        said = "tab" if separator == "\t" else separator
        raise InvalidParameterError(f"the first line contains no {said} and a {other}: add --separator '{other}'.")


@click.group(context_settings=CONTEXT)
def schema() -> None:
    """Draft a schema (the public facts about a table: ranges, categories, classes), and check a table against it.

    Example: dperm schema draft people.csv --target income -o people.toml

    Example: dperm schema check people.csv --schema people.toml
    """


@schema.command(context_settings=CONTEXT)
@click.argument("table", type=FILE)
@click.option("--target", required=True, help="Column to predict.")
@_form
@click.option("--unit", help="Column identifying the privacy unit, e.g. patient_id; it is not a feature.")
@output_option("TOML file [default: standard output].")
def draft(
    table: Path, target: str, header: str | None, separator: str | None, unit: str | None, output: Path | None,
    force: bool,
) -> None:  # fmt: skip
    """Draft a schema for TABLE, to be corrected by hand.

    A draft is derived from the data and marked as such: `dperm fit` refuses it until every number and list has been
    corrected to public knowledge and the mark is removed. Its last lines are the findings of `dperm schema check`:
    columns left out, ids, dates, decimal commas, a target of counts. Parquet files are read one column at a time;
    a CSV file is read as a whole.

    Example: dperm schema draft visits.csv --target ill --unit patient_id -o visits.toml
    """
    with ended_by_an_interrupt():
        from dperm.rows import Table
        from dperm.unsafe import check_schema, draft_schema
    if output is not None:
        outputs.check(output, force=force, inputs=[table])
    names, between = read_form(table, header, separator)
    with separator_by_option():
        columns = Table(table).opened(names, between)
        columns.require(columns.names)
    _check_form(columns.names, between)
    drafted, left_out = draft_schema(columns, target, unit)
    drafted = replace(drafted, header=names, separator=between)
    text = schema_to_toml(drafted)
    for name, reason in left_out.items():
        text += f"# {name!r} is left out: {reason}.\n"
    remarks = check_schema(table, drafted)
    if left_out:
        remarks += check_schema(table, header=names, separator=between, columns=list(left_out))
    text += "".join(f"# {remark}.\n" for remark in remarks)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_whole(output, text)
        click.echo(f"wrote {one_line(output)}; correct it to what is public, then remove the line derived_from_data")
        if any(one.serious for one in remarks):
            tell([one for one in remarks if one.serious])


@schema.command(context_settings=CONTEXT)
@click.argument("table", type=FILE)
@schema_option
@click.option("--target", help="Column to predict, if there is no schema.")
@_form
def check(
    table: Path, schema: Path | None, target: str | None, header: str | None, separator: str | None
) -> int:  # fmt: skip
    """Check TABLE against its schema, column by column. For the data holder, not private: NOT FOR RELEASE.

    Reports the share of rows that is missing, out of range or undeclared, and columns that are constant, duplicated,
    in mixed case, with decimal commas, or that look like ids, dates or a target of counts. TABLE may be anything that
    `dperm fit` accepts. No budget is charged, so do not publish the output. Exit code 1 if a column is unusable.

    Example: dperm schema check people.csv --schema people.toml
    """
    with ended_by_an_interrupt():
        from dperm.rows import Table
        from dperm.unsafe import check_schema
    if schema is not None:
        if given_options("target", "header", "separator"):
            raise InvalidParameterError("--target, --header and --separator cannot be combined with --schema.")
        found = check_schema(table, load_schema(schema))
    else:
        names, between = read_form(table, header, separator)
        with separator_by_option():
            known = Table(table).opened(names, between).names
        _check_form(known, between)
        if target is not None and target not in known:
            raise InvalidTableError(f"{one_line(table)} has no column {target!r}.")
        found = check_schema(table, header=names, separator=between, target=target)
    tell(found, err=False)
    return int(any(one.unusable for one in found))


def tell(found: Sequence[Finding], *, err: bool = True) -> None:
    """One line for each, under a line that says for whom they are."""
    click.echo("\n".join([_FOR_THE_HOLDER, *(map(str, found) if found else ["nothing found"])]), err=err)
