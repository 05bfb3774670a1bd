"""A run without noise."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from dperm.accounting.curve import FINE_GRID, Curve
from dperm.accounting.events.base import Parts, SingleEvent
from dperm.privacy.guarantee import Adjacency


@dataclass(frozen=True)
class NotPrivate(SingleEvent):
    """Something that was released without any noise."""

    name: ClassVar[str] = "not private"

    def scale(self, adjacency: Adjacency) -> float:
        """All of it may show."""
        return math.inf

    def curve(self, adjacency: Adjacency) -> Curve:
        """δ = 1 at every ε."""
        return NoPromise()

    @classmethod
    def composed(cls, parts: Parts, adjacency: Adjacency) -> Curve:
        """Nothing is promised of anything beside it."""
        return NoPromise()

    def to_dp_event(self) -> Any:
        """A `NonPrivateDpEvent`."""
        from dp_accounting import NonPrivateDpEvent

        return NonPrivateDpEvent()


@dataclass(frozen=True)
class NoPromise(Curve):
    """δ = 1 at every ε."""

    def delta(self, epsilon: float) -> float:
        """1."""
        return 1.0

    def epsilon(self, delta: float, points: int = FINE_GRID) -> float:
        """∞."""
        return math.inf
