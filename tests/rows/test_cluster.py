"""Rows on a cluster whose workers, scheduler or driver die, and what can be seen of them from outside."""

import asyncio
import contextlib
import dataclasses
import logging
import math
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from dask import dataframe as dask_frame
from dask.sizeof import sizeof

from contracts import cluster_runs
from contracts.cluster_runs import (
    GUARANTEE,
    LOUD,
    STEPS,
    Cluster,
    Forge,
    arm,
    as_process,
    held,
    is_dead,
    kill,
    kill_one,
    sizes,
    soon,
    tasks,
    within,
)
from contracts.sources import PROBLEM, SCHEMA, Counted, files, frame, most_additions, numbers, persons, schema_of
from dperm import (
    Budget,
    BudgetExceededError,
    Category,
    Classes,
    ClusterError,
    DpermError,
    Guarantee,
    InvalidParameterError,
    Number,
    PrivacyUnit,
    Problem,
    Schema,
)
from dperm.kernel.exact.words import fresh_key
from dperm.kernel.noise import Randomness
from dperm.kernel.oracle import Oracle
from dperm.kernel.sampling import Sample, Sampling
from dperm.kernel.source import place_of
from dperm.kernel.sums import RowSums
from dperm.plan import fit_plan
from dperm.plan.options import FitOptions
from dperm.problem import L2, Logistic
from dperm.rows import cluster, cluster_tasks, dask_client, workers
from dperm.rows.cluster import ClusterSource
from dperm.rows.dask_client import open_cluster
from dperm.rows.encoder import Encoder
from dperm.rows.encoding import encode_rows
from dperm.rows.memory import MemoryBudget
from dperm.rows.pieces import ParquetPiece
from dperm.rows.streamed import FileSource
from dperm.solvers import DPGD, DPSGD, DPSVRG, DPNewton

SAMPLED = DPSGD(n_steps=8, sampling_rate=0.3)
ANCHORED = DPSVRG(n_epochs=2, n_inner=4, sampling_rate=0.3)
FOUND = Schema(
    {
        **SCHEMA.columns,
        "x0": Number("private", within=(-9, 9), encode="linear"),
        "x1": Number((-1, 1), encode="bins", bins="private", n_bins=4),
    },
    Classes("y", [0, 1]),
)


@pytest.fixture(scope="module")
def forge():
    with contextlib.closing(Forge()) as running:
        yield running


@pytest.fixture
def new_cluster(forge, tmp_path):
    """One with so many workers, for a test that kills its scheduler."""
    with contextlib.ExitStack() as opened:
        yield lambda n_workers: opened.enter_context(
            contextlib.closing(Cluster(forge, tmp_path / "cluster", n_workers))
        )  # fmt: skip


@pytest.fixture(scope="module")
def loud(forge, tmp_path_factory):
    """Two workers who write down all that they can; a test may kill them."""
    with contextlib.closing(Cluster(forge, tmp_path_factory.mktemp("loud"), 2, LOUD)) as running:
        yield running


@pytest.fixture(scope="module")
def connected(loud):
    with open_cluster(loud.address) as client:
        yield client


@pytest.fixture
def client(loud, connected):
    """Of the loud cluster with two workers."""
    loud.n_workers = 2
    connected.wait_for_workers(2, timeout=10)
    return connected


@pytest.fixture
def doomed(client):
    """Processes that die in some work, or of it if they have not done it by the end of the test."""
    found = []
    yield found
    for process in found:
        kill(process)
    assert soon(lambda: not set(found) & set(client.run(os.getpid, on_error="ignore").values()))


@pytest.fixture(scope="module")
def rows():
    return files(*numbers())


@pytest.fixture
def hasty(monkeypatch):
    """Whoever waits for a cluster gives up soon."""
    for name, seconds in (("_PATIENCE", 0.3), ("_ANSWER", 1.5), ("_NO_WORKER", 2.0)):
        monkeypatch.setattr(workers, name, seconds)
    monkeypatch.setattr(dask_client, "_CONNECTING", 0.5)


@dataclasses.dataclass
class Questions:
    items: list
    left: Counter


@pytest.fixture
def questions(monkeypatch):
    """What every oracle was asked, and what its plan had left in the end."""
    asked = []

    class CountingOracle(Oracle):
        def ask(self, item, *points, **settings):
            asked[-1].items.append(item)
            return super().ask(item, *points, **settings)

    def made(*arguments):
        oracle = CountingOracle(*arguments)
        asked.append(Questions([], oracle._left))
        return oracle

    monkeypatch.setattr(fit_plan, "Oracle", made)
    return asked


def fitted(source, solver=STEPS, *, schema=None, unit=None, random_state=0, budget=None, progress=None):
    problem, guarantee = PROBLEM, GUARANTEE
    if schema is not None:
        problem, guarantee = dataclasses.replace(PROBLEM, row_norm=3.0), Guarantee(8.0, 1e-6)
    options = FitOptions(problem, guarantee=guarantee, solver=solver, schema=schema, unit=unit)
    plan = options.plan(source._n_units, source.n_features)
    return plan.run(source, random_state=random_state, budget=budget, progress=progress, row_warnings=False)


# Workers that die. The fit that is not disturbed reads the same files here: the same partitions, and the same samples.


@pytest.mark.one_case_in(4, of_each="solver")
@pytest.mark.parametrize(
    ("work", "solver", "schema"),
    [
        ("encoding", STEPS, None),
        ("a gradient", STEPS, None),
        ("a sample", SAMPLED, None),
        ("a difference", ANCHORED, None),
        ("a Hessian", DPNewton(n_steps=2, n_hessians=1), None),
        ("counts of a range", STEPS, FOUND),
        ("counts of bins", STEPS, FOUND),
    ],
)
def test_a_worker_that_is_killed_changes_no_result_and_takes_no_question_more(
    work, solver, schema, client, rows, questions, doomed
):
    encoded_by = SCHEMA if schema is None else schema
    undisturbed = fitted(FileSource(rows, encoded_by), solver, schema=schema)
    doomed += arm(client, work)
    disturbed = within(20, lambda: fitted(ClusterSource(rows, client, encoded_by), solver, schema=schema))
    assert any(map(is_dead, doomed))
    np.testing.assert_allclose(disturbed.w, undisturbed.w, rtol=1e-9, atol=1e-12)
    assert disturbed.schema == undisturbed.schema
    assert_same_questions(*questions)


def assert_same_questions(one, other):
    assert one == other
    assert min(other.left.values()) >= 0


@pytest.mark.parametrize("solver", [STEPS, SAMPLED], ids=["all rows", "samples"])
def test_workers_that_are_killed_again_and_again_change_no_result(solver, client, rows, questions, doomed):
    undisturbed = fitted(FileSource(rows, SCHEMA), solver)
    doomed += arm(client, "encoding")

    def after_pass(number, _):
        if number in (2, 4, 6):
            client.wait_for_workers(2, timeout=10)
            doomed.extend([kill_one(client)] if number == 4 else arm(client, "a gradient"))

    source = ClusterSource(rows, client, SCHEMA)
    source._watch(after_pass)
    disturbed = within(20, lambda: fitted(source, solver))
    assert len(set(doomed)) == 4
    assert all(map(is_dead, doomed))
    np.testing.assert_allclose(disturbed.w, undisturbed.w, rtol=1e-9, atol=1e-12)
    assert_same_questions(*questions)


@pytest.mark.parametrize("is_first", [True, False], ids=["in the first question", "later"])
def test_a_fit_goes_on_when_all_workers_are_lost_and_others_come(is_first, loud, client, rows, questions, doomed):
    undisturbed = fitted(FileSource(rows, SCHEMA))

    def arm_all():
        loud.n_workers = 0
        doomed.extend(arm(client, "a gradient", 2))
        replacing.start()

    def replace():
        soon(lambda: all(map(is_dead, doomed)) and not client.nthreads())
        loud.n_workers = 2

    replacing = threading.Thread(target=replace)
    source = ClusterSource(rows, client, SCHEMA)
    source._watch(lambda number, _: arm_all() if number == 5 and not is_first else None)
    if is_first:
        arm_all()
    disturbed = within(20, lambda: fitted(source))
    replacing.join()
    assert len(doomed) == 2
    assert all(map(is_dead, doomed))
    np.testing.assert_allclose(disturbed.w, undisturbed.w, rtol=1e-9, atol=1e-12)
    assert_same_questions(*questions)


def test_a_worker_that_is_killed_while_it_reads_a_frame_changes_no_result(client, rows, questions, doomed):
    undisturbed = fitted(FileSource(rows, SCHEMA))
    doomed += arm(client, "encoding")
    disturbed = within(20, lambda: fitted(ClusterSource(dask_frame.read_parquet(rows), client, SCHEMA)))
    assert all(map(is_dead, doomed))
    np.testing.assert_allclose(disturbed.w, undisturbed.w, rtol=1e-9, atol=1e-12)
    assert_same_questions(*questions)


# Persons with rows in several partitions: every part that is computed again has the same rows and weights.


@pytest.mark.parametrize(
    ("work", "kind", "solver"),
    [("reading ids", "files", STEPS), ("encoding", "frame", STEPS), ("a sample of units", "files", SAMPLED)],
)
def test_a_worker_that_is_killed_changes_no_row_of_a_unit_and_no_weight(work, kind, solver, client, doomed):
    unit = PrivacyUnit("who", 3)
    rows = files(*numbers(), persons())
    undisturbed = fitted(FileSource(rows, schema_of(unit)), solver, unit=unit)
    doomed += arm(client, work)
    data = rows if kind == "files" else dask_frame.read_parquet(rows)
    disturbed = within(20, lambda: fitted(ClusterSource(data, client, schema_of(unit)), solver, unit=unit))
    assert all(map(is_dead, doomed))
    np.testing.assert_allclose(disturbed.w, undisturbed.w, rtol=1e-9, atol=1e-12)


@pytest.mark.slow  # each of them takes seconds to come back; the others are replaced at once
def test_workers_on_this_machine_that_are_killed_are_replaced_and_change_no_result(rows, questions):
    undisturbed = fitted(FileSource(rows, SCHEMA))
    with open_cluster("local[2]") as client:
        killed = arm(client, "a gradient")
        disturbed = within(20, lambda: fitted(ClusterSource(rows, client, SCHEMA)))
        assert all(map(is_dead, killed))
        client.wait_for_workers(2, timeout=20)
        assert killed[0] not in client.run(os.getpid).values()
    np.testing.assert_allclose(disturbed.w, undisturbed.w, rtol=1e-9, atol=1e-12)
    assert_same_questions(*questions)


# A scheduler that dies.


def fails(source, budget, **options):
    """The one sentence of a fit that ends because of its cluster, and the seconds that it took."""
    since = time.monotonic()
    with pytest.raises(ClusterError) as caught:
        within(20, lambda: fitted(source, random_state=None, budget=budget, **options))
    error = caught.value
    assert re.fullmatch(r"the cluster failed: [^.\n]+\.", str(error))
    assert error.__cause__ is error.__context__ is None
    assert "counts as spent" in " ".join(error.__notes__)
    (entry,) = budget.account().releases
    assert not entry.is_settled
    with pytest.raises(BudgetExceededError):  # all of it
        fitted(FileSource(files(*numbers()), SCHEMA), random_state=None, budget=budget)
    return str(error), time.monotonic() - since


@pytest.fixture
def budget(tmp_path, own_folders):
    return Budget.create("people", GUARANTEE, ledger=str(tmp_path / "ledger.db"))


@pytest.mark.parametrize("seconds", [0.0, 2.0], ids=["at once", "when Dask has given up"])
@pytest.mark.usefixtures("hasty")
def test_a_fit_whose_scheduler_is_killed_ends_with_one_sentence_and_counts_as_spent(seconds, budget, rows, new_cluster):
    running = new_cluster(1)

    def progress(done, _):
        if done == 5:
            os.kill(running.scheduler, signal.SIGKILL)
            time.sleep(seconds)

    with open_cluster(running.address) as client:
        message, taken = fails(ClusterSource(rows, client, SCHEMA), budget, progress=progress)
    assert "scheduler" in message
    assert taken < seconds + 6.0


@pytest.mark.parametrize("step", [0, 5], ids=["before the first question", "between two"])
@pytest.mark.usefixtures("hasty")
def test_a_fit_whose_scheduler_cannot_be_reached_ends_with_one_sentence_and_counts_as_spent(
    step, budget, rows, new_cluster
):
    running = new_cluster(1)

    class StoppingBudget(Budget):
        def reserve(self, *arguments):
            if step == 0:
                os.kill(running.scheduler, signal.SIGSTOP)
            return super().reserve(*arguments)

    def progress(done, _):
        if done == step:
            os.kill(running.scheduler, signal.SIGSTOP)

    with open_cluster(running.address) as client:
        stopping = StoppingBudget(budget.dataset, budget.ledger)
        message, taken = fails(ClusterSource(rows, client, SCHEMA), stopping, progress=progress)
    assert "scheduler" in message
    assert taken < 8.0


@pytest.mark.usefixtures("hasty")
def test_a_fit_whose_workers_are_all_gone_for_long_ends_with_one_sentence_and_counts_as_spent(
    budget, rows, new_cluster
):
    running = new_cluster(2)

    def progress(done, _):
        if done == 5:
            running.n_workers = 0
            for process in running.workers:
                kill(process)

    with open_cluster(running.address) as client:
        client.wait_for_workers(2, timeout=10)
        message, taken = fails(ClusterSource(rows, client, SCHEMA), budget, progress=progress)
    assert message == "the cluster failed: it has had no worker for 2 s."
    assert taken < 8.0


def test_a_driver_that_is_killed_leaves_a_reservation_and_nothing_on_the_cluster(budget, rows, loud, client):
    with as_process("fit", loud.address, str(rows), budget.dataset, budget.ledger) as driver:
        assert driver.stdout.readline() == b"half way\n"
        assert tasks(client)
        assert held(client)
        driver.kill()
    (entry,) = budget.account().releases
    assert not entry.is_settled
    with pytest.raises(BudgetExceededError):
        fitted(FileSource(rows, SCHEMA), random_state=None, budget=budget)
    assert soon(lambda: not tasks(client))
    assert soon(lambda: not held(client))


# What can be seen from outside.

SENTINEL_TEXT, SENTINEL = "SENTINELvalue", 123456.789
# Numbers that nothing else has: neither a port, nor a process.
COUNTS = (104_729, 75_011)
MARKED = Schema(
    {"amount": Number((0, 1e6), encode="linear"), "kind": Category(("a", "b"))}, Classes("y", [0, 1]), n=sum(COUNTS)
)


@pytest.fixture
def marked(tmp_path):
    """Two files in which one row in two has sentinels."""
    folder = tmp_path / "marked"
    folder.mkdir()
    for place, count in enumerate(COUNTS):
        odd = np.arange(count) % 2
        table = pd.DataFrame(
            {
                "amount": np.where(odd, SENTINEL, np.arange(count)),
                "kind": np.where(odd, SENTINEL_TEXT, "a"),
                "y": odd,
            }
        )
        table.to_parquet(folder / f"part-{place}.parquet")
    return folder


def fit_marked(source, progress=None, schema=MARKED):
    options = FitOptions(PROBLEM, guarantee=GUARANTEE, solver=DPGD(n_steps=3, accounting="composition"), schema=schema)
    return options.plan().run(source, random_state=0, progress=progress)


def assert_clean(text):
    assert SENTINEL_TEXT not in text
    assert f"{SENTINEL:.3f}" not in text
    for count in COUNTS:
        assert not re.search(rf"(?<![\d.]){count}(?!\d)", text)


def every_text_of(error):
    """Message, notes, causes and contexts, as any logger could print them."""
    seen = []
    while error is not None:
        seen.append("".join(traceback.format_exception_only(error)))
        error = error.__cause__ or error.__context__
    return "\n".join(seen)


def assert_nothing_is_outside(loud, client):
    assert soon(lambda: not tasks(client))
    assert soon(lambda: not held(client))
    noted = cluster_runs.notes(client)
    assert "rows-encode" in noted  # that is where it would be
    assert "DEBUG" in loud.written
    assert_clean(noted)
    assert_clean(loud.written)


@pytest.mark.parametrize("kind", ["files", "frame"])
def test_nothing_of_the_rows_is_in_logs_names_or_notes_of_a_cluster(kind, marked, loud, client, caplog):
    caplog.set_level(logging.DEBUG)
    data = marked if kind == "files" else dask_frame.read_parquet(marked)
    shown = []
    result = fit_marked(ClusterSource(data, client), progress=lambda *_: shown.append(sizes(client)))
    assert len(shown[-1]) == 2
    assert len(set(shown[-1])) == 1  # of partitions of different sizes
    assert_nothing_is_outside(loud, client)
    assert_clean(caplog.text + str(result.privacy) + repr(result.event))


@pytest.mark.parametrize("kind", ["files", "frame"])
def test_nothing_of_ids_is_in_logs_names_or_notes_of_a_cluster(kind, marked, loud, client, caplog):
    """Three rows in a hundred belong to one person, the others are alone."""
    caplog.set_level(logging.DEBUG)
    for place, path in enumerate(sorted(marked.glob("*.parquet"))):
        table = pd.read_parquet(path)
        ids = [f"{SENTINEL_TEXT}-{place}-{k if k % 100 > 2 else 0}" for k in range(len(table))]
        table.assign(who=ids).to_parquet(path)
    n = sum(len({k if k % 100 > 2 else 0 for k in range(count)}) for count in COUNTS)
    schema, shown = dataclasses.replace(MARKED, unit=PrivacyUnit("who", 2), n=n), []
    source = ClusterSource(marked if kind == "files" else dask_frame.read_parquet(marked), client)
    result = fit_marked(source, lambda *_: shown.append(sizes(client)), schema)
    assert len(set(shown[-1])) == 1
    assert_nothing_is_outside(loud, client)
    noted = cluster_runs.notes(client)
    assert "ids-1-read_ids" in noted
    assert str(n) not in noted + loud.written
    assert_clean(caplog.text + str(result.privacy) + repr(result.event))


def truncated(folder):
    path = next(folder.glob("part-1*"))
    path.write_bytes(path.read_bytes()[:-5000])


def overwritten(folder):
    """As large and as old as it was."""
    path = next(folder.glob("part-1*"))
    before, content = path.stat(), bytearray(path.read_bytes())
    content[200:5000] = b"\xa5" * 4800
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("spoil", [truncated, overwritten])
def test_nothing_of_the_rows_is_outside_when_a_file_changes_while_it_is_read(
    spoil, marked, loud, client, tmp_path, caplog
):
    caplog.set_level(logging.DEBUG)
    source = ClusterSource(marked, client, MARKED)
    spoil(marked)
    with pytest.raises(DpermError, match=r"part-1\.parquet (has changed|cannot be read)") as caught:
        fit_marked(source)
    assert_clean(every_text_of(caught.value))
    assert_nothing_is_outside(loud, client)
    assert_clean(caplog.text)


def test_nothing_of_the_rows_is_outside_when_a_column_cannot_be_encoded(marked, loud, client, caplog, doomed):
    caplog.set_level(logging.DEBUG)
    before = len(loud.written)
    source = ClusterSource(marked, client, MARKED)
    client.run(cluster_runs.spoil_encoding, SENTINEL_TEXT.encode().hex())  # what is run is logged
    try:
        with pytest.raises(ClusterError, match=r"a worker could not compute its part \(ValueError\)\.") as caught:
            fit_marked(source)
        noted = cluster_runs.notes(client)
    finally:
        doomed += client.run(os.getpid).values()
    for text in (every_text_of(caught.value), caplog.text, noted, loud.written[before:]):
        assert_clean(text)


# Not the text that other tests look for: Dask's own log shows what the owner's function raises.
OWN_TEXT = "HIDDENvalue"


def _fail_with(part, kind, text):
    raise kind(text)


@pytest.mark.parametrize("kind", [ValueError, FileNotFoundError, TimeoutError, ConnectionError])
@pytest.mark.usefixtures("hasty")
def test_a_frame_that_cannot_be_computed_is_told_from_a_cluster_that_is_gone(kind, client):
    table = dask_frame.from_pandas(frame(*numbers()), npartitions=2)
    broken = table.map_partitions(_fail_with, kind, OWN_TEXT, meta=table._meta)
    with pytest.raises(ClusterError, match=rf"of the frame cannot be computed \({kind.__name__}\)\.") as caught:
        within(10, lambda: ClusterSource(broken, client, SCHEMA)._n_rows)
    assert OWN_TEXT not in every_text_of(caught.value)
    assert_clean(every_text_of(caught.value))


def test_a_frame_may_be_read_by_another_schema_than_it_was_opened_with(client):
    table = dask_frame.from_pandas(frame(*numbers()), npartitions=2)
    narrow = Schema({"x1": SCHEMA.columns["x1"]}, SCHEMA.target)
    one, other = ClusterSource(table, client, narrow).with_schema(SCHEMA), ClusterSource(table, client, SCHEMA)
    # The last digit of a product may depend on where a worker's arrays lie in memory.
    np.testing.assert_allclose(fitted(one).w, fitted(other).w, rtol=1e-14)


def test_rows_are_not_in_the_files_that_dask_writes_when_memory_is_short(marked, loud, client):
    table = pd.DataFrame({"amount": [SENTINEL], "kind": ["a"]})
    encoded = encode_rows(table, MARKED, fitting=True).numbers.tobytes()
    found = []

    def progress(done, _):
        if done == 1:
            cluster_runs.spill(client)
            files = [path for path in loud.folder.rglob("*rows-encode*") if path.is_file()]
            found.extend(path.read_bytes().count(encoded) for path in files)

    result = fit_marked(ClusterSource(marked, client), progress)
    assert max(found, default=0) < 100  # of tens of thousands of rows
    np.testing.assert_allclose(result.w, fit_marked(FileSource(marked)).w, rtol=1e-9, atol=1e-12)


# Sizes, and what cannot be fetched.


def partition_of(n_rows, folder):
    path = folder / f"{n_rows}.parquet"
    frame(*numbers()).iloc[:n_rows].to_parquet(path)
    keeping = cluster_tasks.Keeping("word", MemoryBudget(10**7), False, cluster._SHOWN_SIZE)
    partition = cluster_tasks.encode(ParquetPiece.open(str(path)), Encoder(SCHEMA), PROBLEM, None, keeping)
    assert sum(map(len, partition.blocks())) == n_rows
    return partition


def test_the_size_of_a_partition_that_dask_is_told_does_not_depend_on_its_rows(tmp_path):
    parts = [partition_of(n_rows, tmp_path) for n_rows in (0, 3, 1100)]
    assert len({sizeof(part) for part in parts}) == 1
    assert len({sys.getsizeof(part) for part in parts}) == 1
    assert len({repr(part).partition(" at ")[0] for part in parts}) == 1


def test_a_partition_cannot_be_fetched_from_the_workers(client, rows):
    source = ClusterSource(rows, client, SCHEMA)
    futures = source._read(PROBLEM)
    for direct in (False, True):
        with pytest.raises(TypeError, match="never leave the workers"):
            client.gather(futures[3], direct=direct)
    source.close()


# Samples.


def test_a_partition_draws_the_same_rows_again_and_others_for_every_step_partition_and_fit():
    key = fresh_key()

    def drawn(key, step, partition):
        return Sample(key, step, 0.5).batches(1000, place_of(partition, 0)).rows.tolist()

    assert drawn(key, 1, 0) == drawn(key.copy(), 1, 0)
    # Two draws of 1000 rows are the same with probability 2⁻¹⁰⁰⁰.
    others = [drawn(key, 2, 0), drawn(key, 1, 1), drawn(key, 1, 2), drawn(key, 2, 1), drawn(fresh_key(), 1, 0)]
    assert len({tuple(rows) for rows in (drawn(key, 1, 0), *others)}) == 6
    one, other = (Sampling(fresh_key()) for _ in range(2))
    assert [one.next(0.5).step for _ in range(3)] == [1, 2, 3]
    assert not np.array_equal(one.next(0.5).key, other.next(0.5).key)


@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_rows_of_two_partitions_are_in_a_gradient_at_the_accounted_rate_and_independently(rate, tmp_path):
    n, draws = 24, 3000
    names = [f"id{k}" for k in range(n)]  # a row is a coordinate, so a sum shows who is in it
    table = pd.DataFrame({"id": names, "y": 1})
    for place, chosen in enumerate((slice(0, 12), slice(12, n))):  # of the same size: their samples must differ
        table.iloc[chosen].to_parquet(tmp_path / f"part-{place}.parquet")
    source = FileSource(tmp_path, Schema({"id": Category(tuple(names))}, Classes("y", [0, 1])))
    with ThreadPoolExecutor(1) as pool:
        sums = RowSums(source, Problem(Logistic(), L2(0.1)), pool, Randomness.from_random_state(5).sampling)
        included = np.array([sums.gradient(np.zeros(n), rate=rate) != 0.0 for _ in range(draws)]).astype(float)
    # Binomial standard errors; 4.5 of them over 24 rows and 276 pairs: false alarm below 0.3 %, fixed seed.
    assert np.abs(included.mean(axis=0) - rate).max() <= 4.5 * math.sqrt(rate * (1 - rate) / draws)
    pairs = (included.T @ included / draws)[np.triu_indices(n, 1)]
    assert np.abs(pairs - rate**2).max() <= 4.5 * math.sqrt(rate**2 * (1 - rate**2) / draws)


# Where a cluster is.


@pytest.mark.parametrize(
    "address",
    ["", "local", "local[0]", "local[-1]", "local[two]", "local[²]", "local[2", "scheduler:8786", "locals[2]"],
)
def test_what_is_no_cluster_is_refused_in_one_sentence(address):
    with pytest.raises(InvalidParameterError, match=r"^a (local )?cluster [^\n]+\.$"), open_cluster(address):
        pass


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tls://127.0.0.1:1", "nothing://127.0.0.1:1"])
@pytest.mark.usefixtures("hasty")
def test_where_nobody_answers_there_is_no_cluster(address):
    since = time.monotonic()
    with pytest.raises(ClusterError) as caught:
        within(10, open_cluster(address).__enter__)
    assert str(caught.value) == f"no scheduler answers at {address}."
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert time.monotonic() - since < 5.0


# Sums.


class Blocks:
    """A partition of so many blocks."""

    def __init__(self, n_blocks):
        self.n_blocks = n_blocks

    def blocks(self):
        return range(self.n_blocks)


class Ones:
    """A part that adds one for a block."""

    def of(self, block, place, objective, pool):
        return Counted()


class Future:
    status = "finished"

    def __init__(self, key):
        self.key = key

    def release(self):
        pass


class Here:
    """Workers that hold partitions in turn, and answer at once; one of them is gone when it is first asked."""

    def __init__(self, n_workers, n_blocks):
        self.n_workers, self.n_blocks, self.n_asked, self.pool = n_workers, n_blocks, 0, ThreadPoolExecutor(2)
        self.data = {}

    def submit(self, task, key, *arguments):
        self.data[key] = Blocks(self.n_blocks)
        return Future(key)

    def holders(self, futures):
        return [str(k % self.n_workers) for k, _ in enumerate(futures)]

    def call(self, worker, function, *arguments):
        held = SimpleNamespace(data=self.data, executors={"default": self.pool})
        return asyncio.run(function(*arguments, held))

    def answer(self, called, worker):
        self.n_asked += 1
        return None if self.n_asked == 1 else called


@pytest.mark.parametrize("n_blocks", [1, 5])
@pytest.mark.parametrize("n_workers", [1, 3, 100])
@pytest.mark.parametrize("n_parts", [1, 2, 9, 100])
def test_a_part_counts_once_and_goes_through_no_more_additions_than_the_padding_counts(
    n_parts, n_workers, n_blocks, rows, client
):
    source = ClusterSource(rows, client, SCHEMA)
    source._opened, source._workers = [None] * n_parts, Here(n_workers, n_blocks)
    total = source._total(PROBLEM, Ones(), SimpleNamespace(problem=PROBLEM), source._workers.pool)
    assert total.n_parts == n_parts * n_blocks
    assert source._workers.n_asked == min(n_parts, n_workers) + 1
    most = [n_blocks, math.ceil(n_parts / n_workers), min(n_parts, n_workers)]
    assert total.depth <= sum(map(most_additions, most))


def test_a_partition_whose_workers_die_of_every_question_ends_the_fit_with_one_sentence(rows, client):
    source = ClusterSource(rows, client, SCHEMA)
    source._opened, source._workers = [None], Here(1, 1)
    source._workers.answer = lambda called, worker: None
    with pytest.raises(ClusterError, match="the workers of one partition died repeatedly"):
        source._total(PROBLEM, Ones(), SimpleNamespace(problem=PROBLEM), source._workers.pool)


class Unreadable(dict):
    """What a worker holds, in files that cannot be read again."""

    def __getitem__(self, key):
        raise ValueError(SENTINEL_TEXT)


def test_what_a_worker_cannot_read_again_ends_a_question_without_a_value_and_without_a_line_in_a_log(caplog):
    with ThreadPoolExecutor(1) as pool:
        held = SimpleNamespace(data=Unreadable(one=None), executors={"default": pool})
        found = asyncio.run(cluster_tasks.take({0: "one"}, Ones(), PROBLEM, held))
    assert str(found.error()) == "a worker could not compute its part (ValueError)."
    assert_clean(caplog.text)


def test_a_worker_that_passed_a_partition_on_says_so_and_adds_up_nothing():
    held = SimpleNamespace(data={"one": Blocks(1)}, executors={})
    assert asyncio.run(cluster_tasks.take({0: "one", 1: "other"}, Ones(), PROBLEM, held)) is None
