"""Several events together, and one event several times."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dperm.accounting.events.base import Event, SingleEvent
from dperm.errors import UnsupportedProblemError
from dperm.validation import count as whole


@dataclass(frozen=True)
class Composed(Event):
    """Events that ran one after the other, each perhaps chosen after seeing what those before it released.

    Parameters
    ----------
    events : tuple of Event
        The parts. At the top level a part that is itself a composition is one release: it ran from its start to its end
        without looking at what others released meanwhile.
    """

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        """Any sequence of events will do, and nothing else."""
        object.__setattr__(self, "events", tuple(self.events))
        for event in self.events:
            check_event(event)

    def leaves(self, count: int = 1) -> Iterator[tuple[SingleEvent, int]]:
        """The single events of all parts."""
        for event in self.events:
            yield from event.leaves(count)

    def releases(self) -> tuple[Event, ...]:
        """The parts, or those of the only part."""
        return self.events[0].releases() if len(self.events) == 1 else self.events

    def without(self, unwanted: Callable[[SingleEvent], bool]) -> Event:
        """Every part without them."""
        return Composed(tuple(event.without(unwanted) for event in self.events))

    def to_dp_event(self) -> Any:
        """A `ComposedDpEvent`."""
        from dp_accounting import ComposedDpEvent

        return ComposedDpEvent([event.to_dp_event() for event in self.events])


@dataclass(frozen=True)
class Repeated(Event):
    """The same event several times.

    Parameters
    ----------
    event : Event
        What ran.
    count : int
        How often, at least once.
    """

    event: Event
    count: int

    def __post_init__(self) -> None:
        """Refuse a count of zero, which would look like no privacy cost."""
        check_event(self.event)
        whole("count", self.count)

    def leaves(self, count: int = 1) -> Iterator[tuple[SingleEvent, int]]:
        """The single events with counts that are this many times larger."""
        return self.event.leaves(count * self.count)

    def without(self, unwanted: Callable[[SingleEvent], bool]) -> Event:
        """What is left of it, as often."""
        return Repeated(self.event.without(unwanted), self.count)

    def to_dp_event(self) -> Any:
        """A `SelfComposedDpEvent`."""
        from dp_accounting import SelfComposedDpEvent

        return SelfComposedDpEvent(self.event.to_dp_event(), self.count)


def check_event(event: object) -> None:
    """Raise unless it is an event of dperm."""
    if not isinstance(event, Event):
        raise UnsupportedProblemError(
            f"dperm has no privacy bound for {type(event).__name__}; give it events of dperm.accounting.events, as "
            "plans and releases have them."
        )
