"""Rows on the workers of a Dask cluster. They are read, encoded, bounded and added up there.

What comes back to this process, which holds the plan and adds the noise, is one sum a question: parts are added up by a
tree of tasks in a fixed order, so that a part that is computed again after a worker was lost is the same and counts
once. Task names hold a random word and numbers of steps; errors come back as sentences without a value.
"""

import functools
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm import errors
from dperm.errors import ClusterFailed, DpermError, InvalidParameter
from dperm.problem import Problem
from dperm.schema import Schema
from dperm.trusted.adding import add_up
from dperm.trusted.block import Block
from dperm.trusted.objectives import Objective, objective_of
from dperm.trusted.parts import RowPart
from dperm.trusted.sources.base import Report, Source, place_of
from dperm.trusted.sources.counts import ColumnPart
from dperm.trusted.sources.encoder import ROWS_AT_ONCE, Encoder, rows_of
from dperm.trusted.sources.encoding import check_table
from dperm.trusted.sources.files import check_columns, is_files, open_pieces
from dperm.trusted.sources.kept import KeptBlocks, Room, cache_folder
from dperm.trusted.sources.pieces import Piece
from dperm.trusted.sources.streamed import KEPT, bytes_of, rows_of_block
from dperm.trusted.threads import ONE_THREAD

Array = NDArray[np.float64]

# Parts that one task adds up.
_FAN_IN = 8
# Partitions for every thread of a cluster, so that none waits long for the slowest, and rows that are worth a task.
_PER_THREAD, _FEWEST_ROWS = 4, 2**17
_GONE = "its scheduler is gone, or cannot be reached"
# Bytes that Dask takes a partition for: public, whatever the partition is.
_SHOWN_SIZE = 2**26
# Seconds after which somebody looks whether the scheduler is still there, how long it may take to answer, and how long
# a cluster may be without a worker.
_PATIENCE, _ANSWER, _NO_WORKER = 5.0, 30.0, 60.0


def is_frame(data: Any) -> bool:
    """Whether it is a Dask data frame."""
    return type(data).__module__.split(".")[0] == "dask" and hasattr(data, "to_delayed") and hasattr(data, "columns")


@contextmanager
def open_cluster(address: str) -> Iterator[Any]:
    """A client of the cluster at an address, or of workers on this machine, which end with it.

    Parameters
    ----------
    address : str
        A scheduler's, such as "tcp://scheduler:8786" or "tls://scheduler:8786", or "local[4]" for four processes.
    """
    distributed = _distributed()
    name, _, rest = address.partition("[")
    if name == "local":
        if re.fullmatch(r"[1-9][0-9]{0,3}\]", rest) is None:
            raise InvalidParameter(f"a cluster on this machine is written local[4], got {address!r}.")
        import dask

        # A partition that Dask moved to an idle worker would be read again there; a worker that was killed comes back.
        with (
            dask.config.set(
                {"distributed.scheduler.work-stealing": False, "distributed.deploy.lost-worker-timeout": "1 hour"}
            ),
            distributed.LocalCluster(
                n_workers=int(rest[:-1]), threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0",
                security=True, silence_logs=50,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):  # fmt: skip
            yield client
        return
    if "://" not in address:
        raise InvalidParameter(f"a cluster is an address such as tcp://scheduler:8786, or local[4], got {address!r}.")
    # Made in two steps, so that one that cannot connect is closed here: left to the garbage collector, it is closed at
    # any moment, and waits forever if another one is being made just then.
    client, is_connected = distributed.Client.__new__(distributed.Client), False
    try:
        with suppress(Exception):
            client.__init__(address, timeout=_ANSWER / 3)
            is_connected = True
        if not is_connected:
            raise ClusterFailed(f"no scheduler answers at {address}.")
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=_ANSWER / 3)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise DpermError("a cluster needs Dask: pip install 'dperm[cluster]'.") from None
    return distributed


class ClusterSource(Source):
    """A table on the workers of a Dask cluster.

    Parameters
    ----------
    data : Dask data frame, path, list of paths or pyarrow dataset
        Files are read by the workers, so they must have the same path there as here.
    client : distributed.Client, optional
        By default the current one.
    schema : Schema, optional
        Says how rows are encoded; a fit hands over its own.
    memory : int or str
        About how much memory each worker may take for encoded rows, in bytes or as "4 GB".
    cache : path or bool
        The workers' folder for encoded rows that do not fit into memory; with False such rows are read again.
    class_weights : sequence of float, optional
        A public weight for every declared class.
    n_rows : int, optional
        The declared number of rows, for CSV files that end in empty lines.
    """

    def __init__(
        self,
        data: Any,
        client: Any = None,
        schema: Schema | None = None,
        *,
        memory: int | str = "1 GB",
        cache: Any = True,
        class_weights: Sequence[float] | None = None,
        n_rows: int | None = None,
    ) -> None:
        if not (is_frame(data) or is_files(data)):
            raise InvalidParameter(f"a cluster reads Dask data frames and files, got {type(data).__name__}.")
        self._data, self._client, self._cache = data, _client() if client is None else client, cache
        self._memory, self._declared, self._class_weights = bytes_of(memory), n_rows, class_weights
        self._partitions: list[Any] = []
        self._encoder: Encoder | None = None
        self._n_rows: int | None = None
        self._encoded: tuple[Problem, list[Any]] | None = None
        self._report: Report | None = None
        self._passes = self._n_questions = 0
        self._word = secrets.token_hex(8)
        if schema is not None:
            self._use(schema)

    def _use(self, schema: Schema) -> None:
        self._encoder = Encoder(schema, self._class_weights)
        if is_frame(self._data):
            check_table(self._data._meta, None, schema)
            self._partitions = self._data[self._encoder.columns].to_delayed()
            return
        if not self._partitions:
            declared = schema.n if self._declared is None else self._declared
            pieces = open_pieces(self._data, schema.header, schema.separator, n_rows=declared)
            n_rows = sum(piece.n_rows for piece in pieces)
            n_threads = max(self._n_threads(), 1)
            rows = max(_FEWEST_ROWS, -(-n_rows // (_PER_THREAD * n_threads)))
            self._partitions = [part for piece in pieces for part in piece.split(rows)]
            self._n_rows = n_rows
        check_columns(self._partitions, self._encoder.columns)
        check_table(self._partitions[0].empty(), None, schema)

    def with_schema(self, schema: Schema, class_weights: Sequence[float] | None = None) -> "ClusterSource":
        """The same table, encoded by this schema."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        other._encoded, other._passes, other._n_questions = None, 0, 0
        other._word = secrets.token_hex(8)
        other._class_weights = self._class_weights if class_weights is None else class_weights
        other._use(schema)
        return other

    @property
    def n_rows(self) -> int:
        """Number of rows: that of the files' own notes, or counted by the workers."""
        self._encoding()
        if self._n_rows is None:
            counts = [self._submit(_count_rows, "rows", k, part) for k, part in enumerate(self._partitions)]
            self._n_rows = int(self._collect(counts, "rows"))
        return self._n_rows

    @property
    def n_features(self) -> int:
        """Number of columns of an encoded row."""
        return self._encoding().schema.n_features

    def is_slow(self, n: int, schema: Schema | None) -> bool:
        """A question is a round through the cluster."""
        return True

    def watch(self, report: Report) -> None:
        """Called with the number of the pass and the rows that it has read."""
        self._report = report

    def total(self, problem: Problem, part: RowPart, objective: Objective, pool: Executor) -> Any:
        """Parts of blocks are added up where they are, then partition by partition in a tree."""
        partitions = self._read(problem)
        self._n_questions += 1
        name = f"sum-{self._n_questions}"
        # A task of its own, so that workers fetch it from each other, and one that loses it gets it again.
        asked = self._submit(_hold, name, "all", (part, objective.problem))
        parts = [self._submit(_take, name, k, rows, k, asked) for k, rows in enumerate(partitions)]
        self._passes += 1
        total = self._collect([asked, *parts], name, 1)
        if self._report is not None:
            self._report(self._passes, self.n_rows)
        return total

    def count(self, part: ColumnPart) -> Array:
        """By the workers, of the columns as they are read."""
        encoder = self._encoding()
        self._n_questions += 1
        name = f"count-{self._n_questions}"
        counts = [self._submit(_count, name, k, rows, encoder, part) for k, rows in enumerate(self._partitions)]
        return np.asarray(self._collect(counts, name))

    def close(self) -> None:
        """Let the workers drop what they keep."""
        if self._encoded is not None:
            _release(self._encoded[1])
        self._encoded = None

    def _encoding(self) -> Encoder:
        if self._encoder is None:
            raise InvalidParameter("rows on a cluster are read by a schema: give the model one (schema=…).")
        return self._encoder

    def _read(self, problem: Problem) -> list[Any]:
        """Futures of encoded partitions: read when they are first needed, and again by who takes over a lost one."""
        if self._encoded is None or self._encoded[0] is not problem:
            self.close()
            size = min(_SHOWN_SIZE, self._memory // len(self._partitions))
            keeping = _Keeping(self._word, self._memory, self._cache, size)
            self._encoded = (
                problem,
                [
                    self._submit(_encode, "rows", k, part, self._encoding(), problem, keeping)
                    for k, part in enumerate(self._partitions)
                ],
            )
        return self._encoded[1]

    def _n_threads(self) -> int:
        with suppress(Exception):
            return sum(self._client.sync(self._client.scheduler.ncores, callback_timeout=_ANSWER).values())
        raise ClusterFailed(f"the cluster failed: {_GONE}.")

    def _key(self, name: str, what: object) -> str:
        return f"dperm-{self._word}-{name}-{what}"

    def _submit(self, task: Callable[..., Any], name: str, number: object, *arguments: Any) -> Any:
        """A task of this fit. Dask says where it runs: one that is tied to a worker may wait for it forever."""
        from dask.delayed import delayed

        key = self._key(f"{name}-{task.__name__.strip('_')}", number)
        is_gone = False
        try:
            if arguments and hasattr(arguments[0], "dask"):  # a partition of a frame, which Dask computes first
                asked = delayed(task, pure=False)(*arguments, dask_key_name=key)
                return self._client.compute(asked, optimize_graph=False)
            return self._client.submit(task, *arguments, key=key, pure=False)
        except Exception as error:
            is_gone = self._client.status != "running" or isinstance(error, OSError)
        # Raised here and not above, so that no message of Dask is kept as its context.
        raise ClusterFailed(f"the cluster failed: {_GONE if is_gone else 'a question cannot be sent to it'}.")

    def _collect(self, futures: list[Any], name: str, n_inputs: int = 0) -> Any:
        """Add parts up in a tree, of a shape that depends on their number alone, and fetch the one that is left.

        The first `n_inputs` futures are no parts; they are dropped with the others.
        """
        kept, level, depth = list(futures), futures[n_inputs:], 0
        while len(level) > 1:
            depth += 1
            level = [
                self._submit(_add, f"{name}-{depth}", first, *level[first : first + _FAN_IN])
                for first in range(0, len(level), _FAN_IN)
            ]
            kept += level
        try:
            found = self._result(level[0])
        finally:
            _release(kept)
        if isinstance(found, _Failure):
            raise found.error()
        return found

    def _result(self, future: Any) -> Any:
        distributed, since = _distributed(), time.monotonic()
        while True:
            failure = None
            try:
                return future.result(timeout=_PATIENCE)
            except distributed.scheduler.KilledWorker:
                failure = "the workers that read one of its partitions died again and again: it may be too large"
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
                raise ClusterFailed(f"the cluster failed: {failure}.")

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


def _client() -> Any:
    distributed = _distributed()
    with suppress(ValueError):
        return distributed.default_client()
    raise InvalidParameter("a Dask frame is fitted on its cluster: make a distributed.Client first.")


def _release(futures: list[Any]) -> None:
    for future in futures:
        with suppress(Exception):
            future.release()
    futures.clear()


# What runs on a worker.


@dataclass(frozen=True)
class _Keeping:
    """How a worker keeps encoded rows."""

    word: str
    memory: int
    cache: Any
    shown_size: int


@dataclass(frozen=True)
class _Failure:
    """What went wrong on a worker, in words without a value."""

    kind: str
    message: str

    def error(self) -> Exception:
        kind = getattr(errors, self.kind, ClusterFailed)
        failure: Exception = kind(self.message)
        return failure


class _Partition:
    """Encoded rows of one partition; Dask shows neither what they are nor how many."""

    def __init__(self, kept: KeptBlocks, n_blocks: int, origin: tuple[Any, Encoder, Problem, "_Keeping"]) -> None:
        self._kept, self._n_blocks, self._origin = kept, n_blocks, origin

    def blocks(self) -> Iterator[Block]:
        """Those that are kept, or all of them read again."""
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
            self._origin = (None, *self._origin[1:])

    def __sizeof__(self) -> int:
        """What Dask is told: a public number, large enough that it rather moves a task to the rows than the rows."""
        return self._origin[-1].shown_size

    def __reduce__(self) -> Any:
        """For another worker, or for a file if memory is short: where the rows come from. Only a frame's come along."""
        blocks = None
        if self._origin[0] is None:
            blocks = [(b.table, b.target, b.scale, b.weight, b.facts) for b in self.blocks()]
        return _arrived, (blocks, *self._origin)


def _arrived(blocks: list[Any] | None, *origin: Any) -> _Partition:
    if not _distributed().Worker._instances:
        raise TypeError("rows cannot be pickled or copied: they never leave the workers.")
    if blocks is None:
        return _kept_partition(*origin)
    kept = KeptBlocks(Room(2**60), None)
    for k, parts in enumerate(blocks):
        kept.offer(k, Block(*parts))
    return _Partition(kept, len(blocks), origin)


def _kept_partition(partition: Any, encoder: Encoder, problem: Problem, keeping: _Keeping) -> _Partition:
    kept = KeptBlocks(_room(keeping), None if keeping.cache is False else cache_folder(keeping.cache))
    n_blocks = 0
    for n_blocks, block in enumerate(_blocks(partition, encoder, problem, keeping), 1):
        kept.offer(n_blocks - 1, block)
    found = _Partition(kept, n_blocks, (partition, encoder, problem, keeping))
    found.drop_frame()
    return found


def _blocks(partition: Any, encoder: Encoder, problem: Problem, keeping: _Keeping) -> Iterator[Block]:
    rows = rows_of_block(keeping.memory, encoder)
    return encoder.blocks(_tables(partition, encoder.columns), problem, rows, threads=1)


def _quiet(task: Callable[..., Any]) -> Callable[..., Any]:
    """A task that never raises: Dask would write its arguments, and with them rows, into the worker's log."""

    @functools.wraps(task)
    def run(*arguments: Any) -> Any:
        for argument in arguments:
            if isinstance(argument, _Failure):
                return argument
        try:
            return task(*arguments)
        except DpermError as error:
            return _Failure(type(error).__name__, str(error))
        except Exception as error:
            return _Failure("ClusterFailed", f"a worker could not compute its part ({type(error).__name__}).")

    return run


def _hold(asked: Any) -> Any:
    return asked


@_quiet
def _count_rows(partition: Any) -> int:
    return len(partition)


@_quiet
def _encode(partition: Any, encoder: Encoder, problem: Problem, keeping: _Keeping) -> _Partition:
    return _kept_partition(partition, encoder, problem, keeping)


@functools.lru_cache(4)
def _room(keeping: _Keeping) -> Room:
    """One for all partitions of a fit that this process reads."""
    return Room(keeping.memory // KEPT)


@_quiet
def _take(partition: _Partition, number: int, asked: tuple[RowPart, Problem]) -> Any:
    part, problem = asked
    objective = objective_of(problem)
    # A worker's other threads take other partitions.
    return add_up(
        part.of(block, place_of(number, k), objective, ONE_THREAD) for k, block in enumerate(partition.blocks())
    )  # fmt: skip


@_quiet
def _count(partition: Any, encoder: Encoder, part: ColumnPart) -> Array:
    return add_up(encoder.counts(_tables(partition, part.columns), part))


@_quiet
def _add(*parts: Any) -> Any:
    return add_up(parts)


def _tables(partition: Any, columns: Sequence[str]) -> Iterator[Any]:
    """A partition in tables of a few rows; an empty one gives an empty table."""
    if isinstance(partition, Piece):
        yield from partition.tables(columns)
        return
    for first in range(0, max(len(partition), 1), ROWS_AT_ONCE):
        yield rows_of(partition, slice(first, min(first + ROWS_AT_ONCE, len(partition))))
