"""Progress on the terminal: bars of work that takes longer than two seconds, only where somebody can watch them."""

import threading
import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

_PATIENCE_SECONDS = 2.0


class _Display:
    """The bars that are on the terminal now, a line each: two displays would write over each other."""

    def __init__(self) -> None:
        self._lock, self._progress, self._n_lines = threading.Lock(), _progress(), 0

    def add(self, label: str, **fields: Any) -> TaskID:
        """Show a line more."""
        with self._lock:
            if self._n_lines == 0:
                self._progress = _progress()
            line = self._progress.add_task(label, **{"total": None, "steps": "", "rows": ""} | fields)
            if self._n_lines == 0:
                self._progress.start()
            self._n_lines += 1
            return line

    def update(self, line: TaskID, **changed: Any) -> None:
        """Change a line."""
        self._progress.update(line, **changed)

    def remove(self, line: TaskID) -> None:
        """Take a line away, and with the last one the display."""
        with self._lock:
            self._n_lines -= 1
            if self._n_lines > 0:
                self._progress.remove_task(line)
            else:
                self._progress.stop()


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[steps]}"), TimeRemainingColumn(),
        TextColumn("{task.fields[rows]}"),
        console=Console(stderr=True), transient=True, redirect_stdout=False,
    )  # fmt: skip


def _is_watched() -> bool:
    """Elsewhere a bar cannot be taken away again: it would leave a line in a log."""
    console = Console(stderr=True)
    return console.is_terminal or console.is_jupyter


_DISPLAY = _Display()


class ProgressBar:
    """Call it with (steps done, steps planned); both are public numbers.

    `reading` shows how far a pass over the rows has come. That is not public, and like the bar itself it is shown to
    anyone who watches the terminal of a fit, and kept nowhere.

    Examples
    --------
    >>> with ProgressBar("fitting") as bar:
    ...     bar(1, 10)
    """

    def __init__(self, label: str) -> None:
        self._label, self._watched = label, _is_watched()
        self._line: TaskID | None = None
        self._pass, self._pass_began = 0, 0.0
        self._began = self._last = time.monotonic()

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
        if self._line is not None:
            _DISPLAY.update(self._line, **changed)
        elif self._watched and time.monotonic() - self._began > _PATIENCE_SECONDS:
            self._line = _DISPLAY.add(self._label, **changed)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self._line is not None:
            _DISPLAY.remove(self._line)


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
