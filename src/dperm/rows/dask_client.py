"""Dask: which cluster a fit runs on, and what a frame of it is."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dperm.errors import ClusterError, InvalidParameterError, NotInstalledError

# Seconds that a scheduler may take to let a client in.
_CONNECTING = 10.0


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
    distributed = dask_distributed()
    name, _, rest = address.partition("[")
    if name == "local":
        if re.fullmatch(r"[1-9][0-9]{0,3}\]", rest) is None:
            raise InvalidParameterError(f"a local cluster is written local[4], got {address!r}.")
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
        raise InvalidParameterError(
            f"a cluster is an address such as tcp://scheduler:8786, or local[4], got {address!r}."
        )
    # Made in two steps, so that one that cannot connect is closed here: left to the garbage collector, it is closed at
    # any moment, and waits forever if another one is being made just then.
    client, is_connected = distributed.Client.__new__(distributed.Client), False
    try:
        with suppress(Exception):
            client.__init__(address, timeout=_CONNECTING)
            is_connected = True
        if not is_connected:
            raise ClusterError(f"no scheduler answers at {address}.")
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=_CONNECTING)


def current_client() -> Any:
    """The client that was made last."""
    distributed = dask_distributed()
    with suppress(ValueError):
        return distributed.default_client()
    raise InvalidParameterError("a Dask frame is fitted on its cluster: make a distributed.Client first.")


def dask_distributed() -> Any:
    """The module `distributed`, or one sentence about how to get it."""
    try:
        import distributed
    except ImportError:
        raise NotInstalledError("a cluster needs Dask: pip install 'dperm[cluster]'.") from None
    return distributed
