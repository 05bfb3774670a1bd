"""A source with made-up rows after its own, for audits by one fit."""

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dperm.problem import Problem
from dperm.schema import Schema
from dperm.trusted.block import Block
from dperm.trusted.sources.arrays import ArraySource
from dperm.trusted.sources.base import Source

Array = NDArray[np.float64]


class WithCanaries(Source):
    """The rows of a source, then made-up ones, already encoded.

    Parameters
    ----------
    source : Source
        The sensitive rows.
    X, y : array
        The made-up rows; one with a NaN is ignored, and keeps its place.
    """

    def __init__(self, source: Source, X: Array, y: Array) -> None:
        self._source, self._canaries = source, ArraySource(X, y) if len(y) else None

    @property
    def n_rows(self) -> int:
        """Number of rows, the made-up ones included."""
        return self._source.n_rows + (0 if self._canaries is None else self._canaries.n_rows)

    @property
    def n_features(self) -> int:
        """Number of columns of an encoded row."""
        return self._source.n_features

    def blocks(self, problem: Problem) -> Iterable[Block]:
        """Those of the source, and one more."""
        own, more = self._source.blocks(problem), () if self._canaries is None else self._canaries.blocks(problem)
        return (*own, *more) if isinstance(own, tuple) else chain(own, more)

    def numbers(self, column: str) -> Iterator[Array]:
        """Private ranges are found on the sensitive rows."""
        return self._source.numbers(column)

    def cell_counts(self, column: str) -> Iterator[Array]:
        """So are private bins."""
        return self._source.cell_counts(column)

    def with_schema(self, schema: Schema) -> Source:
        """The same rows under another schema; the made-up ones are encoded already."""
        other = WithCanaries.__new__(WithCanaries)
        other._source, other._canaries = self._source.with_schema(schema), self._canaries
        return other
