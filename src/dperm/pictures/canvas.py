"""Matplotlib where it is installed, and what all pictures share: colours, names as text, the promise."""

import io
import math
from typing import Any

from dperm.errors import InvalidParameterError, NotInstalledError
from dperm.printable import one_line

BLUE, RED, GREY, PALE = "#0b4f8a", "#a40e0e", "#4a4a4a", "#dbe8f4"

# Colours that most colour-blind readers tell apart (Okabe and Ito), each with a marker and a dash of its own.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7a5c00", "#56b4e9", "#000000", "#e69f00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (7, 2, 1, 2)))


def pyplot() -> Any:
    """Matplotlib's pyplot, or one sentence that says how to get it."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise NotInstalledError("the picture needs matplotlib: pip install 'dperm[plot]'.") from None
    return pyplot


def offscreen() -> Any:
    """The same without a window, for pictures that go to a file."""
    plt = pyplot()
    import matplotlib

    matplotlib.use("Agg")
    return plt


def as_png(figure: Any, dpi: int) -> bytes:
    """The figure as a PNG file; it is closed."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=dpi)
    pyplot().close(figure)
    return stream.getvalue()


def given_or_new(ax: Any, width: float, height: float) -> Any:
    """The axes that were given, or one on a new figure."""
    if ax is None:
        return new_axes(width, height)
    if not hasattr(ax, "plot"):
        raise InvalidParameterError(f"ax must be an Axes of matplotlib, got {type(ax).__name__}.")
    return ax


def new_axes(width: float, height: float, **more: Any) -> Any:
    """One axes, or an array of them, on a new figure that makes room for its labels."""
    return pyplot().subplots(figsize=(width, height), layout="constrained", **more)[1]


def as_label(text: object, longest: int = 36) -> str:
    r"""A name as one line of plain text: what matplotlib would read as a formula is escaped, and it is not too long.

    Examples
    --------
    >>> as_label("gain in $\nper $"), as_label("a" * 50, longest=5)
    ('gain in \\$\\nper \\$', 'aaaa…')
    """
    line = one_line(text)
    shown = line if len(line) <= longest else line[: longest - 1] + "…"
    return shown.replace("$", r"\$")


def promise(model: Any) -> str:
    """ε, δ, adjacency, unit on one line, and whether the guarantee covers publishing; of a search what it is for."""
    statement, _, note = model.promised
    if math.isinf(statement.epsilon):
        words = "no noise, nothing is promised"
    else:
        words = f"ε = {statement.epsilon:g}, δ = {statement.delta:g}, {statement.adjacency}"
        words += "" if statement.unit is None else f", {statement.unit.described}"
    words = words if statement.for_release else f"{words}, NOT FOR RELEASE"
    return f"{words}\n{note}" if note else words


def bare(axes: Any) -> None:
    """Take off what says nothing: the frame above and on the right."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
