"""A source with synthetic rows, or synthetic units of rows, after its own, for audits by one fit."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.block import Block
from dperm.kernel.counts import ColumnPart
from dperm.kernel.exact.words import Stream
from dperm.kernel.objectives import Objective
from dperm.kernel.parts import RowPart
from dperm.kernel.source import Source
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Problem
from dperm.rows.arrays import ArraySource
from dperm.schema import Schema

Array = NDArray[np.float64]

# Of the synthetic block, behind those of any source: its samples are drawn from a stream of its own.
_PLACE = 2**32 - 1


class WithCanaries(Source):
    """The rows of a source, then synthetic ones, already encoded.

    Parameters
    ----------
    source : Source
        The sensitive rows.
    X, y : array
        The synthetic rows; one with a NaN is ignored, and keeps its position.
    groups : array of int, optional
        The synthetic unit of every row, where those of the source are protected by unit.
    """

    def __init__(self, source: Source, X: Array, y: Array, groups: NDArray[np.int64] | None = None) -> None:
        self._source = source
        self._canaries = ArraySource(X, y, None, groups, source.unit) if len(y) else None

    @property
    def _n_rows(self) -> int:
        """Number of rows, the synthetic ones included."""
        return self._source._n_rows + (0 if self._canaries is None else self._canaries._n_rows)

    @property
    def unit(self) -> PrivacyUnit | None:
        """That of the source."""
        return self._source.unit

    @property
    def _n_units(self) -> int:
        """Units, or rows, the synthetic ones included."""
        return self._source._n_units + (0 if self._canaries is None else self._canaries._n_units)

    def draw_units(self, key: Stream) -> None:
        """Of the source; no synthetic unit has more rows than are used."""
        self._source.draw_units(key)

    def _warn(self, facts: Sequence[Any]) -> None:
        """As the source does."""
        self._source._warn(facts)

    @property
    def n_features(self) -> int:
        """Number of columns of an encoded row."""
        return self._source.n_features

    def _total(self, problem: Problem, part: RowPart, objective: Objective, pool: Executor) -> Any:
        """That of the source, and of one more block."""
        own = self._source._total(problem, part, objective, pool)
        if self._canaries is None:
            return own
        (block,) = self._canaries._blocks(problem)
        if block.units is not None:
            # Numbered behind those of the source: the draws of a sample go on where its own end.
            block = replace(block, units=block.units + self._source._n_units, n_units=self._n_units)
        return own + part.of(block, _PLACE, objective, pool)

    def _only_block(self, problem: Problem) -> Block | None:
        """Without synthetic rows that of the source."""
        return self._source._only_block(problem) if self._canaries is None else None

    def _count(self, part: ColumnPart) -> Array:
        """Private ranges and bins are found on the sensitive rows."""
        return self._source._count(part)

    def with_schema(self, schema: Schema, class_weights: Sequence[float] | None = None) -> Source:
        """The same rows under another schema; the synthetic ones are encoded already."""
        other = WithCanaries.__new__(WithCanaries)
        other._source, other._canaries = self._source.with_schema(schema, class_weights), self._canaries
        return other

    def close(self) -> None:
        """Drop what the source keeps."""
        self._source.close()
