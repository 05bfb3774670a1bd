"""Sums over rows that are released together, fixed and accounted for before the first row is read."""

from dataclasses import dataclass

from dperm.accounting.events import Composed, Event, NotPrivate
from dperm.errors import InvalidParameterError
from dperm.mechanisms.plan import Planned, WithNoise
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.unit import PrivacyUnit
from dperm.validation import positive


@dataclass(frozen=True)
class SumsPlan:
    """Sums that are released together, each once.

    Parameters
    ----------
    planned : tuple of Planned
        The sums, with their noise relative to each other.
    """

    planned: tuple[Planned, ...]

    def __post_init__(self) -> None:
        """An empty plan, or one about several tables, is a mistake."""
        if not self.planned:
            raise InvalidParameterError("a plan needs at least one sum.")
        if len({item.query.setting for item in self.planned}) != 1:
            raise InvalidParameterError("all sums of a plan must be over the same table.")

    @property
    def adjacency(self) -> Adjacency:
        """The adjacency of all sums."""
        return self.planned[0].query.setting.adjacency

    @property
    def n(self) -> int:
        """The public number of rows, or of units."""
        return self.planned[0].query.setting.n

    @property
    def unit(self) -> PrivacyUnit | None:
        """Whose rows are protected together; None where every row is protected by itself."""
        return self.planned[0].query.setting.unit

    def event(self, noise_multiplier: float) -> Event:
        """The accounting event of all sums."""
        return Composed(tuple(item.event(noise_multiplier) for item in self.planned))

    def with_noise(self, noise_multiplier: float | None) -> "CalibratedSums":
        """The plan with this noise."""
        return CalibratedSums(self, noise_multiplier)


@dataclass(frozen=True)
class CalibratedSums(WithNoise):
    """Sums with their noise. `noise_multiplier` None is the explicit way to run without noise or privacy."""

    plan: SumsPlan
    noise_multiplier: float | None

    def __post_init__(self) -> None:
        """Zero or NaN is never a way to say "no noise"."""
        if self.noise_multiplier is not None:
            positive("noise multiplier", self.noise_multiplier)

    def event(self) -> Event:
        """The accounting event of what runs."""
        return NotPrivate() if self.noise_multiplier is None else self.plan.event(self.noise_multiplier)
