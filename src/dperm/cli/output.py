"""Output paths: never an input or a ledger, and an existing file only with --force."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dperm.disk import check_output
from dperm.errors import InvalidParameterError

if TYPE_CHECKING:
    from dperm.ledger import Budget


class _File(click.Path):
    """The name of a file, which is not looked at yet."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not str(value) or "\0" in str(value):
            self.fail("a file name must not be empty or contain a null character.", param, ctx)
        return Path(value)


FILE = _File()


def output_option(help_text: str, *, required: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add -o and --force to a command."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        forced = click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
        return click.option("-o", "--output", required=required, type=FILE, help=help_text)(forced(command))

    return add


def check(output: Path, *, force: bool, inputs: Iterable[Path | None], ledger: str | None = None) -> None:
    """Raise if the output must not be written: before anything is read or spent.

    Parameters
    ----------
    output, force
        What the command was told.
    inputs : iterable of Path
        What it reads.
    ledger : str, optional
        A ledger that it was told, besides DPERM_LEDGER and the user's own.
    """
    from dperm.ledger import default_ledger
    from dperm.ledger.places import files_of, witness_folder

    places = [ledger, os.environ.get("DPERM_LEDGER"), _own(default_ledger)]
    kept = [path for place in places if place for path in files_of(place)]
    folder = _own(witness_folder)
    check_output(
        output,
        force=force,
        inputs=[path for path in inputs if path is not None],
        kept=kept if folder is None else [*kept, folder],
    )


def _own(place: Callable[[], Any]) -> Any:
    """A path of the user, None for one without a home."""
    try:
        return place()
    except InvalidParameterError:
        return None


def charged_budget(dataset: str | None, ledger: str | None) -> Budget | None:
    """The budget of a release; raises for a ledger without one, or for none where the environment asks for one."""
    from dperm.ledger import Budget

    if ledger is not None and dataset is None and not os.environ.get("DPERM_LEDGER"):
        raise InvalidParameterError("--ledger requires --dataset.")
    if dataset is None and os.environ.get("DPERM_REQUIRE_BUDGET", "0") not in ("", "0"):
        raise InvalidParameterError("DPERM_REQUIRE_BUDGET is set: pass --dataset.")
    return None if dataset is None else Budget(dataset, ledger)
