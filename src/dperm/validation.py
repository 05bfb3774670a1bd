"""Checks of public parameters, made before any row is read."""

import math
import numbers
import operator
from collections.abc import Collection
from typing import Any

import numpy as np

from dperm.errors import DivergedError, InvalidParameterError

# Whole numbers up to here are floats as well.
LARGEST_COUNT = 2**53


def positive(name: str, value: object) -> float:
    """Return `value` as a float if it is a finite number above zero, else raise."""
    number = finite(name, value)
    if number <= 0:
        raise InvalidParameterError(f"{name} must be above 0, got {value!r}.")
    return number


def size(name: str, value: object) -> float:
    """Return `value` as a float if it is above 0 and its square is far from overflowing, else raise."""
    number = positive(name, value)
    if number > 1e100:
        raise InvalidParameterError(f"{name} must be at most 1e100, got {value!r}.")
    return number


def nonnegative(name: str, value: object) -> float:
    """Return `value` as a float if it is a finite number and not negative, else raise."""
    number = finite(name, value)
    if number < 0:
        raise InvalidParameterError(f"{name} must be 0 or above, got {value!r}.")
    return number


def finite(name: str, value: object) -> float:
    """Return `value` as a float if it is a finite real number, else raise."""
    # Narrow numpy numbers are refused: sensitivities computed from them would be rounded.
    if isinstance(value, bool) or not isinstance(value, (int, float, np.int64)):
        raise InvalidParameterError(f"{name} must be a plain number, got {value!r}.")
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond all floats
        number = math.inf
    if not math.isfinite(number):
        raise InvalidParameterError(f"{name} must be finite, got {_shown(value)}.")
    return number


def count(name: str, value: object) -> int:
    """Return `value` as an int if it is a whole number of at least one, else raise."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise InvalidParameterError(f"{name} must be a positive integer, got {_shown(value)}.")
    whole = int(value)
    if whole > LARGEST_COUNT:
        raise InvalidParameterError(f"{name} must be at most {LARGEST_COUNT}, got {_shown(whole)}.")
    return whole


def agreed_n(declared: int | None, n: int | None) -> int | None:
    """The number of rows that is declared, or else the one that was passed; raises where they differ."""
    if n is not None and declared not in (None, n):
        raise InvalidParameterError(f"n = {declared} is already declared, and n = {n} was passed: remove one.")
    return n if declared is None else declared


def truth(name: str, value: object) -> bool:
    """Return `value` as a bool if it is True or False, else raise: "no" would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidParameterError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def _shown(value: object) -> str:
    """How a value is named; a number of a thousand digits is not written out."""
    return repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "a number of more than 30 digits"


def one_of(name: str, value: object, allowed: Collection[str]) -> str:
    """Return `value` if it is one of the allowed words, else raise."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise InvalidParameterError(f"{name} must be one of {words}, got {value!r}.")
    return value


def check_not_diverged(w: Any) -> None:
    """Raise if an iterate has left the range of numbers."""
    if not np.isfinite(w).all():
        raise DivergedError("the run diverged; use a smaller step_size.")


def disjoint_blocks(value: Any) -> tuple[tuple[int, int, Any], ...]:
    """Return (start, stop, part) triples in order if no two of them share an index, else raise."""
    try:
        blocks = sorted(
            ((operator.index(a), operator.index(b), part) for a, b, part in value), key=lambda block: block[0]
        )
    except (TypeError, ValueError):
        blocks = []
    starts, stops = [block[0] for block in blocks], [block[1] for block in blocks]
    ordered = all(a < b for a, b in zip(starts, stops, strict=True)) and all(map(operator.le, stops, starts[1:]))
    if not blocks or starts[0] < 0 or not ordered:
        raise InvalidParameterError("blocks must be triples (start, stop, part) that hold indices and do not overlap.")
    return tuple(blocks)


def disjoint_groups(value: Any) -> tuple[tuple[int, ...], ...]:
    """Return `value` as tuples of indices if they are disjoint, non-empty groups of them, else raise."""
    try:
        groups = tuple(tuple(operator.index(i) for i in group) for group in value)
    except TypeError:
        groups = ()
    indices = [i for group in groups for i in group]
    if not groups or not all(groups) or min(indices) < 0 or len(set(indices)) != len(indices):
        raise InvalidParameterError("groups must be disjoint, non-empty tuples of indices of 0 or above.")
    return groups
