"""How much memory a fit may take for rows that are read in pieces: all of it follows from public numbers."""

import ctypes
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dperm.errors import InvalidParameterError
from dperm.rows.encoder import ROWS_AT_ONCE, Encoder
from dperm.rows.pieces import Reading
from dperm.schema import Schema

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}

# What less cannot do with: a column is decoded page by page, and pages are of a megabyte.
LEAST = 10**8
_FEWEST_ROWS, _MOST_ROWS = 2**10, 2**20
# Names of settings in glibc's malloc.h; the bytes of an array that is worth a call of the system.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _LARGE = -1, -3, 2**18


def bytes_of(memory: int | str) -> int:
    """A number of bytes, given as such or as text.

    Examples
    --------
    >>> bytes_of("1.5 GB"), bytes_of("512MiB")
    (1500000000, 536870912)
    """
    found = re.fullmatch(r"\s*([0-9]+\.?[0-9]*)\s*([A-Za-z]*)\s*", str(memory))
    if isinstance(memory, bool) or found is None or found[2].upper() not in _UNITS:
        raise InvalidParameterError(f"memory must be a number of bytes such as '1 GB' or '512 MB', got {memory!r}.")
    size = float(found[1]) * _UNITS[found[2].upper()]
    if not LEAST <= size < 2**60:
        raise InvalidParameterError(
            f"memory must be at least {LEAST // 10**6} MB, got {memory!r}; pass memory='{LEAST // 10**6} MB' or more."
        )
    return int(size)


@dataclass(frozen=True)
class MemoryBudget:
    """How the memory of a fit is divided. What a block or a table holds follows from public numbers alone.

    A quarter is left for what allocators keep of what was freed, and for what a sum over rows needs.

    Attributes
    ----------
    size : int
        Bytes.
    """

    size: int

    @classmethod
    def of(cls, memory: "int | str | MemoryBudget") -> "MemoryBudget":
        """Of a number of bytes, given as such or as text."""
        return memory if isinstance(memory, MemoryBudget) else cls(bytes_of(memory))

    @property
    def kept(self) -> int:
        """For encoded rows that are kept between passes, and for the numbers of units; more are kept on disk."""
        return self.size // 5

    @property
    def raw(self) -> int:
        """For tables as they were read, where there are few."""
        return self.size // 16

    @property
    def ahead(self) -> int:
        """For tables that were read and are being encoded."""
        return self.size // 8

    @property
    def ids(self) -> int:
        """For ids that are looked at together."""
        return self.size // 4

    @property
    def sums(self) -> int:
        """For matrices that sums over rows are made of, when tables are no longer read."""
        return self.size // 2

    def rows_of_block(self, encoder: Encoder) -> int:
        """Rows of a block: several are encoded, added up and written at once."""
        return max(_FEWEST_ROWS, min(self.size // 64 // encoder.bytes_per_row, _MOST_ROWS))

    def reading(self, cache: Any, encoder: Encoder | None = None) -> Reading:
        """How tables are read.

        Parameters
        ----------
        cache : path or bool
            As of `Table`.
        encoder : Encoder, optional
            Of their rows, two tables of which at least are encoded at once.
        """
        rows = ROWS_AT_ONCE
        if encoder is not None:
            fitting = self.ahead // 2 // encoder.bytes_at_work
            rows = min(max(_FEWEST_ROWS, 1 << max(fitting.bit_length() - 1, 0)), rows)
        return Reading(rows, self.size // 4, cache)


def return_freed_memory() -> None:
    """Let this process give arrays back to the system when they are freed, where that can be set (glibc).

    Otherwise what is freed is kept for the next array: as much again as was promised, where threads make many.
    """
    with suppress(OSError, AttributeError):
        for parameter, size in ((_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, 4 * _LARGE)):
            ctypes.CDLL(None).mallopt(parameter, size)


def is_on_disk(n: int, schema: Schema, budget: MemoryBudget) -> bool:
    """Whether n encoded rows, or those of n units as far as that is known, are more than is kept in memory: public."""
    rows_together = 1 if schema.unit is None else schema.unit.max_rows or 1
    return n * rows_together * Encoder(schema).bytes_per_row > budget.kept
