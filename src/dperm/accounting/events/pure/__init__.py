"""A mechanism that is ε-differentially private with δ = 0."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dperm.accounting.curve import ROUNDING, ConcentratedCurve, Curve, PureCurve, SmallerOf
from dperm.accounting.events.base import Parts, SingleEvent, counted
from dperm.accounting.privacy_loss import LossDistribution, loss_of_curve
from dperm.privacy.guarantee import Adjacency


@dataclass(frozen=True)
class Pure(SingleEvent):
    """A mechanism that is ε-differentially private with δ = 0, under the adjacency of its plan.

    Attributes
    ----------
    epsilon : float
        ε.
    """

    epsilon: float

    name: ClassVar[str] = "pure"

    @property
    def pure_epsilon(self) -> float:
        """ε."""
        return self.epsilon

    def scale(self, adjacency: Adjacency) -> float:
        """The loss is ±ε."""
        return float(self.epsilon)

    def curve(self, adjacency: Adjacency) -> Curve:
        """That of randomized response, which is the worst."""
        return PureCurve(self.epsilon)

    def zcdp_rho(self, adjacency: Adjacency) -> float:
        """ε²/2."""
        return 0.5 * float(self.epsilon) ** 2

    def loss(self, adjacency: Adjacency, width: float) -> LossDistribution:
        """The curve has one kink; the grid has points on both sides of it."""
        below = math.floor(self.epsilon / width)
        cells = np.unique([0, max(below - 1, 0), below, below + 1, below + 2])
        return loss_of_curve(cells, self.curve(adjacency).deltas(cells * width), width)

    @classmethod
    def composed(cls, parts: Parts, adjacency: Adjacency) -> Curve | None:
        """Grouped together they are one mechanism with the total ε; Rényi accounting does better for many."""
        together = counted(parts)
        known = [(leaf.epsilon, count) for leaf, count in together if isinstance(leaf, cls)]
        if len(known) < len(together):
            return None
        total = math.fsum(count * epsilon for epsilon, count in known)
        if len(known) > 1 or known[0][1] > 1:
            total *= 1.0 + ROUNDING
        rho = sum(count * (0.5 * float(epsilon) ** 2) for epsilon, count in known)
        return SmallerOf(PureCurve(total), ConcentratedCurve(rho * (1.0 + ROUNDING)))

    @classmethod
    def grid_is_tighter(cls, parts: Parts, n_releases: int) -> bool:
        """Whether there are several releases."""
        return n_releases > 1

    def to_dp_event(self) -> Any:
        """A `ZCDpEvent` with ρ = ε²/2, which holds under every relation; dp-accounting has no pure event.

        (Its Laplace noise is not the worst of them, and its PLD accountant counts a repeated randomized response once.)
        """
        from dp_accounting import dp_event

        return dp_event.ZCDpEvent(0.5 * float(self.epsilon) ** 2)
