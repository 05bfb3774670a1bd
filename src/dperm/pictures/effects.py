"""Curves of what a column adds to the score, with a band for the noise; one, or a grid of all."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.pictures.bars import no_bars, noise_reach
from dperm.pictures.canvas import BLUE, COLOURS, DASHES, GREY, MARKERS, as_label, bare, given_or_new, new_axes, promise
from dperm.pictures.contributions import Contribution, contribution, contributions, most_moving, schema_of, scores_moved
from dperm.pictures.entries import Array, score_titles
from dperm.validation import count

# More categories than this are not drawn.
MOST_CATEGORIES = 16
_COLUMNS_OF_THE_GRID = 3


def plot_effect(model: Any, column: str, ax: Any = None) -> Any:
    """Draw what a column adds to the score over its public range, with a band for the privacy noise.

    Parameters
    ----------
    model : estimator
        A linear model fitted with a schema, or one from a file.
    column : str
        Of the schema.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    effect = contribution(model, column)
    height = 4.0 if effect.numbers.size else 1.8 + 0.26 * min(len(effect.labels), MOST_CATEGORIES)
    axes = given_or_new(ax, 6.6, height)
    scores = scores_moved(model, [effect])
    _draw(axes, effect, model, scores)
    adds = f"added to {adds_to(model)}"
    words = f"{_band_words(model)}{_left_out(model, column)}"
    if effect.numbers.size:
        axes.set(ylabel=adds)
        axes.set_xlabel(f"{as_label(column)}\n{words}")
    else:
        axes.set_xlabel(f"{adds}\n{words}")
    title = f"What {as_label(column)} adds to {adds_to(model)}\n{promise(model)}"
    axes.set_title(title, fontsize="medium", loc="left")
    if len(scores) > 1:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return axes


def plot_effects(model: Any, columns: Iterable[str] | None = None, largest: int = 12) -> Any:
    """Draw what every column adds, as a grid with one scale.

    Parameters
    ----------
    model : estimator
        A linear model fitted with a schema, or one from a file.
    columns : iterable of str, optional
        Which; by default all, or the `largest` where there are more.
    largest : int
        How many: those that can move a score the most.

    Returns
    -------
    array of Axes
        One for every column that is drawn.
    """
    chosen = _chosen(model, columns, count("largest", largest))
    wide = 2 if len(chosen) == 4 else min(_COLUMNS_OF_THE_GRID, len(chosen))
    tall = -(-len(chosen) // wide)
    grid = new_axes(3.9 * wide, 2.7 * tall + 0.9, ncols=wide, nrows=tall, squeeze=False).ravel()
    for unused in grid[len(chosen) :]:
        unused.set_visible(False)
    scores = scores_moved(model, chosen)
    for axes, effect in zip(grid, chosen, strict=False):
        _draw(axes, effect, model, scores)
        axes.set_title(as_label(effect.column, 30), fontsize="medium", fontweight="bold")
    _same_scale(grid, chosen, noise_reach(model))
    n_columns = len(schema_of(model).columns)
    which = f"; {len(chosen)} of {n_columns} columns" if len(chosen) < n_columns else ""
    figure = grid[0].figure
    figure.suptitle(f"What each column adds to {adds_to(model)}{which}\n{promise(model)}", fontsize="large")
    figure.supxlabel(f"{_band_words(model)}{_left_out(model)}", fontsize="medium")
    if len(scores) > 1:
        figure.legend(*grid[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return grid[: len(chosen)]


def adds_to(model: Any) -> str:
    """What contributions are added to, in words, with the units that they have."""
    titles = score_titles(model)
    return f"the {model.score_words} of {as_label(titles[0][0])}" if len(titles) == 1 else "the score of a class"


def _chosen(model: Any, columns: Iterable[str] | None, largest: int) -> list[Contribution]:
    if columns is not None:
        if isinstance(columns, str) or not isinstance(columns, Iterable):
            raise InvalidParameterError("columns must be a list of names; for one column use plot_effect.")
        chosen = [contribution(model, column) for column in columns]
        if not chosen:
            raise InvalidParameterError("columns must name at least one column.")
        return chosen
    return most_moving(contributions(model), largest)


def _draw(axes: Any, effect: Contribution, model: Any, scores: list[tuple[int, str]]) -> None:
    (_draw_curve if effect.numbers.size else _draw_categories)(axes, effect, noise_reach(model), scores)
    axes.grid(color="#e8e8e8", linewidth=0.8)
    axes.set_axisbelow(True)
    bare(axes)


def _draw_curve(axes: Any, effect: Contribution, reach: float | None, scores: list[tuple[int, str]]) -> None:
    x, alone = effect.numbers, len(scores) == 1
    beside = x[-1] + 0.08 * (x[-1] - x[0]) * (1 + np.arange(len(effect.labels)))
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    if reach is not None:  # around the one curve; around 0 where many bands would hide each other
        middle = effect.curve[scores[0][0]] if alone else np.zeros(x.size)
        far = reach * effect.sizes
        axes.fill_between(x, middle - far, middle + far, color=BLUE if alone else GREY, alpha=0.18, linewidth=0)
    for order, (place, title) in enumerate(scores):
        colour, dash = (BLUE, "-") if alone else (COLOURS[order], DASHES[order])
        axes.plot(x, effect.curve[place], color=colour, linestyle=dash, linewidth=1.8, label=as_label(title, 24))
        axes.errorbar(
            beside,
            effect.entries[place],
            reach if alone else None,
            color=colour,
            linestyle="",
            marker=MARKERS[order],
            markersize=5,
        )
    # The ends of bins, as ticks at the bottom.
    axes.plot(
        effect.knots, np.zeros(len(effect.knots)), transform=axes.get_xaxis_transform(), linestyle="", marker="|",
        markersize=9, color=GREY,
    )  # fmt: skip
    for at, label in zip(beside, effect.labels, strict=True):
        axes.annotate(
            as_label(label), (at, 1.0), xycoords=("data", "axes fraction"), ha="center", va="top", rotation=90,
            fontsize="small", color=GREY,
        )  # fmt: skip
    axes.locator_params(axis="x", nbins=5)


def _draw_categories(axes: Any, effect: Contribution, reach: float | None, scores: list[tuple[int, str]]) -> None:
    kept, alone = _largest_entries(effect.entries), len(scores) == 1
    heights = np.arange(kept.size)
    axes.axvline(0.0, color=GREY, linewidth=0.8)
    if reach is not None and not alone:
        axes.axvspan(-reach, reach, color=GREY, alpha=0.18, linewidth=0)
    for order, (place, title) in enumerate(scores):
        shift = 0.0 if alone else 0.6 * (order / (len(scores) - 1) - 0.5)
        axes.errorbar(
            effect.entries[place, kept], heights + shift, xerr=reach if alone else None,
            color=BLUE if alone else COLOURS[order], marker=MARKERS[order], markersize=5, linestyle="",
            label=as_label(title, 24),
        )  # fmt: skip
    axes.set_yticks(heights, labels=[as_label(effect.labels[place], 22) for place in kept], fontsize="small")
    axes.set_ylim(kept.size - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    if kept.size < len(effect.labels):
        axes.set_ylabel(f"the {kept.size} largest of {len(effect.labels)}", fontsize="small", color=GREY)


def _largest_entries(entries: Array) -> Any:
    """Indices of the categories that are drawn, in their order."""
    return np.sort(np.argsort(-np.abs(entries).max(axis=0), kind="stable")[:MOST_CATEGORIES])


def _same_scale(grid: Any, effects: list[Contribution], reach: float | None) -> None:
    """Contributions on one scale in all panels, along y for numbers and along x for categories."""
    values = np.concatenate([effect.values for effect in effects], axis=1)
    low, high = min(0.0, values.min()) - (reach or 0.0), max(0.0, values.max()) + (reach or 0.0)
    room = 0.05 * ((high - low) or 1.0)
    for axes, effect in zip(grid, effects, strict=False):
        (axes.set_ylim if effect.numbers.size else axes.set_xlim)(low - room, high + room)


def _band_words(model: Any) -> str:
    if noise_reach(model) is None:
        return no_bars(model, "band")
    drawn = "bands and bars" if len(score_titles(model)) == 1 else "grey, around 0"
    return f"{drawn}: two standard deviations of the privacy noise, at most"


def _left_out(model: Any, column: str | None = None) -> str:
    """What the curves do not show."""
    crosses = [cross for cross in schema_of(model).crosses if column is None or column in cross.columns]
    words = "; interactions with other columns come on top" if crosses else ""
    n_scores = len(score_titles(model))
    return words if n_scores <= len(COLOURS) else f"{words}; {len(COLOURS)} of {n_scores} classes"
