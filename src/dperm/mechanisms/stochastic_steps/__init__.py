"""Noisy stochastic gradient steps, every one of them accounted for."""

from dataclasses import dataclass, field

from dperm.accounting.events import Event, Repeated
from dperm.mechanisms.base import Query, check_sampling_rate, sampled_gaussian
from dperm.validation import count


@dataclass(frozen=True)
class StochasticStepsQuery(Query):
    """Up to k noisy proximal SGD steps: w ← prox_{ηr, C}(w − η(g + N(0, σ² I))), g = (1/(qn)) Σ_{i∈B} ∇f(w, z_i).

    Every row is in a step's batch B independently with probability q. The steps run inside the trusted kernel and all
    k of them are accounted for, so what is released (the last iterate and the mean iterate) is post-processing,
    whatever the step sizes. Proof: docs/proofs/stochastic_gradient.md.

    Guarantees
    ----------
    Given its batch, moving to an adjacent table moves a step's sum by at most `setting.sum_sensitivity`, whatever the
    rows hold. Fewer steps than k cost no more than k.
    """

    sampling_rate: float = field()
    n_steps: int = field()

    takes_step_size = True

    def __post_init__(self) -> None:
        """Refuse degenerate numbers: none of them may look like no privacy cost."""
        check_sampling_rate(self.sampling_rate)
        count("n_steps", self.n_steps)

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity of a step's mean gradient, given the batch."""
        return self.setting.sum_sensitivity / (self.sampling_rate * self.setting.n)

    @property
    def gradients_per_row(self) -> float:
        """Expected number of gradients that all k steps take of every row."""
        return self.sampling_rate * self.n_steps

    def event(self, noise_multiplier: float) -> Event:
        """What all k steps cost."""
        return Repeated(sampled_gaussian(self.setting, self.sampling_rate, noise_multiplier), self.n_steps)
