"""Which check bounds which event, and what is known of all events of one run together."""

import json
import pkgutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Generic, Self, TypeVar

from flint import arb

from dperm.rigorous.convolution import Parts
from dperm.rigorous.curves import GridCurve, KnownCurve, PureCurve
from dperm.rigorous.pairs import CurvePair

Item = TypeVar("Item")
Check = TypeVar("Check", bound=Callable[..., None])

# The events have these folders, each with a module `check`; imported by name, as nothing else of them is used here.
_EVENTS = "dperm.accounting.events"

_CHECKS: dict[str, Callable[..., None]] = {}


class NoBoundError(Exception):
    """No ε bounds an event: it is not private, or no check knows it."""


def checks(event: str) -> Callable[[Check], Check]:
    """Register a function that enters an event into a `Run`: it gets the run, a count and the event's numbers."""

    def register(check: Check) -> Check:
        _CHECKS[event] = check
        return check

    return register


@cache
def load_checks() -> None:
    """Import the check of every event."""
    for module in pkgutil.iter_modules(import_module(_EVENTS).__path__):
        if module.ispkg:
            import_module(f"{_EVENTS}.{module.name}.check")


class Group(ABC, Generic[Item]):
    """All events of a run that are bounded in the same way.

    Parameters
    ----------
    replace_one : bool
        Whether adjacent tables differ in a record that is replaced; else in one that is added or removed.

    Attributes
    ----------
    items : list of (item, int)
        What each event is, and how often it occurred.
    only_pure, only_rho : bool
        Whether nothing but their ε, or their ρ, is known.
    """

    only_pure: ClassVar[bool] = False
    only_rho: ClassVar[bool] = False

    def __init__(self, replace_one: bool) -> None:
        self.replace_one = replace_one
        self.items: list[tuple[Item, int]] = []

    @property
    def pure(self) -> arb | None:
        """The pure ε of all together, or None if there is none."""
        return None

    @property
    def rho(self) -> arb | None:
        """The ρ of all together, or None if it is not known."""
        return None

    def closed_form(self) -> KnownCurve | None:
        """The curve of all together where that needs no grid, or None."""
        return None

    @abstractmethod
    def directions(self) -> list[Parts]:
        """What is composed on a grid: once for every direction between adjacent tables that makes a difference."""

    def without_bare(self) -> tuple[arb, Self] | None:
        """The probability that some show a record, having too little noise for a grid, and the others; or None."""
        return None


class Curves(Group[CurvePair]):
    """Events whose curve is known, each for itself."""

    @property
    def pure(self) -> arb | None:
        """Σ of what each has."""
        return _total([None if pair.pure is None else count * pair.pure for pair, count in self.items])

    def closed_form(self) -> KnownCurve | None:
        """That of one alone."""
        return self.items[0][0] if [count for _, count in self.items] == [1] else None

    def directions(self) -> list[Parts]:
        """Each as it is."""
        return [list(self.items)]


class Run:
    """All that ran, by the way it is bounded.

    Parameters
    ----------
    events : list of dict
        What `dperm.accounting.events.event_to_list` writes.
    replace_one : bool
        Whether adjacent tables differ in a record that is replaced.
    delta : float
        About the δ at which ε is needed.

    Raises
    ------
    NoBoundError
        If an event has no bound.
    """

    def __init__(self, events: list[dict[str, Any]], replace_one: bool, delta: float) -> None:
        self.replace_one = replace_one
        self.delta = delta
        self.groups: dict[type[Group[Any]], Group[Any]] = {}
        for (event, numbers), count in _counted(events).items():
            self.enter(event, count, **dict(numbers))

    def enter(self, event: str, count: int, **numbers: Any) -> None:
        """Let its check add an event."""
        load_checks()
        if event not in _CHECKS:
            raise NoBoundError(event)
        _CHECKS[event](self, count, **numbers)

    def add(self, kind: type[Group[Item]], item: Item, count: int) -> None:
        """To the events that are bounded in the same way."""
        self.groups.setdefault(kind, kind(self.replace_one)).items.append((item, count))

    def nested(self, events: list[dict[str, Any]], delta: float) -> "Run":
        """What ran within an event."""
        return Run(events, self.replace_one, delta)

    @property
    def only(self) -> Group[Any] | None:
        """The one group that there is, or None if there are several."""
        return next(iter(self.groups.values())) if len(self.groups) == 1 else None

    @property
    def pure(self) -> arb | None:
        """The pure ε of all together, or None if something has none."""
        return _total([group.pure for group in self.groups.values()])

    @property
    def rho(self) -> arb | None:
        """The ρ of all together, or None if something has none."""
        return _total([group.rho for group in self.groups.values()])

    def curve(self) -> KnownCurve:
        """δ of all of it at every ε, in closed form or else on a grid."""
        only, pure = self.only, self.pure
        known = None if only is None else only.closed_form()
        if known is not None:
            return known
        if pure is not None and (self.delta == 0.0 or (only is not None and only.only_pure)):
            return PureCurve(pure)
        return GridCurve(self.directions(), self.delta)

    def directions(self) -> list[Parts]:
        """What is composed on a grid, once for every direction between adjacent tables that makes a difference."""
        each = [group.directions() for group in self.groups.values()]
        return [
            [part for parts in each for part in parts[direction % len(parts)]]
            for direction in range(max(len(parts) for parts in each))
        ]

    def without_bare(self) -> "tuple[arb, Run] | None":
        """The probability that samples show a record with hardly any noise, and the run without them; or None."""
        for kind, group in self.groups.items():
            found = group.without_bare()
            if found is not None:
                others = Run([], self.replace_one, self.delta)
                others.groups = {other: self.groups[other] for other in self.groups if other is not kind}
                if found[1].items:
                    others.groups[kind] = found[1]
                return found[0], others
        return None


def _total(terms: list[arb | None]) -> arb | None:
    known = [term for term in terms if term is not None]
    return sum(known, arb(0)) if len(known) == len(terms) else None


def _counted(events: list[dict[str, Any]]) -> Counter[tuple[str, tuple[tuple[str, Any], ...]]]:
    """Every event with its numbers in order, equal ones counted together."""
    leaves: Counter[tuple[str, tuple[tuple[str, Any], ...]]] = Counter()
    for event in events:
        numbers = {name: value for name, value in event.items() if name not in ("mechanism", "count")}
        # Events within events are told apart by their text.
        plain = {name: json.dumps(value) if isinstance(value, list) else value for name, value in numbers.items()}
        leaves[event["mechanism"], tuple(sorted(plain.items()))] += event["count"]
    return leaves
