"""How sums are cut into pieces for threads: the same on every machine, so that a seeded result is too."""

import itertools
import math
import numbers
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Any

from dperm.errors import InvalidParameterError

_PIECES = 8
_SMALLEST_PIECE = 1 << 18


def n_threads() -> int:
    """Threads worth starting on this machine."""
    return min(_PIECES, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def threads_for(n_jobs: int | None) -> int:
    """Threads that a user asked for; None and −1 stand for as many as are worth starting. Results do not depend on it.

    Examples
    --------
    >>> threads_for(2)
    2
    """
    if n_jobs is None or (n_jobs == -1 and not isinstance(n_jobs, bool)):
        return n_threads()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs < 1:
        raise InvalidParameterError(f"n_jobs must be None, -1 or a positive integer, got {n_jobs!r}.")
    return min(int(n_jobs), _PIECES)  # a sum is never cut into more pieces


def pieces_of(n: int, work: int, most: int = _PIECES) -> list[tuple[int, int]]:
    """Cut n rows into pieces for threads: as many as the work is worth, whatever the machine."""
    pieces = max(1, min(_PIECES, most, math.ceil(work / _SMALLEST_PIECE)))
    return list(itertools.pairwise(n * k // pieces for k in range(pieces + 1)))


class OneThread(Executor):
    """The thread that asks: for blocks of which several are added up at once."""

    def map(  # type: ignore[override]
        self, function: Callable[..., Any], *arguments: Iterable[Any], **_: Any
    ) -> Iterator[Any]:
        """One after another."""
        return map(function, *arguments)


ONE_THREAD = OneThread()
