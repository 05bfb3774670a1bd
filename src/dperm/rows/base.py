"""What a source of rows is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError, InvalidTableError
from dperm.kernel.adding import add_up
from dperm.kernel.block import Block
from dperm.kernel.exact.words import Stream, fresh_key
from dperm.kernel.objectives import Objective
from dperm.kernel.parts import RowPart
from dperm.kernel.units import Membership, UnitRows
from dperm.privacy.guarantee import ROWS_ALLOWED_PER_DECLARED, Adjacency
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Problem
from dperm.rows.counts import ColumnPart
from dperm.schema import Schema

Array = NDArray[np.float64]

# Called with the number of the pass over the rows, and how many of them it has read.
Report = Callable[[int, int], None]


def place_of(piece: int, block: int) -> int:
    """The place of a block in its piece of a table: the same wherever that piece is read.

    Raises
    ------
    InvalidTableError
        If there are too many for each to have a place of its own, by which its samples are drawn.
    """
    if not (block < 2**16 and piece < 2**16 - 1):
        raise InvalidTableError(
            "the table has more than 65 534 pieces, or one of more than 65 536 blocks; use more memory."
        )
    return piece * 2**16 + block


class Source(ABC):
    """Rows, and sums over them. Whatever the source, `Block.from_table` bounds every row.

    A source may hold rows in any number of blocks of any size, here or elsewhere; no sum may assume that there is one.
    It is made for one fit.

    What depends on a row has a name with an underscore and is for the trusted side: counts of rows and units are exact,
    and so are sums. What has none is the same for neighbouring tables.
    """

    @property
    @abstractmethod
    def _n_rows(self) -> int:
        """Number of rows, read without looking at a value."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of columns of an encoded row: public."""

    @abstractmethod
    def _total(self, problem: Problem, part: RowPart, objective: Objective, pool: Executor) -> Any:
        """The sum of what a part takes of every block of rows, encoded and bounded for a problem.

        Parameters
        ----------
        problem : Problem
            Says how rows are bounded; the same for a whole fit.
        part : RowPart
            What every block adds.
        objective : Objective
            What the part is computed with.
        pool : Executor
            Threads of this process.
        """

    @property
    def unit(self) -> PrivacyUnit | None:
        """Whose rows are protected together; None where every row is protected by itself."""
        return None

    @property
    def _n_units(self) -> int:
        """How many units there are, or rows: what the public n is compared with."""
        return self._n_rows

    def draw_units(self, key: Stream) -> None:  # noqa: B027 - nothing to draw where a unit is a row
        """Choose which rows of every unit are used, by a key of the fit."""

    def _unit_remarks(self) -> list[str]:
        """What whoever holds the rows should know of their units, and nobody else."""
        return []

    def _only_block(self, problem: Problem) -> Block | None:
        """All rows, where they are one block in the memory of this process."""
        return None

    def _count(self, part: ColumnPart) -> Array:
        """The sum of what a part counts in raw columns: for private ranges and bins."""
        raise InvalidParameterError(f"these rows have no schema, so {part.columns[0]!r} has nothing to find.")

    def with_schema(self, schema: Schema, class_weights: Sequence[float] | None = None) -> "Source":
        """The same rows, encoded by this schema, with public weights for its classes if they are given."""
        raise InvalidParameterError("cannot apply a schema to array input.")

    def is_slow(self, n: int, schema: Schema | None) -> bool:
        """Whether a pass over n rows costs more than reading memory, from public numbers: "auto" counts passes then."""
        return False

    def _watch(self, report: Report) -> None:  # noqa: B027 - rows in memory have nothing to tell
        """Tell how far a pass over the rows has come, where it takes long enough to be of interest."""

    def close(self) -> None:  # noqa: B027 - and nothing to drop
        """Drop what was kept of the rows."""

    def __reduce__(self) -> Any:
        """Rows are not to be written anywhere."""
        raise TypeError("rows cannot be pickled or copied: they never leave the trusted kernel.")


class LocalSource(Source):
    """Rows that this process reads, block by block."""

    @abstractmethod
    def _blocks(self, problem: Problem) -> Iterable[Block]:
        """Encoded and bounded rows, in the same blocks and the same order at every call."""

    def _placed(self, problem: Problem) -> Iterable[tuple[int, Block]]:
        """Every block with its place, by which its samples are drawn."""
        return enumerate(self._blocks(problem))

    def _total(self, problem: Problem, part: RowPart, objective: Objective, pool: Executor) -> Any:
        """Added up by pairs."""
        return add_up(part.of(block, place, objective, pool) for place, block in self._placed(problem))


class InMemorySource(LocalSource):
    """Rows that are read once per fit and kept."""

    def __init__(self, membership: Membership | None = None) -> None:
        self._membership = membership
        self._drawn: UnitRows | None = None
        self._kept: tuple[Problem, tuple[Block, ...]] | None = None

    @property
    def unit(self) -> PrivacyUnit | None:
        """What was declared."""
        return None if self._membership is None else self._membership.unit

    @property
    def _n_units(self) -> int:
        """Different ids, or rows."""
        return self._n_rows if self._membership is None else self._membership.n

    def draw_units(self, key: Stream) -> None:
        """Rows that were read before are read again."""
        if self._membership is not None:
            self._drawn, self._kept = self._membership.drawn(key), None

    @property
    def _unit_rows(self) -> UnitRows | None:
        """Whose every row is, chosen by a key of its own where none was given."""
        if self._drawn is None:
            self.draw_units(fresh_key())
        return self._drawn

    def _unit_remarks(self) -> list[str]:
        """Of the whole table."""
        return [] if self._membership is None else self._membership.remarks()

    @abstractmethod
    def _read(self, problem: Problem) -> Block:
        """Encode and bound all rows."""

    def _blocks(self, problem: Problem) -> tuple[Block, ...]:
        """One block, or several if there are very many rows."""
        if self._kept is None or self._kept[0] is not problem:
            self._kept = (problem, tuple(self._read(problem).cut()))
        return self._kept[1]

    def _only_block(self, problem: Problem) -> Block | None:
        """Unless there are very many rows."""
        blocks = self._blocks(problem)
        return blocks[0] if len(blocks) == 1 else None


def check_count(found: int, n: int, adjacency: Adjacency, unit: PrivacyUnit | None = None) -> None:
    """Raise if the table, which has so many rows or units, is not one that the guarantee speaks of."""
    what = "rows" if unit is None else f"units ({unit.name})"
    if adjacency is Adjacency.REPLACE_ONE and unit is not None and unit.missing == "ignore":
        # Replacing a unit by one without an id makes one less: the number that is found is not public.
        if found > n:
            raise InvalidParameterError(
                f"the declared n = {n} is below the table's number of {what}; declare at least that number."
            )
    elif adjacency is Adjacency.REPLACE_ONE and found != n:
        further = "for folds of a table do not declare n" if unit is None else "each row without an id is its own unit"
        raise InvalidParameterError(
            f"under replace_one the public n is the number of {what}: {found} {what}, n = {n}; {further}."
        )
    if found > ROWS_ALLOWED_PER_DECLARED * n + 1:
        raise InvalidParameterError(
            f"the declared n = {n} is too small for this table; declare about its number of {what}."
        )
