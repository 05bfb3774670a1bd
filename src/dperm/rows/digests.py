"""Whose every row of a table in pieces is: found by digests of ids, so that neither ids nor rows leave a piece.

A piece gives for its different ids keyed digests of 16 bytes, and for every row only which of them it has. Whoever puts
the pieces together numbers the digests in the order in which they come. Proof: docs/proofs/units.md.
"""

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidTableError
from dperm.kernel.units import Membership, UnitRows
from dperm.privacy.unit import PrivacyUnit
from dperm.rows.columns import Columns
from dperm.rows.ids import kind_of_ids, places_of, texts_of_column

# Bytes of a digest.
_SIZE = 16
# Rows whose ids are looked at together, or bytes of ids: the more, the fewer different ones there are in all.
_ROWS, _BYTES = 2**22, 2**26


@dataclass(frozen=True)
class IdColumn:
    """Where ids are and how they are hidden: plain data, so that it can be sent to where the rows are.

    Attributes
    ----------
    name : str
        Of the column.
    missing : tuple of str
        Texts that stand for no value.
    key : bytes
        Of the digests: fresh for every pass, so that two passes cannot be compared.
    """

    name: str
    missing: tuple[str, ...]
    key: bytes

    @classmethod
    def of(cls, unit: PrivacyUnit, missing: Iterable[str]) -> "IdColumn":
        """Of a unit, with a fresh key."""
        return cls(unit.name, tuple(missing), secrets.token_bytes(32))

    def read(self, tables: Iterable[Any]) -> Iterator["DigestedRows"]:
        """The rows of tables that have the column, many at a time."""
        import pyarrow as pa

        waiting: list[Any] = []
        for table in tables:
            column = Columns(table).arrow(self.name)
            # One file may hold numbers of another kind than the one before it.
            is_full = sum(map(len, waiting)) >= _ROWS or sum(part.nbytes for part in waiting) >= _BYTES
            if waiting and (is_full or waiting[0].type != column.type):
                yield self._digested(pa.chunked_array(waiting))
                waiting = []
            waiting += column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        if waiting:
            yield self._digested(pa.chunked_array(waiting))

    def _digested(self, column: Any) -> "DigestedRows":
        codes, texts = texts_of_column(column, self.name, self.missing)
        place = np.append(places_of(texts), -1).astype(np.int32)
        return DigestedRows(self._digests(texts.drop_null()), place[codes], kind_of_ids(column.type))

    def _digests(self, texts: Any) -> bytes:
        """Of an Arrow array of texts, taken from its buffers: pyarrow makes objects of them in ten times the time."""
        if not len(texts):
            return b""
        _, ends, content = texts.buffers()
        places = np.frombuffer(ends, np.int32, len(texts) + 1, 4 * texts.offset).tolist()
        whole, keyed, digests = content.to_pybytes(), hashlib.blake2b(digest_size=_SIZE, key=self.key), []
        for first, last in pairwise(places):
            one = keyed.copy()
            one.update(whole[first:last])
            digests.append(one.digest())
        return b"".join(digests)


@dataclass(frozen=True, eq=False, repr=False)
class DigestedRows:
    """What is known of some rows' ids outside of their piece.

    Attributes
    ----------
    digests : bytes
        Of the different ids, one after the other.
    codes : array of int
        Which of them every row has, −1 for none.
    kind : str or None
        Of the ids, which is public like the column's type; None for a column of nothing.
    """

    digests: bytes
    codes: NDArray[np.int32]
    kind: str | None


def sequence_of(rows: Iterable[DigestedRows]) -> bytes:
    """A digest of the ids of all rows in their order, however they were cut."""
    whole = hashlib.blake2b(digest_size=_SIZE)
    for part in rows:
        digests = np.frombuffer(part.digests + bytes(_SIZE), dtype=f"V{_SIZE}")
        whole.update(digests[part.codes].tobytes())  # the last, of zeros, is that of no id
    return whole.digest()


@dataclass(frozen=True, eq=False, repr=False)
class PartitionUnits:
    """Whose the rows of a partition are, and how to find out whether it still has the rows that were read for that.

    Attributes
    ----------
    rows : UnitRows
        In their order.
    ids : IdColumn
        By which they were read.
    sequence : bytes
        Of the ids that were read.
    """

    rows: UnitRows
    ids: IdColumn
    sequence: bytes

    def check(self, tables: Iterable[Any]) -> None:
        """Raise if the rows come in another order than before, as a frame's may that is computed a second time."""
        if sequence_of(self.ids.read(tables)) != self.sequence:
            raise InvalidTableError(
                "a partition has other rows, or another order of them, than when its ids were read: a privacy unit "
                "requires a deterministic frame; write it to files first."
            )


class Numbering:
    """Numbers of units by the order in which their digests come."""

    def __init__(self) -> None:
        self._known, self._n_known = b"", 0
        self._waiting: list[DigestedRows] = []
        self._n_waiting = 0
        self._numbers: list[NDArray[np.int32]] = []
        self._kinds: set[str] = set()

    def add(self, rows: DigestedRows) -> None:
        """The next rows of the table.

        Raises
        ------
        InvalidTableError
            If ids are of another type than those before: one of them might be written in two ways.
        """
        self._kinds |= set() if rows.kind is None else {rows.kind}
        if len(self._kinds) > 1:
            kinds = " and ".join(sorted(self._kinds))
            raise InvalidTableError(f"ids are {kinds} in different parts of the table; write them with one type.")
        self._waiting.append(rows)
        self._n_waiting += len(rows.digests) // _SIZE
        # As many as are known, so that a digest is looked at about twice, however many pieces there are.
        if self._n_waiting >= max(_ROWS, self._n_known):
            self._number()

    @classmethod
    def of(cls, rows: Iterable[DigestedRows]) -> "Numbering":
        """Of all rows of a table."""
        numbering = cls()
        for part in rows:
            numbering.add(part)
        return numbering

    def membership(self, unit: PrivacyUnit) -> Membership:
        """The units of all rows that were added."""
        self._number()
        numbers = np.concatenate(self._numbers) if self._numbers else np.empty(0, np.int32)
        self._numbers.clear()
        return Membership.of(unit, numbers)

    def _number(self) -> None:
        import pyarrow as pa

        together = pa.py_buffer(b"".join([self._known, *(rows.digests for rows in self._waiting)]))
        count = len(together) // _SIZE
        if count >= 2**31:
            raise InvalidTableError("the table has more units than can be numbered (2 147 483 647).")
        digests = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_SIZE), count, [None, together]).dictionary_encode()
        numbers, first = digests.indices.to_numpy(zero_copy_only=False), self._n_known
        for rows in self._waiting:
            last = first + len(rows.digests) // _SIZE
            self._numbers.append(np.append(numbers[first:last], np.int32(-1))[rows.codes])
            first = last
        known = digests.dictionary
        self._known, self._n_known = known.buffers()[1][: len(known) * _SIZE].to_pybytes(), len(known)
        self._waiting, self._n_waiting = [], 0
