"""What all sources of rows share."""

from abc import abstractmethod
from collections.abc import Sequence

from dperm.kernel.adding import add_up
from dperm.kernel.source import EncodedRows, LocalSource, Source, TablePiece
from dperm.kernel.units import Membership
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Problem
from dperm.rows.row_facts import NO_FACTS, RowFacts, unit_remarks, warn_about


class ReadSource(Source):
    """Rows that were read here: what is wrong with them can be told."""

    def _warn(self, facts: Sequence[RowFacts]) -> None:
        """Of all rows, and of their units."""
        warn_about(add_up(facts or [NO_FACTS]), unit_remarks(self._members()))


class InMemorySource(ReadSource, LocalSource):
    """Rows that are read once per fit and kept."""

    def __init__(self, membership: Membership | None = None) -> None:
        self._membership = membership

    @property
    def unit(self) -> PrivacyUnit | None:
        """What was declared."""
        return None if self._membership is None else self._membership.unit

    def _members(self) -> Membership | None:
        return self._membership

    @abstractmethod
    def _read(self, problem: Problem) -> EncodedRows:
        """Encode all rows."""

    def _pieces(self) -> list[TablePiece]:
        return [TablePiece(self._n_rows, lambda problem: [self._read(problem)])]
