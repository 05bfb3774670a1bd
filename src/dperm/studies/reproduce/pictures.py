"""Pictures that can be read in greyscale: lines differ in dash and marker, not in colour alone."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.pictures.canvas import offscreen

STYLES: tuple[dict[str, Any], ...] = (
    {"color": "black", "linestyle": "-", "marker": "o"},
    {"color": "0.35", "linestyle": "--", "marker": "s"},
    {"color": "0.55", "linestyle": "-.", "marker": "^"},
    {"color": "0.2", "linestyle": ":", "marker": "D"},
    {"color": "0.65", "linestyle": (0, (5, 1)), "marker": "v"},
)


@dataclass(frozen=True)
class Curve:
    """A method's gaps over seeds, at several costs; `style` numbers one of `STYLES`."""

    label: str
    style: int
    seconds: Sequence[float]
    gradients: Sequence[float]
    gaps: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Panel:
    """All methods at one ε."""

    name: str
    heading: str
    note: str
    curves: Sequence[Curve]


@dataclass(frozen=True)
class Trend:
    """A quantity over seeds against x, with a label that names its power."""

    label: str
    x: Sequence[float]
    values: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Bounded:
    """A quantity over seeds against x, and the bound on its expectation."""

    label: str
    x: Sequence[float]
    values: Sequence[Sequence[float]]
    bounds: Sequence[float]


def draw_panels(title: str, panels: Sequence[Panel], n_columns: int) -> bytes:
    """Two bands, as printed and certified, each against time and against gradients; one column for every ε."""
    plt = offscreen()
    figure = plt.figure(figsize=(max(9.0, 4.3 * n_columns), 15), layout="constrained")
    figure.suptitle(title)
    names = list(dict.fromkeys(panel.name for panel in panels))
    for band, name in zip(figure.subfigures(len(names), 1, hspace=0.04), names, strict=True):
        shown = [panel for panel in panels if panel.name == name]
        band.suptitle(name.capitalize(), fontweight="bold")
        axes = band.subplots(2, n_columns, sharey=True, squeeze=False)
        for column, panel in enumerate(shown):
            for row, quantity in enumerate(("seconds", "gradients")):
                _draw_curves(axes[row, column], panel, quantity)
            axes[0, column].set_title(f"{panel.heading}\n{panel.note}", fontsize=10)
            axes[0, column].set_xlabel("running time (seconds)")
            axes[1, column].set_xlabel("per-example gradients")
        for row in (0, 1):
            axes[row, 0].set_ylabel("optimality gap F(w) − F*")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        band.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return _png(plt, figure)


def _draw_curves(axes: Any, panel: Panel, quantity: str) -> None:
    for curve in panel.curves:
        _draw_spread(axes, getattr(curve, quantity), curve.gaps, curve.label, STYLES[curve.style])
    axes.set(xscale="log", yscale="log")
    _label_powers(axes.xaxis)
    axes.grid(color="0.9")


def draw_trends(title: str, rows: Sequence[Sequence[tuple[str, str, Sequence[Trend]]]]) -> bytes:
    """Excess risk against n, ε and p, one row of panels for every kind of noise."""
    plt = offscreen()
    figure, axes = plt.subplots(
        len(rows), len(rows[0]), figsize=(5.2 * len(rows[0]), 5.2 * len(rows)), layout="constrained", squeeze=False,
        sharey="row",
    )  # fmt: skip
    figure.suptitle(title)
    for row, panels in zip(axes, rows, strict=True):
        for axis, (heading, unit, trends) in zip(row, panels, strict=True):
            for trend, style in zip(trends, STYLES, strict=False):
                _draw_spread(axis, trend.x, trend.values, trend.label, style)
            axis.set(xlabel=unit, title=heading)
            places = sorted({x for trend in trends for x in trend.x})
            if places:  # an axis without a point cannot be logarithmic
                axis.set(xscale="log", yscale="log")
                axis.set_xticks(places, [f"{x:.3g}" if x < 1e3 else f"{x:.0f}" for x in places], fontsize=8)
                axis.minorticks_off()
            axis.grid(color="0.9")
            axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
        row[0].set_ylabel("excess risk F(w) − F*")
    return _png(plt, figure)


def draw_bounded(title: str, rows: Sequence[Sequence[tuple[str, str, Sequence[Bounded]]]]) -> bytes:
    """Squared gradient norms against n and ε with solid lines, their bounds dashed; every line is named at its end."""
    plt = offscreen()
    figure, axes = plt.subplots(
        len(rows), len(rows[0]), figsize=(6.6 * len(rows[0]), 5.4 * len(rows)), layout="constrained", squeeze=False,
        sharey="row",
    )  # fmt: skip
    figure.suptitle(f"{title}\nmeans over seeds (bars: least to largest), and the bounds on them (dashed)")
    for row, panels in zip(axes, rows, strict=True):
        for axis, (heading, unit, curves) in zip(row, panels, strict=True):
            for curve, style in zip(curves, STYLES, strict=False):
                _draw_spread(axis, curve.x, curve.values, curve.label, style | {"linestyle": "-"})
                axis.plot(curve.x, curve.bounds, fillstyle="none", markersize=4, linewidth=1,
                          **style | {"linestyle": "--"})  # fmt: skip
            axis.set(xscale="log", yscale="log", xlabel=unit, title=heading)
            places = sorted({x for curve in curves for x in curve.x})
            axis.set_xticks(places, [f"{x:g}" for x in places])
            axis.set_xlim(places[0] * 0.9, places[-1] * (places[-1] / places[0]) ** 0.4)  # room for the names
            axis.minorticks_off()
            axis.grid(color="0.9")
        row[0].set_ylabel("‖∇F(w)‖²")
        for axis, (_, _, curves) in zip(row, panels, strict=True):  # now that the common limits are known
            _name_ends(axis, curves)
    return _png(plt, figure)


def _name_ends(axis: Any, curves: Sequence[Bounded]) -> None:
    """Names to the right of the lines' ends, so far apart that none covers another."""
    ends = [(curve.x[-1], float(np.mean(curve.values[-1])), curve.label) for curve in curves]
    ends += [(curve.x[-1], curve.bounds[-1], f"bound of {curve.label}") for curve in curves]
    low, high = np.log(axis.get_ylim())
    apart = 0.042 * (high - low)
    for place in {x for x, _, _ in ends}:
        below = -np.inf
        for _, value, label in sorted(end for end in ends if end[0] == place and np.isfinite(end[1])):
            below = max(np.log(value), below + apart)
            axis.annotate(
                label, (place, np.exp(below)), xytext=(9, 0), textcoords="offset points", fontsize=8, va="center",
                bbox={"color": "white", "pad": 0.5},
            )  # fmt: skip


def draw_scatter(title: str, groups: Sequence[tuple[str, Sequence[float], Sequence[float]]], nominal: float) -> bytes:
    """Certified δ against the constant that Theorem 4.1 would need, one marker for every group."""
    plt = offscreen()
    figure, axes = plt.subplots(figsize=(9, 6.5), layout="constrained")
    for (label, x, y), style in zip(groups, STYLES, strict=False):
        axes.plot(x, y, label=label, markersize=7, fillstyle="none", **{**style, "linestyle": "none"})
    axes.axhline(nominal, color="black", linewidth=1, label=f"nominal δ = {nominal:g}")
    axes.axvline(1.0, color="0.5", linestyle="--", linewidth=1, label="condition holds to the left, with c₁ = 1")
    axes.set(xscale="log", yscale="log", xlabel="c₁ that the condition ε ≤ c₁·steps·batch²/n² needs",
             ylabel="certified δ(ε) of the printed noise, c = 1", title=title)  # fmt: skip
    axes.grid(color="0.9")
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    return _png(plt, figure)


def _label_powers(axis: Any) -> None:
    """Few ticks on a logarithmic axis, at 1, 3 and 10."""
    from matplotlib import ticker

    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 3.0), numticks=6))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _short(value)))
    axis.set_minor_formatter(ticker.NullFormatter())


def _short(value: float) -> str:
    """0.3, 1000, 3e5."""
    return f"{value:g}" if value < 1e4 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


def _draw_spread(axes: Any, x: Sequence[float], values: Sequence[Sequence[float]], label: str, style: Any) -> None:
    drawn = [(place, one) for place, one in zip(x, values, strict=True) if np.all(np.isfinite([place, *one]))]
    x, values = [place for place, _ in drawn], [one for _, one in drawn]
    means = np.array([np.mean(one) for one in values])
    low, high = np.array([min(one) for one in values]), np.array([max(one) for one in values])
    # On a logarithmic axis a bar cannot go to zero or below.
    bars = (means - np.maximum(low, 1e-3 * means), high - means)
    axes.errorbar(x, means, yerr=bars, capsize=2, markersize=5, linewidth=1.3, label=label, **style)


def _png(plt: Any, figure: Any) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    plt.close(figure)
    return stream.getvalue()
