"""What runs on the workers of a cluster: partitions are read, encoded, kept and added up there."""

import asyncio
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm import errors
from dperm.errors import ClusterError, DpermError
from dperm.kernel.adding import add_up
from dperm.kernel.block import Block
from dperm.kernel.counts import ColumnPart
from dperm.kernel.objectives import objective_of
from dperm.kernel.parts import RowPart
from dperm.kernel.source import bounded, count_columns, place_of
from dperm.kernel.threads import ONE_THREAD
from dperm.kernel.units import UnitRows
from dperm.problem import Problem
from dperm.rows.dask_client import dask_distributed
from dperm.rows.digests import DigestedRows, IdColumn, PartitionUnits
from dperm.rows.encoder import Encoder, rows_of
from dperm.rows.kept import KeptBlocks, Room, cache_folder
from dperm.rows.memory import MemoryBudget, return_freed_memory
from dperm.rows.pieces import Piece

Array = NDArray[np.float64]

# Bytes that Dask takes the ids of a partition for, whatever they are.
_SHOWN_SIZE = 2**20


@dataclass(frozen=True)
class Keeping:
    """How a worker reads rows and keeps them encoded."""

    word: str
    budget: MemoryBudget
    cache: Any
    shown_size: int


@dataclass(frozen=True, eq=False, repr=False)
class DigestedPartition:
    """What is known of a partition's ids outside of it; Dask shows the same size for all of them."""

    rows: tuple[DigestedRows, ...]

    def __sizeof__(self) -> int:
        """A public number."""
        return _SHOWN_SIZE


@dataclass(frozen=True)
class Failure:
    """What went wrong on a worker, in words without a value."""

    kind: str
    message: str

    def error(self) -> Exception:
        """The same as an error of dperm's."""
        kind = getattr(errors, self.kind, ClusterError)
        failure: Exception = kind(self.message)
        return failure


class Partition:
    """Encoded rows of one partition; Dask shows neither what they are nor how many."""

    def __init__(
        self, kept: KeptBlocks, n_blocks: int, origin: tuple[Any, Encoder, Problem, PartitionUnits | None, "Keeping"]
    ) -> None:
        self._kept, self._n_blocks, self._origin = kept, n_blocks, origin

    def blocks(self) -> Iterator[Block]:
        """Blocks in order; cached where possible, re-read otherwise."""
        if self.is_kept:
            for k in range(self._n_blocks):
                self._kept.expect(k + 1)
                yield self._kept[k]
        else:
            yield from _blocks(*self._origin)

    @property
    def is_kept(self) -> bool:
        """Whether nothing has to be read again."""
        return all(k in self._kept for k in range(self._n_blocks))

    def drop_frame(self) -> None:
        """Forget a frame's partition, of which all is kept; a file costs nothing to remember."""
        if self.is_kept and not isinstance(self._origin[0], Piece):
            _, encoder, problem, _, keeping = self._origin
            self._origin = (None, encoder, problem, None, keeping)

    def __sizeof__(self) -> int:
        """What Dask is told: a public number, large enough that it rather moves a task to the rows than the rows."""
        return self._origin[-1].shown_size

    def __reduce__(self) -> Any:
        """For another worker, or for a file if memory is short: where the rows come from. Only a frame's come along."""
        blocks = None
        if self._origin[0] is None:
            blocks = [(b.table, b.target, b.scale, b.weight, b.facts, b.units, b.n_units) for b in self.blocks()]
        return _arrived, (blocks, *self._origin)


def _arrived(blocks: list[Any] | None, *origin: Any) -> Partition:
    if not dask_distributed().Worker._instances:
        raise TypeError("rows cannot be pickled or copied: they never leave the workers.")
    if blocks is None:
        return _kept_partition(*origin)
    kept = KeptBlocks(Room(2**60), None)
    for k, parts in enumerate(blocks):
        kept.offer(k, Block(*parts))
    return Partition(kept, len(blocks), origin)


def _kept_partition(
    partition: Any, encoder: Encoder, problem: Problem, units: PartitionUnits | None, keeping: Keeping
) -> Partition:  # fmt: skip
    kept = KeptBlocks(_room(keeping), cache_folder(keeping.cache))
    n_blocks = 0
    for n_blocks, block in enumerate(_blocks(partition, encoder, problem, units, keeping), 1):
        kept.offer(n_blocks - 1, block)
    found = Partition(kept, n_blocks, (partition, encoder, problem, units, keeping))
    found.drop_frame()
    return found


def _blocks(
    partition: Any, encoder: Encoder, problem: Problem, units: PartitionUnits | None, keeping: Keeping
) -> Iterator[Block]:  # fmt: skip
    tables, budget = _tables(partition, encoder.encoded_columns, keeping, encoder), keeping.budget
    blocks = encoder.blocks(tables, problem, budget.rows_of_block(encoder), budget.ahead, threads=1)
    return bounded(blocks, problem, _checked_units(partition, units, keeping))


def _checked_units(partition: Any, units: PartitionUnits | None, keeping: Keeping) -> UnitRows | None:
    """Whose the rows are, if they still are those whose ids were read."""
    if units is None:
        return None
    units.check(_tables(partition, [units.ids.name], keeping))
    return units.rows


def _quiet(task: Callable[..., Any]) -> Callable[..., Any]:
    """A task that never raises: Dask would write its arguments, and with them rows, into the worker's log."""

    @functools.wraps(task)
    def run(*arguments: Any) -> Any:
        for argument in arguments:
            if isinstance(argument, Failure):
                return argument
        try:
            return task(*arguments)
        except DpermError as error:
            return Failure(type(error).__name__, str(error))
        except Exception as error:
            return Failure("ClusterError", f"a worker could not compute its part ({type(error).__name__}).")

    return run


@_quiet
def count_rows(partition: Any) -> int:
    """Of a frame's partition."""
    return len(partition)


@_quiet
def read_ids(partition: Any, ids: IdColumn, keeping: Keeping) -> Any:
    """Digests of a partition's different ids, and which of them every row has."""
    return DigestedPartition(tuple(ids.read(_tables(partition, [ids.name], keeping))))


@_quiet
def encode(
    partition: Any, encoder: Encoder, problem: Problem, units: PartitionUnits | None, keeping: Keeping
) -> Partition:  # fmt: skip
    """Read, encode and bound the rows of a partition, and keep them."""
    return _kept_partition(partition, encoder, problem, units, keeping)


@functools.lru_cache(4)
def _room(keeping: Keeping) -> Room:
    """One for all partitions of a fit that this process reads."""
    return Room(keeping.budget.kept)


async def take(keys: dict[int, str], part: RowPart, problem: Problem, dask_worker: Any) -> Any:
    """The sum of what a part takes of the partitions with these numbers, which the worker holds by their keys.

    None if it does not hold one of them any more.
    """
    if not all(key in dask_worker.data for key in keys.values()):
        return None
    held = [_held(dask_worker, key) for key in keys.values()]
    pool, loop = dask_worker.executors["default"], asyncio.get_running_loop()
    found = await asyncio.gather(
        *(loop.run_in_executor(pool, _taken, one, k, part, problem) for k, one in zip(keys, held, strict=True))
    )
    return _added(*found)


@_quiet
def _held(dask_worker: Any, key: str) -> Any:
    """A partition that the worker holds: read again, if Dask wrote it to a file because memory was short."""
    return dask_worker.data[key]


@_quiet
def _taken(partition: Partition, number: int, part: RowPart, problem: Problem) -> Any:
    """Of one partition, by one of the worker's threads: the others take other partitions."""
    objective = objective_of(problem)
    return add_up(
        part.of(block, place_of(number, k), objective, ONE_THREAD) for k, block in enumerate(partition.blocks())
    )  # fmt: skip


@_quiet
def _added(*parts: Any) -> Any:
    return add_up(parts)


@_quiet
def count(
    partition: Any, encoder: Encoder, part: ColumnPart, units: PartitionUnits | None, keeping: Keeping
) -> Array:  # fmt: skip
    """The sum of what a part counts in raw columns."""
    numbers = encoder.columns_of(_tables(partition, part.columns, keeping, encoder), part.columns)
    return count_columns(numbers, part, encoder.schema, _checked_units(partition, units, keeping))


def _tables(partition: Any, columns: Sequence[str], keeping: Keeping, encoder: Encoder | None = None) -> Iterator[Any]:
    """A partition in tables of a few rows; an empty one gives an empty table."""
    return_freed_memory()
    reading = keeping.budget.reading(keeping.cache, encoder)
    if isinstance(partition, Piece):
        yield from partition.tables(columns, reading)
        return
    for first in range(0, max(len(partition), 1), reading.rows):
        yield rows_of(partition, slice(first, min(first + reading.rows, len(partition))))
