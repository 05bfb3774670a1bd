"""What sources share whose raw rows are encoded by a schema when they are first needed."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from dperm.errors import InvalidParameterError
from dperm.kernel.units import Membership
from dperm.privacy.unit import PrivacyUnit
from dperm.rows.digests import DigestedRows, IdColumn, Numbering
from dperm.rows.encoder import Encoder
from dperm.rows.encoding import check_table
from dperm.rows.files import check_columns, filled_pieces, open_pieces
from dperm.rows.kept import cache_folder
from dperm.rows.memory import MemoryBudget
from dperm.rows.pieces import Piece
from dperm.rows.row_facts import ReadSource
from dperm.schema import Schema


class SchemaSource(ReadSource):
    """Rows outside of this process's memory.

    Parameters
    ----------
    data, memory, cache, n_rows
        As of `Table`.
    schema : Schema, optional
        Says how rows are encoded; a fit hands over its own.
    class_weights : sequence of float, optional
        A public weight for every declared class.
    """

    # Where its rows are, for messages.
    _where: ClassVar[str]

    def __init__(
        self, data: Any, schema: Schema | None = None, *, memory: int | str | MemoryBudget = "1 GB", cache: Any = True,
        class_weights: Sequence[float] | None = None, n_rows: int | None = None,
    ) -> None:  # fmt: skip
        self._data, self._budget, self._cache = data, MemoryBudget.of(memory), cache
        self._class_weights, self._declared = class_weights, n_rows
        self._encoder: Encoder | None = None
        self._membership: Membership | None = None
        self._opened: list[Any] = []
        self._forget()
        if schema is not None:
            self._encode_by(schema)

    @abstractmethod
    def _forget(self) -> None:
        """Share nothing that is kept of encoded rows with the source that this one was copied from."""

    @abstractmethod
    def _digested(self, ids: IdColumn) -> Iterator[DigestedRows]:
        """A pass over the column of ids alone."""

    def _use(self, encoder: Encoder) -> None:
        """Open the table, and check that it has the columns of the encoder's schema."""
        schema = encoder.schema
        if not self._opened:
            # With a unit, a schema's n is that of units.
            declared = schema.n if self._declared is None and schema.unit is None else self._declared
            self._opened = self._cut(open_pieces(self._data, schema.header, schema.separator, n_rows=declared))
        check_columns(self._opened, encoder.columns)
        check_table(self._opened[0].empty(), None, schema)

    def _cut(self, pieces: list[Piece]) -> list[Piece]:
        """The pieces as they are read."""
        return pieces

    def _fill(self, n_missing: int) -> bool:
        """Take this many empty lines at the ends of CSV files for rows; whether there are any."""
        before, self._opened = self._opened, filled_pieces(self._opened, n_missing)
        return self._opened != before

    def _encode_by(self, schema: Schema) -> None:
        encoder, before = Encoder(schema, self._class_weights), self._encoder
        self._use(encoder)
        if before is not None and (before.schema.unit, before.schema.missing) != (schema.unit, schema.missing):
            self._membership = self._chosen = None
        self._encoder = encoder

    @property
    def unit(self) -> PrivacyUnit | None:
        """What the schema declares."""
        return None if self._encoder is None else self._encoder.schema.unit

    def _members(self) -> Membership | None:
        """Whose every row is: read when it is first needed."""
        schema = self._encoding().schema
        if schema.unit is not None and self._membership is None:
            self._membership = self._numbered(schema.unit, schema.missing)
            # A unit that is replaced by an empty line must not end a fit: it is a row without an id.
            n_missing = (schema.n or 0) - self._membership.n
            if n_missing > 0 and schema.unit.missing == "separate" and self._fill(n_missing):
                self._membership = self._numbered(schema.unit, schema.missing)
        return self._membership

    def _numbered(self, unit: PrivacyUnit, missing: Sequence[str]) -> Membership:
        rows = self._digested(IdColumn.of(unit, missing, self._budget.ids))
        return Numbering.of(rows, self._budget.ids, self._disk()).membership(unit)

    def _disk(self) -> Path | None:
        """The folder for what is known of units."""
        return cache_folder(self._cache)

    def with_schema(self, schema: Schema, class_weights: Sequence[float] | None = None) -> Self:
        """The same table, encoded by this schema; nothing that is kept of the rows is shared."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        other._passes = 0
        other._forget()
        if class_weights is not None:
            other._class_weights = class_weights
        other._encode_by(schema)
        return other

    @property
    def n_features(self) -> int:
        """Number of columns of an encoded row."""
        return self._encoding().schema.n_features

    @property
    def room(self) -> int:
        """A share of the memory."""
        return self._budget.sums

    def _encoding(self) -> Encoder:
        if self._encoder is None:
            raise InvalidParameterError(f"rows {self._where} require a schema: pass schema=….")
        return self._encoder
