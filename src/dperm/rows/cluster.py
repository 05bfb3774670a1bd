"""Rows on the workers of a Dask cluster. They are read, encoded, bounded and added up there.

What comes back to this process, which holds the plan and adds the noise, is one sum a question and worker. Dask keeps
the encoded partitions, and encodes those of a lost worker again elsewhere; questions go past its scheduling, one call
to every worker. A partition that is asked again after a worker was lost gives the same part, and each counts once.
Task names hold a random word and numbers of steps; errors come back as sentences without a value.
"""

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError
from dperm.kernel.adding import add_up
from dperm.kernel.counts import ColumnPart
from dperm.kernel.objectives import Objective
from dperm.kernel.parts import RowPart
from dperm.problem import Problem
from dperm.rows import cluster_tasks as tasks
from dperm.rows.by_schema import SchemaSource
from dperm.rows.columns import Columns
from dperm.rows.dask_client import current_client, is_frame
from dperm.rows.digests import DigestedRows, IdColumn, PartitionUnits, sequence_of
from dperm.rows.encoder import Encoder
from dperm.rows.encoding import check_table
from dperm.rows.files import is_files
from dperm.rows.kept import cache_folder
from dperm.rows.pieces import Piece
from dperm.rows.workers import KILLED, Workers, failed
from dperm.schema import Schema

Array = NDArray[np.float64]

# Partitions for every thread of a cluster, so that none waits long for the slowest, and rows that are worth a task.
_PER_THREAD, _FEWEST_ROWS = 4, 2**17
# Bytes that Dask takes a partition for: public, whatever the partition is.
_SHOWN_SIZE = 2**26
# Times that the workers with a partition may die of a question, as Dask's own allowed-failures.
_TRIES = 4


class ClusterSource(SchemaSource):
    """A table on the workers of a Dask cluster.

    Parameters
    ----------
    data, client
        As of `Table`. Files are read by the workers, so they must have the same path there as here.
    schema, **settings
        As of `SchemaSource`; memory and cache are the same for each worker.
    """

    _where = "on a cluster"

    def __init__(self, data: Any, client: Any = None, schema: Schema | None = None, **settings: Any) -> None:
        if not (is_frame(data) or is_files(data)):
            raise InvalidParameterError(f"a cluster reads Dask data frames and files, got {type(data).__name__}.")
        self._workers = Workers(
            current_client() if client is None else client,
            "a partition of the frame cannot be computed ({})"
            if is_frame(data)
            else "a worker cannot run its task ({}); it needs this version of dperm",
        )
        self._counted: int | None = None
        self._seen: list[tuple[int, IdColumn, bytes]] = []
        super().__init__(data, schema, **settings)

    def _use(self, encoder: Encoder) -> None:
        if not is_frame(self._data):
            super()._use(encoder)
            return
        check_table(self._data._meta, None, encoder.schema)
        if encoder.schema.unit is not None:
            Columns(self._data._meta).arrow(encoder.schema.unit.name)  # raises where there is none
        self._opened = self._data[encoder.columns].to_delayed()

    def _cut(self, pieces: list[Piece]) -> list[Piece]:
        """A few for every thread of the cluster."""
        self._counted = sum(piece.n_rows for piece in pieces)
        rows = max(_FEWEST_ROWS, -(-self._counted // (_PER_THREAD * max(self._workers.n_threads(), 1))))
        return [part for piece in pieces for part in piece.split(rows)]

    def _digested(self, ids: IdColumn) -> Iterator[DigestedRows]:
        self._n_questions += 1
        name = f"ids-{self._n_questions}"
        found = [
            self._submit(tasks.read_ids, name, k, part, ids, self._keeping()) for k, part in enumerate(self._opened)
        ]
        self._seen = []
        try:
            for future in found:
                partition = _checked(self._workers.result(future))
                n_rows = sum(rows.codes.size for rows in partition.rows)
                self._seen.append((n_rows, ids, sequence_of(partition.rows)))
                yield from partition.rows
                future.release()
        finally:
            _release(found)
        self._counted = sum(n_rows for n_rows, _, _ in self._seen)

    def _disk(self) -> Path | None:
        """The named folder is on the workers."""
        return cache_folder(self._cache is not False)

    def _units(self) -> Iterator[PartitionUnits | None]:
        """Whose the rows of every partition are."""
        chosen, first = self._chosen_rows(), 0
        if chosen is None:
            yield from [None] * len(self._opened)
            return
        for n_rows, ids, sequence in self._seen:
            yield PartitionUnits(chosen[first : first + n_rows], ids, sequence)
            first += n_rows

    def _forget(self) -> None:
        self._encoded: tuple[Problem, list[Any]] | None = None
        self._holders: list[str] | None = None
        self._n_questions = 0
        self._word = secrets.token_hex(8)

    @property
    def _n_rows(self) -> int:
        """Number of rows: that of the files' own notes, or counted by the workers."""
        self._encoding()
        if self._counted is None:
            counts = [self._submit(tasks.count_rows, "rows", k, part) for k, part in enumerate(self._opened)]
            self._counted = int(self._collect(counts))
        return self._counted

    def is_slow(self, n: int, schema: Schema | None) -> bool:
        """A question is a round through the cluster."""
        return True

    def _total(self, problem: Problem, part: RowPart, objective: Objective, pool: Executor) -> Any:
        """What every worker adds up of its partitions, added up in turn."""
        partitions, sums, n_tries = self._read(problem), list[Any](), 0
        left = set(range(len(partitions)))
        self._passes += 1
        while left:
            if self._holders is None or any(future.status != "finished" for future in partitions):
                self._holders = self._workers.holders(partitions)
            asked: dict[str, dict[int, str]] = {}
            for k in sorted(left):
                asked.setdefault(self._holders[k], {})[k] = partitions[k].key
            called = {
                worker: self._workers.call(worker, tasks.take, keys, part, objective.problem)
                for worker, keys in asked.items()
            }
            for worker, keys in asked.items():
                found = _checked(self._workers.answer(called[worker], worker))
                if found is None:  # it is gone, or has passed a partition on
                    self._holders = None
                else:
                    sums.append(found)
                    left -= keys.keys()
                    n_tries = 0
            n_tries += 1
            if n_tries > _TRIES:
                raise failed(KILLED)
        if self._report is not None:
            self._report(self._passes, self._n_rows)
        return add_up(sums)

    def _count(self, part: ColumnPart) -> Array:
        """By the workers, of the columns as they are read."""
        encoder = self._encoding()
        self._n_questions += 1
        name = f"count-{self._n_questions}"
        counts = [
            self._submit(tasks.count, name, k, rows, encoder, part, units, self._keeping())
            for k, (rows, units) in enumerate(zip(self._opened, self._units(), strict=True))
        ]
        return np.asarray(self._collect(counts))

    def close(self) -> None:
        """Let the workers drop what they keep."""
        if self._encoded is not None:
            _release(self._encoded[1])
        self._encoded = self._holders = None

    def _read(self, problem: Problem) -> list[Any]:
        """Futures of encoded partitions: read when they are first needed, and again by who takes over a lost one."""
        if self._encoded is None or self._encoded[0] is not problem:
            self.close()
            keeping = self._keeping()
            self._encoded = (
                problem,
                [
                    self._submit(tasks.encode, "rows", k, part, self._encoding(), problem, units, keeping)
                    for k, (part, units) in enumerate(zip(self._opened, self._units(), strict=True))
                ],
            )
        return self._encoded[1]

    def _keeping(self) -> tasks.Keeping:
        size = min(_SHOWN_SIZE, self._budget.size // len(self._opened))
        return tasks.Keeping(self._word, self._budget, self._cache, size)

    def _submit(self, task: Callable[..., Any], name: str, number: int, *arguments: Any) -> Any:
        """A task of this fit."""
        return self._workers.submit(task, f"dperm-{self._word}-{name}-{task.__name__}-{number}", *arguments)

    def _collect(self, futures: list[Any]) -> Any:
        """The sum of what tasks return."""
        try:
            return add_up(_checked(self._workers.result(future)) for future in futures)
        finally:
            _release(futures)


def _checked(found: Any) -> Any:
    """What a task returned, unless it failed."""
    if isinstance(found, tasks.Failure):
        raise found.error()
    return found


def _release(futures: list[Any]) -> None:
    for future in futures:
        with suppress(Exception):
            future.release()
    futures.clear()
