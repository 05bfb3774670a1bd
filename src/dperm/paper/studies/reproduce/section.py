"""What a study says: a heading, verdicts, sheets of numbers and pictures; as Markdown and CSV."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dperm.paper.studies.reproduce.verdicts import Verdict

Cell = str | float | int | None

ADJACENCY = "one row replaced (replace_one)"
QUICK = (
    "This is a quick look with fewer rows, seeds and settings: it shows pictures and numbers and gives no verdicts, "
    "because at this size they would mislead."
)


@dataclass(frozen=True)
class Sheet:
    """A table of numbers with a caption."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def markdown(self) -> str:
        """As a Markdown table under its caption."""
        lines = [self.columns, ["---"] * len(self.columns), *[[shown(cell) for cell in row] for row in self.rows]]
        return f"{self.caption}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def csv(self) -> str:
        """As CSV, with all digits."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([["" if cell is None else cell for cell in row] for row in self.rows])
        return text.getvalue()


@dataclass(frozen=True)
class Section:
    """One study's part of the page.

    Parameters
    ----------
    name : str
        Its name on the command line.
    title : str
        What is studied, in plain words.
    setting : str
        Data, n, δ and adjacency.
    text : sequence of str
        What was measured, and how.
    rule : str
        How its verdicts are computed.
    headlines : sequence of str
        The few sentences that a reader should take away, with numbers from the measurements.
    verdicts : sequence of Verdict
        One for every claim; none in a quick look.
    summary : sequence of Sheet
        The numbers that the text is about.
    measurements : Sheet
        Every fit.
    pictures : mapping
        PNG files by name, the main one first.
    """

    name: str
    title: str
    setting: str
    text: Sequence[str]
    rule: str
    headlines: Sequence[str]
    verdicts: Sequence[Verdict]
    summary: Sequence[Sheet]
    measurements: Sheet
    pictures: Mapping[str, bytes] = field(repr=False)

    def without_verdicts(self) -> "Section":
        """The pictures and numbers alone."""
        return replace(self, rule="", headlines=(), verdicts=())

    def markdown(self) -> str:
        """Everything but the measurements, which are in the CSV file."""
        told = "\n".join(f"- {_told(one)}" for one in self.verdicts)
        parts = [
            f"# {self.title}", f"{self.setting}.", *[f"**{one}**" for one in self.headlines],
            *[f"![{self.title}]({name}.png)" for name in self.pictures], *self.text,
            *([self.rule, told] if self.verdicts else [QUICK]), *[sheet.markdown() for sheet in self.summary],
        ]  # fmt: skip
        return "\n\n".join(parts) + "\n"


def _told(verdict: Verdict) -> str:
    why = f" Undecided because: {verdict.finding.why}." if verdict.finding.why else ""
    return f"**{verdict.outcome}**: {verdict.claim} {verdict.because}{why}"


def shown(cell: Cell) -> str:
    """A number as a person reads it."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        if not math.isfinite(cell):
            return "∞" if cell > 0 else "–"
        return f"{cell:.3g}" if 1e-3 <= abs(cell) < 1e4 or cell == 0 else f"{cell:.2e}"
    return str(cell)
