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
    help="Output folder.",
)
@click.option("--rows", type=int, default=200_000, show_default=True, help="Maximum number of training rows per table.")
def demo(output: Path, rows: int) -> None:
    """Fit two raw tables privately at several ε and compare with non-private models; needs dperm[plot].

    Adult and Covertype are bundled. Prints and plots accuracy and AUC on held-out rows, and the bound on any attacker.

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
    help="Output folder.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Fewer rows, seeds and settings, about two minutes for all: plots only, no verdicts, which would mislead.",
)
def reproduce(study: str, output: Path, quick: bool) -> None:
    """Reproduce a figure, a table or a theorem of the paper, and state whether its claims hold.

    STUDY is figure-1, figure-2, table-1, table-2, table-3, nonconvex (gradient norms of section 6.2; needs JAX),
    privacy, or all. Each writes plots, Markdown and CSV; all together make one HTML page. Measurements are kept in the
    output folder, so an interrupted run resumes. Undecided claims state the reason. --quick plots without verdicts.

    Example: dperm reproduce figure-1 --output reproduction
    """
    from dperm.paper.studies.reproduce import STUDIES
    from dperm.paper.studies.reproduce import reproduce as run_studies

    if study not in {*STUDIES, "all"}:
        raise InvalidParameterError(f"unknown study {study!r}; choose from {', '.join(STUDIES)} and all.")
    try:
        run_studies(list(STUDIES) if study == "all" else [study], output, Console(), quick)
    except KeyboardInterrupt:
        CONSEQUENCES.notes.append(f"measurements are kept in {output}; the same command resumes")
        raise
