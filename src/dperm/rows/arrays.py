"""Rows in memory: in an array or a sparse matrix, or in a table that a schema describes."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError
from dperm.kernel.source import EncodedRows, LocalSource, TablePiece
from dperm.kernel.units import Membership
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Problem
from dperm.rows.cells import as_rows, number_table
from dperm.rows.columns import Columns, as_arrow
from dperm.rows.encoder import Encoder
from dperm.rows.encoding import check_table
from dperm.rows.ids import membership_of, membership_of_array
from dperm.rows.labels import numeric_target, one_by_one
from dperm.rows.row_facts import ReadSource, facts_of
from dperm.rows.weights import weight_numbers
from dperm.schema import Schema

Array = NDArray[np.float64]


class _InMemorySource(ReadSource, LocalSource):
    """Rows that are read once per fit and kept."""

    def __init__(self, n_rows: int, n_features: int, membership: Membership | None, weights: Any) -> None:
        self._shape, self._membership = (n_rows, n_features), membership
        self._weights = weight_numbers(weights, n_rows)

    @property
    def _n_rows(self) -> int:
        """Number of rows."""
        return self._shape[0]

    @property
    def n_features(self) -> int:
        """Number of columns of an encoded row."""
        return self._shape[1]

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


class ArraySource(_InMemorySource):
    """An array in memory.

    Parameters
    ----------
    X : array or CSR matrix of shape (rows, columns)
        Numbers; dense rows are not copied and sparse ones not densified.
    y : array of shape (rows,)
        Numeric targets.
    weights : array, optional
        Weight per row. One that is not a number or negative ignores its row; a larger one than the problem's bound is
        clipped to it.
    groups : array, optional
        The id of every row's unit: a person's number, say.
    unit : PrivacyUnit, optional
        What the ids stand for.
    """

    def __init__(
        self, X: Any, y: Any, weights: Any = None, groups: Any = None, unit: PrivacyUnit | None = None
    ) -> None:
        X, y = as_rows(X, majority=unit is None), one_by_one(y)
        n_rows, n_features = table_shape(X, y)
        if (groups is None) != (unit is None):
            raise InvalidParameterError("unit and groups must be passed together.")
        super().__init__(n_rows, n_features, membership_of_array(groups, n_rows, unit), weights)
        self._X, self._y = X, y

    def _read(self, problem: Problem) -> EncodedRows:
        target = numeric_target(np.asarray(self._y), majority=self.unit is None)
        table = number_table(self._X, majority=self.unit is None)
        return EncodedRows(table, target, self._weights, facts_of)


class TableSource(_InMemorySource):
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
        whose = membership_of(table, schema) if membership is None else membership
        super().__init__(len(Columns(table)), schema.n_features, whose, weights)
        self._table, self._y = table, None if y is None else as_arrow(y)
        self._encoder = Encoder(schema, class_weights)

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


def table_shape(X: Any, y: Any) -> tuple[int, int]:
    """Number of rows and columns, read without looking at a value."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X, dtype=object).shape
    if len(shape) != 2:
        raise InvalidParameterError(f"the table must have two dimensions (rows and columns), got {len(shape)}.")
    n_targets = y.shape if hasattr(y, "shape") else np.asarray(y, dtype=object).shape
    if len(n_targets) != 1:
        raise InvalidParameterError(f"the target must have one dimension, got {len(n_targets)}.")
    if shape[0] != n_targets[0]:
        raise InvalidParameterError(f"the table has {shape[0]} rows and the target {n_targets[0]}.")
    if shape[0] < 1 or shape[1] < 1:
        raise InvalidParameterError(f"the table needs at least one row and one column, got {shape[0]} × {shape[1]}.")
    return int(shape[0]), int(shape[1])
