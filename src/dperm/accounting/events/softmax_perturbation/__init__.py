"""The minimiser of a softmax objective with a random Gaussian linear term (docs/proofs/softmax_perturbation.md)."""

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from scipy.special import ndtr

from dperm.accounting.curve import ROUNDING, Curve, gaussian_delta
from dperm.accounting.events.base import SingleEvent
from dperm.privacy.guarantee import Adjacency

# Halvings by which the end of a chord is found; a bound holds wherever it ends.
_HALVINGS = 40


@dataclass(frozen=True)
class SoftmaxPerturbation(SingleEvent):
    """The minimiser of a softmax objective with a random Gaussian linear term.

    Attributes
    ----------
    noise_multiplier : float
        σ/G: the standard deviation of the linear term over one record's largest gradient, √2 c times its length.
    log_jacobian : float
        What the change of variables from the linear term to the minimiser can cost.
    n_classes : int
        K.
    remainder : float
        ε of the output noise that hides how far the minimisation was from done.
    """

    noise_multiplier: float
    log_jacobian: float
    n_classes: int
    remainder: float

    name: ClassVar[str] = "softmax perturbation"

    @classmethod
    def from_numbers(cls, **numbers: Any) -> Self:
        """Read plain data."""
        event = super().from_numbers(**numbers)
        if event.n_classes < 2:
            raise ValueError("n_classes")
        return event

    def scale(self, adjacency: Adjacency) -> float:
        """That of one Gaussian shift alone."""
        return float(adjacency.records_moved / self.noise_multiplier)

    def curve(self, adjacency: Adjacency) -> Curve:
        """In closed form."""
        return CornerCurve(self, adjacency)

    def corners(self, adjacency: Adjacency) -> list[tuple[int, float]]:
        """How many corners there are of which length over σ: of one row's simplex, or of the product of two."""
        others, mu = self.n_classes - 1, (1.0 + ROUNDING) / self.noise_multiplier
        if adjacency is Adjacency.ADD_REMOVE:
            return [(others, mu)]
        pairs = [(others, 2.0 * mu), (others * (others - 1), math.sqrt(3.0) * mu), (2 * others, mu)]
        return [pair for pair in pairs if pair[0] > 0]


@dataclass(frozen=True)
class CornerCurve(Curve):
    """δ(ε) of one minimiser: the sum of the Gaussian curves of all corners, and a chord where that is too much."""

    event: SoftmaxPerturbation
    adjacency: Adjacency

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        cost = self.event.remainder + self.event.log_jacobian
        left, start = (epsilon - cost) * (1.0 - ROUNDING), _chord_end(self.event, self.adjacency)
        if left >= start:
            return min(1.0, self._at_corners(left))
        # The curve holds in both directions, so it is convex in e^ε together with the point (−1, 1).
        share = (1.0 + math.exp(epsilon)) / (1.0 + math.exp(min(start + cost, 700.0)))
        return min(1.0, 1.0 - share * max(0.0, 1.0 - self._at_corners(start)) * (1.0 - ROUNDING))

    def _at_corners(self, left: float) -> float:
        shifts = self.event.corners(self.adjacency)
        return sum(times * gaussian_delta(mu, left) for times, mu in shifts) * (1.0 + ROUNDING)


@functools.lru_cache(maxsize=256)
def _chord_end(event: SoftmaxPerturbation, adjacency: Adjacency) -> float:
    """About where the chord from (−1, 1) touches the sum of the corners' curves, in ε less its cost; at least 0."""
    shifts, cost = event.corners(adjacency), event.remainder + event.log_jacobian

    def is_steeper(left: float) -> bool:
        total = 0.0
        for times, mu in shifts:
            total += times * float(ndtr(0.5 * mu - left / mu) + math.exp(-cost) * ndtr(-0.5 * mu - left / mu))
        return total > 1.0

    low, high = 0.0, max(0.5 * mu**2 + mu * math.sqrt(2.0 * math.log(8.0 * times)) for times, mu in shifts)
    if not is_steeper(low):
        return 0.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_steeper(middle) else (low, middle)
    return high
