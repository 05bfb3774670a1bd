"""What a table of rows offers to the kernel, and how the kernel takes it.

A source reads, encodes and numbers; nothing of what it hands over is believed. Here every row is bounded, every unit's
rows are chosen and weighted, every block gets its place, and sums are added up. What the kernel cannot check, and takes
from the source, is which raw row an encoded one comes from, and which rows have the same unit.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError, InvalidTableError
from dperm.kernel.adding import add_up
from dperm.kernel.block import Block
from dperm.kernel.counts import ColumnPart
from dperm.kernel.exact.words import Stream, fresh_key
from dperm.kernel.objectives import Objective
from dperm.kernel.parts import RowPart
from dperm.kernel.threads import ONE_THREAD, n_threads
from dperm.kernel.units import ChosenRows, Membership, UnitRows
from dperm.privacy.guarantee import ROWS_ALLOWED_PER_DECLARED, Adjacency
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Problem
from dperm.schema import Schema

Array = NDArray[np.float64]

# Of a sum over rows: those that are added up, what they are added to, and what waits for others.
_COPIES = 10

# Called with the number of the pass over the rows, and how many of them it has read.
Report = Callable[[int, int], None]


@dataclass(frozen=True, eq=False, repr=False)
class EncodedRows:
    """Rows as a source hands them over.

    Attributes
    ----------
    X : array, CSR matrix or CodedRows
        Features.
    target : array
        Numeric targets.
    weights : array or None
        Weight per row.
    facts : callable or None
        Counts what became of the rows for the data holder: see `Block.from_table`.
    """

    X: Any
    target: Any
    weights: Array | None = None
    facts: Callable[..., Any] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class TablePiece:
    """Consecutive rows of a table that are read on their own, again and again.

    Attributes
    ----------
    n_rows : int
        How many rows it has: another number of them is refused.
    read : callable
        Encodes them for a problem, the same rows in the same order at every call.
    """

    n_rows: int
    read: Callable[[Problem], Iterable[EncodedRows]]


class Store(Protocol):
    """Where blocks are kept between passes, by index. It gives back what it was given, bit for bit."""

    def __contains__(self, place: int) -> bool:
        """Whether the block at this index is kept."""

    def __getitem__(self, place: int) -> Block:
        """The block at this index."""

    def offer(self, place: int, block: Block) -> None:
        """Keep a block, if there is room."""

    def expect(self, place: int) -> None:
        """The block at this index is needed soon."""

    def close(self) -> None:
        """Drop everything."""


class InMemory:
    """Blocks that stay where they are."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}

    def __contains__(self, place: int) -> bool:
        """Whether it was offered."""
        return place in self._blocks

    def __getitem__(self, place: int) -> Block:
        """As it was offered."""
        return self._blocks[place]

    def offer(self, place: int, block: Block) -> None:
        """There is always room."""
        self._blocks[place] = block

    def expect(self, place: int) -> None:
        """It is here."""

    def close(self) -> None:
        """Drop everything."""
        self._blocks.clear()


def place_of(piece: int, block: int) -> int:
    """The index of a block in its piece of a table: the same wherever that piece is read.

    Raises
    ------
    InvalidTableError
        If there are too many for each to have a position of its own, by which its samples are drawn.
    """
    if not (block < 2**16 and piece < 2**16 - 1):
        raise InvalidTableError(
            "the table has more than 65 534 pieces, or one of more than 65 536 blocks; use more memory."
        )
    return piece * 2**16 + block


class Source(ABC):
    """Rows, and sums over them.

    A source may hold rows in any number of blocks of any size, here or elsewhere; no sum may assume that there is one.
    It is made for one fit.

    What depends on a row has a name with an underscore and is for the trusted side: counts of rows and units are exact,
    and so are sums. What has none is the same for neighbouring tables.
    """

    _chosen: tuple[Stream, ChosenRows] | None = None
    _report: Report | None = None
    _passes: int = 0

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
        """Whose rows are protected together; None where each row is its own unit."""
        return None

    def _members(self) -> Membership | None:
        """The unit of every row, in their order; None where each row is its own unit."""
        return None

    @property
    def _n_units(self) -> int:
        """How many units there are, or rows: what the public n is compared with."""
        membership = self._members()
        return self._n_rows if membership is None else membership.n

    def draw_units(self, key: Stream) -> None:
        """Choose which rows of every unit are used, by a key of the fit; rows with other weights are dropped."""
        membership = self._members()
        if membership is not None and (self._chosen is None or not np.array_equal(self._chosen[0], key)):
            self.close()
            self._chosen = (key, membership.chosen(key))

    def _chosen_rows(self) -> ChosenRows | None:
        """Which rows of every unit are used, by a key of its own where none was given."""
        if self._chosen is None:
            self.draw_units(fresh_key())
        return None if self._chosen is None else self._chosen[1]

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
        """True if n rows are not in memory, from public numbers; "auto" then prefers fewer passes."""
        return False

    @property
    def room(self) -> int:
        """Bytes that matrices may take while rows are added up: public."""
        return 2**62

    def _watch(self, report: Report) -> None:
        """Tell how far a pass over the rows has come, where it takes long enough to be of interest."""
        self._report = report

    def _warn(self, facts: Sequence[Any]) -> None:  # noqa: B027 - a source may have nothing to say
        """Show whoever called the fit what is wrong with the rows; nothing of it is kept, and nothing depends on it."""

    def close(self) -> None:  # noqa: B027 - or nothing to drop
        """Drop what was kept of the rows."""

    def __reduce__(self) -> Any:
        """Rows are not to be written anywhere."""
        raise TypeError("rows cannot be pickled or copied: they never leave the trusted kernel.")


class LocalSource(Source):
    """Rows that this process reads, block by block."""

    # Whether every block is added up by one thread, and several blocks at once.
    _block_by_block: ClassVar[bool] = False

    _kept: tuple[Problem, Store, dict[int, int]] | None = None

    @abstractmethod
    def _pieces(self) -> Iterable[TablePiece]:
        """The table, cut in the same way at every call."""

    def _store(self) -> Store:
        """Where bounded rows are kept."""
        return InMemory()

    def _columns(self, names: Sequence[str]) -> tuple[Schema, Iterable[Mapping[str, Array]]]:
        """The schema, and the numbers in raw columns for all rows in their order, NaN where there is none."""
        raise InvalidParameterError(f"these rows have no schema, so {names[0]!r} has nothing to find.")

    def _blocks(self, problem: Problem) -> Iterator[Block]:
        """Encoded and bounded rows, in the same blocks and the same order at every call."""
        return (block for _, block in self._placed(problem))

    def _placed(self, problem: Problem) -> Iterator[tuple[int, Block]]:
        """Every block with its position, by which its samples are drawn; those that are not kept are read again."""
        units, row = self._chosen_rows(), 0
        if self._kept is None or self._kept[0] is not problem:
            self.close()
            self._kept = (problem, self._store(), {})
        _, kept, n_blocks = self._kept
        self._passes += 1
        for number, piece in enumerate(self._pieces()):
            first, known = place_of(number, 0), n_blocks.get(number)
            if known is not None and all(first + k in kept for k in range(known)):
                for place in range(first, first + known):
                    kept.expect(place + 1)
                    yield place, kept[place]
            else:
                count, last = 0, row
                for block in bounded(piece.read(problem), problem, units, row):
                    place = place_of(number, count)
                    kept.offer(place, block)
                    yield place, block
                    count, last = count + 1, last + len(block)
                if last - row != piece.n_rows:
                    raise InvalidTableError("the table has changed since it was opened, so what was read is void.")
                n_blocks[number] = count
            row += piece.n_rows
            if self._report is not None:
                self._report(self._passes, row)

    def _total(self, problem: Problem, part: RowPart, objective: Objective, pool: Executor) -> Any:
        """Added up in order, by pairs."""
        if not self._block_by_block:
            return add_up(part.of(block, place, objective, pool) for place, block in self._placed(problem))

        def parts() -> Iterator[Any]:
            running, most = deque[Future[Any]](), 1
            for place, block in self._placed(problem):
                while len(running) >= most:
                    found = running.popleft().result()
                    # As many at once as there is room for: parts of one kind are of one size.
                    most = 1 + min(n_threads(), self.room // (_COPIES * max(getattr(found, "nbytes", 0), 1)))
                    yield found
                running.append(pool.submit(part.of, block, place, objective, ONE_THREAD))
            while running:
                yield running.popleft().result()

        return add_up(parts())

    def _only_block(self, problem: Problem) -> Block | None:
        """All rows, where they are few enough."""
        if self._kept is None or self._kept[0] is not problem:
            for _ in self._placed(problem):
                pass
        assert self._kept is not None
        _, kept, n_blocks = self._kept
        return kept[0] if n_blocks == {0: 1} and 0 in kept else None

    def _count(self, part: ColumnPart) -> Array:
        """One pass over the columns that it counts."""
        schema, numbers = self._columns(part.columns)
        return count_columns(numbers, part, schema, self._chosen_rows())

    def close(self) -> None:
        """Drop what is kept of bounded rows."""
        if self._kept is not None:
            self._kept[1].close()
        self._kept = None


def bounded(
    rows: Iterable[EncodedRows], problem: Problem, units: ChosenRows | UnitRows | None, first: int = 0
) -> Iterator[Block]:  # fmt: skip
    """Blocks of bounded rows: the one way from what a source hands over to what is summed.

    Parameters
    ----------
    rows : iterable of EncodedRows
        As they are passed.
    problem : Problem
        Declares the bounds.
    units : ChosenRows, UnitRows or None
        Whose every row is, and what it weighs.
    first : int
        The index of the first row among those of `units`.
    """
    for part in rows:
        last = first + np.shape(part.X)[0]
        own = _rows_of_units(units, first, last)
        yield from Block.from_table(part.X, part.target, problem, part.weights, own, part.facts).cut()
        first = last


def count_columns(
    numbers: Iterable[Mapping[str, Array]], part: ColumnPart, schema: Schema, units: ChosenRows | UnitRows | None
) -> Array:  # fmt: skip
    """The sum of what a part counts in raw columns; parameters as of `bounded`."""

    def counts() -> Iterator[Array]:
        first = 0
        for columns in numbers:
            values = {name: np.asarray(columns[name], dtype=np.float64).reshape(-1) for name in part.columns}
            lengths = {array.size for array in values.values()}
            if len(lengths) != 1:
                raise InvalidTableError("the columns of the table are not of one length.")
            last = first + lengths.pop()
            yield part.of(values, schema, _rows_of_units(units, first, last))
            first = last

    return np.asarray(add_up(counts()))


def _rows_of_units(units: ChosenRows | UnitRows | None, first: int, last: int) -> UnitRows | None:
    """Those of some rows; raises if there are others than were read for their ids."""
    if units is None:
        return None
    found = units[first:last]
    if found.numbers.size != last - first:
        raise InvalidTableError(
            "the table has other rows than when its ids were read, so it cannot be read consistently."
        )
    return found


def check_count(found: int, n: int, adjacency: Adjacency, unit: PrivacyUnit | None = None) -> None:
    """Raise if the table, which has this many rows or units, is not one that the guarantee speaks of."""
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
