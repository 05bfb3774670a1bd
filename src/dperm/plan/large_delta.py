"""The warning about a δ that promises nothing."""

import sys
import warnings

from dperm.errors import LargeDeltaWarning
from dperm.privacy.unit import PrivacyUnit


def warn_of_large_delta(delta: float, n: int, unit: PrivacyUnit | None = None) -> None:
    """Say so where δ promises nothing about a table of n rows or units."""
    if delta >= 1.0 / n:
        whose = "one row" if unit is None else f"all rows of one {unit.word}"
        warnings.warn(
            f"delta = {delta:g} is not below 1/n = {1.0 / n:g}: a guarantee this weak would allow publishing {whose} "
            "in the clear.",
            LargeDeltaWarning,
            stacklevel=_level_of_caller(),
        )


def _level_of_caller() -> int:
    """For a warning of the caller of this: how far up the first line is that is not the library's."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("dperm."):
        level, frame = level + 1, frame.f_back
    return level
