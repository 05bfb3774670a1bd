"""Rows of a table with a schema as small integers: a code for every column, in place of its entries in a long row.

A column is a block of places in a row, of norm at most 1 whatever its code says, and no two blocks share a place: the
bound on a row's norm holds by construction. Nothing that a table hands over is believed: a row with a code, a fraction
or a number that its layout does not have is ignored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.errors import InvalidTableError
from dperm.kernel import native
from dperm.schema.crosses import CROSS_ENTRY

Array = NDArray[np.float64]

# A number between two knots lies on one of so many parts of the way: halves, thirds, quarters and fifths are exact.
PARTS = 240

# Rows of at most this many columns are multiplied as arrays: BLAS is faster there than anything that skips zeros.
_WIDEST_ARRAY = 64


def _ends() -> NDArray[np.float32]:
    """The entries at both ends of a bin, (1 − t, t) of norm 1: for every part of the way."""
    t = np.arange(PARTS + 1) / PARTS
    ends = np.stack([1.0 - t, t], axis=1) / np.hypot(1.0 - t, t)[:, None]
    found = np.empty(ends.shape, np.float32)
    native.shorten(ends.ravel(), found.ravel())
    return found


ENDS = _ends()


def _table(rows: Sequence[tuple[int, ...]], width: int) -> NDArray[np.int32]:
    return np.asarray(rows, np.int32).reshape(-1, width)


@dataclass(frozen=True)
class CodedColumn:
    """A block of a row.

    Attributes
    ----------
    kind : {"place", "knots", "number"}
        One entry of 1 at the place that the code says, or none if it says `n_places`; two entries, at that place and
        the next, by the fraction; or one entry, the number itself.
    n_places : int
        Its length.
    """

    kind: str
    n_places: int = 1

    @property
    def last_code(self) -> int:
        """The largest code that it can have."""
        return self.n_places if self.kind == "place" else self.n_places - 2


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
    crosses : tuple of tuples of (int, tuple of int)
        What follows them, one entry each: which columns are crossed, and the level of every place of those; for a
        number no places, its range is cut evenly. Levels are the digits of a cell's number.
    n_levels : int
        Of every column in a cross.
    """

    columns: tuple[CodedColumn, ...]
    crosses: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...] = ()
    n_levels: int = 1

    def __post_init__(self) -> None:
        """Refuse what would put two entries at one place, or one beyond the row."""
        least = {"place": 1, "knots": 2, "number": 1}
        good = all(column.n_places >= least[column.kind] for column in self.columns)
        good = good and all(column.n_places == 1 for column in self.columns if column.kind == "number")
        for place, levels in (digit for cross in self.crosses for digit in cross):
            length = 0 if self.columns[place].kind == "number" else self.columns[place].n_places
            good = good and len(levels) == length and all(0 <= level < self.n_levels for level in levels)
        if not good:
            raise InvalidTableError("the layout of coded rows contradicts itself.")

    @cached_property
    def where(self) -> tuple[Where, ...]:
        """Every column's block, codes, fractions and numbers; codes of knots follow all others."""
        found, first = [], 0
        counts = {"place": 0, "knots": 0, "number": 0}
        for column in self.columns:
            at = counts[column.kind]
            own = {
                "place": (at, -1, -1),
                "knots": (self.shapes[0] - self.shapes[1] + at, at, -1),
                "number": (-1, -1, at),
            }
            found.append(Where(column, first, *own[column.kind]))
            counts[column.kind] += 1
            first += column.n_places
        return tuple(found)

    @cached_property
    def shapes(self) -> tuple[int, int, int]:
        """How many codes, fractions and numbers a row has."""
        kinds = [column.kind for column in self.columns]
        return len(kinds) - kinds.count("number"), kinds.count("knots"), kinds.count("number")

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """Where the entries of crosses begin, and the end of a row."""
        lengths = [self.n_levels ** len(cross) for cross in self.crosses]
        return tuple(np.cumsum([sum(column.n_places for column in self.columns), *lengths]).tolist())

    @property
    def width(self) -> int:
        """Columns of a row that is written out."""
        return self.cells[-1]

    @property
    def n_entries(self) -> int:
        """Entries of a row that is written out."""
        return len(self.columns) + self.shapes[1] + len(self.crosses)

    @cached_property
    def compiled(self) -> native.Layout:
        """The same for the kernels: `cpp/coded.hpp` says what slots are."""
        kinds = [[place for place in self.where if place.column.kind == kind] for kind in ("number", "place", "knots")]
        slots = [place.first for place in kinds[0]]
        slots += [-1] * (len(slots) % 2)  # pairs of slots are read at once
        blocks, column_of = [], {place: number for number, place in enumerate(kinds[0])}
        for place in (*kinds[2], *kinds[1]):
            column_of[place] = self.shapes[2] + place.code
            blocks.append((place.code, len(slots), place.column.last_code))
            places = range(place.first, place.first + place.column.n_places)
            slots += [end for pair in pairwise(places) for end in pair] if place.fraction >= 0 else [*places, -1]
        crosses: list[tuple[int, int, int]] = []
        digits: list[tuple[int, int]] = []
        levels: list[int] = []
        for cross, (first, end) in zip(self.crosses, pairwise(self.cells), strict=True):
            crosses.append((len(slots), len(digits), len(digits) + len(cross)))
            slots += range(first, end)
            for digit, (number, known) in enumerate(cross):
                digits.append((column_of[self.where[number]], len(levels)))
                # Of no entry the first level.
                levels += [self.n_levels**digit * level for level in ([*known, 0] if known else range(self.n_levels))]
        return native.Layout(
            self.shapes, self.width, np.asarray(slots, np.int32), _table([own[1:] for own in sorted(blocks)], 2),
            _table(crosses, 3), _table(digits, 2), np.asarray(levels, np.int32), self.n_levels, ENDS.astype(np.float64),
            CROSS_ENTRY,
        )  # fmt: skip

    def __reduce__(self) -> Any:
        """What is compiled stays here."""
        return CodedLayout, (self.columns, self.crosses, self.n_levels)

    @cached_property
    def code_type(self) -> np.dtype[Any]:
        """The shortest unsigned integers for all codes; the largest of them is no code, and the row is ignored."""
        return np.min_scalar_type(max((column.last_code for column in self.columns), default=0) + 1)

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
        arrays: tuple[NDArray[Any], ...] = self.arrays
        for array, kind, width in zip(arrays, kinds, self.layout.shapes, strict=True):
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
    def size(self) -> int:
        """How many entries they stand for."""
        return self.shape[0] * self.layout.n_entries

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the entries."""
        return np.dtype(np.float32)

    def __getitem__(self, rows: Any) -> "CodedRows":
        """Some of the rows, by a slice, their indices or a mask."""
        return CodedRows(self.layout, *(np.ascontiguousarray(array[rows]) for array in self.arrays))

    def __matmul__(self, other: NDArray[Any]) -> NDArray[Any]:
        """The product with a vector or a matrix."""
        point = np.ascontiguousarray(np.atleast_2d(other.T), dtype=np.float64)
        return native.margins(native.Rows(self), point, None, 0, self.shape[0]).reshape(-1, *other.shape[1:])

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
            if column.kind == "number":
                value = self.numbers[:, number]
                wrong |= ~(np.abs(value) <= 1.0)
                places[:, at], values[:, at] = first, value
                inside = np.nan_to_num(np.clip(value.astype(np.float64), -1.0, 1.0))
                here = np.minimum((inside + 1.0) / 2.0 * self.layout.n_levels, self.layout.n_levels - 1).astype(
                    np.int32
                )
            else:
                wrong |= self.codes[:, code] > column.last_code
                here = np.minimum(self.codes[:, code], column.last_code).astype(np.int32)
            if column.kind == "knots":
                part = self.fractions[:, fraction]
                wrong |= part > PARTS
                places[:, at], places[:, at + 1] = first + here, first + here + 1
                values[:, at : at + 2] = ENDS[np.minimum(part, PARTS)]
                here, at = here + (part > PARTS // 2), at + 1
            elif column.kind == "place":
                there = here < column.n_places
                places[:, at], values[:, at] = first + here * there, there
            nearest.append(here)
            at += 1
        for cross, first in zip(self.layout.crosses, self.layout.cells, strict=False):
            places[:, at], values[:, at] = first, CROSS_ENTRY
            for digit, (place, levels) in enumerate(cross):
                known = [*levels, 0] if levels else range(self.layout.n_levels)  # of no entry the first
                places[:, at] += self.layout.n_levels**digit * np.asarray(known, np.int32)[nearest[place]]
            at += 1
        values[wrong] = np.nan
        return places, values


def plain(table: Any) -> Any:
    """A table as an array or CSR: coded rows are written out."""
    return table.expanded() if isinstance(table, CodedRows) else table


def as_narrow_array(table: Any) -> Any:
    """A table as it is multiplied by itself: coded rows are written out where that makes an array."""
    return plain(table) if table.shape[1] <= _WIDEST_ARRAY else table
