"""Noisy gradient descent of which only the last iterate is released."""

import math
from dataclasses import dataclass, field

from dperm.accounting.events import Event, Gaussian
from dperm.accounting.last_iterate import last_iterate_amplification
from dperm.errors import InvalidParameterError
from dperm.mechanisms.base import Query
from dperm.mechanisms.setting import HiddenPath
from dperm.validation import count, positive


@dataclass(frozen=True)
class LastIterateQuery(Query):
    """T noisy proximal gradient steps from a released point, of which only the last iterate is released.

    The whole path runs inside the trusted kernel. Proof: docs/proofs/last_iterate.md.

    Guarantees
    ----------
    Holds for convex, smooth losses with step_size ≤ 2/L, a constant step and noise, and every pair of
    regularizer and domain whose proximal step is computed exactly (it then does not expand distances).
    """

    n_steps: int = field()
    step_size: float

    def __post_init__(self) -> None:
        """Check every condition of the theorem."""
        count("n_steps", self.n_steps)
        positive("step_size", self.step_size)
        if not self.setting.constants.convex:
            raise InvalidParameterError("last-iterate accounting needs a convex loss; use accounting='composition'.")
        if not self.setting.constants.exact_prox:
            raise InvalidParameterError(
                "last-iterate accounting needs an exact proximal step, which this regularizer does not have on this "
                "domain; use accounting='composition'."
            )
        if self.step_size * self.setting.smoothness > 2.0:
            raise InvalidParameterError(
                f"last-iterate accounting needs step_size ≤ 2/L = {2.0 / self.setting.smoothness:g}, "
                f"got {self.step_size:g}."
            )

    @property
    def contraction(self) -> float:
        """Lipschitz constant of one noiseless step: the gradient step's 1 times the prox's 1/(1 + ημ)."""
        return 1.0 / (1.0 + self.step_size * self.setting.constants.strong_convexity)

    def path(self, noise_multiplier: float) -> HiddenPath:
        """The steps, and how long their noise is: a Gaussian vector exceeds σ(√p + 20) with probability e^−200."""
        noise = noise_multiplier * self.sensitivity * (math.sqrt(self.setting.constants.dimension) + 20.0)
        return HiddenPath(self.setting, self.n_steps, self.step_size, noise)

    def amplification(self, noise_multiplier: float) -> float:
        """Privacy cost in single gradient releases of the same noise multiplier, every step's rounding included."""
        rounded = 1.0 + self.path(noise_multiplier).rounding / self.sensitivity
        shift = self.step_size * self.sensitivity * rounded
        diameter = self.setting.constants.diameter / shift
        return last_iterate_amplification(self.n_steps, self.contraction, diameter) * rounded

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity of one step's mean gradient at any point of C, where the whole path lies."""
        return self.setting.domain_sensitivity / self.setting.n

    @property
    def step_sensitivity(self) -> float:
        """The same of w − η∇F(w), which the noise is added to; rounded up."""
        return math.nextafter(self.step_size * self.sensitivity, math.inf)

    @property
    def gradients_per_row(self) -> float:
        """One per step."""
        return float(self.n_steps)

    def event(self, noise_multiplier: float) -> Event:
        """The last iterate costs as much as one Gaussian release with the noise divided by the amplification."""
        per_record = positive("noise multiplier", noise_multiplier) * self.setting.adjacency.records_moved
        return Gaussian(math.nextafter(per_record / self.amplification(noise_multiplier), 0.0))
