"""Encoded rows that are kept between passes: in memory as long as there is room, then in a file without a name.

The file belongs to the process that made it (mode 0600), is in no folder's list, and is gone when it is closed or the
process ends, however it ends: the operating system removes it.
"""

import mmap
import os
import tempfile
import warnings
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.errors import CacheFullWarning, InvalidParameterError
from dperm.kernel.block import Block, csr_of
from dperm.kernel.coded import CodedLayout, CodedRows
from dperm.kernel.units import Members
from dperm.printable import one_line

# Arrays begin at multiples of a cache line within a block, and blocks where a file can be mapped.
_ALIGNED = 64


@dataclass(frozen=True, eq=False, repr=False)
class _Stored:
    """Where a block is in the file: what each array is, and where it begins within the block; how wide, or coded."""

    start: int
    size: int
    arrays: tuple[tuple[np.dtype[Any], tuple[int, ...], int], ...]
    of: int | CodedLayout
    facts: Any
    n_units: int | None


class Room:
    """Bytes of memory that blocks may take; several tables may share it."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> bool:
        """Whether there is room; once there is none, later blocks are not squeezed in."""
        self._left = self._left - size if size <= self._left else 0
        return self._left > 0


class KeptBlocks:
    """Blocks by index in a table.

    Parameters
    ----------
    room : Room
        What may stay in memory.
    folder : Path or None
        Where the file is made; None to keep no more than fits into memory.
    """

    def __init__(self, room: Room, folder: Path | None) -> None:
        self._room, self._folder = room, folder
        self._blocks: dict[int, Block | _Stored] = {}
        self._file: Any = None
        self._end = 0

    def __contains__(self, place: int) -> bool:
        """Whether the block at this index is kept."""
        return place in self._blocks

    def __getitem__(self, place: int) -> Block:
        """The block at this index; one in the file is mapped, and read as it is used."""
        kept = self._blocks[place]
        return kept if isinstance(kept, Block) else self._mapped(kept)

    def offer(self, place: int, block: Block) -> None:
        """Keep a block, unless there is no room anywhere."""
        if place in self._blocks:
            return
        if self._room.take(sum(array.nbytes for array in _arrays_of(block))):
            self._blocks[place] = block
        elif self._folder is not None:
            try:
                self._blocks[place] = self._written(block)
            except OSError as error:
                folder, self._folder = self._folder, None
                why = error.strerror
            else:
                return
            warnings.warn(
                f"{one_line(folder)} has no room for all encoded rows ({why}): later passes re-read the rest; pass "
                "another folder with cache=, or --cache.",
                CacheFullWarning,
                stacklevel=2,
            )

    def expect(self, place: int) -> None:
        """Let the operating system read a block ahead of its use."""
        kept = self._blocks.get(place)
        if isinstance(kept, _Stored) and kept.size and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), kept.start, kept.size, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        """Drop everything."""
        self._blocks.clear()
        if self._file is not None:
            self._file.close()
        self._file, self._folder = None, None

    def _written(self, block: Block) -> _Stored:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder, prefix="dperm-", buffering=0)  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        start, offset, described = self._end, 0, []
        for array in map(np.ascontiguousarray, _arrays_of(block)):
            described.append((array.dtype, array.shape, offset))
            self._write(array, start + offset)
            offset += -(-array.nbytes // _ALIGNED) * _ALIGNED
        self._end += -(-offset // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        self._file.truncate(self._end)
        n_units = None if block.units is None else block.n_units
        of = block.table.layout if isinstance(block.table, CodedRows) else block.table.shape[1]
        return _Stored(start, offset, tuple(described), of, block.facts, n_units)

    def _write(self, array: NDArray[Any], offset: int) -> None:
        self._file.seek(offset)
        content = memoryview(array.reshape(-1).view(np.uint8).data)
        while content:
            content = content[self._file.write(content) :]

    def _mapped(self, kept: _Stored) -> Block:
        if kept.size:
            # A private map: what compiled code takes for an array that it may write, without a way to the file.
            content: Any = mmap.mmap(self._file.fileno(), kept.size, access=mmap.ACCESS_COPY, offset=kept.start)
        else:
            content = b""
        arrays = [
            np.frombuffer(content, dtype, int(np.prod(shape)), offset).reshape(shape)
            for dtype, shape, offset in kept.arrays
        ]
        target, scale, weight, *rest = arrays
        whose: tuple[Any, ...] = ()
        if kept.n_units is not None:
            *rest, units, present, rows, starts = rest
            whose = (units, kept.n_units, Members(present, rows, starts, kept.n_units))
        if isinstance(kept.of, CodedLayout):
            table: Any = CodedRows(kept.of, *rest)
        else:
            table = rest[0] if len(rest) == 1 else csr_of(rest[0], rest[1], rest[2], kept.of)
        return Block(table, target, scale, weight, kept.facts, *whose)


def _arrays_of(block: Block) -> list[NDArray[Any]]:
    table = block.table
    if isinstance(table, CodedRows):
        rows = list(table.arrays)
    else:
        rows = [table.data, table.indices, table.indptr] if sparse.issparse(table) else [table]
    whose: list[NDArray[Any]] = []
    if block.units is not None and block.members is not None:
        whose = [block.units, block.members.units, block.members.rows, block.members.starts]
    return [block.target, block.scale, block.weight, *rows, *whose]


def cache_folder(cache: Any) -> Path | None:
    """The folder for encoded rows that do not fit into memory: the named one, the user's own, or none.

    Parameters
    ----------
    cache : path, True or False
        True for the folder that DPERM_CACHE names or dperm's among the user's caches, whichever can be written, else
        the folder for temporary files.
    """
    if cache is False:
        return None
    if cache is True:
        return next(filter(_is_usable, _own_folders()), _temporary_folder())
    if not (isinstance(cache, str | Path) and str(cache)):
        raise InvalidParameterError(f"cache must be a folder, True or False, got {cache!r}.")
    if not _is_usable(Path(cache)):
        raise InvalidParameterError(f"{one_line(cache)} cannot hold cached rows; pass another folder.")
    return Path(cache)


def _own_folders() -> Iterator[Path]:
    """The user's folders for what can be made again; each is made when it is asked for."""
    from dperm.ledger.places import user_folder

    named = os.environ.get("DPERM_CACHE")
    if named:
        if not os.path.isabs(named):  # anybody may have made that folder where dperm is called
            raise InvalidParameterError(f"DPERM_CACHE is {one_line(named)}, a relative path: use an absolute one.")
        yield _made(Path(named))
    with suppress(InvalidParameterError):  # a user without a home
        yield _made(user_folder("XDG_CACHE_HOME", ".cache"))


def _made(folder: Path) -> Path:
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _is_usable(folder: Path) -> bool:
    try:
        return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


def _temporary_folder() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # there is none: `offer` says that nothing can be written
        return Path(os.curdir)
