"""What a solver may ask. A query owns its sensitivity, its sampling and its accounting event.

`noise_multiplier` is always the noise's standard deviation over the sensitivity under the setting's
adjacency. The events of dp-accounting want it relative to one record's contribution and apply the
adjacency themselves, so every query converts here and nowhere else.
"""

import math
from dataclasses import dataclass

from dp_accounting import dp_event

from dperm.errors import InvalidParameter
from dperm.privacy.last_iterate import last_iterate_amplification
from dperm.privacy.setting import Setting
from dperm.validation import count, finite, positive


@dataclass(frozen=True)
class GradientQuery:
    """The mean gradient at a released point: (1/(qn)) Σ_{i∈B} ∇f(w, z_i) + N(0, σ² I).

    With `sampling_rate` q < 1 every row is in B independently with probability q (Poisson sampling).
    Proofs: docs/proofs/gradient.md and docs/proofs/sampled_gradient.md.

    Guarantees
    ----------
    Moving to an adjacent table moves the sum by at most `setting.sum_sensitivity`, whatever the rows hold.
    """

    setting: Setting
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        """Refuse degenerate sampling: q = 0 would look free."""
        if not 0.0 < finite("sampling_rate", self.sampling_rate) <= 1.0:
            raise InvalidParameter(f"sampling_rate must lie in (0, 1], got {self.sampling_rate!r}.")

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity of the answer, given the batch."""
        return self.setting.sum_sensitivity / (self.sampling_rate * self.setting.n)

    def sigma(self, noise_multiplier: float) -> float:
        """Standard deviation of the noise on every coordinate of the answer."""
        return positive("noise multiplier", noise_multiplier) * self.sensitivity

    def event(self, noise_multiplier: float) -> dp_event.DpEvent:
        """What one answer costs."""
        per_record = positive("noise multiplier", noise_multiplier) * self.setting.adjacency.records_moved
        gaussian = dp_event.GaussianDpEvent(per_record)
        if self.sampling_rate == 1.0:
            return gaussian
        return dp_event.PoissonSampledDpEvent(self.sampling_rate, gaussian)


@dataclass(frozen=True)
class LastIterateQuery:
    """T noisy proximal gradient steps from a released point, of which only the last iterate leaves.

    The whole path runs behind the wall. Proof: docs/proofs/last_iterate.md.

    Guarantees
    ----------
    Holds for convex, smooth losses with step_size ≤ 2/L, a constant step and noise, and every pair of
    regularizer and domain whose proximal step is computed exactly (it then does not expand distances).
    """

    setting: Setting
    n_steps: int
    step_size: float

    def __post_init__(self) -> None:
        """Check every condition of the theorem."""
        count("n_steps", self.n_steps)
        positive("step_size", self.step_size)
        if not self.setting.constants.convex:
            raise InvalidParameter("last-iterate accounting needs a convex loss; use accounting='composition'.")
        if not self.setting.constants.exact_prox:
            raise InvalidParameter(
                "last-iterate accounting needs an exact proximal step, which this regularizer does not have on this "
                "domain; use accounting='composition'."
            )
        if self.step_size * self.setting.smoothness > 2.0:
            raise InvalidParameter(
                f"last-iterate accounting needs step_size ≤ 2/L = {2.0 / self.setting.smoothness:g}, "
                f"got {self.step_size:g}."
            )

    @property
    def contraction(self) -> float:
        """Lipschitz constant of one noiseless step: the gradient step's 1 times the prox's 1/(1 + ημ)."""
        return 1.0 / (1.0 + self.step_size * self.setting.constants.strong_convexity)

    @property
    def amplification(self) -> float:
        """Price in single gradient releases of the same noise multiplier."""
        shift = self.step_size * self.sensitivity
        return last_iterate_amplification(self.n_steps, self.contraction, self.setting.constants.diameter / shift)

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity of one step's mean gradient."""
        return self.setting.sum_sensitivity / self.setting.n

    def sigma(self, noise_multiplier: float) -> float:
        """Standard deviation of the noise on every coordinate of every step's gradient."""
        return positive("noise multiplier", noise_multiplier) * self.sensitivity

    def event(self, noise_multiplier: float) -> dp_event.DpEvent:
        """The last iterate costs as much as one Gaussian release with the noise divided by the amplification."""
        per_record = positive("noise multiplier", noise_multiplier) * self.setting.adjacency.records_moved
        return dp_event.GaussianDpEvent(math.nextafter(per_record / self.amplification, 0.0))


Query = GradientQuery | LastIterateQuery
