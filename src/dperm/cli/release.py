"""What `dperm verify` and `dperm report` say of a model file."""

from pathlib import Path

import click

from dperm.cli.context import CONTEXT
from dperm.release.model_file import read_content
from dperm.release.report import write_report
from dperm.release.verify import ledger_of
from dperm.release.verify import verify as findings_of


@click.command(context_settings=CONTEXT)
@click.argument("model_path", metavar="MODEL", type=click.Path(path_type=Path))
@click.option("--ledger", help="Ledger that must know the release [default: DPERM_LEDGER or your own, if it does].")
@click.pass_context
def verify(context: click.Context, model_path: Path, ledger: str | None) -> None:
    """Derive ε again from the accounting events of a MODEL file and say whether its statement is true to them.

    Exit code 0 if it is, 1 if it is not, 2 if the file cannot be read.

    Example: dperm verify model.json
    """
    content = read_content(model_path)
    findings = findings_of(content, ledger or ledger_of(content))
    for finding in findings:
        click.echo(f"{'ok ' if finding.holds else 'NO '} {finding.text}")
    true = all(finding.holds for finding in findings)
    click.echo("verified: what is promised follows from the events in the file" if true else "NOT verified")
    if not true:
        context.exit(1)


@click.command(context_settings=CONTEXT)
@click.argument("model_path", metavar="MODEL", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="HTML file [default: the model's name, .html].")
@click.option("--ledger", help="Ledger with the budget's history [default: DPERM_LEDGER or your own, if it knows it].")
def report(model_path: Path, output: Path | None, ledger: str | None) -> None:
    """Write one HTML page about a MODEL file, to read, print and sign: what is promised, and on which assumptions.

    Example: dperm report model.json -o report.html
    """
    click.echo(f"wrote {write_report(model_path, output, ledger or ledger_of(read_content(model_path)))}")
