"""What a regularizer is: a convex r(w) with a proximal step."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import astuple
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError

Array = NDArray[np.float64]


class Regularizer(ABC):
    """A convex function r of the coefficients; it never sees data."""

    name: ClassVar[str]
    # Domains C for which projecting after the prox is exactly prox of r + indicator(C).
    # For the others see prox.py.
    projects_exactly_onto: ClassVar[frozenset[str]]
    # Where the prox works coordinate by coordinate: shrink(v_j, step, *parameters).
    shrink: ClassVar[Callable[..., Any] | None] = None

    @property
    def parameters(self) -> tuple[float, ...]:
        """What `shrink` gets after the coordinate and the step."""
        return tuple(astuple(self))  # type: ignore[call-overload]

    @property
    def strong_convexity(self) -> float:
        """The μ for which r − (μ/2)‖w‖² is convex."""
        return 0.0

    @abstractmethod
    def value(self, w: Array) -> float:
        """r(w)."""

    def prox(self, v: Array, step: float) -> Array:
        """Argmin over w of ½‖w − v‖² + step · r(w): by `shrink`, where there is one."""
        if self.shrink is None:
            raise NotImplementedError(f"{type(self).__name__} needs prox or shrink")
        return np.asarray(self.shrink(v, step, *self.parameters))

    def simplified_on(self, domain_name: str) -> "Regularizer":
        """An easier regularizer that differs from this one by a constant on such a domain, or this one itself."""
        return self

    def check_dimension(self, dimension: int) -> None:
        """Raise if r is not a function of `dimension` coefficients."""

    @classmethod
    def example(cls) -> Self:
        """Build an instance with ordinary parameters, for the contract tests."""
        return cls()


def require_dimension(needed: int, dimension: int, what: str) -> None:
    """Raise if `what` speaks of more coefficients than there are."""
    if needed > dimension:
        raise InvalidParameterError(f"{what} needs {needed} coefficients, the problem has {dimension}.")
