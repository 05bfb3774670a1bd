"""ROC, calibration and confusion of a private evaluation; of a regression its intervals."""

from typing import Any

import numpy as np

from dperm.errors import NotInstalledError
from dperm.evaluation.result import PrivateEvaluation
from dperm.pictures.canvas import BLUE, GREY, PALE, bare


def draw_evaluation(found: PrivateEvaluation) -> Any:
    """A matplotlib figure, which no window shows on its own.

    Parameters
    ----------
    found : PrivateEvaluation
        What to draw.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise NotInstalledError("the picture needs matplotlib: pip install 'dperm[plot]'.") from None
    panels = [
        draw
        for draw, there in (
            (_draw_roc, found.roc), (_draw_calibration, found.calibration), (_draw_confusion, found.confusion),
            (_draw_intervals, found.mae),
        )
        if there is not None
    ]  # fmt: skip
    figure = Figure(figsize=(4.4 * len(panels), 4.8), layout="constrained")
    for axes, draw in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        draw(axes, found)
        bare(axes)
    figure.suptitle(
        f"{found.model} on n = {found.privacy_.n} rows, ε = {found.privacy_.epsilon:g}, "
        f"δ = {found.privacy_.delta:g}, {found.privacy_.adjacency}",
        fontsize=10,
    )
    return figure


def _square(axes: Any, across: str, up: str, title: str) -> None:
    axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel=across, ylabel=up, title=title)


def _draw_roc(axes: Any, found: PrivateEvaluation) -> None:
    axes.plot(*np.array(found.roc).T, color=BLUE, lw=2, clip_on=False)
    _square(axes, "false positive rate", "true positive rate", f"ROC, AUC {found.auc}")


def _draw_calibration(axes: Any, found: PrivateEvaluation) -> None:
    points = found.calibration or ()
    across = [point.predicted for point in points]
    low, high = ([getattr(point.observed, side) for point in points] for side in ("low", "high"))
    axes.fill_between(across, low, high, color=PALE, lw=0)
    axes.plot(across, [point.observed.value for point in points], color=BLUE, marker="o", ms=4)
    _square(axes, "predicted probability", "share that came true", f"calibration, {100 * found.level:g} % bands")


def _draw_confusion(axes: Any, found: PrivateEvaluation) -> None:
    counts = np.array([[cell.value for cell in line] for line in found.confusion or ()])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.3)
    if len(counts) <= 12:
        for (line, column), number in np.ndenumerate(counts):
            axes.text(column, line, f"{number:.0f}", ha="center", va="center", fontsize=9)
    names = [str(label)[:12] for label in found.design.classes or ()]
    axes.set_xticks(range(len(names)), names, rotation=45 if len(names) > 3 else 0)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="predicted", ylabel="true", title="rows, noisy counts")


def _draw_intervals(axes: Any, found: PrivateEvaluation) -> None:
    table = {name: value for name, value in found.table.items() if np.isfinite(value.low)}
    for place, (name, value) in enumerate(table.items()):
        axes.plot([value.low, value.high], [place, place], color=BLUE, lw=3)
        axes.plot(value.value, place, "o", color=BLUE)
        axes.annotate(f"{name} {value}", (value.low, place), xytext=(0, 8), textcoords="offset points", fontsize=9)
    axes.set(yticks=[], ylim=(-0.6, len(table) - 0.2), title=f"{100 * found.level:g} % intervals")
