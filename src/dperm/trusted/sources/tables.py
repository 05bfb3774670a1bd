"""Rows of a table that a schema describes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.problem import Problem
from dperm.schema import Amount, Schema
from dperm.schema.binning import cell_counts
from dperm.trusted.block import Block
from dperm.trusted.row_facts import count_outside
from dperm.trusted.sources.base import InMemorySource, check_weights
from dperm.trusted.sources.columns import Columns, as_numbers
from dperm.trusted.sources.encoding import (
    check_table,
    count_rows,
    encode_rows,
    encode_target,
    label_numbers,
    target_numbers,
    within_range,
)
from dperm.trusted.sources.labels import weights_by_class

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
        Public weights per row, instead.
    """

    def __init__(
        self, table: Any, y: Any, schema: Schema, class_weights: Sequence[float] | None = None, weights: Any = None
    ) -> None:
        super().__init__()
        check_table(table, y, schema)
        check_weights(weights, count_rows(table))
        self._table, self._y, self._schema = table, y, schema
        self._class_weights, self._weights = class_weights, weights

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return count_rows(self._table)

    @property
    def n_features(self) -> int:
        """Number of columns of an encoded row."""
        return self._schema.n_features

    def numbers(self, column: str) -> Iterator[Array]:
        """One column, the target among them, as numbers."""
        if column == self._schema.target.column:
            yield target_numbers(self._table, self._y, self._schema)
        else:
            yield as_numbers(Columns(self._table).arrow(column), column, self._schema.missing)

    def cell_counts(self, column: str) -> Iterator[Array]:
        """Counts over the range that the schema has now."""
        rule = self._schema.numbers[column]
        for numbers in self.numbers(column):
            yield cell_counts(within_range(numbers, rule), rule.bounds)

    def with_schema(self, schema: Schema) -> "TableSource":
        """The same table under another schema."""
        return type(self)(self._table, self._y, schema, self._class_weights, self._weights)

    def _read(self, problem: Problem) -> Block:
        weights = self._weights
        if self._class_weights is not None:
            weights = weights_by_class(label_numbers(self._table, self._y, self._schema), self._class_weights)
        X = encode_rows(self._table, self._schema, fitting=True)
        # The declared range of a number becomes the range of the loss.
        target = encode_target(self._table, self._y, self._schema, problem.loss.clipped_range or (-1.0, 1.0))
        block = Block.from_table(X, target, problem, weights)
        if block.facts is None or not isinstance(self._schema.target, Amount):
            return block
        numbers = target_numbers(self._table, self._y, self._schema)
        outside = count_outside(numbers, *self._schema.target.number.bounds)
        return replace(block, facts=replace(block.facts, n_outside=outside))
