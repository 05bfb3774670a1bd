"""Which of some candidates does best on rows that were held out, by noisy max."""

from dataclasses import dataclass

from dperm.accounting.events import BoundedRange, Event
from dperm.mechanisms.base import Mechanism
from dperm.mechanisms.setting import summation_slack
from dperm.validation import count, positive


@dataclass(frozen=True)
class HeldOutChoice(Mechanism):
    """The candidate with the least Σ ℓ_i(z) over held-out rows, after Gumbel noise; every ℓ_i(z) is clipped to [0, 1].

    Only the index of the winner is released. Proof: docs/proofs/selection.md.

    Parameters
    ----------
    setting : TableFacts
        The public n and the adjacency.
    what : str
        What is added up, in words for the statement.
    n_candidates : int
        How many sums are compared.

    Guarantees
    ----------
    One row more or less moves all sums by something in [0, 1], one row replaced by something in [−1, 1]. A choice with
    probability ∝ exp(−sum/g) does not change if all sums move alike: so its privacy loss lies in an interval of length
    2Δ/g, where Δ = `sensitivity` is ½ and 1.
    """

    what: str
    n_candidates: int

    distribution = "Gumbel"

    def __post_init__(self) -> None:
        """There must be something to choose."""
        count("n_candidates", self.n_candidates)

    @property
    def size(self) -> int:
        """Numbers that a row adds."""
        return self.n_candidates

    @property
    def sensitivity(self) -> float:
        """Half of how far two sums move against each other, padded for rounding in them."""
        return 0.5 * self.setting.adjacency.records_moved + summation_slack(self.setting)

    def event(self, noise_multiplier: float) -> Event:
        """What the choice costs; the multiplier is g/Δ."""
        return BoundedRange(2.0 / positive("noise multiplier", noise_multiplier) * (1.0 + 1e-15))
