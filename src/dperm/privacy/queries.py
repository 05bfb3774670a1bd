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
from dperm.privacy.setting import Setting, summation_slack
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
        """Refuse degenerate sampling."""
        check_sampling_rate(self.sampling_rate)

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity of the answer, given the batch."""
        return self.setting.sum_sensitivity / (self.sampling_rate * self.setting.n)

    @property
    def gradients_per_row(self) -> float:
        """Expected number of gradients that one answer takes of every row."""
        return self.sampling_rate

    def event(self, noise_multiplier: float) -> dp_event.DpEvent:
        """What one answer costs."""
        return _sampled_gaussian(self.setting, self.sampling_rate, noise_multiplier)


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
    def sampling_rate(self) -> float:
        """Every step takes every row."""
        return 1.0

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

    @property
    def gradients_per_row(self) -> float:
        """One a step."""
        return float(self.n_steps)

    def event(self, noise_multiplier: float) -> dp_event.DpEvent:
        """The last iterate costs as much as one Gaussian release with the noise divided by the amplification."""
        per_record = positive("noise multiplier", noise_multiplier) * self.setting.adjacency.records_moved
        return dp_event.GaussianDpEvent(math.nextafter(per_record / self.amplification, 0.0))


# A difference at two equal points is zero on every table; the noise keeps this share of G all the same.
_SMALLEST_DIFFERENCE = 1e-12


@dataclass(frozen=True)
class DifferenceQuery:
    """How the mean gradient changes from an anchor to w: (1/(qn)) Σ_{i∈B} [∇f(w, z_i) − ∇f(anchor, z_i)] + N(0, σ² I).

    Every row is in B independently with probability q. Both points are released, so σ may depend on their
    distance: it vanishes as w comes near the anchor. Proof: docs/proofs/gradient_difference.md.

    Guarantees
    ----------
    No row adds more than min(2G, L‖w − anchor‖) to the sum, whatever it holds: the kernel clips to it.
    """

    setting: Setting
    sampling_rate: float

    def __post_init__(self) -> None:
        """Refuse degenerate sampling."""
        check_sampling_rate(self.sampling_rate)

    def record_bound(self, distance: float) -> float:
        """The largest norm that one row's difference of gradients can have, points that far apart."""
        constants = self.setting.constants
        bound = min(2.0 * constants.lipschitz, constants.smoothness * distance)
        return max(bound, _SMALLEST_DIFFERENCE * constants.lipschitz)

    def sensitivity_at(self, distance: float) -> float:
        """l2 sensitivity of the answer at two points that far apart, given the batch, padded for rounding."""
        moved = self.setting.adjacency.records_moved * self.record_bound(distance)
        return moved * (1.0 + summation_slack(self.setting.n)) / (self.sampling_rate * self.setting.n)

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity at points far apart."""
        return self.sensitivity_at(math.inf)

    @property
    def gradients_per_row(self) -> float:
        """Two of every row in the batch."""
        return 2.0 * self.sampling_rate

    def event(self, noise_multiplier: float) -> dp_event.DpEvent:
        """What one answer costs; the multiplier is relative to the sensitivity at the points asked about."""
        return _sampled_gaussian(self.setting, self.sampling_rate, noise_multiplier)


@dataclass(frozen=True)
class PrintedEpochQuery:
    """Lines 5 to 9 of Algorithm 1 as printed: m steps along v_t = (sampled difference) + ∇F(anchor) + u_t.

    Every v_t is paid for. Its noise counts as two independent parts: a share of the variance hides the anchor's
    gradient, the rest the sampled difference. The sum is post-processing of the two.
    Proof: docs/proofs/gradient_difference.md.

    Guarantees
    ----------
    Everything that the answer is made of, iterates and directions, is post-processing of 2m priced releases.
    """

    setting: Setting
    sampling_rate: float
    n_steps: int
    anchor_share: float

    def __post_init__(self) -> None:
        """Refuse degenerate numbers: none of them may mean "free"."""
        check_sampling_rate(self.sampling_rate)
        count("n_steps", self.n_steps)
        if not 0.0 < finite("anchor_share", self.anchor_share) < 1.0:
            raise InvalidParameter(f"anchor_share must lie strictly between 0 and 1, got {self.anchor_share!r}.")

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity of a step's sampled difference, given the batch."""
        return 2.0 * self.setting.sum_sensitivity / (self.sampling_rate * self.setting.n)

    @property
    def gradients_per_row(self) -> float:
        """One at the anchor, then two of every row in a batch."""
        return 1.0 + 2.0 * self.sampling_rate * self.n_steps

    def event(self, noise_multiplier: float) -> dp_event.DpEvent:
        """What all m steps cost."""
        sigma = noise_multiplier * self.sensitivity
        anchor = math.sqrt(self.anchor_share) * sigma / (self.setting.sum_sensitivity / self.setting.n)
        difference = math.sqrt(1.0 - self.anchor_share) * noise_multiplier
        step = [
            _sampled_gaussian(self.setting, 1.0, anchor),
            _sampled_gaussian(self.setting, self.sampling_rate, difference),
        ]
        return dp_event.SelfComposedDpEvent(dp_event.ComposedDpEvent(step), self.n_steps)


Query = GradientQuery | LastIterateQuery | DifferenceQuery | PrintedEpochQuery


def check_sampling_rate(rate: float) -> None:
    """Refuse degenerate sampling: q = 0 would look free."""
    if not 0.0 < finite("sampling_rate", rate) <= 1.0:
        raise InvalidParameter(f"sampling_rate must lie in (0, 1], got {rate!r}.")


def _sampled_gaussian(setting: Setting, rate: float, noise_multiplier: float) -> dp_event.DpEvent:
    """A Gaussian release over a Poisson sample, with the multiplier relative to one record."""
    gaussian = dp_event.GaussianDpEvent(
        positive("noise multiplier", noise_multiplier) * setting.adjacency.records_moved
    )  # fmt: skip
    return gaussian if rate == 1.0 else dp_event.PoissonSampledDpEvent(rate, gaussian)
