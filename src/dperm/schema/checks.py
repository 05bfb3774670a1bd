"""Checks of what a schema declares, and the one way to spell a category."""

import math
import re
from collections.abc import Mapping
from typing import Any

from dperm.errors import InvalidParameterError
from dperm.validation import finite

Range = tuple[float, float]


_WHOLE = re.compile(r"([-+]?\d+)\.0*")


def as_text(value: Any) -> str:
    """A category or a class the way tables are searched for it.

    Whole numbers and booleans have one spelling each, 2 and true, however a table writes them: 2.0, True.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**63:
        return str(int(value))
    text = str(value).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    whole = _WHOLE.fullmatch(text)
    return text if whole is None else "0" if whole.group(1) == "-0" else whole.group(1)


def interval(name: str, value: Any, narrowest: float = 1e-12) -> Range:
    """Two rising numbers, or raise."""
    ends = tuple(finite(name, end) for end in sequence(name, value))
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise InvalidParameterError(f"{name} must be (low, high) with low < high, got {list(ends)}.")
    if not math.isfinite(ends[1] - ends[0]) or max(map(abs, ends)) > 1e100:
        raise InvalidParameterError(f"{name} must lie between -1e100 and 1e100.")
    # The middle and the half width must tell the ends apart in floating point.
    if (ends[1] - ends[0]) <= narrowest * max(map(abs, ends)):
        raise InvalidParameterError(f"{name} is too narrow relative to its magnitude.")
    return ends[0], ends[1]


def sequence(name: str, value: Any) -> tuple[Any, ...]:
    """A list that is not a text, or raise."""
    if isinstance(value, str | Mapping) or not hasattr(value, "__iter__"):
        raise InvalidParameterError(f"{name} must be a list, got {value!r}.")
    return tuple(value)


def texts(name: str, value: Any) -> tuple[str, ...]:
    """A list of texts, or raise."""
    entries = sequence(name, value)
    if not all(isinstance(entry, str) for entry in entries):
        raise InvalidParameterError(f"{name} must be a list of strings.")
    return entries


def spellings(name: str, value: Any, at_least: int) -> tuple[tuple[Any, ...], ...]:
    """Groups of spellings, each declared once, or raise."""
    groups = tuple(
        sequence(name, entry) if isinstance(entry, list | tuple) else (entry,) for entry in sequence(name, value)
    )
    plain = [spelling for group in groups for spelling in group]
    if len(groups) < at_least or not all(groups):
        raise InvalidParameterError(f"{name} must list at least {at_least}, and no empty list among them.")
    if not all(isinstance(spelling, str | int | float) for spelling in plain):
        raise InvalidParameterError(f"{name} must be strings, numbers or booleans.")
    written = [as_text(spelling) for spelling in plain]
    if "" in written:
        raise InvalidParameterError(f"{name} cannot contain an empty string: that is a missing value.")
    if len(set(written)) != len(written):
        raise InvalidParameterError(f"{name} must list every spelling once.")
    return groups


def check_name(name: object) -> None:
    """Raise unless it can name a column."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidParameterError(f"a column name must be a non-empty string, got {name!r}.")
