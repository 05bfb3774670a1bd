"""How much memory a fit may take for rows that are read in pieces: all of it follows from public numbers."""

import re

from dperm.errors import InvalidParameterError
from dperm.rows.encoder import Encoder
from dperm.schema import Schema

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}

# Shares of the memory that may be used. Blocks that are kept take up to a third; tables as they were read, where there
# are few, an eighth; the rest is for what is read and encoded now, and for Python itself.
KEPT, RAW, _BLOCK = 3, 8, 32
_FEWEST_ROWS, _MOST_ROWS = 2**10, 2**20


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
    if not 10**6 <= size < 2**60:
        raise InvalidParameterError(f"memory must be at least 1 MB, got {memory!r}.")
    return int(size)


def is_on_disk(n: int, schema: Schema, memory: int | str) -> bool:
    """Whether n encoded rows, or those of n units as far as that is known, are more than is kept in memory: public."""
    rows_together = 1 if schema.unit is None else schema.unit.max_rows or 1
    return n * rows_together * Encoder(schema).bytes_per_row > bytes_of(memory) // KEPT


def rows_of_block(memory: int, encoder: Encoder) -> int:
    """Rows of a block, from public numbers."""
    return max(_FEWEST_ROWS, min(memory // _BLOCK // encoder.bytes_per_row, _MOST_ROWS))
