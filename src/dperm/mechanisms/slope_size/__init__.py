"""How large slopes are at a released point, and which way they point on average: two numbers."""

import math
from dataclasses import dataclass

from dperm.accounting.events import Event
from dperm.errors import InvalidParameterError
from dperm.mechanisms.base import Array, Query, sampled_gaussian
from dperm.mechanisms.setting import summation_slack
from dperm.privacy.guarantee import Adjacency

# Slopes that are clipped at less than this share of their bound are noise.
SMALLEST_SHARE = 1e-9


@dataclass(frozen=True)
class SlopeSizeQuery(Query):
    """The mean slope and the mean size of slopes at a released w, in units of the bound S on |ℓ'|, plus N(0, σ² I).

    It is asked at w and at a share c: every slope is clipped to [−cS, cS] first, and the noise is in proportion to c.
    Two numbers need little of a budget, however many coefficients there are. Proof: docs/proofs/slope_size.md.

    Guarantees
    ----------
    No row adds more than √2 c to the sum, and two rows that trade places move it by at most 2c.
    """

    n_points = 2

    def __post_init__(self) -> None:
        """A row must have one slope."""
        if self.setting.constants.n_outputs != 1:
            raise InvalidParameterError("SlopeSizeQuery supports single-output losses only.")

    @property
    def point_sizes(self) -> tuple[int, ...]:
        """The point, and the share."""
        return self.setting.constants.dimension, 1

    def sensitivity_of(self, share: float) -> float:
        """l2 sensitivity with slopes clipped at this share of their bound, padded for rounding."""
        rows = 2.0 if self.setting.adjacency is Adjacency.REPLACE_ONE else math.sqrt(2.0)
        return rows * share * (1.0 + 2.0 * summation_slack(self.setting)) * (1.0 + 1e-15) / self.setting.n

    def sensitivity_at(self, *points: Array) -> float:
        """The same at the share that it is asked with."""
        return self.sensitivity_of(share_of(points[1]))

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity where no slope is clipped."""
        return self.sensitivity_of(1.0)

    def event(self, noise_multiplier: float) -> Event:
        """One Gaussian release; the multiplier is relative to the sensitivity at the share asked with."""
        return sampled_gaussian(self.setting, 1.0, noise_multiplier)


def share_of(numbers: Array) -> float:
    """The share that a solver asked with, brought into (0, 1]."""
    return min(max(float(numbers[0]), SMALLEST_SHARE), 1.0)
