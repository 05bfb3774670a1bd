"""Rows by the unit that they belong to: how many are used, what each weighs, and which are drawn together.

All rows of a unit together weigh at most 1, whatever the table holds, and what becomes of them depends on that unit's
rows alone. Proof: docs/proofs/units.md.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dperm.trusted.exact.words import Stream, long_words, stream_of
from dperm.unit import Unit

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Takes what rounding may add off the weights of a unit: of 1/m, and of its product with another weight.
_ROUNDED_DOWN = 1.0 - 2.0**-50
# Counts add up whole multiples of this, so that they are exact.
_SHARE = 2**32


@dataclass(frozen=True, eq=False, repr=False)
class Members:
    """Rows of a block by unit.

    Attributes
    ----------
    units : array
        Numbers of the units that have a row in the block, rising.
    rows : array
        Rows, those of one unit after those of another.
    starts : array
        Where the rows of every unit begin in `rows`, and where the last ones end.
    n : int
        How many units the table has.
    """

    units: Indices
    rows: Indices
    starts: Indices
    n: int

    @classmethod
    def of(cls, numbers: NDArray[np.int64], n: int) -> "Members":
        """Of the number of every row's unit, −1 for a row of none."""
        order = np.argsort(numbers, kind="stable")
        order = order[np.searchsorted(numbers[order], 0) :]
        units, starts = np.unique(numbers[order], return_index=True)
        return cls(units.astype(np.intp), order, np.append(starts, order.size).astype(np.intp), n)

    def rows_of(self, chosen: Indices) -> tuple[Indices, Indices]:
        """The rows of the chosen units, and how many each has here."""
        if not self.units.size:
            return np.empty(0, np.intp), np.zeros(chosen.size, np.intp)
        places = np.minimum(np.searchsorted(self.units, chosen), self.units.size - 1)
        counts = np.where(self.units[places] == chosen, self.starts[places + 1] - self.starts[places], 0)
        skipped = np.repeat(self.starts[places] - (np.cumsum(counts) - counts), counts)
        return self.rows[skipped + np.arange(skipped.size)], counts


@dataclass(frozen=True, eq=False, repr=False)
class UnitRows:
    """Whose every row is, and what it weighs.

    Attributes
    ----------
    numbers : array of int
        Number of the row's unit, −1 for a row that belongs to none and is ignored.
    weights : array
        In [0, 1]; those of a unit add up to at most 1. 0 for a row that is not used.
    n : int
        How many units the table has.
    """

    numbers: NDArray[np.int64]
    weights: Array
    n: int

    def __getitem__(self, rows: slice) -> "UnitRows":
        """Those of some rows."""
        return UnitRows(self.numbers[rows], self.weights[rows], self.n)

    @cached_property
    def shares(self) -> NDArray[np.int64]:
        """The weights in whole multiples of 2⁻³², rounded down: their sums are exact."""
        return np.floor(self.weights * _SHARE).astype(np.int64)


def total_shares(shares: NDArray[np.int64]) -> Array:
    """Sums of shares as numbers."""
    return np.asarray(shares / _SHARE, dtype=np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class Membership:
    """The units of a table's rows, before anything is drawn.

    Attributes
    ----------
    unit : Unit
        What was declared.
    numbers : array of int
        Number of the row's unit, −1 for a row of none.
    n : int
        How many units there are.
    """

    unit: Unit
    numbers: NDArray[np.int64]
    n: int

    @classmethod
    def of(cls, unit: Unit, codes: NDArray[np.int64]) -> "Membership":
        """Of codes that are the same for rows of the same unit, 0, 1, 2 …, and −1 for a row without a usable id."""
        n = int(codes.max(initial=-1)) + 1
        if unit.missing == "ignore":
            return cls(unit, codes, n)
        alone = codes < 0
        numbers = codes.copy()
        numbers[alone] = n + np.arange(np.count_nonzero(alone))
        return cls(unit, numbers, n + int(np.count_nonzero(alone)))

    def drawn(self, key: Stream) -> UnitRows:
        """Which rows are used: all of a unit, or as many as it may have, each choice of them as likely as any other.

        Parameters
        ----------
        key : array of eight words
            Of the fit, used for nothing else.
        """
        used = self.numbers >= 0
        # A row of none looks at the last count, which is there even if there are no units.
        counts = np.bincount(self.numbers[used], minlength=max(self.n, 1))
        limit = self.unit.max_rows
        if limit is not None:
            crowded = np.flatnonzero(used & (counts[self.numbers] > limit))
            order = crowded[np.lexsort((long_words(stream_of(key), crowded.size), self.numbers[crowded]))]
            whose = self.numbers[order]
            first = np.searchsorted(whose, whose)
            used[order[np.arange(order.size) - first >= limit]] = False
            counts = np.minimum(counts, limit)
        whole = limit if self.unit.contribution == "limit" and limit is not None else counts[self.numbers]
        weights = np.where(used, _ROUNDED_DOWN / np.maximum(whole, 1), 0.0)
        return UnitRows(self.numbers, weights, self.n)

    def remarks(self) -> list[str]:
        """What whoever holds the rows should know: that a unit is no more than a row, or that many rows are not used.

        Counts, and nothing that leaves: `row_facts.warn_about` says where they may be shown.
        """
        counts = np.bincount(self.numbers[self.numbers >= 0], minlength=self.n)
        word, n_rows = self.unit.word, max(int(counts.sum()), 1)
        if self.n > 1 and (counts <= 1).all():
            return [f"no {word} has more than one row, so what is protected is one row"]
        if self.unit.max_rows is None:
            return []
        beyond = int(np.maximum(counts - self.unit.max_rows, 0).sum()) / n_rows
        if beyond <= _MANY:
            return []
        return [f"{100.0 * beyond:.0f} % of the rows are beyond the {self.unit.max_rows} of a {word}, and are not used"]


# Fewer rows that are not used are not worth a word.
_MANY = 0.1
