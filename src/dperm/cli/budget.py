"""The commands of `dperm budget`: create, show, report, list, settle."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dperm.cli import output as outputs
from dperm.cli.context import CONTEXT
from dperm.cli.entry import ended_by_an_interrupt
from dperm.cli.output import FILE, output_option
from dperm.consequences import CONSEQUENCES
from dperm.errors import InvalidParameterError, LedgerDamagedError
from dperm.printable import one_line
from dperm.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from dperm.ledger.accounts import Account, Spending

_BAR = 20


def _ledger_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--ledger",
        envvar="DPERM_LEDGER",
        show_envvar=True,
        help="SQLite file, or URL of a database [default: dperm/ledger.db in the user's data folder].",
    )(command)


@click.group(context_settings=CONTEXT)
def budget() -> None:
    """What may be spent on a dataset, and what has been.

    Example: dperm budget create adult --epsilon 3 --delta 1e-5
    """


@budget.command(context_settings=CONTEXT)
@click.argument("name")
@click.option("--epsilon", type=float, required=True, help="ε of all releases together.")
@click.option("--delta", type=float, required=True, help="δ of all releases together, well below 1/n.")
@click.option("--adjacency", type=click.Choice(["replace_one", "add_remove"]), default="replace_one", show_default=True)
@click.option(
    "--fixed-in-advance",
    is_flag=True,
    help="Declare that every release is fixed before the first; else each may be chosen in view of earlier results.",
)
@click.option(
    "--unit",
    help="Whom the budget protects: the unit that every release must have, such as patient_id [default: one row].",
)
@_ledger_option
def create(
    name: str, epsilon: float, delta: float, adjacency: str, fixed_in_advance: bool, unit: str | None,
    ledger: str | None,
) -> None:  # fmt: skip
    """Set what all releases from the dataset NAME together may spend, for good.

    Example: dperm budget create visits --epsilon 3 --delta 1e-5 --unit patient_id
    """
    with ended_by_an_interrupt():
        from dperm.ledger import Budget
    made = Budget.create(name, Guarantee(epsilon, delta), adjacency, ledger, fixed_in_advance, unit)
    click.echo(f"{one_line(made.dataset)}: {made.account().summary}")


@budget.command(context_settings=CONTEXT)
@click.argument("name")
@_ledger_option
def show(name: str, ledger: str | None) -> None:
    """Verify the budget NAME, and show what is spent, what is left, and every release.

    Example: dperm budget show adult
    """
    with ended_by_an_interrupt():
        from dperm.ledger import Budget
    account = Budget(name, ledger).account()
    click.echo(f"{one_line(account.dataset)}, since {account.created} (UTC)")
    click.echo(f"{_bar(account)} {account.summary}")
    click.echo(account.explanation)
    if account.unit is not None:
        click.echo(f"it protects {one_line(account.protects)}, however many there are")
    click.echo(_further(account))
    for release in account.releases:
        click.echo(_line(release))


@budget.command(context_settings=CONTEXT)
@click.argument("name", metavar="DATASET")
@output_option("HTML file [default: the dataset's name, -budget.html, in this folder].")
@_ledger_option
def report(name: str, output: Path | None, force: bool, ledger: str | None) -> None:
    """Verify the budget DATASET and write one HTML page about it: what was released, at what cost, and what is left.

    Exit code 2 if the ledger is damaged; nothing is written then.

    Example: dperm budget report adult -o budget.html
    """
    with ended_by_an_interrupt():
        from dperm.ledger import Budget
    # The other commands need no pages.
    from dperm.report import page_named, write_budget

    found = Budget(name, ledger)
    output = page_named(found.dataset) if output is None else output
    outputs.check(output, force=force, inputs=[], ledger=ledger)
    click.echo(f"wrote {one_line(write_budget(found.dataset, ledger, output))}")


@budget.command("list", context_settings=CONTEXT)
@_ledger_option
def list_budgets(ledger: str | None) -> None:
    """Verify and list all budgets of a ledger.

    Example: dperm budget list --ledger team.db
    """
    with ended_by_an_interrupt():
        from dperm.ledger import budgets
    found = budgets(ledger)
    for one in found:
        try:
            account = one.account()
            click.echo(f"{_bar(account)} {one_line(one.dataset)}: {account.summary}")
        except LedgerDamagedError as error:  # the others are still worth seeing
            click.echo(f"[{'?' * _BAR}] {one_line(error)}")
    if not found:
        click.echo("no budget yet; make one: dperm budget create adult --epsilon 3 --delta 1e-5")


@budget.command(context_settings=CONTEXT)
@click.argument("model_path", metavar="MODEL", type=FILE)
@_ledger_option
def settle(model_path: Path, ledger: str | None) -> None:
    """Tell the ledger of a MODEL file that was written and not noted as released, as the ledger could not be reached.

    MODEL may also be what `dperm evaluate -o` wrote.

    Example: dperm budget settle model.json
    """
    with ended_by_an_interrupt():
        from dperm.accounting.events import event_to_list
        from dperm.ledger import Budget, Reservation
    content = _released(model_path)
    entry = content["ledger"]
    if entry is None:
        raise InvalidParameterError(f"{one_line(model_path)} was charged to no budget.")
    charged = Budget(entry["dataset"], ledger)
    events = [event_to_list(release.event) for release in charged.account().releases if _is(release, entry)]
    if events != [content["events"]]:
        raise InvalidParameterError(
            f"entry {entry['number']} of {entry['dataset']!r} in the ledger is for other events."
        )
    CONSEQUENCES.notes.append(f"see what the ledger knows: dperm budget show {shlex.quote(entry['dataset'])}")
    Reservation(charged, entry["number"], entry["digest"]).settle(content["fingerprint"])
    click.echo(f"entry {entry['number']} of {entry['dataset']!r} in the ledger is this release")


def _released(path: Path) -> dict[str, Any]:
    """The contents of a model or an evaluation file; raises if it was changed."""
    # The other commands need no estimator.
    from dperm.evaluation.result import PrivateEvaluation, is_evaluation, read_evaluation
    from dperm.files.model_file import is_unchanged, load_model, read_content

    if not is_evaluation(path):
        load_model(path)
        return read_content(path)
    content = read_evaluation(path)
    PrivateEvaluation.from_dict(content)
    if not is_unchanged(content):
        raise InvalidParameterError(f"{one_line(path)} was changed after it was written: its fingerprint is another.")
    return content


def _is(release: Spending, entry: dict[str, Any]) -> bool:
    return (release.number, release.digest) == (entry["number"], entry["digest"])


def _bar(account: Account) -> str:
    share = account.spent / account.guarantee.epsilon
    filled = min(_BAR, max(int(_BAR * share), 1 if share > 0.0 else 0))
    return "[" + "#" * filled + "-" * (_BAR - filled) + "]"


def _further(account: Account) -> str:
    """How large a further release may be."""
    from dperm.ledger.accounts import rounded_down

    delta, sizes = account.guarantee.delta, []
    if account.left > 0.0:
        sizes.append(f"up to ε = {rounded_down(account.left)} at δ = 0")
    if delta > 0.0 and (largest := account.largest(delta)) > 0.0:
        sizes.append(f"one Gaussian answer of up to ε = {rounded_down(largest)} at δ = {delta:g}")
    return f"a further release fits: {', or '.join(sizes)}" if sizes else "no further release fits"


def _line(release: Spending) -> str:
    from dperm.ledger.accounts import rounded_up

    state = "released" if release.is_settled else "reserved, not settled: counts as spent"
    alone = f"ε = {rounded_up(release.epsilon)} alone"
    fingerprint = (release.fingerprint or "")[:12]
    return f"{release.number:>6}  {release.reserved_on}  {alone:<18}  {state}  {fingerprint}".rstrip()
