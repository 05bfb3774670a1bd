"""Pictures of what was measured: a colour, a marker and a dash for every method, and its name beside its line."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.isotonic import isotonic_regression

from dperm.pictures.canvas import COLOURS, DASHES, MARKERS, as_png, bare, offscreen

STYLES: tuple[dict[str, Any], ...] = tuple(
    {"color": colour, "marker": marker, "linestyle": dash}
    for colour, marker, dash in zip(COLOURS, MARKERS, DASHES, strict=True)
)

# Of an axes' height, for a line of text.
_LINE = 0.052


@dataclass(frozen=True)
class Trend:
    """A quantity over seeds against x, with bounds on its expectation where they are drawn.

    `style` numbers one of `STYLES`; by default it is the line's place in its panel.
    """

    label: str
    x: Sequence[float]
    values: Sequence[Sequence[float]]
    bounds: Sequence[float] = ()
    style: int | None = None


# A heading, what x is, and the lines.
Panel = tuple[str, str, Sequence[Trend]]


@dataclass(frozen=True)
class _Name:
    """What stands beside a line, and where the line ends."""

    text: str
    x: float
    y: float
    colour: str


def draw_trends(title: str, quantity: str, rows: Sequence[Sequence[Panel]], one_scale: bool = False) -> bytes:
    """A quantity against n, ε, p or costs, in rows of panels.

    The panels of a row have one scale of y. With `one_scale` all panels have one of x too, ticked at powers of 10.
    """
    plt = offscreen()
    figure, grid = plt.subplots(
        len(rows), len(rows[0]), figsize=(12.4, 0.9 + 4.2 * len(rows)), layout="constrained", squeeze=False,
        sharex=one_scale, sharey=True if one_scale else "row",
    )  # fmt: skip
    figure.suptitle(title, fontweight="bold")
    panels = list(zip(grid.flat, [panel for row in rows for panel in row], strict=True))
    for axes, (heading, unit, trends) in panels:
        for trend, style in _styled(trends):
            _draw_trend(axes, trend, style)
        axes.set_title(heading, loc="left", fontsize=11)
        axes.set(xlabel=unit, ylabel=quantity)
        axes.tick_params(labelbottom=True, labelleft=True)
        _tick(axes, sorted({x for trend in trends for x in trend.x}), one_scale)
        _tidy(axes)
    for axes, (_, _, trends) in panels:  # now that the common limits are known
        _name_lines(axes, [
            _Name(text, *end, style["color"])
            for trend, style in _styled(trends)
            for text, x, values in (
                (trend.label, trend.x, trend.values),
                (f"bound of {trend.label}", trend.x[: len(trend.bounds)], [[one] for one in trend.bounds]),
            )
            for end in _ends(x, values)
        ])  # fmt: skip
    return as_png(figure, 110)


def _styled(trends: Sequence[Trend]) -> list[tuple[Trend, dict[str, Any]]]:
    return [(trend, STYLES[place if trend.style is None else trend.style]) for place, trend in enumerate(trends)]


def _tick(axes: Any, places: Sequence[float], at_powers: bool) -> None:
    """Logarithmic axes, with ticks at powers or at what was measured."""
    if not places:  # an axis without a point cannot be logarithmic
        axes.text(0.5, 0.5, "no point counts", transform=axes.transAxes, ha="center", color="0.35")
        return
    axes.set(xscale="log", yscale="log")
    if at_powers:
        _label_powers(axes.xaxis)
        return
    ticks = _apart(places)
    axes.set_xticks(ticks, [f"{x:.3g}" if x < 1e3 else f"{x:.0f}" for x in ticks], fontsize=9)
    axes.minorticks_off()


def _draw_trend(axes: Any, trend: Trend, style: dict[str, Any]) -> None:
    """In the dashes of its style; beside a bound, which is dashed, solid."""
    if not trend.bounds:
        _draw_spread(axes, trend.x, trend.values, style)
        return
    _draw_spread(axes, trend.x, trend.values, style | {"linestyle": "-"})
    axes.plot(trend.x, trend.bounds, fillstyle="none", markersize=4, linewidth=1, **style | {"linestyle": "--"})


def draw_scatter(title: str, groups: Sequence[tuple[str, Sequence[float], Sequence[float]]], nominal: float) -> bytes:
    """Certified δ against the constant that Theorem 4.1 would need, one marker for every group."""
    plt = offscreen()
    figure, axes = plt.subplots(figsize=(10.5, 6), layout="constrained")
    names = []
    for (label, x, y), style in zip(groups, STYLES, strict=False):
        axes.plot(x, y, markersize=7, fillstyle="none", **{**style, "linestyle": "none"})
        names += [_Name(label, *end, style["color"]) for end in _ends(x, [[one] for one in y], last_in_x=True)]
    axes.axhline(nominal, color="black", linewidth=1)
    axes.axvline(1.0, color="0.5", linestyle="--", linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel="c₁ that the condition ε ≤ c₁·steps·batch²/n² needs",
             ylabel="certified δ(ε) of the printed noise, c = 1")  # fmt: skip
    axes.set_title(title, fontweight="bold")
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, nominal / 2.0), max(high, 2.0))
    axes.annotate(f"promised: δ = {nominal:g}", (0.99, nominal), xycoords=("axes fraction", "data"), xytext=(0, 4),
                  textcoords="offset points", ha="right", fontsize=9)  # fmt: skip
    axes.annotate("the condition holds with c₁ = 1\nto the left of this line", (1.0, 0.35),
                  xycoords=("data", "axes fraction"), xytext=(5, 0), textcoords="offset points", fontsize=9,
                  color="0.35")  # fmt: skip
    _tidy(axes)
    _name_lines(axes, names)
    return as_png(figure, 110)


def _ends(
    x: Sequence[float], values: Sequence[Sequence[float]], *, last_in_x: bool = False
) -> list[tuple[float, float]]:  # fmt: skip
    """Where a line ends, as a list of at most one point."""
    drawn = [
        (place, float(np.mean(one)))
        for place, one in zip(x, values, strict=True)
        if np.all(np.isfinite([place, *one])) and np.mean(one) > 0.0
    ]
    return [max(drawn) if last_in_x else drawn[-1]] if drawn else []


def _name_lines(axes: Any, names: Sequence[_Name]) -> None:
    """Names in the right margin, each joined to the end of its line, so far apart that none covers another."""
    if not names:  # without a line the axis need not be logarithmic
        return
    low, high = np.log(axes.get_ylim())
    ordered = sorted(names, key=lambda name: name.y)
    heights = [_LINE * (1 + name.text.strip().count("\n")) + 0.016 for name in ordered]
    wanted = [(math.log(name.y) - low) / (high - low) for name in ordered]
    for name, place in zip(ordered, _spread(wanted, heights), strict=True):
        axes.annotate(
            name.text.strip(), (name.x, name.y), xytext=(1.04, place), textcoords="axes fraction", fontsize=8.5,
            color=name.colour, va="center", linespacing=1.05, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": name.colour, "linewidth": 0.6, "alpha": 0.6, "shrinkB": 3,
                        "relpos": (0.0, 0.5)},
        )  # fmt: skip


def _spread(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Centres of boxes of these heights as near as can be to the wanted ones, in this order and without overlap."""
    above = np.cumsum([0.0, *[(a + b) / 2.0 for a, b in itertools.pairwise(heights)]])
    lowest = heights[0] / 2.0
    highest = max(lowest, 1.04 - heights[-1] / 2.0 - above[-1])  # a little above the axes there is room
    places = isotonic_regression(np.array(wanted) - above, y_min=lowest, y_max=highest) + above
    return [float(place) for place in places]


def _apart(places: Sequence[float]) -> list[float]:
    """Those on a logarithmic axis that are far enough from the one before to have a label of their own."""
    logs, kept = np.log(places), [0]
    for k in range(1, len(logs)):
        if logs[k] - logs[kept[-1]] >= 0.08 * (logs[-1] - logs[0]):
            kept.append(k)
    return [places[k] for k in kept]


def _tidy(axes: Any) -> None:
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    bare(axes)


def _label_powers(axis: Any) -> None:
    """Few ticks on a logarithmic axis, at 1, 3 and 10."""
    from matplotlib import ticker

    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 3.0), numticks=6))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _short(value)))
    axis.set_minor_formatter(ticker.NullFormatter())


def _short(value: float) -> str:
    """0.3, 1000, 3e5."""
    return f"{value:g}" if value < 1e4 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


def _draw_spread(axes: Any, x: Sequence[float], values: Sequence[Sequence[float]], style: Any) -> None:
    drawn = [(place, one) for place, one in zip(x, values, strict=True) if np.all(np.isfinite([place, *one]))]
    x, values = [place for place, _ in drawn], [one for _, one in drawn]
    means = np.array([np.mean(one) for one in values])
    low, high = np.array([min(one) for one in values]), np.array([max(one) for one in values])
    # On a logarithmic axis a bar cannot go to zero or below.
    bars = (means - np.maximum(low, 1e-3 * means), high - means)
    axes.errorbar(x, means, yerr=bars, capsize=2, markersize=5, linewidth=1.5, **style)
