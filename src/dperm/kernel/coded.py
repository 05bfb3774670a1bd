"""Rows of a table with a schema as small integers: a code for every column, in place of its entries in a long row.

A column is a block of places in a row, of norm at most 1 whatever its code says, and no two blocks share a place: the
bound on a row's norm holds by construction. Nothing that a table hands over is believed: a row with a code, a fraction
or a number that its layout does not have is ignored.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.errors import InvalidTableError
from dperm.schema.crosses import CROSS_ENTRY

Array = NDArray[np.float64]

# A number between two knots lies on one of so many parts of the way: halves, thirds, quarters and fifths are exact.
PARTS = 240

# Rows of at most this many columns are multiplied as arrays: BLAS is faster there than anything that skips zeros.
_WIDEST_ARRAY = 64

# Rows that are written out at once.
_ROWS_AT_ONCE = 16_384


def shortened(values: NDArray[Any]) -> NDArray[np.float32]:
    """Values in half the space, rounded towards 0 so that no norm grows: rows to fit on are kept for many passes."""
    short = values.astype(np.float32)
    longer = np.abs(short) > np.abs(values)
    short[longer] = np.nextafter(short[longer], np.float32(0.0))
    return short


def _ends() -> NDArray[np.float32]:
    """The entries at both ends of a bin, (1 − t, t) of norm 1: for every part of the way."""
    t = np.arange(PARTS + 1) / PARTS
    return shortened(np.stack([1.0 - t, t], axis=1) / np.hypot(1.0 - t, t)[:, None])


ENDS = _ends()


@dataclass(frozen=True)
class CodedColumn:
    """A block of a row.

    Attributes
    ----------
    kind : {"place", "knots", "number"}
        One entry of 1 at the place that the code says, or none if it says `n_places`; two entries, at that place and
        the next, by the fraction; or the number itself at the first place, and, where there is a second, 1 there
        instead if the code says so.
    n_places : int
        Its length.
    """

    kind: str
    n_places: int

    @property
    def has_code(self) -> bool:
        """Whether it has one: all but a number that is always there."""
        return self.kind != "number" or self.n_places > 1

    @property
    def codes(self) -> int:
        """How many different codes it can have."""
        return {"place": self.n_places + 1, "knots": self.n_places - 1, "number": 2}[self.kind]


@dataclass(frozen=True)
class CodedCross:
    """Columns whose levels together make one entry.

    Attributes
    ----------
    columns : tuple of int
        Which columns of the layout.
    levels : tuple of tuples of int
        The level of every place of those columns; empty for a number, whose range is cut evenly.
    n_levels : int
        Of every column.
    """

    columns: tuple[int, ...]
    levels: tuple[tuple[int, ...], ...]
    n_levels: int

    @property
    def n_cells(self) -> int:
        """Its length in a row."""
        return int(self.n_levels ** len(self.columns))


class Where(NamedTuple):
    """A column, where its block begins, and which codes, fractions and numbers are its own; −1 for none."""

    column: CodedColumn
    first: int
    code: int
    fraction: int
    number: int


@dataclass(frozen=True)
class CodedLayout:
    """Where the entries of a row are, from the codes: public.

    Attributes
    ----------
    columns : tuple of CodedColumn
        The blocks of a row, in order.
    crosses : tuple of CodedCross
        What follows them.
    """

    columns: tuple[CodedColumn, ...]
    crosses: tuple[CodedCross, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what would put two entries at one place, or one beyond the row."""
        good = all(
            column.n_places >= (2 if column.kind == "knots" else 1)
            and (column.kind != "number" or column.n_places <= 2)
            for column in self.columns
        )
        for cross in self.crosses:
            for place, levels in zip(cross.columns, cross.levels, strict=True):
                column = self.columns[place]
                length = 0 if column.kind == "number" else column.n_places
                good = good and len(levels) == length and all(0 <= level < cross.n_levels for level in levels)
        if not good:
            raise InvalidTableError("the layout of coded rows contradicts itself.")

    @cached_property
    def where(self) -> tuple[Where, ...]:
        """Every column's block, codes, fractions and numbers: one after the other."""
        found, first, code, fraction, number = [], 0, 0, 0, 0
        for column in self.columns:
            has = column.has_code, column.kind == "knots", column.kind == "number"
            own = [at if exists else -1 for at, exists in zip((code, fraction, number), has, strict=True)]
            found.append(Where(column, first, *own))
            code, fraction, number = code + has[0], fraction + has[1], number + has[2]
            first += column.n_places
        return tuple(found)

    @cached_property
    def width(self) -> int:
        """Columns of a row that is written out."""
        return sum(column.n_places for column in self.columns) + sum(cross.n_cells for cross in self.crosses)

    @cached_property
    def n_entries(self) -> int:
        """Entries of a row that is written out."""
        return sum(1 + (column.kind == "knots") for column in self.columns) + len(self.crosses)

    @cached_property
    def shapes(self) -> tuple[int, int, int]:
        """How many codes, fractions and numbers a row has."""
        kinds = [column.kind for column in self.columns]
        return sum(column.has_code for column in self.columns), kinds.count("knots"), kinds.count("number")

    @cached_property
    def code_type(self) -> np.dtype[Any]:
        """The shortest unsigned integers for all codes; the largest of them is no code, and the row is ignored."""
        return np.dtype(np.min_scalar_type(max((column.codes for column in self.columns), default=0) + 1))

    @property
    def bytes_per_row(self) -> int:
        """What a row takes."""
        codes, fractions, numbers = self.shapes
        return codes * self.code_type.itemsize + fractions + 4 * numbers


@dataclass(frozen=True, eq=False, repr=False)
class CodedRows:
    """Rows as codes.

    Attributes
    ----------
    layout : CodedLayout
        What they stand for.
    codes : array of unsigned integers of shape (rows, codes)
        Of every column that has one.
    fractions : array of uint8 of shape (rows, fractions)
        Parts of `PARTS` of the way from one knot to the next.
    numbers : array of float32 of shape (rows, numbers)
        Between −1 and 1.
    """

    layout: CodedLayout
    codes: NDArray[Any]
    fractions: NDArray[np.uint8]
    numbers: NDArray[np.float32]

    def __post_init__(self) -> None:
        """Refuse arrays of another form than the layout's."""
        kinds = (self.layout.code_type, np.dtype(np.uint8), np.dtype(np.float32))
        for array, kind, width in zip(self.arrays, kinds, self.layout.shapes, strict=True):
            if array.dtype != kind or array.shape != (self.codes.shape[0], width) or not array.flags.c_contiguous:
                raise InvalidTableError("coded rows are not of the form that their layout says.")

    @classmethod
    def together(cls, parts: Sequence["CodedRows"]) -> "CodedRows":
        """All rows of parts with one layout."""
        return cls(parts[0].layout, *map(np.concatenate, zip(*(part.arrays for part in parts), strict=True)))

    @property
    def arrays(self) -> tuple[NDArray[Any], NDArray[np.uint8], NDArray[np.float32]]:
        """What they are made of."""
        return self.codes, self.fractions, self.numbers

    @property
    def shape(self) -> tuple[int, int]:
        """As if they were written out."""
        return self.codes.shape[0], self.layout.width

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the entries."""
        return np.dtype(np.float32)

    def __getitem__(self, rows: Any) -> "CodedRows":
        """Some of the rows, by a slice, their indices or a mask."""
        return CodedRows(self.layout, *(np.ascontiguousarray(array[rows]) for array in self.arrays))

    def __matmul__(self, other: NDArray[Any]) -> NDArray[Any]:
        """The product with a vector or a matrix."""
        found = [part.expanded() @ other for part in self._parts()]
        return np.concatenate(found) if found else np.zeros((0, *other.shape[1:]))

    def _parts(self) -> Iterator["CodedRows"]:
        return (self[first : first + _ROWS_AT_ONCE] for first in range(0, self.shape[0], _ROWS_AT_ONCE))

    def norms(self) -> tuple[Array, Array]:
        """l2 norm and largest entry of every row; NaN for one that is ignored."""
        norms, largest = np.empty(self.shape[0]), np.empty(self.shape[0])
        for number, part in enumerate(self._parts()):
            rows = slice(number * _ROWS_AT_ONCE, number * _ROWS_AT_ONCE + part.shape[0])
            columns = np.ascontiguousarray(part._entries()[1].T, dtype=np.float64)
            norms[rows] = np.sqrt(sum(column * column for column in columns))
            largest[rows] = np.abs(columns).max(axis=0)
        return norms, largest

    def expanded(self) -> Any:
        """The rows as the schema describes them: an array where they are short, else CSR."""
        places, values = self._entries()
        if self.layout.width <= _WIDEST_ARRAY:
            dense = np.zeros(self.shape, np.float32)
            np.put_along_axis(dense, places, values, axis=1)
            return dense
        starts = np.arange(self.shape[0] + 1) * self.layout.n_entries
        return sparse.csr_matrix((values.ravel(), places.ravel(), starts), shape=self.shape)

    def _entries(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Places and values of the entries, a row each; NaN in a row that is ignored."""
        n_rows, at = self.shape[0], 0
        places = np.zeros((n_rows, self.layout.n_entries), np.int32)
        values = np.zeros(places.shape, np.float32)
        wrong = np.zeros(n_rows, dtype=bool)
        nearest = []
        for column, first, code, fraction, number in self.layout.where:
            here = np.zeros(n_rows, np.int32)
            if code >= 0:
                wrong |= self.codes[:, code] >= column.codes
                here = np.minimum(self.codes[:, code], column.codes - 1).astype(np.int32)
            if column.kind == "knots":
                part = self.fractions[:, fraction]
                wrong |= part > PARTS
                places[:, at], places[:, at + 1] = first + here, first + here + 1
                values[:, at : at + 2] = ENDS[np.minimum(part, PARTS)]
                here, at = here + (part > PARTS // 2), at + 1
            elif column.kind == "place":
                there = here < column.n_places
                places[:, at], values[:, at] = first + here * there, there
            else:
                value = self.numbers[:, number]
                wrong |= ~(np.abs(value) <= 1.0)
                places[:, at], values[:, at] = first + here, np.where(here == 1, np.float32(1.0), value)
            nearest.append(here)
            at += 1
        first = sum(column.n_places for column in self.layout.columns)
        for cross in self.layout.crosses:
            for digit, (place, levels) in enumerate(zip(cross.columns, cross.levels, strict=True)):
                own = self._levels(place, levels, nearest[place], cross.n_levels)
                places[:, at] += cross.n_levels**digit * own
            places[:, at] += first
            values[:, at] = CROSS_ENTRY
            first, at = first + cross.n_cells, at + 1
        values[wrong] = np.nan
        return places, values

    def _levels(self, place: int, levels: tuple[int, ...], nearest: NDArray[np.int32], n_levels: int) -> Any:
        """The level of a column: of its nearest place, or of a number itself; of nothing the first."""
        if levels:
            return np.asarray([*levels, 0], np.int32)[nearest]
        number = self.numbers[:, self.layout.where[place].number].astype(np.float64)
        cut = np.floor((np.nan_to_num(np.clip(number, -1.0, 1.0)) + 1.0) / 2.0 * n_levels).astype(np.int32)
        return np.where(nearest == 1, 0, np.minimum(cut, n_levels - 1))


def plain(table: Any) -> Any:
    """A table as an array or CSR: coded rows are written out."""
    return table.expanded() if isinstance(table, CodedRows) else table
