"""An answer with Gaussian noise on a Poisson sample of the rows."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from scipy.special import log_ndtr

from dperm.accounting.curve import ROUNDING, Array, Curve, gaussian_delta
from dperm.accounting.events.base import Parts, SingleEvent
from dperm.accounting.events.gaussian import Gaussian
from dperm.accounting.events.sampled.curve import SampledCurve
from dperm.accounting.privacy_loss import LossDistribution, gaussian_grid_width, gaussian_loss_range, relation
from dperm.accounting.renyi import renyi_divergences
from dperm.privacy.guarantee import Adjacency

# With less noise than this, relative to one record, a record that is drawn shows at any ε below 1000. Such a privacy
# loss is too wide for a grid, and the bound by the probability of a draw gives δ as well.
HARDLY_ANY_NOISE = 0.02


@dataclass(frozen=True)
class PoissonSampledGaussian(SingleEvent):
    """An answer with Gaussian noise, for which every row is drawn independently with the same probability.

    Attributes
    ----------
    sampling_probability : float
        The probability that a row is drawn.
    noise_multiplier : float
        The noise's standard deviation over the largest contribution of one record.
    """

    sampling_probability: float
    noise_multiplier: float

    name: ClassVar[str] = "sampled gaussian"
    is_sampled: ClassVar[bool] = True
    has_renyi_bound: ClassVar[bool] = True

    def scale(self, adjacency: Adjacency) -> float:
        """That of the mean over whether the record is drawn."""
        return float(self.sampling_probability * adjacency.records_moved / self.noise_multiplier)

    def curve(self, adjacency: Adjacency) -> Curve:
        """The exact curve of one answer."""
        return OneSample(self.sampling_probability, self.noise_multiplier, adjacency)

    def loss(self, adjacency: Adjacency, width: float) -> LossDistribution:
        """With a pair of laws for each direction under add_remove, which `discretised` would take together."""
        from dp_accounting.pld import privacy_loss_distribution as distributions

        return distributions.from_gaussian_mechanism(
            self.noise_multiplier,
            value_discretization_interval=width,
            sampling_prob=self.sampling_probability,
            neighboring_relation=relation(adjacency),
        )

    def loss_range(self, adjacency: Adjacency) -> float:
        """That of a record that is drawn."""
        return gaussian_loss_range(self.noise_multiplier, adjacency)

    def grid_width(self, count: int, adjacency: Adjacency, points: int) -> float:
        """Finer than for others: the loss is rarely far from 0, and then wide."""
        return gaussian_grid_width(self.noise_multiplier, count, adjacency, points)

    @property
    def drawn_bare(self) -> float:
        """The probability of a draw, if that would show the record."""
        return self.sampling_probability if self.noise_multiplier < HARDLY_ANY_NOISE else 0.0

    def renyi(self, orders: Array, count: int, adjacency: Adjacency) -> Array:
        """Under replace_one through the table without the record, with the weak triangle inequality.

        D_α(P‖Q) ≤ (α − ½)/(α − 1) · D_2α(P‖R) + D_{2α−1}(R‖Q).
        """
        event = self.to_dp_event()
        if adjacency is Adjacency.ADD_REMOVE:
            return renyi_divergences(event, count, orders)
        weight = (orders - 0.5) / (orders - 1.0)
        there, back = (renyi_divergences(event, count, shifted) for shifted in (2 * orders, 2 * orders - 1))
        return weight * there + back

    @classmethod
    def composed(cls, parts: Parts, adjacency: Adjacency) -> Curve | None:
        """Samples and Gaussians beside them, on a grid of their own."""
        if not all(isinstance(leaf, cls | Gaussian) for leaf, _ in parts):
            return None
        return SampledCurve(tuple(parts), adjacency)

    def to_dp_event(self) -> Any:
        """A `PoissonSampledDpEvent` of a `GaussianDpEvent`."""
        from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent

        return PoissonSampledDpEvent(self.sampling_probability, GaussianDpEvent(self.noise_multiplier))


@dataclass(frozen=True)
class OneSample(Curve):
    """δ(ε) of one sampled Gaussian in closed form: the laws are mixtures of N(0, ν²) and N(±1, ν²)."""

    rate: float
    noise: float
    adjacency: Adjacency

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        if self.adjacency is Adjacency.REPLACE_ONE:
            return self._replaced(epsilon)
        return max(self._removed(epsilon), self._added(epsilon))

    def _removed(self, epsilon: float) -> float:
        """(1 − q)N(0) + qN(1) against N(0): q times the Gaussian curve where 1 + (e^ε − 1)/q is its e^ε."""
        beyond = math.log1p(math.expm1(min(epsilon, 700.0)) / self.rate)
        return min(1.0, self.rate * gaussian_delta(1.0 / self.noise, beyond * (1.0 - ROUNDING)) * (1.0 + ROUNDING))

    def _added(self, epsilon: float) -> float:
        """The other way round."""
        left = 1.0 - math.exp(min(epsilon, 700.0)) * (1.0 - self.rate)
        if left <= 0.0:
            return 0.0
        beyond = max(0.0, epsilon + math.log(self.rate) - math.log(left))
        return min(1.0, left * gaussian_delta(1.0 / self.noise, beyond * (1.0 - ROUNDING)) * (1.0 + ROUNDING))

    def _replaced(self, epsilon: float) -> float:
        """(1 − q)N(0) + qN(1) against (1 − q)N(0) + qN(−1): the ratio rises, so the best set is a half line."""
        variance = self.noise**2
        # Where the ratio is e^ε: x = ν²(ε/2 + asinh z), z = sinh(ε/2) e^{1/(2ν²)} (1 − q)/q.
        start = 0.5 * epsilon * variance
        if epsilon > 0.0 and self.rate < 1.0:
            log_z = 0.5 * epsilon + math.log(-0.5 * math.expm1(-epsilon) * (1.0 - self.rate) / self.rate)
            log_z += 0.5 / variance
            start += variance * (math.asinh(math.exp(log_z)) if log_z < 300.0 else math.log(2.0) + log_z)
        above = [float(log_ndtr((centre - start) / self.noise)) for centre in (1.0, 0.0, -1.0)]
        gained = self.rate * math.exp(above[0]) + (1.0 - self.rate) * math.exp(above[1])
        lost = self.rate * math.exp(epsilon + above[2]) + (1.0 - self.rate) * math.exp(epsilon + above[1])
        rounding = 64.0 * 2.0**-53 * (1.0 + abs(above[2]) + epsilon)
        return min(1.0, max(0.0, gained - lost) + rounding * gained)
