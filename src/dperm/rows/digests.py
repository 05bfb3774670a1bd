"""Whose every row of a table in pieces is: found by digests of ids, so that neither ids nor rows leave a piece.

A piece gives for its different ids keyed digests of 16 bytes, and for every row only which of them it has. Whoever puts
the pieces together numbers the digests in the order in which they come. Proof: docs/proofs/units.md.
"""

import hashlib
import io
import mmap
import secrets
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError, InvalidTableError
from dperm.kernel.units import Membership, UnitRows
from dperm.privacy.unit import PrivacyUnit
from dperm.rows.columns import Columns
from dperm.rows.ids import kind_of_ids, places_of, texts_of_column

# Bytes of a digest.
_SIZE = 16
# Bytes that finding the different ones among ids, or among their digests, takes for each.
_AT_WORK = 200
# Numbers that are made room for at once.
_ZEROS = 2**18


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
    memory : int
        Bytes for ids that are looked at together: the more, the fewer different ones there are in all.
    """

    name: str
    missing: tuple[str, ...]
    key: bytes
    memory: int

    @classmethod
    def of(cls, unit: PrivacyUnit, missing: Iterable[str], memory: int) -> "IdColumn":
        """Of a unit, with a fresh key."""
        return cls(unit.name, tuple(missing), secrets.token_bytes(32), memory)

    def read(self, tables: Iterable[Any]) -> Iterator["DigestedRows"]:
        """The rows of tables that have the column, many at a time."""
        import pyarrow as pa

        waiting: list[Any] = []
        for table in tables:
            column = Columns(table).arrow(self.name)
            # One file may hold numbers of another kind than the one before it.
            is_full = sum(4 * part.nbytes + _AT_WORK * len(part) for part in waiting) >= self.memory
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
    """Numbers of units by the order in which their digests come.

    What is known of rows waits in files without a name, so that memory does not grow with them.

    Parameters
    ----------
    memory : int
        Bytes for digests that are compared with each other at once.
    folder : Path or None
        Where the files are made; None to keep all in memory.
    """

    def __init__(self, memory: int, folder: Path | None) -> None:
        self._at_once, self._folder = max(memory // _AT_WORK, 1), folder
        self._digests, self._codes = _Waiting(folder), _Waiting(folder)
        self._lengths: list[tuple[int, int]] = []
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
        self._digests.add(rows.digests)
        self._codes.add(rows.codes.tobytes())
        self._lengths.append((len(rows.digests) // _SIZE, rows.codes.size))

    @classmethod
    def of(cls, rows: Iterable[DigestedRows], memory: int, folder: Path | None) -> "Numbering":
        """Of all rows of a table."""
        numbering = cls(memory, folder)
        for part in rows:
            numbering.add(part)
        return numbering

    def membership(self, unit: PrivacyUnit) -> Membership:
        """The units of all rows that were added."""
        numbers, codes = self._numbered(), self._codes.array(np.int32)
        first_digest = first_row = 0
        for n_digests, n_rows in self._lengths:
            rows, digests = (slice(first_row, first_row + n_rows), slice(first_digest, first_digest + n_digests))
            codes[rows] = np.append(numbers[digests], np.int32(-1))[codes[rows]]
            first_digest, first_row = digests.stop, rows.stop
        return Membership.of(unit, codes)

    def _numbered(self) -> NDArray[np.int32]:
        """The number of every digest that was added."""
        words = self._digests.array(np.uint64).reshape(-1, 2)
        if len(words) >= 2**31:
            raise InvalidTableError("the table has more ids than can be numbered (2 147 483 647).")
        earliest = self._first_of_each(words)
        numbers, n_known = _empty(len(words), self._folder), 0
        for first in range(0, len(words), self._at_once):
            part = slice(first, min(first + self._at_once, len(words)))
            is_new = earliest[part] == np.arange(part.start, part.stop, dtype=np.int32)
            numbers[part] = np.cumsum(is_new, dtype=np.int32) + np.int32(n_known - 1)
            n_known += int(is_new.sum())
            numbers[part] = numbers[earliest[part]]  # those before, or of this part and new
        return numbers

    def _first_of_each(self, words: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The index of the first digest that is the same, for every digest: a share of all is compared at once.

        Digests are as good as random, so those that leave the same remainder are a share of about the same size.
        """
        import pyarrow as pa

        earliest, n_shares = _empty(len(words), self._folder), -(-len(words) // self._at_once)
        for share in range(n_shares):
            chosen = np.concatenate([
                first + np.flatnonzero(words[first : first + self._at_once, 0] % np.uint64(n_shares) == share)
                for first in range(0, len(words), self._at_once)
            ]).astype(np.int32)  # fmt: skip
            digests = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(_SIZE), chosen.size, [None, pa.py_buffer(words[chosen])]
            ).dictionary_encode()
            numbers = digests.indices.to_numpy(zero_copy_only=False)
            found = np.empty(len(digests.dictionary), np.int32)
            found[numbers[::-1]] = chosen[::-1]  # the first of each is written last
            earliest[chosen] = found[numbers]
        return earliest


class _Waiting:
    """Bytes that are added one after another and then looked at together."""

    def __init__(self, folder: Path | None) -> None:
        self._stream: Any = io.BytesIO() if folder is None else _file_in(folder)
        weakref.finalize(self, self._stream.close)

    def add(self, content: bytes) -> None:
        with _room_on_disk():
            left = memoryview(content)
            while left:
                left = left[self._stream.write(left) :]

    def array(self, kind: Any) -> NDArray[Any]:
        """All of them; it can be written."""
        if isinstance(self._stream, io.BytesIO):
            return np.frombuffer(bytearray(self._stream.getvalue()), kind)
        return _mapped(self._stream, kind, self._stream.tell())


def _empty(size: int, folder: Path | None) -> NDArray[np.int32]:
    """As many numbers that are still to be written."""
    if folder is None or size == 0:
        return np.empty(size, np.int32)
    # Written once: else a full disk would end the process where a number is written.
    waiting = _Waiting(folder)
    for first in range(0, size, _ZEROS):
        waiting.add(bytes(4 * min(_ZEROS, size - first)))
    return waiting.array(np.int32)


def _file_in(folder: Path) -> Any:
    with _room_on_disk():
        return tempfile.TemporaryFile(dir=folder, prefix="dperm-", buffering=0)


def _mapped(stream: Any, kind: Any, size: int) -> NDArray[Any]:
    return np.frombuffer(mmap.mmap(stream.fileno(), size) if size else bytearray(), kind)


@contextmanager
def _room_on_disk() -> Iterator[None]:
    why = None
    try:
        yield
    except OSError as error:
        why = error.strerror
    # Raised here and not above, so that no message with a path is kept as its context.
    if why is not None:
        raise InvalidParameterError(
            f"the cache has no room for the units of all rows ({why}): pass another folder with cache=, or --cache."
        )
