"""What sources share whose raw rows are encoded by a schema when they are first needed."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from dperm.errors import InvalidParameter
from dperm.schema import Schema
from dperm.trusted.sources.base import Report, Source
from dperm.trusted.sources.encoder import Encoder
from dperm.trusted.sources.files import open_pieces
from dperm.trusted.sources.memory import bytes_of
from dperm.trusted.sources.pieces import Piece


class SchemaSource(Source):
    """Rows outside of this process's memory; see a concrete one for the parameters."""

    # Where its rows are, for messages.
    _where: ClassVar[str]

    def __init__(
        self, data: Any, memory: int | str, cache: Any, class_weights: Sequence[float] | None, n_rows: int | None
    ) -> None:
        self._data, self._memory, self._cache = data, bytes_of(memory), cache
        self._class_weights, self._declared = class_weights, n_rows
        self._encoder: Encoder | None = None
        self._report: Report | None = None
        self._passes = 0

    @abstractmethod
    def _use(self, encoder: Encoder) -> None:
        """Open the table, and check that it has the columns of the encoder's schema."""

    @abstractmethod
    def _forget(self) -> None:
        """Share nothing that is kept of encoded rows with the source that this one was copied from."""

    def _encode_by(self, schema: Schema) -> None:
        if schema.unit is not None:
            raise InvalidParameter(f"rows {self._where} cannot be protected by unit yet: read them into memory.")
        encoder = Encoder(schema, self._class_weights)
        self._use(encoder)
        self._encoder = encoder

    def _open_pieces(self, schema: Schema) -> list[Piece]:
        declared = schema.n if self._declared is None else self._declared
        return open_pieces(self._data, schema.header, schema.separator, n_rows=declared)

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

    def watch(self, report: Report) -> None:
        """Called with the number of the pass and the rows that it has read."""
        self._report = report

    def _encoding(self) -> Encoder:
        if self._encoder is None:
            raise InvalidParameter(f"rows {self._where} are read by a schema: give the model one (schema=…).")
        return self._encoder
