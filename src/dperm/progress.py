"""A progress bar that appears only when work takes longer than two seconds, and only where somebody can watch it."""

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

_PATIENCE_SECONDS = 2.0


class ProgressBar:
    """Call it with (steps done, steps planned); both are public numbers.

    `reading` shows how far a pass over the rows has come. That is not public, and like the bar itself it is shown to
    whoever watches the terminal of a fit, and kept nowhere.

    Examples
    --------
    >>> with ProgressBar("fitting") as bar:
    ...     bar(1, 10)
    """

    def __init__(self, label: str) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn(label), BarColumn(), TextColumn("{task.fields[steps]}"), TimeRemainingColumn(),
            TextColumn("{task.fields[rows]}"),
            console=console, transient=True,
        )  # fmt: skip
        # Elsewhere a bar cannot be taken away again: it would leave a line in a log.
        self._watched = console.is_terminal or console.is_jupyter
        self._task = self._progress.add_task(label, total=None, steps="", rows="")
        self._pass, self._pass_began = 0, 0.0
        self._began = self._last = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        """Start the clock."""
        return self

    def __call__(self, done: int, total: int) -> None:
        """Record progress, and show it once two seconds have passed."""
        self._show(completed=done, total=total, steps=f"{done}/{total} steps")

    def reading(self, number: int, n_rows: int) -> None:
        """Record how many rows a pass has read."""
        now = time.monotonic()
        if number != self._pass:
            self._pass, self._pass_began = number, self._last
        self._last = now
        rate = n_rows / max(now - self._pass_began, 1e-3)
        self._show(rows=f"pass {number}, {_short(rate)} rows/s")

    def _show(self, **changed: Any) -> None:
        if not self._watched or (not self._shown and time.monotonic() - self._began <= _PATIENCE_SECONDS):
            return
        self._progress.update(self._task, **changed)
        if not self._shown:
            self._progress.start()
            self._shown = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self._shown:
            self._progress.stop()


def _short(rate: float) -> str:
    """Two digits and a unit.

    Examples
    --------
    >>> _short(1_234_567.0), _short(890.0)
    ('1.2 M', '890')
    """
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if rate >= size:
            return f"{rate / size:.2g}{unit}"
    return f"{rate:.3g}"
