"""One of several mechanisms, whichever it is: chosen after seeing the past, or the only one that a row is part of."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from dperm.accounting.curve import ROUNDING, Curve, LargestOf
from dperm.accounting.events.base import Event, Parts, SingleEvent, concentrated_curve
from dperm.accounting.events.composed import check_event
from dperm.accounting.events.plain_data import event_from_list, event_to_list
from dperm.accounting.events.pure import Pure
from dperm.accounting.privacy_loss import LossDistribution
from dperm.privacy.guarantee import Adjacency


@dataclass(frozen=True)
class OneOf(SingleEvent):
    """One of several mechanisms (docs/proofs/selection.md).

    Either one of them runs, and which one follows from the past; or all run on parts of the table that have no row in
    common, so that neighbouring datasets differ for one of them only.

    Attributes
    ----------
    alternatives : tuple of Event
        What may run, or what the parts of the table are used for.
    """

    alternatives: tuple[Event, ...]

    name: ClassVar[str] = "one of"

    def __post_init__(self) -> None:
        """In the form that plain data have, without repetitions."""
        if not self.alternatives:
            raise ValueError("alternatives")
        for event in self.alternatives:
            check_event(event)
        flat = dict.fromkeys(event_from_list(event_to_list(event)) for event in self.alternatives)
        object.__setattr__(self, "alternatives", tuple(flat))

    def numbers(self) -> dict[str, Any]:
        """A list of events for each."""
        return {"alternatives": [event_to_list(event) for event in self.alternatives]}

    @classmethod
    def from_numbers(cls, alternatives: object) -> Self:  # type: ignore[override]
        """Read plain data."""
        if not isinstance(alternatives, list):
            raise TypeError("alternatives")
        return cls(tuple(event_from_list(events) for events in alternatives))

    @property
    def pure_epsilon(self) -> float | None:
        """The largest, if all of them have one."""
        known = [total_pure_epsilon(event) for event in self.alternatives]
        return None if None in known else max(epsilon for epsilon in known if epsilon is not None)

    def zcdp_rho(self, adjacency: Adjacency) -> float | None:
        """The largest, if it is known for all."""
        curves = [concentrated_curve(tuple(event.leaves()), adjacency) for event in self.alternatives]
        return None if None in curves else max(curve.rho for curve in curves if curve is not None)

    def scale(self, adjacency: Adjacency) -> float:
        """The largest."""
        return max(scale_of(event, adjacency) for event in self.alternatives)

    def curve(self, adjacency: Adjacency) -> Curve:
        """Where each of them costs at most this δ, so does whichever it is."""
        from dperm.accounting.composition import curve_of  # which imports the events

        return LargestOf(tuple(curve_of(event, adjacency) for event in self.alternatives))

    def loss(self, adjacency: Adjacency, width: float) -> LossDistribution:
        """From the curve, unless that has a kink."""
        pure = self.pure_epsilon
        return super().loss(adjacency, width) if pure is None else Pure(pure).loss(adjacency, width)

    @classmethod
    def composed(cls, parts: Parts, adjacency: Adjacency) -> Curve | None:
        """One alone; several are composed on a grid, which is tighter than by ρ."""
        (leaf, count), *others = parts
        return leaf.curve(adjacency) if count == 1 and not others else None


def total_pure_epsilon(event: Event) -> float | None:
    """Σ ε of the single events, None if one of them is not pure."""
    known = [(leaf.pure_epsilon, count) for leaf, count in event.leaves()]
    total = math.fsum(count * epsilon for epsilon, count in known if epsilon is not None)
    if any(epsilon is None for epsilon, _ in known):
        return None
    return total if len(known) == 1 and known[0][1] == 1 else total * (1.0 + ROUNDING)


def scale_of(event: Event, adjacency: Adjacency) -> float:
    """About the standard deviation of the privacy loss of all single events together."""
    return math.sqrt(math.fsum(count * leaf.scale(adjacency) ** 2 for leaf, count in event.leaves()))
