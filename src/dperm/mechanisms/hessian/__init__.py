"""The mean Hessian of a loss of one margin, and its smallest eigenvalue."""

import math
from dataclasses import dataclass

from dperm.accounting.events import Event
from dperm.errors import InvalidParameterError
from dperm.mechanisms.base import Query, sampled_gaussian
from dperm.mechanisms.setting import summation_slack
from dperm.privacy.guarantee import Adjacency

# A matrix of this many rows fits into memory a few times over; beyond, its noise would drown it.
LARGEST_HESSIAN = 4000


@dataclass(frozen=True)
class _OfTheHessian(Query):
    """What queries about the mean Hessian at a released point share."""

    def __post_init__(self) -> None:
        """There must be a Hessian of rank one for every row, small enough to hold."""
        if self.setting.constants.n_outputs != 1:
            raise InvalidParameterError("HessianQuery supports single-output losses only.")
        size = self.setting.constants.dimension
        if size > LARGEST_HESSIAN:
            raise InvalidParameterError(
                f"a Hessian has {size}² entries here; it is not released beyond {LARGEST_HESSIAN}²."
            )

    def event(self, noise_multiplier: float) -> Event:
        """One Gaussian release."""
        return sampled_gaussian(self.setting, 1.0, noise_multiplier)


@dataclass(frozen=True)
class HessianQuery(_OfTheHessian):
    """The mean Hessian at a released point: (1/n) Σ ℓ''(⟨w, x_i⟩, y_i) x_i x_iᵀ plus symmetric Gaussian noise.

    The noise has variance σ² on the diagonal and σ²/2 on each entry off it: it is N(0, σ² I) on the space of symmetric
    matrices with the Frobenius norm. Proof: docs/proofs/hessian.md.

    Guarantees
    ----------
    Every ℓ'' is clipped to [0, bound], so that no row adds more than L in Frobenius norm, whatever it holds; and two
    rows that trade places move the sum by √2 L, not by 2L.
    """

    @property
    def sensitivity(self) -> float:
        """Sensitivity in Frobenius norm, padded for rounding."""
        rows = math.sqrt(2.0) if self.setting.adjacency is Adjacency.REPLACE_ONE else 1.0
        slack = summation_slack(self.setting)
        return rows * self.setting.constants.smoothness * (1.0 + slack) * (1.0 + 1e-15) / self.setting.n


@dataclass(frozen=True)
class SmallestEigenvalueQuery(_OfTheHessian):
    """The smallest eigenvalue of the mean Hessian at a released point, plus N(0, σ²).

    A released Hessian has one as well, at no further cost; this is for the published form of AdaSSP.
    Proof: docs/proofs/hessian.md.

    Guarantees
    ----------
    One row more or less, or one replaced, moves it by at most L/n.
    """

    @property
    def sensitivity(self) -> float:
        """How far the eigenvalue moves, padded for rounding in the sum and in finding it."""
        constants, n = self.setting.constants, self.setting.n
        return constants.smoothness * (1.0 + summation_slack(self.setting, 32 * constants.dimension**2)) / n
