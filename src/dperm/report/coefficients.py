"""The coefficients as a plot: numbers for the template, positions in percent of its width."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.files.content import column_names
from dperm.pictures.bars import noise_reach
from dperm.pictures.entries import groups, score_titles

# A plot with more rows than this shows the largest; a table holds them all.
MOST_ROWS = 60


@dataclass(frozen=True)
class Axis:
    """From a coefficient to a position, in percent from the left.

    Examples
    --------
    >>> Axis.of(-0.4, 1.1).ticks
    (0.0, 0.5, 1.0)
    """

    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def of(cls, low: float, high: float) -> "Axis":
        """Hold both numbers and 0, with at most seven round ticks."""
        low, high = max(min(low, 0.0), -1e100), min(max(high, 0.0), 1e100)
        if high - low < 1e-100:
            low, high = -1.0, 1.0
        rough = (high - low) / 6.0
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(size * power for size in (1.0, 2.0, 5.0, 10.0) if size * power >= rough * (1.0 - 1e-9))
        ticks = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        room = 0.06 * (high - low)
        return cls(low - room, high + room, tuple(float(f"{tick * step:.6g}") for tick in ticks))

    def place(self, value: float) -> float:
        """Percent from the left edge, never beyond it."""
        share = (value - self.low) / (self.high - self.low)
        return round(100.0 * min(max(share, 0.0), 1.0), 3)


@dataclass(frozen=True)
class Coefficient:
    """One row of the plot."""

    name: str
    label: str
    value: float
    text: str


@dataclass(frozen=True)
class Block:
    """The entries of one column of the schema."""

    title: str
    rows: tuple[Coefficient, ...]


@dataclass(frozen=True)
class Panel:
    """The coefficients of one score: of a class, or of the target."""

    title: str
    meaning: str
    blocks: tuple[Block, ...]
    all_rows: tuple[Coefficient, ...]
    intercept: str
    shown: int


def panels(model: Any) -> tuple[list[Panel], Axis]:
    """One panel for every row of coefficients, and the axis that all of them share.

    Parameters
    ----------
    model : estimator
        As `reading.model_from` returns it.
    """
    coef, intercepts = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    reach = noise_reach(model) or 0.0
    axis = Axis.of(float(coef.min()) - reach, float(coef.max()) + reach)
    digits = _digits(float(np.abs(coef).max()))
    found = []
    for place, (title, meaning) in enumerate(score_titles(model)):
        blocks = tuple(_blocks(model, coef[place], digits))
        rows = tuple(row for block in blocks for row in block.rows)
        shown = _largest(blocks) if len(rows) > MOST_ROWS else blocks
        intercept = signed(float(intercepts[place]), digits)
        found.append(Panel(title, meaning, shown, rows, intercept, sum(len(block.rows) for block in shown)))
    return found, axis


@dataclass(frozen=True)
class IntervalRow:
    """A coefficient's interval: positions of both ends and of the estimate, and the numbers as text."""

    name: str
    low: float
    high: float
    middle: float
    text: str
    hidden: bool


def interval_rows(model: Any) -> tuple[list[IntervalRow], Axis] | None:
    """The 95 % intervals, those of the largest estimates if there are many, and their axis; None without any.

    Parameters
    ----------
    model : estimator
        As `reading.model_from` returns it.
    """
    if getattr(model, "uncertainty_", None) is None or not hasattr(model, "coef_"):
        return None
    found = model.confidence_intervals(0.95)
    ends = np.stack([found.lower, found.upper, found.estimate])
    known = np.isfinite(found.lower) & np.isfinite(found.upper)
    seen = ends[:, known & (np.array(found.names) != "intercept")]
    axis = Axis.of(float(seen.min()), float(seen.max())) if seen.size else Axis.of(0.0, 0.0)
    digits = _digits(float(np.abs(seen).max())) if seen.size else None
    rows = []
    for place in sorted(np.argsort(-np.abs(np.where(known, found.estimate, 0.0)), kind="stable")[:MOST_ROWS]):
        low, high, middle = (float(end) for end in ends[:, place])
        text = "not known" if not known[place] else f"{signed(low, digits)} … {signed(high, digits)}"
        rows.append(IntervalRow(found.names[place], low, high, middle, text, not known[place]))
    return rows, axis


def layers_of(model: Any) -> list[tuple[str, str, str]]:
    """Name, shape and root mean square of every array of a network; empty for a linear model."""
    found = []
    for name, array in getattr(model, "weights_", {}).items():
        shape = " × ".join(map(str, array.shape)) or "1"
        found.append((name, shape, f"{math.sqrt(float(np.mean(np.square(array)))):.3g}"))
    return found


def signed(value: float, digits: int | None) -> str:
    """A number with its sign and this many digits after the point; None for four digits in all.

    Examples
    --------
    >>> signed(0.5259, 3), signed(-0.0004, 3), signed(-2e-9, None)
    ('+0.526', '0.000', '−2e−09')
    """
    text = f"{value:+.4g}" if digits is None else f"{value:+.{digits}f}"
    text = text.lstrip("+-") if float(text) == 0.0 else text
    return text.replace("-", "−")


def _digits(largest: float) -> int | None:
    """Digits after the point that tell the coefficients apart; None where they are very large or small."""
    if not 1e-4 <= largest < 1e9:
        return None if largest else 3
    return max(0, 3 - math.floor(math.log10(largest)))


def _blocks(model: Any, values: Any, digits: int | None) -> Iterator[Block]:
    names = column_names(model)
    for group in groups(model):
        places = range(group.first, group.first + len(group.labels))
        yield Block(
            group.title,
            tuple(
                Coefficient(names[place], label, float(values[place]), signed(float(values[place]), digits))
                for place, label in zip(places, group.labels, strict=True)
            ),
        )


def _largest(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    sizes = sorted((abs(row.value) for block in blocks for row in block.rows), reverse=True)
    least, left = sizes[MOST_ROWS - 1], MOST_ROWS - sum(size > sizes[MOST_ROWS - 1] for size in sizes)
    kept = []
    for block in blocks:
        rows = []
        for row in block.rows:
            ties = abs(row.value) == least and left > 0
            left -= ties
            if ties or abs(row.value) > least:
                rows.append(row)
        if rows:
            kept.append(Block(block.title, tuple(rows)))
    return tuple(kept)
