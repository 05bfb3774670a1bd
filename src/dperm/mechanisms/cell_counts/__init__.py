"""How many rows are in each cell of some histograms."""

import math
from dataclasses import dataclass

from dperm.accounting.events import Event
from dperm.errors import InvalidParameterError
from dperm.mechanisms.base import Mechanism, whole_change
from dperm.mechanisms.setting import summation_slack
from dperm.validation import count, one_of


@dataclass(frozen=True)
class CellCounts(Mechanism):
    """Counts of the cells of k histograms, of each of which a row is in one cell at most, plus noise.

    Proof: docs/proofs/bounded_sum.md.

    Parameters
    ----------
    setting : TableFacts
        The public n and the adjacency.
    what : str
        What is counted, in words for the statement.
    sizes : tuple of int
        How many cells every histogram has.
    distribution : {"Gaussian", "Laplace"}
        How the noise is distributed; Laplace for a guarantee with δ = 0.

    Guarantees
    ----------
    One row more or less moves the counts by at most √k in the l2 norm and k in the l1 norm; one row replaced by √(2k)
    and 2k. Counts are whole numbers, so nothing is rounded. With a unit, the same holds of all rows of one together:
    what a row counts is its weight in its unit, and sums of weights are padded for rounding.
    """

    what: str
    sizes: tuple[int, ...]
    distribution: str = "Gaussian"

    def __post_init__(self) -> None:
        """There must be a cell."""
        if not self.sizes:
            raise InvalidParameterError("counts need at least one histogram.")
        for size in self.sizes:
            count("size", size)
        one_of("distribution", self.distribution, ("Gaussian", "Laplace"))

    @property
    def size(self) -> int:
        """Cells of all histograms."""
        return sum(self.sizes)

    @property
    def sensitivity(self) -> float:
        """Of all counts: in the l2 norm for Gaussian noise, in the l1 norm for Laplace noise."""
        moved = len(self.sizes) * self.setting.adjacency.records_moved
        sensitivity = float(moved) if self.distribution == "Laplace" else math.sqrt(moved) * (1.0 + 1e-15)
        # Weights of units are rounded where there are millions of them; whole numbers are not.
        return sensitivity if self.setting.unit is None else sensitivity + moved * summation_slack(self.setting)

    def event(self, noise_multiplier: float) -> Event:
        """What the counts cost."""
        return whole_change(self, noise_multiplier)
