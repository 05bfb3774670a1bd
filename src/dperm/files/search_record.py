"""What a file says of the search that its model came out of."""

from dataclasses import dataclass
from typing import Any

from dperm.accounting.events import Event, event_from_list, event_to_list
from dperm.privacy.statement import PrivacyStatement

# How a search was done, in public numbers; enough to plan it again.
_DESCRIPTION = frozenset(("method", "score", "share", "held_out", "trials", "winner", "schemas", "candidates"))


@dataclass(frozen=True)
class SearchRecord:
    """A search: what is promised of it and of the fit that followed, and how to plan it again.

    Attributes
    ----------
    statement : PrivacyStatement
        What is promised of everything together.
    event : Event
        What everything costs, whoever wins.
    description : dict
        The method, the score, the candidates, the winner: plain data.
    """

    statement: PrivacyStatement
    event: Event
    description: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "statement": str(self.statement).splitlines(),
            "privacy": self.statement.to_dict(),
            "events": event_to_list(self.event),
            "description": self.description,
        }

    @classmethod
    def from_dict(cls, content: Any) -> "SearchRecord":
        """Read what `to_dict` gave; raises ValueError, KeyError or TypeError if it is something else."""
        if set(content) != {"statement", "privacy", "events", "description"}:
            raise ValueError("search")
        if set(content["description"]) != _DESCRIPTION:
            raise ValueError("description")
        statement = PrivacyStatement.from_dict(content["privacy"])
        return cls(statement, event_from_list(content["events"]), dict(content["description"]))
