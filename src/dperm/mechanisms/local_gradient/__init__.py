"""The mean gradient, with noise for the slopes that are possible at the point asked about."""

import math
from dataclasses import dataclass

import numpy as np

from dperm.accounting.events import Event
from dperm.mechanisms.base import Array, Query, sampled_gaussian
from dperm.mechanisms.setting import summation_slack

# A loss without a slope at 0 would be asked about there without noise; the noise keeps this share of G all the same.
_SMALLEST_BOUND = 1e-12


@dataclass(frozen=True)
class LocalGradientQuery(Query):
    """The mean gradient at a released point w: (1/n) Σ ∇f(w, z_i) + N(0, σ² I), σ ∝ min(G, G₀ + L‖w‖).

    G bounds gradients everywhere in C, G₀ those at 0. For squared loss on a wide ball G₀ + L‖w‖ is much less than G;
    for logistic loss it never is. Proof: docs/proofs/hessian.md.

    Guarantees
    ----------
    No row adds more than min(G, G₀ + L‖w‖) to the sum, whatever it holds: the kernel clips its slope to it.
    """

    def record_bound(self, norm: float) -> float:
        """The longest gradient that a row can have at points of this norm."""
        constants = self.setting.constants
        local = constants.lipschitz_at_zero + constants.smoothness * norm
        return min(constants.lipschitz, max(local, _SMALLEST_BOUND * constants.lipschitz))

    def record_bound_at(self, w: Array) -> float:
        """The longest gradient that a row can have at w."""
        return self.record_bound(float(np.linalg.norm(w)))

    def sensitivity_at_norm(self, norm: float) -> float:
        """l2 sensitivity of the answer at points of this norm, padded for rounding."""
        moved = self.setting.adjacency.records_moved * self.record_bound(norm)
        return moved * (1.0 + summation_slack(self.setting)) / self.setting.n

    def sensitivity_at(self, *points: Array) -> float:
        """l2 sensitivity of the answer at w."""
        (w,) = points
        return self.sensitivity_at_norm(float(np.linalg.norm(w)))

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity wherever it is largest."""
        return self.sensitivity_at_norm(math.inf)

    def event(self, noise_multiplier: float) -> Event:
        """One Gaussian release; the multiplier is relative to the sensitivity at the point asked about."""
        return sampled_gaussian(self.setting, 1.0, noise_multiplier)
