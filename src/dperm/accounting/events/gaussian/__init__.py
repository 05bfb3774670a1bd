"""An answer with Gaussian noise."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from dperm.accounting.curve import ROUNDING, Array, Curve, GaussianCurve
from dperm.accounting.events.base import Parts, SingleEvent
from dperm.accounting.privacy_loss import LossDistribution, relation
from dperm.accounting.renyi import renyi_divergences
from dperm.privacy.guarantee import Adjacency


@dataclass(frozen=True)
class Gaussian(SingleEvent):
    """An answer with Gaussian noise, on all rows.

    Attributes
    ----------
    noise_multiplier : float
        The noise's standard deviation over the largest contribution of one record.
    """

    noise_multiplier: float

    name: ClassVar[str] = "gaussian"
    has_renyi_bound: ClassVar[bool] = True
    sampling_probability: ClassVar[float] = 1.0

    def scale(self, adjacency: Adjacency) -> float:
        """μ."""
        return float(adjacency.records_moved / self.noise_multiplier)

    def curve(self, adjacency: Adjacency) -> Curve:
        """The exact curve."""
        return GaussianCurve(adjacency.records_moved / self.noise_multiplier * (1.0 + ROUNDING))

    def loss(self, adjacency: Adjacency, width: float) -> LossDistribution:
        """From the law itself: `discretised` would evaluate its curve at fewer points."""
        from dp_accounting.pld import privacy_loss_distribution as distributions

        return distributions.from_gaussian_mechanism(
            self.noise_multiplier, value_discretization_interval=width, neighboring_relation=relation(adjacency)
        )

    def zcdp_rho(self, adjacency: Adjacency) -> float:
        """μ²/2."""
        return 0.5 * (adjacency.records_moved / float(self.noise_multiplier)) ** 2

    def renyi(self, orders: Array, count: int, adjacency: Adjacency) -> Array:
        """That of the whole shift between neighbouring datasets."""
        return renyi_divergences(Gaussian(self.noise_multiplier / adjacency.records_moved).to_dp_event(), count, orders)

    @classmethod
    def merged(cls, parts: Parts) -> Parts:
        """All Gaussians together are one Gaussian, exactly; composing them on a grid would only lose."""
        return [(cls(1.0 / math.sqrt(total_precision(parts) * (1.0 + ROUNDING))), 1)]

    @classmethod
    def composed(cls, parts: Parts, adjacency: Adjacency) -> Curve | None:
        """The exact curve: μ = sqrt(Σ μ_i²)."""
        if not all(isinstance(leaf, cls) for leaf, _ in parts):
            return None
        return GaussianCurve(composed_mu(parts, adjacency))

    def to_dp_event(self) -> Any:
        """A `GaussianDpEvent`."""
        from dp_accounting import GaussianDpEvent

        return GaussianDpEvent(self.noise_multiplier)


def composed_mu(parts: Iterable[tuple[Any, int]], adjacency: Adjacency) -> float:
    """μ of Gaussians together: sqrt(Σ μ_i²)."""
    precision = sum(count / leaf.noise_multiplier**2 for leaf, count in parts)
    return adjacency.records_moved * math.sqrt(precision)


def total_precision(parts: Iterable[tuple[Any, int]]) -> float:
    """Σ k/ν² of the Gaussians among these parts."""
    precision = 0.0
    for leaf, count in parts:
        if isinstance(leaf, Gaussian):
            precision += count / leaf.noise_multiplier**2
    return precision
