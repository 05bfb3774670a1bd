"""Rows of a table in memory that a schema describes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.source import EncodedRows
from dperm.kernel.units import Membership
from dperm.problem import Problem
from dperm.rows.base import InMemorySource
from dperm.rows.columns import Columns, as_arrow
from dperm.rows.encoder import Encoder
from dperm.rows.encoding import check_table, count_rows
from dperm.rows.ids import codes_of_column
from dperm.rows.weights import weight_numbers
from dperm.schema import Schema

Array = NDArray[np.float64]


class TableSource(InMemorySource):
    """A pandas, polars or Arrow table in memory, encoded by its schema.

    Parameters
    ----------
    table : pandas, polars or Arrow table
        It must have the schema's columns.
    y : column of values, or None
        The target; None for the table's own column.
    schema : Schema
        Says how rows are encoded.
    class_weights : sequence of float, optional
        A public weight for every declared class.
    weights : array, optional
        Weight per row, as for `ArraySource`; it multiplies that of the row's class.
    membership : Membership, optional
        Whose every row is by this schema, if that is known already.
    """

    def __init__(
        self, table: Any, y: Any, schema: Schema, class_weights: Sequence[float] | None = None, weights: Any = None,
        membership: Membership | None = None,
    ) -> None:  # fmt: skip
        check_table(table, y, schema)
        super().__init__(membership_of(table, schema) if membership is None else membership)
        self._table, self._y = table, None if y is None else as_arrow(y)
        self._weights = weight_numbers(weights, count_rows(table))
        self._encoder = Encoder(schema, class_weights)

    @property
    def _n_rows(self) -> int:
        """Number of rows."""
        return count_rows(self._table)

    @property
    def n_features(self) -> int:
        """Number of columns of an encoded row."""
        return self._encoder.schema.n_features

    def _columns(self, names: Sequence[str]) -> tuple[Schema, list[Mapping[str, Array]]]:
        """All rows at once."""
        numbers = {name: self._encoder.numbers(self._table, self._y, name) for name in names}
        return self._encoder.schema, [numbers]

    def with_schema(self, schema: Schema, class_weights: Sequence[float] | None = None) -> "TableSource":
        """The same table under another schema; ids are read again only if they are others."""
        weights, before = self._encoder.class_weights if class_weights is None else class_weights, self._encoder.schema
        same = (before.unit, before.missing) == (schema.unit, schema.missing)
        known = self._membership if same else None
        return type(self)(self._table, self._y, schema, weights, self._weights, known)

    def _read(self, problem: Problem) -> EncodedRows:
        return self._encoder.all_rows(self._table, problem, self._y, self._weights)


def membership_of(table: Any, schema: Schema) -> Membership | None:
    """Whose every row is, if the schema says that a unit is protected."""
    if schema.unit is None:
        return None
    codes = codes_of_column(Columns(table).arrow(schema.unit.name), schema.unit.name, schema.missing)
    return Membership.of(schema.unit, codes)
