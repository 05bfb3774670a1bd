"""Rows in an array or a CSR matrix."""

from typing import Any

import numpy as np

from dperm.errors import InvalidParameter
from dperm.trusted.rows import Rows, table_shape


class ArraySource:
    """INTERIM."""

    schema = None

    def __init__(self, X: Any, y: Any, weights: Any = None) -> None:
        self.n_rows, self.n_features = table_shape(X, y)
        if weights is not None and np.shape(weights) != (self.n_rows,):
            raise InvalidParameter(
                f"weights must be one number per row: {self.n_rows} rows, weights of shape {np.shape(weights)}."
            )
        self._parts = X, y, weights

    def open(self, problem: Any, queries: Any, randomness: Any, noisy: bool) -> Any:
        """INTERIM."""
        X, y, weights = self._parts
        return Rows.from_table(X, y, problem, weights), None
