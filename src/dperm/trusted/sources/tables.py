"""Rows in a table with a schema."""

from typing import Any

from dperm.schema import Classes
from dperm.trusted.ranges import release_ranges
from dperm.trusted.rows import Rows, weights_by_class
from dperm.trusted.sources.encoding import check_table, count_rows, encode_rows, encode_target, label_numbers


class TableSource:
    """INTERIM."""

    def __init__(self, table: Any, y: Any, schema: Any, class_weights: Any = None) -> None:
        check_table(table, y, schema)
        self.n_rows, self.n_features = count_rows(table), schema.n_features
        self.schema = schema
        self._parts = table, y, class_weights

    def open(self, problem: Any, queries: Any, randomness: Any, noisy: bool) -> Any:
        """INTERIM."""
        table, y, class_weights = self._parts
        schema = release_ranges(table, y, self.schema, queries, randomness, noisy=noisy)
        weights = None
        if class_weights is not None and isinstance(schema.target, Classes):
            weights = weights_by_class(label_numbers(table, y, schema), class_weights)
        X, target = (
            encode_rows(table, schema, fitting=True),
            encode_target(table, y, schema, problem.loss.clipped_range or (-1.0, 1.0)),
        )
        return Rows.from_table(X, target, problem, weights), schema
