"""The picture of docs/accuracy.md: a panel per table, the measure against ε, ceilings as dashed lines."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from about import ABOUT
from matplotlib.ticker import FixedLocator, NullLocator
from methods import CEILINGS, EPSILONS
from results import Key, Results

LINES = {
    ("dperm", "replace_one"): ("dperm, replace_one", "tab:red", "o", "-"),
    ("dperm", "add_remove"): ("dperm, add_remove", "tab:red", "o", ":"),
    ("DP-EBM", "add_remove"): ("DP-EBM, add_remove", "tab:blue", "s", "-"),
    ("diffprivlib", "replace_one"): ("diffprivlib, replace_one, δ = 0", "tab:green", "^", "-"),
    ("DP-SGD", "add_remove"): ("DP-SGD by an oracle, add_remove", "tab:orange", "D", "-"),
}
DASHES = {
    "linear": ("linear, no privacy", "0.65"),
    "linear, binned": ("linear on bins, no privacy", "0.4"),
    "boosting": ("boosting, no privacy", "0.1"),
}


def draw(results: Results, path: Path, fingerprint: str) -> None:
    """Draw and save it; the fingerprint of the measurements goes into the file."""
    with mpl.rc_context({"font.size": 8, "axes.titlesize": 9, "svg.hashsalt": "dperm"}):
        figure, axes = plt.subplots(2, 4, figsize=(11, 5.6))
        for axis, (data, (title, _, measure)) in zip(axes.flat, ABOUT.items(), strict=True):
            _panel(axis, results, data)
            axis.set_title(f"{title}: {measure}")
        for axis in axes[-1]:
            axis.set_xlabel("ε")
        handles = {line.get_label(): line for axis in axes.flat for line in axis.get_lines()}
        figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=4, frameon=False)
        figure.tight_layout(rect=(0, 0.09, 1, 1))
        figure.savefig(path, dpi=110, metadata={"Description": fingerprint, "Software": None})
        plt.close(figure)


def _panel(axis: Any, results: Results, data: str) -> None:
    medians = []
    for (method, adjacency), (label, color, marker, style) in LINES.items():
        found = [(epsilon, results.spread(Key(data, method, adjacency, epsilon))) for epsilon in EPSILONS]
        found = [(epsilon, spread) for epsilon, spread in found if spread]
        if found:
            places = [epsilon for epsilon, _ in found]
            least, median, largest = zip(*(spread for _, spread in found), strict=True)
            axis.plot(places, median, label=label, color=color, marker=marker, linestyle=style, markersize=4)
            axis.fill_between(places, least, largest, color=color, alpha=0.15, linewidth=0)
            medians += median
    for method in CEILINGS:
        if spread := results.spread(Key(data, method)):
            label, color = DASHES[method]
            axis.axhline(spread[1], label=label, color=color, linestyle="--", linewidth=1)
            medians.append(spread[1])
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_locator(FixedLocator(EPSILONS))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticklabels([f"{epsilon:g}" for epsilon in EPSILONS])
    axis.grid(alpha=0.25)
    if medians:  # what is below 0 lies outside
        low, high = max(0.0, min(medians)), max(medians)
        margin = 0.06 * max(high - low, 0.01)
        axis.set_ylim(low - margin, high + margin)
