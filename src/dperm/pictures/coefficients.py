"""The coefficients of a linear model as dots, grouped by the columns of the schema."""

from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.pictures.bars import Bars, bars_of, no_bars
from dperm.pictures.canvas import BLUE, GREY, as_label, bare, given_or_new, new_axes, promise
from dperm.pictures.entries import Array, coefficients_of, groups, score_titles
from dperm.validation import count

# Panels next to each other, for several classes.
_PANELS_IN_A_ROW = 4


class Line(NamedTuple):
    """A line of the picture: an entry with its place among the coefficients, or a column's name above its entries."""

    label: str
    place: int | None
    bold: bool


def plot_coefficients(model: Any, ax: Any = None, largest: int = 20) -> Any:
    """Draw released coefficients as dots with bars for the privacy noise; filled where it reaches less far than they.

    A fit with `intervals` is drawn with its estimates and confidence intervals instead.

    Parameters
    ----------
    model : estimator
        A fitted linear model, or one from a file.
    ax : Axes or array of Axes, optional
        Where to draw: one for two classes or a regression, else one for every class.
    largest : int
        How many coefficients: the largest, of several classes by the class where it is largest.

    Returns
    -------
    Axes or array of Axes
    """
    coef, bars, titles = coefficients_of(model), bars_of(model), score_titles(model)
    lines = lines_of(model, count("largest", largest))
    panels = _panels(ax, len(titles), len(lines))
    hidden = coef.shape[1] - sum(line.place is not None for line in lines)
    of_all = f"the {coef.shape[1] - hidden} largest of {coef.shape[1]} coefficients\n" if hidden else ""
    for place, ((title, meaning), axes) in enumerate(zip(titles, panels.flat, strict=False)):
        own = None if bars is None else Bars(bars.middle[place], bars.low[place], bars.high[place], "")
        _panel(axes, lines, coef[place], own)
        axes.set_xlabel("coefficient")
        if len(titles) == 1:
            words = "\n".join(wrap(as_label(meaning, 160), 72))
            axes.set_title(f"{words}\n{of_all}{promise(model)}", fontsize="medium", loc="left")
            axes.set_xlabel(f"coefficient\n{no_bars(model) if bars is None else bars.meaning}")
        else:
            marked = "" if model.privacy_.for_release else "\nNOT FOR RELEASE"
            axes.set_title(as_label(title, 30) + marked, fontsize="medium")
        if place % _PANELS_IN_A_ROW and ax is None:
            axes.tick_params(labelleft=False)
    if len(titles) == 1:
        return panels[0]
    if ax is None:
        figure = panels.flat[0].figure
        figure.suptitle(f"Coefficients of every class; {of_all.strip() or 'all of them'}; {promise(model)}")
        figure.supxlabel(no_bars(model) if bars is None else bars.meaning, fontsize="medium")
    return panels


def lines_of(model: Any, largest: int) -> list[Line]:
    """The lines from the top: by column in the order of the schema, or without one the largest coefficients first."""
    sizes = np.abs(coefficients_of(model)).max(axis=0)
    ranked = np.argsort(-sizes, kind="stable")[:largest]
    if model.schema_ is None:
        names = groups(model)[0].labels
        return [Line(names[place], int(place), bold=False) for place in ranked]
    chosen, lines = set(ranked.tolist()), []
    for group in groups(model):
        entries = [
            Line(label, group.first + offset, bold=not group.title)
            for offset, label in enumerate(group.labels)
            if group.first + offset in chosen
        ]
        if entries and group.title:
            lines.append(Line(group.title, None, bold=True))
        lines += entries
    return lines


def _panels(ax: Any, n_panels: int, n_lines: int) -> Any:
    """As many axes as there are scores: those that were given, or new ones next to each other."""
    if ax is None:
        height = 1.6 + 0.23 * n_lines
        if n_panels == 1:
            return np.array([new_axes(7.2, height)])
        wide = min(n_panels, _PANELS_IN_A_ROW)
        tall = -(-n_panels // wide)
        panels = new_axes(2.6 + 2.1 * wide, height * tall, ncols=wide, nrows=tall, sharex=True, squeeze=False)
        for unused in panels.flat[n_panels:]:
            unused.set_visible(False)
        return panels.ravel()[:n_panels]
    panels = np.asarray(ax, dtype=object).ravel()
    if panels.size != n_panels:
        raise InvalidParameterError(f"the model has {n_panels} rows of coefficients, and ax has {panels.size} axes.")
    return np.array([given_or_new(axes, 0.0, 0.0) for axes in panels], dtype=object)


def _panel(axes: Any, lines: list[Line], values: Array, bars: Bars | None) -> None:
    drawn = [(height, line.place) for height, line in enumerate(lines) if line.place is not None]
    heights, places = np.array(drawn).T if drawn else np.zeros((2, 0), dtype=int)
    shown = (values if bars is None else bars.middle)[places]
    axes.axvline(0.0, color=GREY, linewidth=0.8, zorder=1)
    sure = np.ones(places.size, dtype=bool)
    if bars is not None:
        low, high = bars.low[places], bars.high[places]
        axes.hlines(heights, low, high, color=BLUE, linewidth=1.5)
        sure = (low > 0.0) | (high < 0.0)
    faces = np.where(sure, BLUE, "white")
    axes.scatter(shown, heights, s=30, facecolors=faces, edgecolors=BLUE, linewidths=1.3, zorder=3)
    axes.set_yticks(range(len(lines)), labels=[as_label(line.label) for line in lines])
    for text, line in zip(axes.get_yticklabels(), lines, strict=True):
        text.set_fontweight("bold" if line.bold else "normal")
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.grid(axis="x", color="#e2e2e2", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    bare(axes)
