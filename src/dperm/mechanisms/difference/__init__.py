"""How the mean gradient changes from an anchor to another point."""

import math
from dataclasses import dataclass, field

import numpy as np

from dperm.accounting.events import Event
from dperm.mechanisms.base import Array, Query, check_sampling_rate, sampled_gaussian
from dperm.mechanisms.setting import summation_slack
from dperm.privacy.guarantee import Adjacency

# A difference at two equal points is zero on every table; the noise keeps this share of G all the same.
_SMALLEST_DIFFERENCE = 1e-12


@dataclass(frozen=True)
class DifferenceQuery(Query):
    """How the mean gradient changes from an anchor to w: (1/(qn)) Σ_{i∈B} [∇f(w, z_i) − ∇f(anchor, z_i)] + N(0, σ² I).

    Every row is in B independently with probability q. Both points are released, so σ may depend on their
    distance: it vanishes as w comes near the anchor. Proof: docs/proofs/gradient_difference.md.

    Guarantees
    ----------
    No row adds more than min(2G, L‖w − anchor‖) to the sum, whatever it holds: the kernel clips to it. Of a convex loss
    on all rows the parts of two rows are no further apart than L‖w − anchor‖, or a little less than 4G if that is less:
    the kernel keeps them in one ball.
    """

    sampling_rate: float = field()

    n_points = 2

    def __post_init__(self) -> None:
        """Refuse degenerate sampling."""
        check_sampling_rate(self.sampling_rate)

    def record_bound(self, distance: float) -> float:
        """The largest norm that one row's difference of gradients can have, points that far apart."""
        constants = self.setting.constants
        bound = min(2.0 * constants.lipschitz, constants.smoothness * distance)
        return max(bound, _SMALLEST_DIFFERENCE * constants.lipschitz)

    def record_bound_at(self, w: Array, anchor: Array) -> float:
        """The same at these points."""
        return self.record_bound(float(np.linalg.norm(w - anchor)))

    @property
    def ball_smoothness(self) -> float | None:
        """L, if every row's part must lie in the ball around (L/2)(w − anchor) with 0 on its surface; else None.

        It helps where a row is replaced. For samples the accounting event would be another one.
        """
        setting = self.setting
        in_ball = setting.constants.convex and self.sampling_rate == 1.0
        return setting.constants.smoothness if in_ball and setting.adjacency is Adjacency.REPLACE_ONE else None

    def sensitivity_at_distance(self, distance: float) -> float:
        """l2 sensitivity of the answer at two points that far apart, given the batch, padded for rounding."""
        setting, constants = self.setting, self.setting.constants
        moved = setting.adjacency.records_moved * self.record_bound(distance)
        slack = summation_slack(setting)
        if self.ball_smoothness is not None:
            moved = max(_lens_diameter(self.ball_smoothness * distance, 2.0 * constants.lipschitz), 0.5 * moved)
            slack = summation_slack(setting, constants.dimension) + (constants.dimension + 16) * 2.0**-50
        return moved * (1.0 + slack) / (self.sampling_rate * setting.n)

    def sensitivity_at(self, *points: Array) -> float:
        """l2 sensitivity of the answer at w and the anchor."""
        w, anchor = points
        return self.sensitivity_at_distance(float(np.linalg.norm(w - anchor)))

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity at points far apart."""
        return self.sensitivity_at_distance(math.inf)

    @property
    def gradients_per_row(self) -> float:
        """Two of every row in the batch."""
        return 2.0 * self.sampling_rate

    def event(self, noise_multiplier: float) -> Event:
        """What one answer costs; the multiplier is relative to the sensitivity at the points asked about."""
        return sampled_gaussian(self.setting, self.sampling_rate, noise_multiplier)


def _lens_diameter(diameter: float, radius: float) -> float:
    """How far apart two points of a ball with 0 on its surface are at most, if both are within this radius of 0."""
    if diameter <= math.sqrt(2.0) * radius:
        return diameter
    return 2.0 * radius * math.sqrt(1.0 - (radius / diameter) ** 2)  # the corners of the lens
