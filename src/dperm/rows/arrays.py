"""Rows in an array, or in a sparse matrix."""

from typing import Any

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.kernel.source import EncodedRows
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Problem
from dperm.rows.base import InMemorySource
from dperm.rows.cells import as_rows, number_table
from dperm.rows.ids import membership_of_array
from dperm.rows.labels import numeric_target, one_by_one
from dperm.rows.row_facts import facts_of
from dperm.rows.weights import weight_numbers


class ArraySource(InMemorySource):
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
        self._shape = table_shape(X, y)
        if (groups is None) != (unit is None):
            raise InvalidParameterError("unit and groups must be passed together.")
        super().__init__(membership_of_array(groups, self._shape[0], unit))
        self._X, self._y, self._weights = X, y, weight_numbers(weights, self._shape[0])

    @property
    def _n_rows(self) -> int:
        """Number of rows."""
        return self._shape[0]

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self._shape[1]

    def _read(self, problem: Problem) -> EncodedRows:
        target = numeric_target(np.asarray(self._y), majority=self.unit is None)
        table = number_table(self._X, majority=self.unit is None)
        return EncodedRows(table, target, self._weights, facts_of)


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
