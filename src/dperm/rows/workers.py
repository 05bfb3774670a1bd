"""Calls to a Dask cluster: each ends with an answer, or with one sentence about what is wrong with the cluster."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from dperm.errors import ClusterError
from dperm.rows.dask_client import dask_distributed

# Seconds after which somebody looks whether the scheduler is still there, how long it may take to answer, and how long
# a cluster may be without a worker.
_PATIENCE, _ANSWER, _NO_WORKER = 5.0, 30.0, 60.0
_GONE = "its scheduler cannot be reached"
KILLED = "the workers of one partition died repeatedly: it may be too large"
# Dask would print the size of what goes with a task, and with it about how many rows a partition has.
_NO_WARNING = "1 PB"


class Workers:
    """The workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
        Connected to the scheduler.
    on_failure : str
        What to say of a task that Dask says has failed, with "{}" for the kind of its error: dperm's own return theirs.
    """

    def __init__(self, client: Any, on_failure: str) -> None:
        self._client, self._on_failure = client, on_failure

    def n_threads(self) -> int:
        """Of all workers."""
        with suppress(Exception):
            return sum(self._client.sync(self._client.scheduler.ncores, callback_timeout=_ANSWER).values())
        raise failed(_GONE)

    def submit(self, task: Callable[..., Any], key: str, *arguments: Any) -> Any:
        """The future of a task. Dask says where it runs: one that is tied to a worker may wait for it forever."""
        import dask
        from dask.delayed import delayed

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
        raise failed(_GONE if is_gone else "a query cannot be sent to it")

    def result(self, future: Any) -> Any:
        """What a task returned."""
        self._wait_for(future)
        return self._patiently(future.result)

    def holders(self, futures: Sequence[Any]) -> list[str]:
        """For every task the address of a worker that holds what it returned: waits until they are done."""
        while True:
            for future in futures:
                self._wait_for(future)
            found = self._patiently(
                lambda timeout: self._client.sync(
                    self._client.scheduler.who_has, keys=[future.key for future in futures], callback_timeout=timeout
                )
            )
            # One may have been lost meanwhile.
            if all(found.get(future.key) for future in futures):
                return [found[future.key][0] for future in futures]

    def call(self, worker: str, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Run a function on a worker past Dask's scheduling, which takes several times as long for a short one."""
        asked = self._client.run(function, *arguments, workers=[worker], on_error="return", asynchronous=True)
        return asyncio.run_coroutine_threadsafe(asked, self._client.loop.asyncio_loop)

    def answer(self, called: "Future[Any]", worker: str) -> Any:
        """What the function returned; None if the worker is gone."""
        found = self._patiently(called.result, worker)
        if found is None:
            called.cancel()
            return None
        return None if isinstance(found[worker], Exception) else found[worker]

    def _wait_for(self, future: Any) -> None:
        """Until a task is done; raises one sentence if it has failed."""
        error = self._patiently(future.exception)
        if isinstance(error, dask_distributed().scheduler.KilledWorker):
            raise failed(KILLED)
        if error is not None:
            raise failed(self._on_failure.format(type(error).__name__))

    def _patiently(self, wait: Callable[[float], Any], worker: str | None = None) -> Any:
        """What `wait` gives, called with the seconds after which it gives up for now; None if the worker is gone."""
        since = time.monotonic()
        while True:
            failure = None
            try:
                return wait(_PATIENCE)
            except TimeoutError:
                pass
            except Exception:
                failure = _GONE
            if failure is None:
                workers = self._addresses()
                if workers is None:
                    failure = _GONE
                elif worker is not None and worker not in workers:
                    return None
                elif workers:
                    since = time.monotonic()
                elif time.monotonic() - since > _NO_WORKER:
                    failure = f"it has had no worker for {_NO_WORKER:.0f} s"
            # Raised here and not above, so that no message of Dask is kept as its context.
            if failure is not None:
                raise failed(failure)

    def _addresses(self) -> Any:
        """Of all workers; None where the scheduler cannot be reached."""
        with suppress(Exception):
            return self._client.sync(self._client.scheduler.identity, callback_timeout=_ANSWER)["workers"]
        return None


def failed(why: str) -> ClusterError:
    """The one sentence."""
    return ClusterError(f"the cluster failed: {why}.")
