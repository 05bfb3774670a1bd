"""What `dperm verify`, `dperm summary` and `dperm report` say of a model file."""

from importlib import import_module
from pathlib import Path

import click

from dperm.cli import output as outputs
from dperm.cli.context import CONTEXT
from dperm.cli.entry import ended_by_an_interrupt
from dperm.cli.output import FILE, output_option
from dperm.errors import InvalidParameterError
from dperm.printable import one_line
from dperm.version import __version__


def _import(_: click.Context, __: click.Parameter, modules: tuple[str, ...]) -> None:
    """Import what the user names, and never what a file names."""
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            raise InvalidParameterError(f"--import {one_line(module)}: {one_line(error)}.") from None


import_option = click.option(
    "--import", "modules", metavar="MODULE", multiple=True, expose_value=False, callback=_import,
    help="Import this module, whose classes the file names. It runs code.",
)  # fmt: skip


@click.command(context_settings=CONTEXT)
@click.argument("model_path", metavar="FILE", type=FILE)
@click.option("--ledger", help="Ledger to check against [default: DPERM_LEDGER or your own, if it has the dataset].")
@click.option("--require-budget", is_flag=True, help="Fail unless a ledger confirms that a budget was charged.")
@import_option
@click.pass_context
def verify(context: click.Context, model_path: Path, ledger: str | None, require_budget: bool) -> None:
    """Recompute ε from the plan in a FILE and check that it implies everything the file states.

    FILE holds a model, a pipeline, a transformer, an evaluation or counts of rows per privacy unit. An available ledger
    that has the dataset must also contain the release. A file cannot prove that the noise was added: for that you trust
    who ran the fit.

    Exit code 0 if verified, 1 if not, 2 if the file cannot be read.

    Example: dperm verify model.json
    """
    with ended_by_an_interrupt():
        from dperm.files.model_file import read_content
        from dperm.files.reading import release_from
        from dperm.verify.finding import Finding
        from dperm.verify.release import CANNOT_PROVE, NOT_CHARGED, ledger_of
        from dperm.verify.release import verify as findings_of
    content = read_content(model_path)
    readable = release_from(content) is not None
    ledger = ledger or ledger_of(content)
    findings = findings_of(content, ledger)
    notes = []
    if ledger is None and readable:
        charged = NOT_CHARGED if content["ledger"] is None else "budget: not confirmed by any ledger"
        if require_budget:
            findings.append(Finding(False, charged))
        else:
            notes.append(charged)
    if readable and content["library"] != f"dperm {__version__}":
        notes.append(f"written by {content['library']}; this is dperm {__version__}")
    for finding in findings:
        click.echo(f"{'ok ' if finding.holds else 'NO '} {one_line(finding.text)}")
    for note in (*notes, CANNOT_PROVE):
        click.echo(f"--  {one_line(note)}")
    true = all(finding.holds for finding in findings)
    click.echo("verified: the recorded events imply the stated guarantee" if true else "NOT verified")
    if not true:
        context.exit(1)


@click.command(context_settings=CONTEXT)
@click.argument("model_path", metavar="MODEL", type=FILE)
@click.option("--level", type=float, default=0.95, show_default=True, help="Confidence level, between 0 and 1.")
def summary(model_path: Path, level: float) -> None:
    """Print the coefficients of a MODEL file as a table, with confidence intervals if it was fitted with --intervals.

    Example: dperm summary model.json
    """
    with ended_by_an_interrupt():
        from dperm.files.model_file import load_estimator
    click.echo(str(load_estimator(model_path).summary(level)))


@click.command(context_settings=CONTEXT)
@click.argument("model_path", metavar="FILE", type=FILE)
@output_option("HTML file [default: FILE.html].")
@click.option("--ledger", help="Ledger with the budget's history [default: DPERM_LEDGER or your own, if it has it].")
@click.option("--audit", type=FILE, help="Result of `dperm audit --json` for the same plan.")
@click.option("--evaluation", type=FILE, help="Result of `dperm evaluate -o` for the same model.")
@import_option
def report(
    model_path: Path, output: Path | None, force: bool, ledger: str | None, audit: Path | None, evaluation: Path | None
) -> None:
    """Write one HTML page about a FILE, to read, print and sign: what is promised, and on which assumptions.

    Example: dperm report model.json -o report.html
    """
    with ended_by_an_interrupt():
        from dperm.audit.result import read_audit
        from dperm.files.model_file import read_content
        from dperm.report import page_beside, write_report
        from dperm.verify.release import ledger_of
    output = page_beside(model_path) if output is None else output
    inputs = [path for path in (model_path, audit, evaluation) if path is not None]
    outputs.check(output, force=force, inputs=inputs, ledger=ledger)
    found = None if audit is None else read_audit(audit)
    scored = None if evaluation is None else read_content(evaluation)
    write_report(model_path, output, ledger or ledger_of(read_content(model_path)), found, scored)
    click.echo(f"wrote {one_line(output)}")
