"""An epoch of Algorithm 1 as the paper prints it."""

import math
from dataclasses import dataclass, field

from dperm.accounting.events import Composed, Event, Repeated
from dperm.errors import InvalidParameterError
from dperm.mechanisms.base import Query, check_sampling_rate, sampled_gaussian
from dperm.validation import count, finite


@dataclass(frozen=True)
class PrintedEpochQuery(Query):
    """Lines 5 to 9 of Algorithm 1 as printed: m steps along v_t = (sampled difference) + ∇F(anchor) + u_t.

    Every v_t is accounted for. Its noise counts as two independent parts: a share of the variance hides the anchor's
    gradient, the rest the sampled difference. The sum is post-processing of the two.
    Proof: docs/proofs/gradient_difference.md.

    Guarantees
    ----------
    Everything that the answer is made of, iterates and directions, is post-processing of 2m releases, all accounted
    for.
    """

    sampling_rate: float = field()
    n_steps: int = field()
    anchor_share: float

    n_points = 2
    takes_step_size = True

    def __post_init__(self) -> None:
        """Refuse degenerate numbers: none of them may look like no privacy cost."""
        check_sampling_rate(self.sampling_rate)
        count("n_steps", self.n_steps)
        if not 0.0 < finite("anchor_share", self.anchor_share) < 1.0:
            raise InvalidParameterError(f"anchor_share must lie strictly between 0 and 1, got {self.anchor_share!r}.")

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity of a step's sampled difference, given the batch."""
        return 2.0 * self.setting.sum_sensitivity / (self.sampling_rate * self.setting.n)

    @property
    def gradients_per_row(self) -> float:
        """One at the anchor, then two of every row in a batch."""
        return 1.0 + 2.0 * self.sampling_rate * self.n_steps

    def event(self, noise_multiplier: float) -> Event:
        """What all m steps cost."""
        sigma = noise_multiplier * self.sensitivity
        anchor = math.sqrt(self.anchor_share) * sigma / (self.setting.sum_sensitivity / self.setting.n)
        difference = math.sqrt(1.0 - self.anchor_share) * noise_multiplier
        step = [
            sampled_gaussian(self.setting, 1.0, anchor),
            sampled_gaussian(self.setting, self.sampling_rate, difference),
        ]
        return Repeated(Composed(tuple(step)), self.n_steps)
