"""Rows by the unit that they belong to: how many are used, what each weighs, and which are drawn together.

All rows of a unit together weigh at most 1, whatever the table holds, and what becomes of them depends on that unit's
rows alone. Proof: docs/proofs/units.md.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.errors import InvalidTableError, PlanExceededError
from dperm.kernel import native
from dperm.kernel.exact.words import Stream, stream_of
from dperm.privacy.unit import PrivacyUnit

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
# Of units: of 32 bits where that is enough, as a table may have very many rows.
Numbers = NDArray[np.signedinteger[Any]]

# Takes what rounding may add off the weights of a unit: of 1/m, and of its product with another weight.
_ROUNDED_DOWN = 1.0 - 2.0**-50
# Counts add up whole multiples of this, so that they are exact.
_SHARE = 2**32
# Rows that are counted at once.
_AT_ONCE = 2**18


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

    units: Numbers
    rows: Numbers
    starts: Numbers
    n: int

    @classmethod
    def of(cls, numbers: Numbers, n: int) -> "Members":
        """Group rows by unit index (−1: no unit)."""
        used = np.flatnonzero(numbers >= 0)
        small = np.int32 if max(n, numbers.size) < 2**31 else np.int64
        if n <= 4 * used.size:  # counted once and put into place, which is faster than sorting
            placed = sparse.coo_matrix((np.ones(used.size, np.int8), (numbers[used], used)), (n, numbers.size)).tocsr()
            units, order, starts = np.flatnonzero(np.diff(placed.indptr)), placed.indices, placed.indptr
            starts = starts[np.append(units, n)]
        else:
            if small is np.int32:  # a unit and its row as one number, as sorting numbers is faster than sorting places
                order = np.sort((numbers[used].astype(np.int64) << 32) | used) & (2**32 - 1)
            else:
                order = used[np.argsort(numbers[used], kind="stable")]
            whose = numbers[order]
            first = np.flatnonzero(np.diff(whose, prepend=-1))
            units, starts = whose[first], np.append(first, whose.size)
        return cls(units.astype(small), order.astype(small), starts.astype(small), n)

    def rows_of(self, chosen: Indices) -> tuple[Indices, Indices]:
        """The rows of the chosen units, and how many each has here."""
        if not self.units.size:
            return np.empty(0, np.intp), np.zeros(chosen.size, np.intp)
        if self.units.size == self.n:  # all of them, each in its place
            places, counts = chosen, self.starts[chosen + 1] - self.starts[chosen]
        else:
            wanted = chosen.astype(self.units.dtype)  # else all units were converted
            places = np.minimum(np.searchsorted(self.units, wanted), self.units.size - 1)
            counts = np.where(self.units[places] == wanted, self.starts[places + 1] - self.starts[places], 0)
        counts = counts.astype(np.intp)
        skipped = np.repeat(self.starts[places] - (np.cumsum(counts) - counts), counts)
        return self.rows[skipped + np.arange(skipped.size)].astype(np.intp), counts


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

    numbers: Numbers
    weights: Array
    n: int

    def __getitem__(self, rows: slice) -> "UnitRows":
        """Those of some rows."""
        return UnitRows(self.numbers[rows], self.weights[rows], self.n)

    def check(self) -> None:
        """Raise unless the rows of every unit together weigh at most 1, and rows of none nothing."""
        inside = (self.numbers >= 0) & (self.numbers < self.n)
        totals, counts = (np.bincount(self.numbers[inside], values, self.n) for values in (self.weights[inside], None))
        light = (self.weights >= 0.0).all() and (totals <= 1.0 + counts * 2.0**-52).all()
        if not light or self.weights[~inside].any():
            raise PlanExceededError("the rows of a unit weigh more than one row together.")

    @cached_property
    def shares(self) -> NDArray[np.int64]:
        """The weights in whole multiples of 2⁻³², rounded down: their sums are exact."""
        return np.floor(self.weights * _SHARE).astype(np.int64)


def total_shares(shares: NDArray[np.int64]) -> Array:
    """Sums of shares as numbers."""
    return np.asarray(shares / _SHARE, dtype=np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class ChosenRows:
    """Which rows of every unit are used. What they weigh is computed where it is needed, so it takes no memory.

    Attributes
    ----------
    numbers : array of int
        Index of the row's unit, −1 for no unit.
    unused : array of bool or None
        Rows beyond what a unit may have; None where there are none.
    rows : int or array of int
        By how many rows a unit's weight is divided: the same for all, or of every unit, and at last of none.
    n : int
        How many units there are.
    """

    numbers: Numbers
    unused: NDArray[np.bool_] | None
    rows: int | Numbers
    n: int

    def __getitem__(self, rows: slice) -> UnitRows:
        """Those of some rows, with their weights."""
        numbers = self.numbers[rows]
        divided = self.rows if isinstance(self.rows, int) else self.rows[numbers]
        weights = np.where(numbers >= 0, _ROUNDED_DOWN / np.maximum(divided, 1), 0.0)
        if self.unused is not None:
            weights[self.unused[rows]] = 0.0
        return UnitRows(numbers, weights, self.n)


@dataclass(frozen=True, eq=False, repr=False)
class Membership:
    """The units of a table's rows, before anything is drawn.

    Attributes
    ----------
    unit : PrivacyUnit
        What was declared.
    numbers : array of int
        Index of the row's unit, −1 for no unit.
    n : int
        How many units there are.
    """

    unit: PrivacyUnit
    numbers: Numbers
    n: int

    def __post_init__(self) -> None:
        """Raise for numbers that stand for no unit: what a unit weighs rests on them."""
        least, largest = self.numbers.min(initial=-1), self.numbers.max(initial=-1)
        if self.numbers.ndim != 1 or self.numbers.dtype.kind != "i" or least < -1 or largest >= self.n:
            raise InvalidTableError("the units of rows must be numbered from 0, with -1 for a row of none.")

    @classmethod
    def of(cls, unit: PrivacyUnit, codes: Numbers) -> "Membership":
        """Of codes that are the same for rows of the same unit, 0, 1, 2 …, and −1 for a row without a usable id.

        The array is kept, and written where rows get units of their own.
        """
        n, alone = int(codes.max(initial=-1)) + 1, np.empty(0, np.intp)
        if unit.missing == "separate":
            alone = np.flatnonzero(codes < 0)
        numbers: Numbers = codes.astype(np.int32 if n + alone.size < 2**31 else np.int64, copy=False)
        numbers[alone] = np.arange(n, n + alone.size)
        return cls(unit, numbers, n + alone.size)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Rows of every unit."""
        counts = np.zeros(self.n + 1, np.int64)
        for first in range(0, self.numbers.size, _AT_ONCE):  # what is made on the way must not grow with the rows
            np.add.at(counts, self.numbers[first : first + _AT_ONCE], 1)
        return counts[:-1]  # −1 is the last

    def drawn(self, key: Stream) -> UnitRows:
        """What every row weighs, as `chosen` says."""
        return self.chosen(key)[:]

    def chosen(self, key: Stream) -> ChosenRows:
        """Which rows are used: all of a unit, or as many as it may have, each choice of them as likely as any other.

        Parameters
        ----------
        key : array of eight words
            Of the fit, used for nothing else.
        """
        limit, unused = self.unit.max_rows, None
        largest = np.iinfo(self.numbers.dtype).max  # of so many rows more or less weigh the same
        counts = np.append(np.minimum(self.counts, largest), 0).astype(self.numbers.dtype)  # the last: of no unit
        if limit is not None and (counts > limit).any():
            unused = np.zeros(self.numbers.size, dtype=bool)
            native.leave_out(self.numbers, self.counts, limit, stream_of(key), unused.view(np.uint8))
            counts = np.minimum(counts, limit)
        if limit is None or self.unit.contribution == "average":
            return ChosenRows(self.numbers, unused, counts, self.n)
        return ChosenRows(self.numbers, unused, limit, self.n)
