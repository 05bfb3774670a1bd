"""A mechanism of which ρ is known and nothing else."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from dperm.accounting.curve import Array, ConcentratedCurve, Curve
from dperm.accounting.events.base import Parts, SingleEvent, concentrated_curve
from dperm.accounting.renyi import renyi_divergences
from dperm.privacy.guarantee import Adjacency


@dataclass(frozen=True)
class ZCDP(SingleEvent):
    """A mechanism that is ρ-zero-concentrated differentially private, under the adjacency of its plan.

    Attributes
    ----------
    rho : float
        ρ: the Rényi divergence of every order α is at most αρ.
    """

    rho: float

    name: ClassVar[str] = "zcdp"
    only_concentrated: ClassVar[bool] = True
    has_renyi_bound: ClassVar[bool] = True

    def scale(self, adjacency: Adjacency) -> float:
        """That of the Gaussian with this ρ."""
        return math.sqrt(2.0 * self.rho)

    def curve(self, adjacency: Adjacency) -> Curve:
        """The least that follows from ρ."""
        return ConcentratedCurve(float(self.rho))

    def zcdp_rho(self, adjacency: Adjacency) -> float:
        """ρ."""
        return float(self.rho)

    def renyi(self, orders: Array, count: int, adjacency: Adjacency) -> Array:
        """ρ is stated for the plan's adjacency."""
        return renyi_divergences(self.to_dp_event(), count, orders)

    @classmethod
    def composed(cls, parts: Parts, adjacency: Adjacency) -> Curve | None:
        """ρ adds up; beside others that are concentrated a grid does better."""
        if not all(isinstance(leaf, cls) for leaf, _ in parts):
            return None
        return concentrated_curve(parts, adjacency)

    def to_dp_event(self) -> Any:
        """A `ZCDpEvent`; it holds for the adjacency of the plan, whatever an accountant assumes."""
        from dp_accounting import dp_event

        return dp_event.ZCDpEvent(self.rho)
