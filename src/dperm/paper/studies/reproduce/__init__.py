"""The paper's figures and tables, measured again, each with a verdict."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from dperm.disk import make_folder, write_whole
from dperm.paper.studies.reproduce import figures, nonconvex, privacy, tables
from dperm.paper.studies.reproduce.lab import Lab, Measurement
from dperm.paper.studies.reproduce.page import template, write_page
from dperm.paper.studies.reproduce.section import QUICK, Section
from dperm.pictures.canvas import offscreen
from dperm.printable import one_line
from dperm.problem.parameters import jax_modules


class Study(Protocol):
    """Says what to measure, and what follows from it."""

    def measurements(self) -> list[Measurement]:
        """Everything that is measured, in order."""

    def section(self, results: Mapping[Measurement, dict[str, Any]]) -> Section:
        """What the results say."""


STUDIES: dict[str, Callable[[bool], Study]] = {
    "figure-1": figures.figure_1,
    "figure-2": figures.figure_2,
    "table-1": tables.table_1,
    "table-2": tables.table_2,
    "table-3": tables.table_3,
    "nonconvex": nonconvex.study,
    "privacy": privacy.study,
}


def reproduce(names: Sequence[str], output: Path, console: Console, quick: bool = False) -> Path | None:
    """Run studies, print their verdicts and write pictures, Markdown and CSV; all of them together are a page as well.

    A quick look draws pictures and gives no verdicts: with few rows and seeds they would mislead.

    Parameters
    ----------
    names : sequence of str
        Among `STUDIES`.
    output : Path
        Folder for everything. What was measured is kept there in `measurements.jsonl`, and not measured again.
    console : Console
        Where to print.
    quick : bool
        Fewer rows, seeds and settings: a look in a minute or two, without verdicts.

    Returns
    -------
    Path or None
        The page, if all studies were asked for.
    """
    make_folder(output)
    offscreen()  # where one of these is missing, this fails now and not after an hour
    if "nonconvex" in names:
        jax_modules()
    if set(names) == set(STUDIES):
        template()
    lab = Lab(output / "measurements.jsonl")
    sections = []
    for name in names:
        study = STUDIES[name](quick)
        section = study.section(lab.run(name, study.measurements()))
        if quick:
            section = section.without_verdicts()
        sections.append(section)
        _write(section, output)
        _tell(section, console)
        wrote = f"  wrote {one_line(output / name)}.md, .csv, .png"
        console.print(wrote, highlight=False, soft_wrap=True, markup=False)
    if quick:
        console.print(f"\n{QUICK}", highlight=False, soft_wrap=True)
    if set(names) != set(STUDIES):
        return None
    page = output / "reproduction.html"
    write_page(page, sections)
    console.print(f"\nthe page: {one_line(page)}", highlight=False, soft_wrap=True, markup=False)
    return page


def _tell(section: Section, console: Console) -> None:
    """Print what became of its claims, and of undecided ones why."""
    console.print(f"\n{section.title}", style="bold", highlight=False, soft_wrap=True)
    console.print(f"  {section.setting}", highlight=False, soft_wrap=True, markup=False)
    for verdict in section.verdicts:
        lines = [f"  {verdict.outcome.value.upper()}: {verdict.claim}", f"    {verdict.because}"]
        lines += [f"    Undecided because: {verdict.finding.why}."] if verdict.finding.why else []
        for line in lines:
            console.print(line, highlight=False, soft_wrap=True, markup=False)


def _write(section: Section, output: Path) -> None:
    write_whole(output / f"{section.name}.md", section.markdown())
    write_whole(output / f"{section.name}.csv", section.measurements.csv())
    for name, picture in section.pictures.items():
        write_whole(output / f"{name}.png", picture)
