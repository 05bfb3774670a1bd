"""What a source of rows is."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.guarantee import ROWS_ALLOWED_PER_DECLARED, Adjacency
from dperm.errors import InvalidParameter
from dperm.problem import Problem
from dperm.schema import Schema
from dperm.trusted.block import Block

Array = NDArray[np.float64]


class Source(ABC):
    """Rows in blocks. Whatever the source, `Block.from_table` bounds every row.

    A source may give any number of blocks of any size; no sum may assume that there is one. It is made for one fit.
    """

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows, read without looking at a value."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of columns of an encoded row: public."""

    @abstractmethod
    def blocks(self, problem: Problem) -> Iterable[Block]:
        """Encoded and bounded rows, in the same blocks and the same order at every call."""

    def numbers(self, column: str) -> Iterator[Array]:
        """The values of one column, block by block, NaN where there is none: for private ranges."""
        raise InvalidParameter(f"these rows have no schema, so {column!r} has no range to find.")

    def cell_counts(self, column: str) -> Iterator[Array]:
        """How many values of a column are in every fine cell of its range, block by block: for private bins."""
        raise InvalidParameter(f"these rows have no schema, so {column!r} has no bins to find.")

    def with_schema(self, schema: Schema) -> "Source":
        """The same rows, encoded by this schema."""
        raise InvalidParameter("these rows have no schema, so no other belongs to them.")

    def __reduce__(self) -> Any:
        """Rows are not to be written anywhere."""
        raise TypeError("rows cannot be pickled or copied: they never leave the trusted boundary.")


class InMemorySource(Source):
    """Rows that are read once per fit and kept, as one block."""

    def __init__(self) -> None:
        self._kept: tuple[Problem, tuple[Block, ...]] | None = None

    @abstractmethod
    def _read(self, problem: Problem) -> Block:
        """Encode and bound all rows."""

    def blocks(self, problem: Problem) -> tuple[Block, ...]:
        """One block."""
        if self._kept is None or self._kept[0] is not problem:
            self._kept = (problem, (self._read(problem),))
        return self._kept[1]


def check_weights(weights: Any, n_rows: int) -> None:
    """Raise unless there is one weight per row, or none."""
    if weights is None:
        return
    try:
        shape: tuple[int, ...] | None = np.shape(weights)
    except ValueError:  # lists of different lengths
        shape = None
    if shape != (n_rows,):
        raise InvalidParameter(f"weights must be one number per row: {n_rows} rows, weights of shape {shape}.")


def check_row_count(n_rows: int, n: int, adjacency: Adjacency) -> None:
    """Raise if the table is not one that the guarantee speaks of."""
    if adjacency is Adjacency.REPLACE_ONE and n_rows != n:
        raise InvalidParameter(
            f"under replace_one the public n is the number of rows: {n_rows} rows, n = {n}; "
            "for folds of a table declare no n."
        )
    if n_rows > ROWS_ALLOWED_PER_DECLARED * n + 1:
        raise InvalidParameter(f"the declared n = {n} is too small for this table; declare about its number of rows.")
