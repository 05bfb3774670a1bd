"""The exact minimiser with noise on it: output perturbation of Chaudhuri, Monteleoni and Sarwate."""

import math
from dataclasses import dataclass

from dperm.accounting.events import Event, Pure
from dperm.mechanisms.base import Query, check_minimiser, check_solvable
from dperm.validation import positive


@dataclass(frozen=True)
class OutputPerturbationQuery(Query):
    """argmin F^r over C, plus noise of density ∝ exp(−‖b‖/scale).

    The minimisation ends where a subgradient of F^r is at most `tolerance` long, and what that leaves open is in the
    sensitivity. Proof: docs/proofs/output_perturbation.md.

    Guarantees
    ----------
    Holds for convex losses, a regularizer that makes F^r strongly convex, and every pair of regularizer and domain
    whose proximal step is exact.
    """

    tolerance: float

    distribution = "Gamma"

    def __post_init__(self) -> None:
        """Check what the proof needs."""
        check_minimiser("output perturbation", self.setting)
        strong_convexity = positive("strong convexity", self.setting.constants.strong_convexity)
        check_solvable(self.setting, self.tolerance, strong_convexity)

    @property
    def sensitivity(self) -> float:
        """How far the computed minimiser moves: the gradient's sensitivity, and both remainders, over μ."""
        moved = self.setting.adjacency.records_moved * self.setting.constants.lipschitz / self.setting.n
        return (moved + 2.0 * self.tolerance) / self.setting.constants.strong_convexity * (1.0 + 1e-12)

    @property
    def gradients_per_row(self) -> float:
        """Not public: the minimisation ends when it is done."""
        return math.inf

    def event(self, noise_multiplier: float) -> Event:
        """Pure: the density changes by at most exp(sensitivity/scale)."""
        return Pure(math.nextafter(1.0 / positive("noise multiplier", noise_multiplier), math.inf))
