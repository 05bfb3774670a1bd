"""The command line. Each command is a separate module, imported when it is called."""

import importlib
import os
import traceback
import warnings
from typing import Any

import click

from dperm.cli.context import CONTEXT
from dperm.cli.entry import end_undisturbed, ended_by_an_interrupt, interrupted, interrupted_in_words
from dperm.consequences import CONSEQUENCES
from dperm.errors import DpermError
from dperm.printable import one_line
from dperm.version import __version__

# Where every command is, and its line in `dperm --help`.
COMMANDS = {
    "fit": ("fit:fit", "Fit a model on a sensitive table and write a releasable model file."),
    "tune": ("tune:tune", "Select a model under one guarantee, fit it and write the model file."),
    "predict": ("predict:predict", "Predict every row of a table with a model file."),
    "evaluate": ("evaluate:evaluate", "Evaluate a model on sensitive rows, privately and with intervals."),
    "plan": ("plan:plan", "Show noise and privacy cost of a fit without reading data."),
    "rows-per-unit": ("rows_per_unit:rows_per_unit", "Private histogram of rows per privacy unit."),
    "diagnose": ("diagnose:diagnose", "Exact diagnostics for the data holder. Output is not private."),
    "budget": ("budget:budget", "Create and show privacy budgets."),
    "schema": ("schema:schema", "Draft a schema (public ranges, categories, classes) and check a table against it."),
    "verify": ("release:verify", "Recompute ε of a model file and check its statement."),
    "summary": ("release:summary", "Print the coefficients of a model file, with intervals if available."),
    "audit": ("audit:audit", "Audit a fit empirically: lower bounds on ε."),
    "report": ("release:report", "Write an HTML page about a model file, to read, print and sign."),
    "plot": ("plot:plot", "Plot coefficients, effects, attack bounds or the cost of privacy."),
    "solvers": ("solvers:solvers", "List the solvers, with the paper's comparison tables."),
    "example": ("example:example", "Write an example table and its schema."),
    "demo": ("studies:demo", "Fit two example tables at several ε and plot the results."),
    "reproduce": ("studies:reproduce", "Reproduce a figure or a table of the paper."),
}


class _Commands(click.Group):
    """Knows the names of the commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        with ended_by_an_interrupt():
            command: click.Command = getattr(importlib.import_module(f"dperm.cli.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=_Commands, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="dperm")
def app() -> None:
    """Differentially private empirical risk minimization.

    Example: dperm fit people.csv --schema people.toml --epsilon 1 --delta 1e-6 -o model.json
    """


def run_with(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    CONSEQUENCES.forget()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            ended = app.main(arguments, prog_name="dperm", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        return _fail(error.format_message())
    except DpermError as error:
        return _fail(str(error))
    except BrokenPipeError:  # the reader of the output has seen enough
        return 2
    except OSError as error:
        return _fail(f"{error.filename or 'the file'}: {error.strerror or 'cannot be used'}.")
    except (click.Abort, KeyboardInterrupt):
        return _say(interrupted_in_words())
    except MemoryError:
        return _fail("out of memory.")
    except Exception as error:  # its message or traceback could show a value of the table
        if os.environ.get("DPERM_TRACEBACK") == "1":  # a developer's switch, for tables that nobody has to protect
            click.echo("dperm: the traceback can show values of the table; do not share it.", err=True)
            traceback.print_exc()
        kind = type(error).__name__
        return _fail(f"internal error ({kind}); please report how you called dperm, without the data.")
    return ended if isinstance(ended, int) else 0  # `verify` exits with 1 if the statement does not hold


def _fail(message: str) -> int:
    """Report the error, and what was spent and written anyway. Exception notes could hold a value: not shown."""
    if interrupted.is_set():  # and what it interrupted made another error of it
        return _say(interrupted_in_words())
    return _say("; ".join([message.rstrip().removesuffix("."), *CONSEQUENCES.in_words()]))


def _say(sentence: str) -> int:
    end_undisturbed()
    click.echo(f"dperm: {one_line(' '.join(sentence.split()))}.", err=True)
    return 2


def _show_warning(message: Warning | str, *_details: Any, **_more: Any) -> None:
    click.echo(f"dperm: warning: {one_line(message)}", err=True)
