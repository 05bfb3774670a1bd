"""`dperm demo` and `dperm reproduce`."""

from pathlib import Path

import click
from rich.console import Console

from dperm.cli.context import CONTEXT
from dperm.cli.output import FILE
from dperm.consequences import CONSEQUENCES
from dperm.errors import InvalidParameterError


@click.command(context_settings=CONTEXT)
@click.option(
    "--output",
    type=FILE,
    default=Path("demo-output"),
    show_default=True,
    help="Folder for the picture.",
)
@click.option("--rows", type=int, default=200_000, show_default=True, help="Training rows of each table at most.")
def demo(output: Path, rows: int) -> None:
    """Fit two raw tables privately at several ε, beside what is possible without privacy; needs dperm[plot].

    Adult and Covertype come with dperm. Prints and draws accuracy and AUC on held-out rows, and the most that any
    attacker can do.

    Example: dperm demo --output demo-output
    """
    from dperm.demo import run_demo

    run_demo(output, Console(), rows)


@click.command(context_settings=CONTEXT)
@click.argument("study")
@click.option(
    "--output",
    type=FILE,
    default=Path("reproduction"),
    show_default=True,
    help="Folder for what is measured and written.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Pictures of fewer rows, seeds and settings, in about two minutes for all; no verdicts, which would mislead.",
)
def reproduce(study: str, output: Path, quick: bool) -> None:
    """Measure a figure, a table or a theorem of the paper again, and say whether its claims hold.

    STUDY is figure-1, figure-2, table-1, table-2, table-3, nonconvex (gradient norms of section 6.2; needs JAX),
    privacy, or all. Each writes pictures, Markdown and CSV; all together make one HTML page. What was measured is kept
    in the folder: an interrupted run goes on where it was. A claim that stays undecided says why. With --quick there
    are pictures and no verdicts.

    Example: dperm reproduce figure-1 --output reproduction
    """
    from dperm.paper.studies.reproduce import STUDIES
    from dperm.paper.studies.reproduce import reproduce as run_studies

    if study not in {*STUDIES, "all"}:
        raise InvalidParameterError(f"there is no study {study!r}; the names are {', '.join(STUDIES)} and all.")
    try:
        run_studies(list(STUDIES) if study == "all" else [study], output, Console(), quick)
    except KeyboardInterrupt:
        CONSEQUENCES.notes.append(f"what was measured is kept in {output}, and the same call goes on from there")
        raise
