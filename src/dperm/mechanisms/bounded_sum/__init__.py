"""A sum over rows of one vector each, of bounded norm."""

import math
from dataclasses import dataclass

from dperm.accounting.events import Event
from dperm.mechanisms.base import Mechanism, whole_change
from dperm.mechanisms.setting import summation_slack
from dperm.privacy.guarantee import Adjacency
from dperm.validation import count, one_of, positive


@dataclass(frozen=True)
class BoundedSum(Mechanism):
    """Σ v(z_i) plus noise, where the trusted code clips every v(z_i). Proof: docs/proofs/bounded_sum.md.

    Parameters
    ----------
    setting : TableFacts
        The public n and the adjacency.
    what : str
        What is added up, in words for the statement.
    size : int
        Numbers in a vector.
    bound : float
        Every row's vector is scaled to at most this norm: l2 for Gaussian noise, l1 for Laplace noise.
    nonnegative : bool
        Whether negative entries are set to 0: two rows then differ by less.
    distribution : {"Gaussian", "Laplace"}
        How the noise is distributed; Laplace for a guarantee with δ = 0.

    Guarantees
    ----------
    A row with an entry that is not finite adds nothing, and no row adds more than `bound`, whatever it holds. One row
    replaced moves the sum by at most 2·bound, and in the l2 norm by √2·bound where no entry is negative; a sum of
    single numbers that are not negative by at most bound.
    """

    what: str
    size: int
    bound: float
    nonnegative: bool = False
    distribution: str = "Gaussian"

    def __post_init__(self) -> None:
        """There must be a number, and a bound."""
        count("size", self.size)
        positive("bound", self.bound)
        one_of("distribution", self.distribution, ("Gaussian", "Laplace"))

    @property
    def order(self) -> int:
        """Of the norm that the noise is for."""
        return 1 if self.distribution == "Laplace" else 2

    @property
    def sensitivity(self) -> float:
        """Of the whole sum, padded for rounding in it."""
        moved = 1.0
        if self.setting.adjacency is Adjacency.REPLACE_ONE:
            moved = math.sqrt(2.0) if self.nonnegative and self.order == 2 else 2.0
            if self.nonnegative and self.size == 1:  # two numbers of [0, bound] are no further apart
                moved = 1.0
        rounding = self.setting.adjacency.records_moved * summation_slack(self.setting)
        return self.bound * (moved + rounding) * (1.0 + 1e-15)

    def event(self, noise_multiplier: float) -> Event:
        """What the sum costs."""
        return whole_change(self, noise_multiplier)
