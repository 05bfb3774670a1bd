"""What a study says: a heading, verdicts, sheets of numbers and a picture; as Markdown and CSV."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from dperm.studies.reproduce.verdicts import Verdict

Cell = str | float | int | None


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
    """One study's part of the page."""

    name: str
    title: str
    text: Sequence[str]
    verdicts: Sequence[Verdict]
    summary: Sequence[Sheet]
    measurements: Sheet
    picture: bytes = field(repr=False)

    def markdown(self) -> str:
        """Everything but the measurements, which are in the CSV file."""
        told = [f"- **{one.outcome}**: {one.claim} {one.because}" for one in self.verdicts]
        parts = [
            f"# {self.title}", *self.text, "\n".join(told), f"![{self.title}]({self.name}.png)",
            *[sheet.markdown() for sheet in self.summary],
        ]  # fmt: skip
        return "\n\n".join(parts) + "\n"


def shown(cell: Cell) -> str:
    """A number as a person reads it."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        if not math.isfinite(cell):
            return "∞" if cell > 0 else "–"
        return f"{cell:.3g}" if 1e-3 <= abs(cell) < 1e4 or cell == 0 else f"{cell:.2e}"
    return str(cell)
