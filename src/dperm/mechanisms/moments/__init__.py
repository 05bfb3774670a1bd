"""Second moments of rows and targets: all that least squares needs."""

import math
from dataclasses import dataclass

from dperm.accounting.events import Event
from dperm.mechanisms.base import Query, sampled_gaussian
from dperm.mechanisms.setting import summation_slack
from dperm.privacy.guarantee import Adjacency
from dperm.validation import positive


@dataclass(frozen=True)
class MomentsQuery(Query):
    """(1/n) Σ z_i z_iᵀ plus symmetric Gaussian noise, z_i = (x_i, c, κ y_i): a row, its constant and its target.

    The noise is that of `HessianQuery`: N(0, σ² I) on the space of symmetric matrices with the Frobenius norm, hence
    σ² on the diagonal and σ²/2 on each entry off it. Proof: docs/proofs/intervals.md.

    Parameters
    ----------
    setting : Setting
        Of the fit that asks.
    target_scale : float
        κ.
    bound : float
        The trusted code scales every z_i to ‖z_i‖² ≤ bound.

    Guarantees
    ----------
    No row adds more than `bound` in Frobenius norm, whatever it holds; two rows that trade places move the sum by at
    most √2·bound, not by 2·bound.
    """

    target_scale: float
    bound: float

    n_points = 0

    def __post_init__(self) -> None:
        """Both are sizes."""
        positive("target_scale", self.target_scale)
        positive("bound", self.bound)

    @property
    def sensitivity(self) -> float:
        """Sensitivity in Frobenius norm, padded for rounding."""
        rows = math.sqrt(2.0) if self.setting.adjacency is Adjacency.REPLACE_ONE else 1.0
        return rows * self.bound * (1.0 + summation_slack(self.setting)) * (1.0 + 1e-15) / self.setting.n

    def event(self, noise_multiplier: float) -> Event:
        """One Gaussian release."""
        return sampled_gaussian(self.setting, 1.0, noise_multiplier)
