"""Whether two pieces of plain data are the same."""

import math
from typing import Any

# Two machines may round the last digits differently.
LAST_DIGITS = 1e-9


def alike(first: Any, second: Any) -> bool:
    """Whether two pieces of plain data are the same, but for the last digits of numbers."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(alike(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(alike, first, second))
    if isinstance(first, float) and isinstance(second, int | float) and not isinstance(second, bool):
        return math.isclose(first, second, rel_tol=LAST_DIGITS)
    return type(first) is type(second) and bool(first == second)
