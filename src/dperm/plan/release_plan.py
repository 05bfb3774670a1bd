"""The plan of a release: what is promised, and everything that will be asked, before a row is read."""

import enum
from dataclasses import dataclass
from functools import cached_property

from dperm.accounting.composition import delta_of, epsilon_of
from dperm.accounting.events import Composed, Event, OneOf, RandomTrials
from dperm.kernel.noise import GENERATOR
from dperm.mechanisms.plan import CalibratedPlan
from dperm.privacy.caveats import Caveat
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.markup import plan_box
from dperm.privacy.statement import PrivacyStatement
from dperm.privacy.unit import PrivacyUnit


@dataclass(frozen=True)
class Promise:
    """What is promised, and of which tables.

    Attributes
    ----------
    guarantee : Guarantee or None
        (ε, δ); None without noise, and for a part that promises nothing by itself.
    adjacency : Adjacency
        The neighbouring relation.
    n : int
        The public number of rows, or of units.
    unit : PrivacyUnit or None
        Whose rows are protected together; None where every row is protected by itself.
    """

    guarantee: Guarantee | None
    adjacency: Adjacency
    n: int
    unit: PrivacyUnit | None = None


class Together(enum.Enum):
    """How the parts of a plan go together."""

    SEQUENCE = "sequence"
    # A record is in one of the parts only, or one of them will run.
    ONE_OF = "one of"
    # The only part runs again and again until a coin says stop, and the best run is kept.
    RANDOM_TRIALS = "random trials"


@dataclass(frozen=True)
class ReleasePlan:
    """A release that is planned and calibrated, with no row read yet: what is charged, run, written and verified.

    Attributes
    ----------
    promise : Promise
        What is promised of all parts together.
    parts : tuple of CalibratedPlan and ReleasePlan
        Planned queries with their noise, or plans within this one.
    together : Together
        How they go together.
    expected_trials : int or None
        Of random trials: how many are expected.
    """

    promise: Promise
    parts: "tuple[CalibratedPlan | ReleasePlan, ...]"
    together: Together = Together.SEQUENCE
    expected_trials: int | None = None

    @property
    def n(self) -> int:
        """The public number of rows, or of units."""
        return self.promise.n

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation."""
        return self.promise.adjacency

    @property
    def unit(self) -> PrivacyUnit | None:
        """Whose rows are protected together; None where every row is protected by itself."""
        return self.promise.unit

    @property
    def guarantee(self) -> Guarantee:
        """What all parts together keep."""
        assert self.promise.guarantee is not None
        return self.promise.guarantee

    @property
    def delta(self) -> float:
        """The δ of the promise; 0 where nothing is promised."""
        return 0.0 if self.promise.guarantee is None else self.promise.guarantee.delta

    @property
    def calibrated(self) -> CalibratedPlan:
        """What will be asked, and its noise, where that is the only part."""
        (part,) = self.parts
        assert isinstance(part, CalibratedPlan)
        return part

    @cached_property
    def event(self) -> Event:
        """The accounting event of what will run."""
        events = tuple(part.event() if isinstance(part, CalibratedPlan) else part.event for part in self.parts)
        if self.together is Together.ONE_OF:
            return OneOf(events)
        together = events[0] if len(events) == 1 else Composed(events)
        return together if self.expected_trials is None else RandomTrials(together, 1.0 / self.expected_trials)

    @property
    def charge(self) -> tuple[Event, Adjacency, PrivacyUnit | None, float]:
        """What a budget needs to know of it: event, adjacency, unit, δ."""
        return self.event, self.adjacency, self.unit, self.delta

    @property
    def released(self) -> tuple[str, ...]:
        """What is released, in words."""
        return ()

    @cached_property
    def statement(self) -> PrivacyStatement:
        """What is promised; what happens in a run, a seed for instance, is added there."""
        epsilon, delta, adjacency = self.guarantee.epsilon, self.guarantee.delta, self.adjacency
        return PrivacyStatement(
            epsilon, delta, certified_epsilon=epsilon_of(self.event, delta, adjacency),
            certified_delta=delta_of(self.event, epsilon, adjacency), adjacency=adjacency.value, n=self.n,
            parts=self.released, generator=GENERATOR, unit=self.unit,
        )  # fmt: skip

    @property
    def privacy(self) -> PrivacyStatement:
        """The statement that a run would carry, marked as a plan: there is nothing to release yet."""
        return self.statement.of_run(caveats=(Caveat.PLAN_ONLY,))

    def _repr_html_(self) -> str:
        """For notebooks: what would be promised, and whether it is worth it."""
        return plan_box(self.statement.promise_in_words, str(self))

    def __str__(self) -> str:
        """The statement, marked as a plan."""
        return str(self.privacy)
