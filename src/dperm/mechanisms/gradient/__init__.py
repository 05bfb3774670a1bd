"""The mean gradient, on all rows or on a Poisson sample."""

from dataclasses import dataclass

import numpy as np

from dperm.accounting.events import Event
from dperm.mechanisms.base import Array, Query, check_sampling_rate, sampled_gaussian


@dataclass(frozen=True)
class GradientQuery(Query):
    """The mean gradient at a released point: (1/(qn)) Σ_{i∈B} ∇f(w, z_i) + N(0, σ² I).

    With `sampling_rate` q < 1 every row is in B independently with probability q (Poisson sampling).
    The point is released, so σ may depend on its norm: for logistic loss it is smaller near 0.
    Proofs: docs/proofs/gradient.md, docs/proofs/ball_sensitivity.md and docs/proofs/sampled_gradient.md.

    Guarantees
    ----------
    Moving to an adjacent table moves the sum by at most `setting.sum_sensitivity`, whatever the rows hold, and the sum
    over all rows at w by at most `setting.sum_sensitivity_at(‖w‖)`.
    """

    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        """Refuse degenerate sampling."""
        check_sampling_rate(self.sampling_rate)

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity of the answer at any point, given the batch."""
        return self.setting.sum_sensitivity / (self.sampling_rate * self.setting.n)

    def sensitivity_at_norm(self, norm: float) -> float:
        """The same at a point of this norm. A sampled answer has noise for what one row adds wherever it is asked."""
        return self.setting.sum_sensitivity_at(norm) / self.setting.n if self.sampling_rate == 1.0 else self.sensitivity

    def sensitivity_at(self, *points: Array) -> float:
        """The same at w."""
        (w,) = points
        return self.sensitivity_at_norm(float(np.linalg.norm(w)))

    @property
    def gradients_per_row(self) -> float:
        """Expected number of gradients that one answer takes of every row."""
        return self.sampling_rate

    def event(self, noise_multiplier: float) -> Event:
        """What one answer costs."""
        return sampled_gaussian(self.setting, self.sampling_rate, noise_multiplier)
