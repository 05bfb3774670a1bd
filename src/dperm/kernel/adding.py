"""Sums of many parts with few additions on the way of each."""

from collections.abc import Iterable
from typing import Any, TypeVar

Sum = TypeVar("Sum")


def add_up(parts: Iterable[Sum]) -> Sum:
    """A sum by pairs: no part goes through more than log₂(number of parts) + 1 additions.

    So the padding of sensitivities for rounding (`summation_slack`) covers any number of blocks.
    """
    waiting: list[tuple[int, Any]] = []
    for part in parts:
        level, total = 0, part
        while waiting and waiting[-1][0] == level:
            total, level = waiting.pop()[1] + total, level + 1
        waiting.append((level, total))
    _, total = waiting.pop()
    while waiting:
        total = waiting.pop()[1] + total
    return total
