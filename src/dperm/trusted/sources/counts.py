"""Counts of the values of columns, before rows are encoded: for private ranges and bins.

Plain data, so that it can be sent to where the rows are. Counts are whole numbers, so their sums are exact.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.schema import Schema
from dperm.schema.binning import cell_counts
from dperm.trusted.sources.encoding import within_range

Array = NDArray[np.float64]


class ColumnPart(ABC):
    """What the values of some columns add to a vector of counts."""

    columns: tuple[str, ...]

    @abstractmethod
    def of(self, numbers: Mapping[str, Array], schema: Schema) -> Array:
        """What values add, NaN where there is none."""


@dataclass(frozen=True, repr=False)
class BeyondPart(ColumnPart):
    """How many values lie above and below every candidate for the end of a range."""

    columns: tuple[str, ...]
    candidates: tuple[float, ...]

    def of(self, numbers: Mapping[str, Array], schema: Schema) -> Array:
        """Two rows of counts; a missing value counts in neither."""
        (values,) = (numbers[name] for name in self.columns)
        known, candidates = np.sort(values[~np.isnan(values)]), np.asarray(self.candidates)
        above = known.size - np.searchsorted(known, candidates, side="right")
        below = np.searchsorted(known, candidates, side="left")
        return np.stack([above, below]).astype(np.float64)


@dataclass(frozen=True, repr=False)
class CellsPart(ColumnPart):
    """How many values are in every fine cell of a column's range, one column after the other."""

    columns: tuple[str, ...]

    def of(self, numbers: Mapping[str, Array], schema: Schema) -> Array:
        """Counts over the ranges that the schema has now."""
        rules = {name: schema.numbers[name] for name in self.columns}
        return np.concatenate(
            [cell_counts(within_range(numbers[name], rule), rule.bounds) for name, rule in rules.items()]
        )
