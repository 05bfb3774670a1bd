"""A progress bar that appears only when work takes longer than two seconds, and only where somebody can watch it."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

_PATIENCE_SECONDS = 2.0


class ProgressBar:
    """Call it with (steps done, steps planned); both are public numbers.

    Examples
    --------
    >>> with ProgressBar("fitting") as bar:
    ...     bar(1, 10)
    """

    def __init__(self, label: str) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn(label), BarColumn(), TextColumn("{task.completed}/{task.total} steps"), TimeRemainingColumn(),
            console=console, transient=True,
        )  # fmt: skip
        # Elsewhere a bar cannot be taken away again: it would leave a line in a log.
        self._watched = console.is_terminal or console.is_jupyter
        self._task = self._progress.add_task(label, total=None)
        self._began = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        """Start the clock."""
        return self

    def __call__(self, done: int, total: int) -> None:
        """Record progress, and show it once two seconds have passed."""
        if not self._watched:
            return
        if not self._shown and time.monotonic() - self._began <= _PATIENCE_SECONDS:
            return
        self._progress.update(self._task, completed=done, total=total)
        if not self._shown:
            self._progress.start()
            self._shown = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self._shown:
            self._progress.stop()
