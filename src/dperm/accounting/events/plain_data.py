"""Events as plain data, as model files and ledgers hold them."""

from typing import Any

from dperm.accounting.events.base import Event, SingleEvent
from dperm.accounting.events.composed import Composed, Repeated, check_event
from dperm.validation import count as whole


def event_to_list(event: Event) -> list[dict[str, Any]]:
    """The single events with their counts, ready for JSON; `event_from_list` reads them back.

    Raises
    ------
    UnsupportedProblemError
        If it is not an event of dperm, so that it could not be read back as what it is.
    """
    check_event(event)
    return [{"mechanism": leaf.name, **leaf.numbers(), "count": count} for leaf, count in event.leaves()]


def event_from_list(items: Any) -> Event:
    """Read what `event_to_list` wrote.

    Raises
    ------
    ValueError, KeyError, TypeError
        If it is not that: a name that is not known, a number that is missing, degenerate or not finite.
    """
    if not isinstance(items, list) or not items:
        raise ValueError("events")
    return Composed(tuple(_from_dict(dict(item)) for item in items))


def _from_dict(item: dict[str, Any]) -> Event:
    repeated, name = whole("count", item.pop("count")), item.pop("mechanism")
    kinds = {kind.name: kind for kind in SingleEvent.__subclasses__()}
    event = kinds[name].from_numbers(**item)  # a field too many or too few raises
    return event if repeated == 1 else Repeated(event, repeated)
