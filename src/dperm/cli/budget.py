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
        help="SQLite file or database URL [default: dperm/ledger.db in the user's data folder].",
    )(command)


@click.group(context_settings=CONTEXT)
def budget() -> None:
    """Create and show privacy budgets: what may be spent on a dataset, and what has been spent.

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
    help="Declare all releases non-adaptive: fixed before the first. By default each may depend on earlier results.",
)
@click.option(
    "--unit",
    help="Privacy unit that every release must have, e.g. patient_id [default: one row].",
)
@_ledger_option
def create(
    name: str, epsilon: float, delta: float, adjacency: str, fixed_in_advance: bool, unit: str | None,
    ledger: str | None,
) -> None:  # fmt: skip
    """Create the budget of the dataset NAME, for all releases together. It cannot be changed later.

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
    """Verify the ledger and show what the budget NAME has spent, what is left, and every release.

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
@output_option("HTML file [default: DATASET-budget.html in the current folder].")
@_ledger_option
def report(name: str, output: Path | None, force: bool, ledger: str | None) -> None:
    """Verify the ledger and write an HTML page about the budget DATASET: what was released, its cost, and what is left.

    Exit code 2, and no page, if the ledger is damaged.

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
    """Verify a ledger and list its budgets.

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
        click.echo("no budgets yet; create one: dperm budget create adult --epsilon 3 --delta 1e-5")


@budget.command(context_settings=CONTEXT)
@click.argument("model_path", metavar="FILE", type=FILE)
@_ledger_option
def settle(model_path: Path, ledger: str | None) -> None:
    """Settle the reservation of a FILE that was written while the ledger could not be reached.

    Example: dperm budget settle model.json
    """
    with ended_by_an_interrupt():  # the other commands need no estimator
        from dperm.files.model_file import load_model, read_content
        from dperm.ledger import settle_file
    released, content = load_model(model_path), read_content(model_path)
    entry = content["ledger"]
    if entry is None:
        raise InvalidParameterError(f"{one_line(model_path)} was not charged to a budget.")
    CONSEQUENCES.notes.append(f"check the ledger: dperm budget show {shlex.quote(entry['dataset'])}")
    cost = released.search_.event if hasattr(released, "search_") else released.event_
    settle_file(content, cost, ledger)
    click.echo(f"entry {entry['number']} of {entry['dataset']!r} in the ledger is settled with this release")


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
