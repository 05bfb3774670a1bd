"""Exact gradient descent with noise on its last iterate: output perturbation of Zhang, Zheng, Mou and Wang."""

import math
from dataclasses import dataclass, field

from dperm.accounting.events import Event
from dperm.errors import InvalidParameterError
from dperm.mechanisms.base import Query, check_minimiser, sampled_gaussian
from dperm.mechanisms.setting import HiddenPath
from dperm.validation import count, positive


@dataclass(frozen=True)
class DescentOutputQuery(Query):
    """T exact proximal gradient steps from a released point, and Gaussian noise on the last iterate.

    Proof: docs/proofs/output_perturbation.md.

    Guarantees
    ----------
    Holds for convex, smooth losses with step_size ≤ 2/L and exact proximal steps: then one step brings two points no
    further apart, and the row that differs adds at most step_size · sensitivity of the gradient.
    """

    n_steps: int = field()
    step_size: float

    def __post_init__(self) -> None:
        """Check what the proof needs."""
        check_minimiser("gradient descent with output noise", self.setting)
        count("n_steps", self.n_steps)
        if positive("step_size", self.step_size) * self.setting.smoothness > 2.0:
            raise InvalidParameterError(
                f"gradient descent with output noise needs step_size ≤ 2/L = {2.0 / self.setting.smoothness:g}, "
                f"got {self.step_size:g}."
            )

    @property
    def contraction(self) -> float:
        """Lipschitz constant c of one step: the gradient step's 1 times the prox's 1/(1 + ημ)."""
        return 1.0 / (1.0 + self.step_size * self.setting.constants.strong_convexity)

    @property
    def path(self) -> HiddenPath:
        """The steps before the noise."""
        return HiddenPath(self.setting, self.n_steps, self.step_size)

    @property
    def sensitivity(self) -> float:
        """(η s/n) c (1 − c^T)/(1 − c), s the sum's sensitivity, rounding included; at most the diameter."""
        shift = self.step_size * (self.setting.sum_sensitivity / self.setting.n + self.path.rounding)
        rate = math.log1p(self.step_size * self.setting.constants.strong_convexity)  # −ln c
        steps = -math.expm1(-self.n_steps * rate) / math.expm1(rate) if rate > 0.0 else float(self.n_steps)
        return min(shift * steps * (1.0 + 1e-12), self.setting.constants.diameter or math.inf)

    @property
    def gradients_per_row(self) -> float:
        """One per step."""
        return float(self.n_steps)

    def event(self, noise_multiplier: float) -> Event:
        """One Gaussian release."""
        return sampled_gaussian(self.setting, 1.0, noise_multiplier)
