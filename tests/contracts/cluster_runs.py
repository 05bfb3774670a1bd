"""Clusters whose processes a test can stop and kill, and what runs there; for test_cluster.py."""

import asyncio
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask
import distributed
import psutil
from distributed.config import initialize_logging

from contracts.sources import PROBLEM, SCHEMA
from dperm import Budget, Guarantee, minimize
from dperm.rows.cluster import ClusterSource
from dperm.rows.dask_client import open_cluster
from dperm.solvers import DPGD

GUARANTEE = Guarantee(1.0, 1e-6)
STEPS = DPGD(n_steps=15, accounting="composition")
LOUD = {"logging": {"distributed": "debug"}, "distributed.admin.low-level-log-length": 1_000_000}


def soon(is_true, seconds=10.0):
    """Whether it becomes true within so many seconds."""
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def within(seconds, run):
    """What a call gives or raises, if it ends in time; one that does not is left behind."""
    ended = []

    def go():
        try:
            ended.append((run(), None))
        except BaseException as error:
            ended.append((None, error))

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join(seconds)
    assert ended, f"it has not ended after {seconds} s"
    found, error = ended[0]
    if error is not None:
        raise error
    return found


# Processes. They are forks of one that has imported everything, so that another is there at once.


def as_process(*arguments, **options):
    """This file as a program."""
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    command = [sys.executable, __file__, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": paths}, **options)


class Forge:
    """Starts schedulers and workers."""

    def __init__(self):
        self._process, self._lock = as_process("forge", stdin=subprocess.PIPE), threading.Lock()

    def start(self, *order):
        with self._lock:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())

    def close(self):
        self._process.communicate()


def _forge():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for whom a test kills
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            kind, folder, settings = json.loads(line)
            log = os.open(folder + "/log.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
            threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
            dask.config.set(settings)
            initialize_logging(dask.config.config)
            asyncio.run({"scheduler": _schedule, "worker": _work}[kind](Path(folder)))
            os._exit(0)
        print(process, flush=True)  # noqa: T201


def _end_with(parent):
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


async def _schedule(folder):
    async with distributed.Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        (folder / "address.new").write_text(scheduler.address)
        (folder / "address.new").rename(folder / "address")
        await scheduler.finished()


async def _work(folder):
    address = (folder / "address").read_text()
    async with distributed.Worker(address, nthreads=1, local_directory=str(folder), dashboard=False) as worker:
        await worker.finished()


class Cluster:
    """A scheduler and workers, with all that they write in one file.

    Attributes
    ----------
    n_workers : int
        As many are started again, whoever dies; a test may set it.
    """

    def __init__(self, forge, folder, n_workers, settings=None):
        self._forge, self.folder, self._settings = forge, folder, settings or {}
        folder.mkdir(exist_ok=True)
        self.scheduler = forge.start("scheduler", str(folder), self._settings)
        assert soon((folder / "address").exists)
        self.address = (folder / "address").read_text()
        self.workers, self.n_workers = [], n_workers
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def _keep(self):
        while (n_workers := self.n_workers) is not None:
            self.workers = [process for process in self.workers if not is_dead(process)]
            for _ in range(n_workers - len(self.workers)):
                self.workers.append(self._forge.start("worker", str(self.folder), self._settings))
            time.sleep(0.05)

    @property
    def written(self):
        return (self.folder / "log.txt").read_text(errors="replace")

    def close(self):
        self.n_workers = None
        self._keeper.join()
        for process in (self.scheduler, *self.workers):
            kill(process)


def kill(process):
    """A process that may be dead."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def is_dead(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    return True


# Workers that die.

_WORK = {
    "encoding": ("dperm.rows.encoder", "Encoder", "_piece"),
    "a gradient": ("dperm.kernel.parts", "GradientPart", "of"),
    "a difference": ("dperm.kernel.parts", "DifferencePart", "of"),
    "a Hessian": ("dperm.kernel.parts", "HessianPart", "of"),
    "a sample": ("dperm.kernel.sampling", "Sample", "batches"),
    "counts of a range": ("dperm.kernel.counts", "BeyondPart", "of"),
    "counts of bins": ("dperm.kernel.counts", "CellsPart", "of"),
    "a sample of units": ("dperm.kernel.sampling", "Sample", "batches_by_unit"),
    "reading ids": ("dperm.rows.digests", "IdColumn", "read"),
}


def _die_in(work):
    """Runs on a worker: its process is killed when it next does this work. Whoever comes in its place is not."""
    module, cls, method = _WORK[work]
    owner = getattr(importlib.import_module(module), cls)

    def die(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, method, die)
    return os.getpid()


def arm(client, work, n_workers=1):
    """So many workers will die in this work, those first that hold most; their processes."""
    return [*client.run(_die_in, work, workers=_by_load(client)[:n_workers]).values()]


def kill_one(client):
    """Kill the process of a worker, not the one that watches it."""
    (found,) = client.run(os.getpid, workers=_by_load(client)[:1]).values()
    kill(found)
    return found


def _by_load(client):
    return [address for address, keys in sorted(client.has_what().items(), key=lambda found: -len(found[1]))]


# What is on a cluster.


def tasks(client):
    """Names of the tasks of fits that the scheduler knows."""
    return client.run_on_scheduler(_tasks)


def _tasks(dask_scheduler):
    return [key for key in dask_scheduler.tasks if str(key).startswith("dperm-")]


def sizes(client):
    """Bytes that the scheduler takes encoded partitions for."""
    return client.run_on_scheduler(_sizes)


def _sizes(dask_scheduler):
    return [task.nbytes for key, task in dask_scheduler.tasks.items() if "rows-encode" in str(key)]


def held(client):
    """Names of what workers hold of fits."""
    return [key for keys in client.run(_held).values() for key in keys]


def _held(dask_worker):
    return [key for key in dask_worker.data if str(key).startswith("dperm-")]


def spill(client):
    """Let workers write what they hold to their folders, as they do when memory is short."""
    client.run(_spill)


def _spill(dask_worker):
    while dask_worker.data.fast and dask_worker.data.evict() != -1:
        pass


def notes(client):
    """All that scheduler and workers keep for whoever looks at them."""
    found = [client.get_scheduler_logs(), client.get_worker_logs(), client.get_events(), client.get_task_stream()]
    return "\n".join(map(str, (*found, client.run_on_scheduler(_scheduler_notes), client.run(_worker_notes))))


def _scheduler_notes(dask_scheduler):
    return "\n".join(map(str, (*dask_scheduler.transition_log, *dask_scheduler.tasks.values())))


def _worker_notes(dask_worker):
    return "\n".join(map(str, (*dask_worker.state.log, *dask_worker.state.stimulus_log)))


def spoil_encoding(packed):
    """Runs on a worker: what reads categories fails from here on, with this text."""
    from dperm.rows import encoding

    def fail(*_):
        raise ValueError(bytes.fromhex(packed).decode())

    encoding.as_words = fail


# A fit in a process of its own.


def _fit_and_wait(address, folder, dataset, ledger):
    """Say so after the fifth step, and wait there to be killed."""

    def progress(done, _):
        if done == 5:
            print("half way", flush=True)  # noqa: T201
            time.sleep(60)

    with open_cluster(address) as client:
        source = ClusterSource(folder, client, SCHEMA)
        minimize(PROBLEM, source, guarantee=GUARANTEE, solver=STEPS, budget=Budget(dataset, ledger), progress=progress)


if __name__ == "__main__":
    {"forge": _forge, "fit": _fit_and_wait}[sys.argv[1]](*sys.argv[2:])
