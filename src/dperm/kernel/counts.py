"""Counts of the values of columns, before rows are encoded: for private ranges and bins.

Plain data, so that it can be sent to where the rows are. Counts are whole numbers, or whole multiples of a small share
where rows are weighted by unit, so their sums are exact.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.units import UnitRows, total_shares
from dperm.schema import Schema
from dperm.schema.binning import cell_counts

Array = NDArray[np.float64]


class ColumnPart(ABC):
    """What the values of some columns add to a vector of counts."""

    columns: tuple[str, ...]

    @abstractmethod
    def of(self, numbers: Mapping[str, Array], schema: Schema, units: UnitRows | None = None) -> Array:
        """What values add, NaN where there is none: each 1, or the weight that its row has in its unit."""


@dataclass(frozen=True, repr=False)
class BeyondPart(ColumnPart):
    """How many values lie above and below every candidate for the end of a range."""

    columns: tuple[str, ...]
    candidates: tuple[float, ...]

    def of(self, numbers: Mapping[str, Array], schema: Schema, units: UnitRows | None = None) -> Array:
        """Two rows of counts; a missing value counts in neither."""
        (values,) = (numbers[name] for name in self.columns)
        known, candidates = ~np.isnan(values), np.asarray(self.candidates)
        order = np.argsort(values[known], kind="stable")
        rising = values[known][order]
        not_above = np.searchsorted(rising, candidates, side="right")
        below = np.searchsorted(rising, candidates, side="left")
        if units is None:
            return np.stack([rising.size - not_above, below]).astype(np.float64)
        up_to = np.concatenate([[0], np.cumsum(units.shares[known][order])])
        return total_shares(np.stack([up_to[-1] - up_to[not_above], up_to[below]]))


@dataclass(frozen=True, repr=False)
class CellsPart(ColumnPart):
    """How many values are in every fine cell of a column's range, one column after the other."""

    columns: tuple[str, ...]

    def of(self, numbers: Mapping[str, Array], schema: Schema, units: UnitRows | None = None) -> Array:
        """Counts over the ranges that the schema has now."""
        rules = {name: schema.numbers[name] for name in self.columns}
        shares = None if units is None else units.shares
        counts = [cell_counts(rule.in_range(numbers[name]), rule.bounds, shares) for name, rule in rules.items()]
        return np.concatenate(counts) if units is None else total_shares(np.concatenate(counts))
