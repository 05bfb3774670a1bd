"""Which function answers which mechanism."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm.errors import PlanExceededError
from dperm.kernel.noise import Noise
from dperm.kernel.sums import RowSums
from dperm.mechanisms import Query
from dperm.mechanisms.setting import Setting
from dperm.problem import Problem

Array = NDArray[np.float64]
Answer = TypeVar("Answer", bound=Callable[..., Array])

_ANSWERS: dict[type[Query], Callable[..., Array]] = {}


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

    problem: Problem
    setting: Setting
    sums: RowSums
    noise: Noise
    advance: Callable[[int], None]
    step_size: Any = None


def answers(query_type: type[Query]) -> Callable[[Answer], Answer]:
    """Register a function as the answer to a mechanism: it gets the query, an `Asked` and the points."""

    def register(answer: Answer) -> Answer:
        _ANSWERS[query_type] = answer
        return answer

    return register


def answer_to(query: Query) -> Callable[..., Array]:
    """The function that answers this query; a class derived from a mechanism is another mechanism."""
    try:
        return _ANSWERS[type(query)]
    except KeyError:
        raise PlanExceededError("the oracle has no answer to this kind of query.") from None
