"""The rule that a budget is checked by, and what releases cost together under it."""

import functools
import json
import math
from dataclasses import dataclass
from typing import Any

from dperm.accounting.composition import epsilon_of
from dperm.accounting.curve import gaussian_mu
from dperm.accounting.events import Composed, Event, Gaussian, Pure, event_from_list, event_to_list
from dperm.accounting.filter import Charge, Filter
from dperm.disk import canonical
from dperm.errors import InvalidParameterError
from dperm.privacy.guarantee import Adjacency, Guarantee

# The events of releases as canonical JSON, each with the δ that it promises.
Texts = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Rule:
    """How a budget is checked: by a filter, or by composition if all releases are fixed in advance.

    Releases are given as texts with their promised δ, the oldest first: `Texts`.
    """

    filter: Filter
    fixed_in_advance: bool

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> "Rule":
        """Read the first entry of a budget. Without a filter it was made for releases that are fixed in advance."""
        guarantee = Guarantee(content["epsilon"], content["delta"])
        if "filter" not in content:
            return cls(Filter.of(guarantee), fixed_in_advance=True)
        return cls(Filter.from_numbers(guarantee, **dict(content["filter"])), fixed_in_advance=False)

    def to_content(self) -> dict[str, Any]:
        """What the first entry of a budget holds of it."""
        guarantee = {"epsilon": float(self.filter.guarantee.epsilon), "delta": float(self.filter.guarantee.delta)}
        return guarantee if self.fixed_in_advance else guarantee | {"filter": self.filter.numbers()}

    def epsilon(self, texts: Texts, adjacency: Adjacency) -> float:
        """ε of these releases at the budget's δ."""
        if self.fixed_in_advance:
            return composed_epsilon(texts, self.filter.guarantee.delta, adjacency)
        return filtered_epsilon(texts, self.filter, adjacency)

    def left(self, texts: Texts, adjacency: Adjacency) -> float:
        """ε of a further release with δ = 0 that fits, whatever it is; others may fit that are larger."""
        if self.fixed_in_advance:  # pure releases add up
            return max(0.0, self.filter.guarantee.epsilon - self.epsilon(texts, adjacency))
        return self.filter.left(_charges(texts), adjacency)


# Kept, because every look at a ledger composes the same releases again.
@functools.lru_cache(maxsize=512)
def filtered_epsilon(texts: Texts, rule: Filter, adjacency: Adjacency) -> float:
    """ε of these releases, each perhaps chosen after seeing the results before it."""
    return rule.epsilon(_charges(texts), adjacency)


def _charges(texts: Texts) -> list[Charge]:
    return [Charge(event_of(text), delta) for text, delta in texts]


@functools.lru_cache(maxsize=512)
def composed_epsilon(texts: Texts, delta: float, adjacency: Adjacency) -> float:
    """ε of these releases, fixed in advance, together; of one alone by its own event, as its fit was calibrated."""
    events = [event_of(text) for text, _ in texts]
    if not events:
        return 0.0
    together = events[0] if len(events) == 1 else Composed(tuple(events))
    epsilon = epsilon_of(together, delta, adjacency)
    pure = [(leaf.pure_epsilon, count) for leaf, count in together.leaves()]
    known = [each * count for each, count in pure if each is not None]
    if len(known) == len(pure):
        # Pure releases add up. An accountant's rounding must not keep the fourth quarter out of a budget.
        epsilon = min(epsilon, math.fsum(known))
    return epsilon


def one_release(guarantee: Guarantee, adjacency: Adjacency) -> Event:
    """The event of a single answer that keeps exactly this guarantee."""
    if guarantee.delta == 0.0:
        return Pure(guarantee.epsilon)
    # As much more noise as a calibration may add so that rounding is on the safe side.
    return Gaussian(adjacency.records_moved / gaussian_mu(guarantee) * (1.0 + 1e-11))


def event_text(event: Event) -> str:
    """The events as the one JSON text that is stored, compared and composed."""
    try:
        return canonical(event_to_list(event_from_list(event_to_list(event))))  # read back, so that it can be
    except InvalidParameterError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidParameterError(
            "event must consist of dperm.accounting.events; pass the event of a plan."
        ) from None


def event_of(text: str) -> Event:
    """Read what `event_text` wrote."""
    return event_from_list(json.loads(text))
