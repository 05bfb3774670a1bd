"""Rows on the workers of a Dask cluster. They are read, encoded, bounded and added up there.

What comes back to this process, which holds the plan and adds the noise, is one sum a question: parts are added up by a
tree of tasks in a fixed order, so that a part that is computed again after a worker was lost is the same and counts
once. Task names hold a random word and numbers of steps; errors come back as sentences without a value.
"""

import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import ClusterError, InvalidParameterError
from dperm.kernel.counts import ColumnPart
from dperm.kernel.objectives import Objective
from dperm.kernel.parts import RowPart
from dperm.problem import Problem
from dperm.rows import cluster_tasks as tasks
from dperm.rows.by_schema import SchemaSource
from dperm.rows.columns import Columns
from dperm.rows.dask_client import current_client, dask_distributed, is_frame
from dperm.rows.digests import DigestedRows, IdColumn, PartitionUnits, sequence_of
from dperm.rows.encoder import Encoder
from dperm.rows.encoding import check_table
from dperm.rows.files import is_files
from dperm.rows.pieces import Piece
from dperm.schema import Schema

Array = NDArray[np.float64]

# Parts that one task adds up.
_FAN_IN = 8
# Partitions for every thread of a cluster, so that none waits long for the slowest, and rows that are worth a task.
_PER_THREAD, _FEWEST_ROWS = 4, 2**17
_GONE = "its scheduler cannot be reached"
# Bytes that Dask takes a partition for: public, whatever the partition is.
_SHOWN_SIZE = 2**26
# Dask would print the size of what goes with a task, and with it about how many rows a partition has.
_NO_WARNING = "1 PB"
# Seconds after which somebody looks whether the scheduler is still there, how long it may take to answer, and how long
# a cluster may be without a worker.
_PATIENCE, _ANSWER, _NO_WORKER = 5.0, 30.0, 60.0


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
        self._client = current_client() if client is None else client
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
        rows = max(_FEWEST_ROWS, -(-self._counted // (_PER_THREAD * max(self._n_threads(), 1))))
        return [part for piece in pieces for part in piece.split(rows)]

    def _digested(self, ids: IdColumn) -> Iterator[DigestedRows]:
        self._n_questions += 1
        name = f"ids-{self._n_questions}"
        found = [self._submit(tasks.read_ids, name, k, part, ids) for k, part in enumerate(self._opened)]
        self._seen = []
        try:
            for future in found:
                partition = _checked(self._result(future))
                n_rows = sum(rows.codes.size for rows in partition.rows)
                self._seen.append((n_rows, ids, sequence_of(partition.rows)))
                yield from partition.rows
                future.release()
        finally:
            _release(found)
        self._counted = sum(n_rows for n_rows, _, _ in self._seen)

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
        self._n_questions = 0
        self._word = secrets.token_hex(8)

    @property
    def _n_rows(self) -> int:
        """Number of rows: that of the files' own notes, or counted by the workers."""
        self._encoding()
        if self._counted is None:
            counts = [self._submit(tasks.count_rows, "rows", k, part) for k, part in enumerate(self._opened)]
            self._counted = int(self._collect(counts, "rows"))
        return self._counted

    def is_slow(self, n: int, schema: Schema | None) -> bool:
        """A question is a round through the cluster."""
        return True

    def _total(self, problem: Problem, part: RowPart, objective: Objective, pool: Executor) -> Any:
        """Parts of blocks are added up where they are, then partition by partition in a tree."""
        partitions = self._read(problem)
        self._n_questions += 1
        name = f"sum-{self._n_questions}"
        # A task of its own, so that workers fetch it from each other, and one that loses it gets it again.
        asked = self._submit(tasks.hold, name, "all", (part, objective.problem))
        parts = [self._submit(tasks.take, name, k, rows, k, asked) for k, rows in enumerate(partitions)]
        self._passes += 1
        total = self._collect([asked, *parts], name, 1)
        if self._report is not None:
            self._report(self._passes, self._n_rows)
        return total

    def _count(self, part: ColumnPart) -> Array:
        """By the workers, of the columns as they are read."""
        encoder = self._encoding()
        self._n_questions += 1
        name = f"count-{self._n_questions}"
        counts = [
            self._submit(tasks.count, name, k, rows, encoder, part, units)
            for k, (rows, units) in enumerate(zip(self._opened, self._units(), strict=True))
        ]
        return np.asarray(self._collect(counts, name))

    def close(self) -> None:
        """Let the workers drop what they keep."""
        if self._encoded is not None:
            _release(self._encoded[1])
        self._encoded = None

    def _read(self, problem: Problem) -> list[Any]:
        """Futures of encoded partitions: read when they are first needed, and again by who takes over a lost one."""
        if self._encoded is None or self._encoded[0] is not problem:
            self.close()
            size = min(_SHOWN_SIZE, self._memory // len(self._opened))
            keeping = tasks.Keeping(self._word, self._memory, self._cache, size)
            self._encoded = (
                problem,
                [
                    self._submit(tasks.encode, "rows", k, part, self._encoding(), problem, units, keeping)
                    for k, (part, units) in enumerate(zip(self._opened, self._units(), strict=True))
                ],
            )
        return self._encoded[1]

    def _n_threads(self) -> int:
        with suppress(Exception):
            return sum(self._client.sync(self._client.scheduler.ncores, callback_timeout=_ANSWER).values())
        raise ClusterError(f"the cluster failed: {_GONE}.")

    def _key(self, name: str, what: object) -> str:
        return f"dperm-{self._word}-{name}-{what}"

    def _submit(self, task: Callable[..., Any], name: str, number: object, *arguments: Any) -> Any:
        """A task of this fit. Dask says where it runs: one that is tied to a worker may wait for it forever."""
        import dask
        from dask.delayed import delayed

        key = self._key(f"{name}-{task.__name__}", number)
        is_gone = False
        try:
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": _NO_WARNING}):
                if arguments and hasattr(arguments[0], "dask"):  # a partition of a frame, which Dask computes first
                    asked = delayed(task, pure=False)(*arguments, dask_key_name=key)
                    return self._client.compute(asked, optimize_graph=False)
                return self._client.submit(task, *arguments, key=key, pure=False)
        except Exception as error:
            is_gone = self._client.status != "running" or isinstance(error, OSError)
        # Raised here and not above, so that no message of Dask is kept as its context.
        raise ClusterError(f"the cluster failed: {_GONE if is_gone else 'a query cannot be sent to it'}.")

    def _collect(self, futures: list[Any], name: str, n_inputs: int = 0) -> Any:
        """Add parts up in a tree, of a shape that depends on their number alone, and fetch the one that is left.

        The first `n_inputs` futures are no parts; they are dropped with the others.
        """
        kept, level, depth = list(futures), futures[n_inputs:], 0
        while len(level) > 1:
            depth += 1
            level = [
                self._submit(tasks.add, f"{name}-{depth}", first, *level[first : first + _FAN_IN])
                for first in range(0, len(level), _FAN_IN)
            ]
            kept += level
        try:
            found = self._result(level[0])
        finally:
            _release(kept)
        return _checked(found)

    def _result(self, future: Any) -> Any:
        distributed, since = dask_distributed(), time.monotonic()
        while True:
            failure = None
            try:
                return future.result(timeout=_PATIENCE)
            except distributed.scheduler.KilledWorker:
                failure = "the workers of one partition died repeatedly: it may be too large"
            except Exception as error:  # of Dask, or of the frame's own tasks: it may show a value
                if future.status == "error":
                    # Not `error`: that may be our own patience, which ended just before the task did.
                    failure = self._task_failure(future.exception(timeout=_ANSWER))
                elif not isinstance(error, TimeoutError):
                    failure = _GONE
            if failure is None:
                failure, since = self._looked_at(since)
            # Raised here and not above, so that no message of Dask is kept as its context.
            if failure is not None:
                raise ClusterError(f"the cluster failed: {failure}.")

    def _task_failure(self, error: Exception) -> str:
        """What to say of a task that Dask itself says has failed; dperm's own return their errors."""
        if is_frame(self._data):
            return f"a partition of the frame cannot be computed ({type(error).__name__})"
        return f"a worker cannot run its task ({type(error).__name__}); it needs this version of dperm"

    def _looked_at(self, since: float) -> tuple[str | None, float]:
        """What is wrong with a cluster that has not answered for a while, and when it last had a worker."""
        try:
            identity = self._client.sync(self._client.scheduler.identity, callback_timeout=_ANSWER)
        except Exception:
            return _GONE, since
        if identity["workers"]:
            return None, time.monotonic()
        is_lost = time.monotonic() - since > _NO_WORKER
        return f"it has had no worker for {_NO_WORKER:.0f} s" if is_lost else None, since


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
