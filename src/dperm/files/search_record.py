"""What a file says of the search that its model came out of."""

from dataclasses import dataclass
from typing import Any

from dperm.accounting.events import Event
from dperm.privacy.statement import PrivacyStatement


@dataclass(frozen=True)
class SearchRecord:
    """A search: what is promised of it and of the fit that followed. The plan of both is the file's own.

    Attributes
    ----------
    statement : PrivacyStatement
        What is promised of everything together.
    event : Event
        What everything costs, whoever wins.
    winner : int
        Which candidate was fitted to all rows.
    n_candidates : int
        How many there were.
    n_held_out : int
        How many rows, or units, candidates were scored on.
    """

    statement: PrivacyStatement
    event: Event
    winner: int
    n_candidates: int
    n_held_out: int

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "winner": self.winner,
            "n_candidates": self.n_candidates,
            "n_held_out": self.n_held_out,
            "privacy": self.statement.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: Any, event: Event) -> "SearchRecord":
        """Read what `to_dict` gave; raises ValueError, KeyError or TypeError if it is something else."""
        if set(content) != {"winner", "n_candidates", "n_held_out", "privacy"}:
            raise ValueError("search")
        winner, size, held_out = content["winner"], content["n_candidates"], content["n_held_out"]
        if {type(winner), type(size), type(held_out)} != {int} or not 0 <= winner < size or held_out < 1:
            raise ValueError("winner")
        return cls(PrivacyStatement.from_dict(content["privacy"]), event, winner, size, held_out)
