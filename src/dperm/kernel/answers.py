"""Which function answers which mechanism: the module `answer` in the folder of the mechanism registers it."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm.errors import PlanExceededError
from dperm.mechanisms.base import Mechanism

if TYPE_CHECKING:  # sums that nothing is minimised with need no objectives
    from dperm.kernel.noise import Noise
    from dperm.kernel.sums import RowSums
    from dperm.mechanisms.setting import Setting
    from dperm.problem import Problem

Array = NDArray[np.float64]
Answer = TypeVar("Answer", bound=Callable[..., Array])

_ANSWERS: dict[type[Mechanism], Callable[..., Array]] = {}


@dataclass(frozen=True, eq=False)
class Asked:
    """What an answer is computed from, and the noise through which alone it is released.

    Attributes
    ----------
    problem : Problem
        What is minimised.
    setting : Setting
        The public facts, as the oracle derived them.
    sums : RowSums
        Exact sums over the rows.
    noise : Noise
        The query's noise. An answer may return what `noise` released, what it computes from that and from public
        numbers, and nothing else.
    advance : callable
        To be called with the number of noisy steps that are done; public.
    step_size : object
        As the solver gave it.
    """

    problem: "Problem"
    setting: "Setting"
    sums: "RowSums"
    noise: "Noise"
    advance: Callable[[int], None]
    step_size: Any = None


def answers(mechanism: type[Mechanism]) -> Callable[[Answer], Answer]:
    """Register a function as the answer to a mechanism.

    The answer to a `Query` gets the query, an `Asked` and the points. The answer to any other mechanism bounds and adds
    up what rows add: it gets the mechanism, one part, and the units of its rows, None where no unit is protected.
    """

    def register(answer: Answer) -> Answer:
        _ANSWERS[mechanism] = answer
        return answer

    return register


def answer_to(query: Mechanism) -> Callable[..., Array]:
    """The function that answers this mechanism; a class derived from a mechanism is another mechanism."""
    kind = type(query)
    if kind not in _ANSWERS and kind.__module__.startswith("dperm.mechanisms."):
        import_module(f"{kind.__module__}.answer")
    try:
        return _ANSWERS[kind]
    except KeyError:
        raise PlanExceededError("the oracle has no answer to this kind of query.") from None
