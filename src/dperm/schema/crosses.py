"""Interactions: public crosses of a few columns, each cut into a few levels."""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

# Levels of a column in a cross, columns of a cross, and hence cells: 5 · 5 · 5.
LEVELS, COLUMNS = 5, 3
MOST_CROSSES = 200
# The one entry of a cross: it counts like a column. On 100 000 rows of Covertype half of it gave half of the gain.
CROSS_ENTRY = 1.0


@dataclass(frozen=True)
class Cross:
    """A few columns whose levels together make one entry of a row.

    Parameters
    ----------
    number : int
        Which cross; two crosses of the same columns would group categories differently.
    columns : tuple of str
        Their names.
    """

    number: int
    columns: tuple[str, ...]

    @property
    def n_cells(self) -> int:
        """Entries in an encoded row, one of which is not 0."""
        return int(LEVELS ** len(self.columns))

    def column_names(self) -> tuple[str, ...]:
        """Names of the columns in an encoded row: the level of each column."""
        return tuple(
            " × ".join(f"{name} [{cell // LEVELS**place % LEVELS + 1}]" for place, name in enumerate(self.columns))
            for cell in range(self.n_cells)
        )

    def levels(self, name: str, n_places: int, *, ordered: bool) -> tuple[int, ...]:
        """The level of every position in a block: consecutive ones together where they are ordered, else any.

        Categories are put together by a hash that is the same on every machine.
        """
        if ordered or n_places <= LEVELS:
            return tuple(place * LEVELS // max(n_places, LEVELS) for place in range(n_places))
        return tuple(_hash(self.number, name, place) % LEVELS for place in range(n_places))


def draw_crosses(names: Iterable[str], n_crosses: int) -> tuple[Cross, ...]:
    """Different triples of columns (pairs, where there are two), drawn by a public hash of their names.

    Examples
    --------
    >>> [cross.columns for cross in draw_crosses(["a", "b", "c", "d"], 2)]
    [('b', 'c', 'd'), ('a', 'b', 'c')]
    """
    columns = sorted(names)
    size = min(COLUMNS, len(columns))
    ranked: dict[tuple[str, ...], None] = {}
    wanted, draw = min(n_crosses, math.comb(len(columns), size)), 0
    while len(ranked) < wanted:
        first = sorted(columns, key=lambda name: _hash(draw, name, 0))[:size]
        ranked[tuple(sorted(first))] = None
        draw += 1
    return tuple(Cross(number, chosen) for number, chosen in enumerate(ranked))


def _hash(*parts: object) -> int:
    """A number of 64 bits that depends on nothing but these."""
    return int.from_bytes(hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()[:8], "big")
