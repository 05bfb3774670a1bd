"""What a setting may be: one of a name means the same in every solver, and is checked in one place."""

from collections.abc import Callable
from dataclasses import fields
from types import NoneType
from typing import Any, get_args

from dperm.errors import InvalidParameterError
from dperm.validation import count, finite, nonnegative, positive, truth

Check = Callable[[str, Any], object]


def _lies_in(interval: str, holds: Callable[[float], bool]) -> Check:
    def check(name: str, value: object) -> None:
        if not holds(finite(name, value)):
            raise InvalidParameterError(f"{name} must lie in {interval}, got {value!r}.")

    return check


_CHECKS: dict[str, Check] = {
    **dict.fromkeys(("n_steps", "n_epochs", "n_inner", "n_hessians", "n_vertices"), count),
    **dict.fromkeys(("period", "nominal_support", "max_steps"), count),
    **dict.fromkeys(("step_size", "nominal_distance", "max_passes", "paper_constant", "false_alarms"), positive),
    "ridge": nonnegative,
    "barzilai_borwein": truth,
    "decay": _lies_in("[0, 1]", lambda value: 0.0 <= value <= 1.0),
    # q = 0 would look like no privacy cost.
    **dict.fromkeys(
        ("sampling_rate", "averaging", "slope_share", "cut"), _lies_in("(0, 1]", lambda value: 0.0 < value <= 1.0)
    ),
    **dict.fromkeys(("momentum", "second_momentum"), _lies_in("[0, 1)", lambda value: 0.0 <= value < 1.0)),
    # Beyond these ends shares of the budget would be lost in rounding.
    **dict.fromkeys(
        ("anchor_share", "selection_share", "hessian_share"),
        _lies_in("[1e-6, 1 − 1e-6]", lambda value: 1e-6 <= value <= 1.0 - 1e-6),
    ),
    **dict.fromkeys(("anchor_growth", "gradient_growth"), _lies_in("[1e-3, 1e3]", lambda value: 1e-3 <= value <= 1e3)),
}


def check_settings(solver: Any) -> None:
    """Raise unless every setting of a known name may be what it is; None where its type has it."""
    for part in fields(solver):
        value = getattr(solver, part.name)
        left_out = value is None and (part.default is None or NoneType in get_args(part.type))
        if part.name in _CHECKS and not left_out:
            _CHECKS[part.name](part.name, value)
