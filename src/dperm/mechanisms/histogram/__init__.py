"""Where the bins of numeric columns are cut, found with a small share of the budget."""

import math
from dataclasses import dataclass

from dperm.accounting.events import Event
from dperm.errors import InvalidParameterError
from dperm.mechanisms.base import Query, whole_change
from dperm.mechanisms.setting import summation_slack
from dperm.validation import one_of, positive


@dataclass(frozen=True)
class HistogramQuery(Query):
    """Fine histograms of numeric columns over their ranges, as one vector of counts. Proof: docs/proofs/histogram.md.

    Parameters
    ----------
    setting : Setting
        Of the fit that the bins are for; the adjacency matters.
    columns : tuple of str
        Whose histograms.
    scale : float
        Scale of the noise over the sensitivity, fixed before the plan is calibrated.
    distribution : {"Gaussian", "Laplace"}
        How the noise is distributed; Laplace for a guarantee with δ = 0.

    Guarantees
    ----------
    A row is in at most one cell of each of k columns. So one row more or less moves the counts by at most √k in the
    l2 norm and k in the l1 norm; one row replaced by √(2k) and 2k. The rows of a unit, which weigh at most 1 together,
    do no more: a mean of such vectors is no further from another than two of them are.
    """

    columns: tuple[str, ...]
    scale: float
    distribution: str = "Gaussian"

    n_points = 0

    def __post_init__(self) -> None:
        """There must be a column, and noise."""
        positive("scale", self.scale)
        one_of("distribution", self.distribution, ("Gaussian", "Laplace"))
        if not self.columns:
            raise InvalidParameterError("a histogram query needs at least one column.")

    @property
    def sensitivity(self) -> float:
        """Of all counts: in the l2 norm for Gaussian noise, in the l1 norm for Laplace noise."""
        moved = len(self.columns) * self.setting.adjacency.records_moved
        sensitivity = float(moved) if self.distribution == "Laplace" else math.sqrt(moved) * (1.0 + 1e-15)
        # Weights of units are rounded where there are millions of them; whole numbers are not.
        return sensitivity if self.setting.unit is None else sensitivity + moved * summation_slack(self.setting)

    @property
    def gradients_per_row(self) -> float:
        """None."""
        return 0.0

    def event(self, noise_multiplier: float) -> Event:
        """What the counts cost."""
        return whole_change(self, noise_multiplier)
