"""A range that is not public knowledge, found with a stated share of the budget."""

import math
from dataclasses import dataclass

from dperm.accounting.events import Event, Gaussian, Pure, Repeated
from dperm.errors import InvalidParameterError
from dperm.mechanisms.base import Query
from dperm.mechanisms.setting import summation_slack
from dperm.validation import one_of, positive

# How much of a column may lie beyond each end: the least that is aimed at, and the most that is still a range.
_SMALLEST_TAIL, _LARGEST_TAIL = 0.005, 0.2
# Noise hardly ever exceeds this many times its scale in one comparison: about once in 30 000.
_HARDLY_EVER = {"Gaussian": 4.0, "Laplace": 10.0}


class TooFewRowsError(InvalidParameterError):
    """A private range that noise would hide; `why` without the remedy, which depends on how it was asked for."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(f"{why}: {remedy}")
        self.why, self.remedy = why, remedy

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        """An exception is pickled by what it was made of."""
        return type(self), (self.why, self.remedy)


@dataclass(frozen=True)
class RangeQuery(Query):
    """The two ends of a column's range: each the candidate with about k = `beyond` values beyond it, by bisection.

    A step of the search for the upper end asks at one candidate c whether #{x > c} + noise ≤ k, for the lower end
    whether #{x < c} + noise ≤ k. There are ⌈log₂ m⌉ steps for each of two ends. Proof: docs/proofs/range.md.

    Parameters
    ----------
    setting : Setting
        Of the fit that the range is for; n and the adjacency matter.
    column : str
        Whose range.
    candidates : tuple of float
        Where an end may lie, rising; public.
    scale : float
        Scale of the noise on a count: σ of "Gaussian", b of "Laplace" noise. It is the noise multiplier as well, and
        fixed before the plan is calibrated.
    distribution : {"Gaussian", "Laplace"}
        How the noise is distributed; Laplace for a guarantee with δ = 0.

    Guarantees
    ----------
    One row more, less or replaced moves no count by more than 1, under either adjacency. All rows of a unit together
    weigh at most 1, and so do no more.
    """

    column: str
    candidates: tuple[float, ...]
    scale: float
    distribution: str = "Gaussian"

    n_points = 0

    def __post_init__(self) -> None:
        """There must be enough rows to tell an end from anything else."""
        positive("scale", self.scale)
        one_of("distribution", self.distribution, tuple(_HARDLY_EVER))
        if self.beyond > _LARGEST_TAIL * self.setting.n:
            needed = math.ceil(self.beyond / _LARGEST_TAIL)
            raise TooFewRowsError(
                f"the private range of {self.column!r} needs about {needed} rows with this budget, and there are "
                f"{self.setting.n}",
                "declare the range, or give ranges a larger range_share.",
            )

    @property
    def beyond(self) -> int:
        """How many values to leave beyond each end: enough that noise alone hardly ever makes them."""
        return math.ceil(max(_SMALLEST_TAIL * self.setting.n, _HARDLY_EVER[self.distribution] * self.scale))

    @property
    def sensitivity(self) -> float:
        """Of a count; those of units are padded for rounding."""
        return 1.0 if self.setting.unit is None else 1.0 + summation_slack(self.setting)

    @property
    def gradients_per_row(self) -> float:
        """None."""
        return 0.0

    @property
    def steps_per_end(self) -> int:
        """Noisy counts for one end."""
        return search_steps(self.candidates)

    @property
    def n_steps(self) -> int:  # type: ignore[override]
        """Noisy counts for both ends."""
        return 2 * self.steps_per_end

    def event(self, noise_multiplier: float) -> Event:
        """What both ends cost."""
        if self.distribution == "Laplace":
            one: Event = Pure(1.0 / noise_multiplier * (1.0 + 1e-15))
        else:  # events want the noise relative to one record, of which a count has one to lose
            one = Gaussian(noise_multiplier * self.setting.adjacency.records_moved)
        return Repeated(one, self.n_steps)


def search_steps(candidates: tuple[float, ...]) -> int:
    """Steps of a bisection among this many candidates."""
    return max(1, math.ceil(math.log2(len(candidates))))
