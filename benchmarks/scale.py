"""Tables larger than memory, and clusters: every figure is a ratio of two sides that are measured in the same run.

    python benchmarks/scale.py [PART …] [--rows 1e8] [--folder DIR]

Parts: gradient (a cached table in the page cache against one in memory), cold (a cached table that has to be read from
the disk, against reading its bytes alone), first (the first pass over Parquet against pyarrow's scan and encoding
alone), workers (two against one), overhead (of a cluster on a small table), questions (what
one question costs a cluster besides the rows), line (cost against n; draws
docs/scale.png with what was measured). Rows are made from a seed.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from dperm import Classes, Guarantee, Number, Problem, Schema, minimize
from dperm.kernel.objectives import objective_of
from dperm.kernel.parts import GradientPart
from dperm.kernel.threads import n_threads
from dperm.problem import L2, Logistic
from dperm.rows.arrays import TableSource
from dperm.rows.cluster import ClusterSource
from dperm.rows.dask_client import open_cluster
from dperm.rows.encoder import Encoder
from dperm.rows.memory import MemoryBudget
from dperm.rows.streamed import FileSource
from dperm.solvers import DPGD

P, FILE_ROWS = 20, 2_500_000
SCHEMA = Schema({f"x{j}": Number((-1, 1), encode="linear") for j in range(P)}, Classes("y", [0, 1]))
PROBLEM = Problem(Logistic(), L2(1e-3), row_norm=SCHEMA.bound, intercept=True)
W = np.random.default_rng(1).normal(size=PROBLEM.dimension(P))
RESULTS = Path(__file__).with_name("scale_results.json")
PICTURE = Path(__file__).parents[1] / "docs" / "scale.png"


def write_rows(folder: Path, n: int) -> Path:
    """Parquet files of float32 columns, made from a seed; kept for other parts of this run."""
    import pyarrow as pa
    from pyarrow import parquet

    made = folder / f"rows-{n}"
    if made.exists():
        return made
    unfinished = folder / f"unfinished-{n}"
    unfinished.mkdir(parents=True)
    w = np.random.default_rng(2).normal(size=P).astype(np.float32)
    for number, first in enumerate(range(0, n, FILE_ROWS)):
        rng, rows = np.random.default_rng([3, number]), min(FILE_ROWS, n - first)
        X = rng.random((P, rows), dtype=np.float32) * 2 - 1
        y = (w @ X + rng.standard_normal(rows, dtype=np.float32) > 0).astype(np.int8)
        table = pa.table({**{f"x{j}": X[j] for j in range(P)}, "y": y})
        parquet.write_table(
            table, unfinished / f"part-{number:04}.parquet", row_group_size=500_000, compression="none",
            use_dictionary=["y"],
        )  # fmt: skip
    unfinished.rename(made)
    return made


def gradient(source, pool):
    """One pass."""
    return source._total(PROBLEM, GradientPart(W, None, None), objective_of(PROBLEM), pool)


def seconds(work) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def said(what: str, ratios, target: float, at_most: bool = True) -> dict:
    """Print a ratio with its spread, and return it."""
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    met = middle <= target if at_most else middle >= target
    sign = "≤" if at_most else "≥"
    print(
        f"{what}: {middle:.2f} (quartiles {low:.2f} … {high:.2f}, {len(ratios)} pairs)   "
        f"target {sign} {target}: {'met' if met else 'MISSED'}", flush=True,
    )  # fmt: skip
    return {"median": middle, "quartiles": [low, high], "pairs": len(ratios), "target": f"{sign} {target}"}


def measure_gradient(folder: Path, rounds: int = 11) -> dict:
    """A table on disk and in the page cache, against the same table in memory."""
    from pyarrow import parquet

    n = 12_500_000
    data = write_rows(folder, n)
    with ThreadPoolExecutor(n_threads()) as pool:
        memory = TableSource(parquet.read_table(data), None, SCHEMA)
        disk = FileSource(data, SCHEMA, cache=folder)
        for source in (memory, disk):  # read, encode, and a first pass
            gradient(source, pool)
            gradient(source, pool)
        pairs = [
            (seconds(lambda: gradient(memory, pool)), seconds(lambda: gradient(disk, pool))) for _ in range(rounds)
        ]
        disk.close()
    each = np.array(pairs)
    print(
        f"n = {n}: in memory {1e3 * np.median(each[:, 0]):.0f} ms, cached on disk {1e3 * np.median(each[:, 1]):.0f} ms"
    )
    return said("gradient over a cached table in the page cache / in memory", each[:, 1] / each[:, 0], 1.5)


def measure_cold(folder: Path, rounds: int = 5) -> dict:
    """A cached table none of which is in the page cache, against reading the same bytes and nothing else."""
    n = 30_000_000
    data = write_rows(folder, n)
    source = FileSource(data, SCHEMA, cache=folder)
    with ThreadPoolExecutor(n_threads()) as pool:
        gradient(source, pool)
        kept = source._kept[1]
        handle, size = kept._file.fileno(), kept._end
        os.fsync(handle)

        def forget() -> None:
            os.posix_fadvise(handle, 0, size, os.POSIX_FADV_DONTNEED)

        def read_alone() -> None:
            buffer = bytearray(2**24)
            for offset in range(0, size, len(buffer)):
                os.preadv(handle, [buffer], offset)

        pairs = []
        for _ in range(rounds):
            forget()
            alone = seconds(read_alone)
            forget()
            pairs.append((alone, seconds(lambda: gradient(source, pool))))
    source.close()
    each = np.array(pairs)
    speeds = size / each / 1e9
    print(
        f"{size / 1e9:.1f} GB from disk: read alone {np.median(speeds[:, 0]):.2f} GB/s, "
        f"with the gradient {np.median(speeds[:, 1]):.2f} GB/s"
    )
    return said("speed of a gradient over what must be read / of reading alone", each[:, 0] / each[:, 1], 0.7, False)


def measure_first(folder: Path, rounds: int = 5) -> dict:
    """The first pass, which reads, encodes, keeps and adds up, against pyarrow's scan and encoding alone."""
    from pyarrow import dataset

    n = 10_000_000
    data = write_rows(folder, n)
    encoder, budget = Encoder(SCHEMA), MemoryBudget.of("1 GB")
    rows, piece_rows = budget.rows_of_block(encoder), budget.reading(folder, encoder).rows

    def scan() -> None:
        for _ in dataset.dataset(data).to_batches():
            pass

    whole = dataset.dataset(data).to_table()
    tables = [whole.slice(first, piece_rows) for first in range(0, n, piece_rows)]

    def encode() -> None:
        for _ in encoder.blocks(tables, PROBLEM, rows, budget.ahead):
            pass

    def first_pass() -> None:
        source = FileSource(data, SCHEMA, cache=folder)
        with ThreadPoolExecutor(n_threads()) as pool:
            gradient(source, pool)
        source.close()

    for work in (scan, encode, first_pass):
        work()
    each = np.array([(seconds(scan), seconds(encode), seconds(first_pass)) for _ in range(rounds)])
    middle = np.median(each, axis=0)
    print(f"n = {n}: scan {middle[0]:.2f} s, encoding {middle[1]:.2f} s, first pass {middle[2]:.2f} s")
    return said("first pass / (scan + encoding)", each[:, 2] / (each[:, 0] + each[:, 1]), 1.3)


def fit(source, n_steps: int) -> None:
    """A fit that is nothing but gradients."""
    solver = DPGD(n_steps=n_steps, accounting="composition")
    minimize(PROBLEM, source, guarantee=Guarantee(1.0, 1e-8), schema=SCHEMA, solver=solver, row_warnings=False)


def measure_workers(folder: Path, rounds: int = 3) -> dict:
    """Two workers against one, each with one thread: gradients over rows that they have encoded."""
    data, n_gradients = write_rows(folder, 10_000_000), 10
    times: dict[int, list[float]] = {1: [], 2: []}
    with ExitStack() as opened:
        pool, sources = opened.enter_context(ThreadPoolExecutor(1)), {}
        for n_workers in times:
            client = opened.enter_context(open_cluster(f"local[{n_workers}]"))
            sources[n_workers] = ClusterSource(data, client, SCHEMA, memory="4 GB")
            gradient(sources[n_workers], pool)
        for _ in range(rounds):
            for n_workers, source in sources.items():
                times[n_workers].append(seconds(lambda s=source: [gradient(s, pool) for _ in range(n_gradients)]))
    one, two = np.array(times[1]), np.array(times[2])
    print(f"{n_gradients} gradients over 10⁷ rows: one worker {np.median(one):.1f} s, two {np.median(two):.1f} s")
    return said("one worker / two workers", one / two, 1.7, False)


def measure_overhead(folder: Path, rounds: int = 5) -> dict:
    """What a cluster adds to a fit of a small table."""
    data = write_rows(folder, 100_000)
    plain, ready, started = [], [], []
    for _ in range(rounds):
        plain.append(seconds(lambda: fit(FileSource(data), 20)))
        began = time.perf_counter()
        with open_cluster("local[2]") as client:
            fit(ClusterSource(data, client), 20)
            started.append(time.perf_counter() - began)
            ready.append(seconds(lambda c=client: fit(ClusterSource(data, c), 20)))
    extra, extra_started = np.subtract(ready, plain), np.subtract(started, plain)
    print(
        f"10⁵ rows, 20 gradients: {np.median(plain):.2f} s here; a running cluster adds {np.median(extra):.2f} s, "
        f"one that has to be started {np.median(extra_started):.2f} s"
    )
    return said("seconds that a cluster adds", extra, 2.0) | {"started": float(np.median(extra_started))}


def measure_questions(folder: Path, rounds: int = 15) -> dict:
    """What one question costs on a cluster besides the rows: for the model in docs/scale.md."""
    found = {}
    with open_cluster("local[2]") as client, ThreadPoolExecutor(1) as pool:
        for n_partitions in (4, 32, 256):
            data = folder / f"tiny-{n_partitions}"
            for number in range(n_partitions):
                piece = write_rows(folder, 1000) / "part-0000.parquet"
                data.mkdir(exist_ok=True)
                shutil.copy(piece, data / f"part-{number:04}.parquet")
            source = ClusterSource(data, client, SCHEMA)
            gradient(source, pool)
            times = [seconds(lambda s=source: gradient(s, pool)) for _ in range(rounds)]
            source.close()
            low, middle, high = np.percentile(times, [25, 50, 75])
            print(f"{n_partitions} partitions: {1e3 * middle:.0f} ms a question ({1e3 * low:.0f} … {1e3 * high:.0f})")
            found[str(n_partitions)] = {"median": middle, "quartiles": [low, high], "n": rounds}
    return found


def measure_one(data: Path, folder: Path, results) -> None:
    """Three passes in a process of its own: seconds of each, the highest memory, and what was read."""
    source = FileSource(data, SCHEMA, cache=folder)
    passes, began = [], time.perf_counter()
    with ThreadPoolExecutor(n_threads()) as pool:
        before = _io()
        for _ in range(3):
            passes.append(seconds(lambda: gradient(source, pool)))
        read = {name: count - before[name] for name, count in _io().items()}
    source.close()
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    results.put({"passes": passes, "seconds": time.perf_counter() - began, "peak": peak, **read})


def _io() -> dict[str, int]:
    return {k: int(v) for k, v in (line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())}


def measure_line(folder: Path, most_rows: int) -> dict:
    """Cost against n."""
    context, measured = multiprocessing.get_context("spawn"), {}
    for n in (10**5, 10**6, 10**7, 10**8):
        if n > most_rows:
            print(f"n = {n:.0e} was not measured: --rows {most_rows:.0e}")
            continue
        data, results = write_rows(folder, n), context.Queue()
        process = context.Process(target=measure_one, args=(data, folder, results))
        process.start()
        found = results.get()
        process.join()
        measured[str(n)] = found
        first, later = found["passes"][0], float(np.median(found["passes"][1:]))
        print(
            f"n = {n:.0e}: first pass {first:.2f} s ({1e9 * first / n:.0f} ns a row), later {later:.3f} s "
            f"({1e9 * later / n:.1f} ns a row), peak {found['peak'] / 1e9:.2f} GB, {found['rchar'] / 1e9:.2f} GB read "
            f"through calls, {found['write_bytes'] / 1e9:.2f} GB written", flush=True,
        )  # fmt: skip
    return measured


def draw(measured: dict) -> None:
    """Seconds a pass and peak memory against n."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ns = np.array([int(n) for n in measured], dtype=float)
    first = np.array([found["passes"][0] for found in measured.values()])
    later = np.array([np.median(found["passes"][1:]) for found in measured.values()])
    peak = np.array([found["peak"] for found in measured.values()]) / 1e9
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4))
    for values, name, colour in (
        (first, "first pass: read, encode, keep", "#c0504d"),
        (later, "later passes", "#1f5fa8"),
    ):
        left.loglog(ns, values, "o-", color=colour)
        left.annotate(name, (ns[-1], values[-1]), (-8, 6), textcoords="offset points", ha="right", color=colour)
        left.loglog(ns, values[-1] * ns / ns[-1], ":", color=colour, linewidth=1)
    left.set(xlabel="rows of 20 columns", ylabel="seconds a pass", title="Cost grows as a straight line (dotted)")
    right.semilogx(ns, peak, "o-", color="#1f5fa8")
    right.axhline(1.0, color="grey", linewidth=1)
    right.annotate("memory = 1 GB, the default", (ns[0], 1.0), (0, 4), textcoords="offset points", color="grey")
    right.set(
        xlabel="rows of 20 columns", ylabel="peak memory, GB", ylim=(0, 1.2), title="Memory stays within its limit"
    )
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)
    print(f"wrote {PICTURE.relative_to(Path.cwd()) if PICTURE.is_relative_to(Path.cwd()) else PICTURE}")


PARTS = {
    "gradient": measure_gradient, "cold": measure_cold, "first": measure_first, "workers": measure_workers,
    "overhead": measure_overhead, "questions": measure_questions,
}  # fmt: skip


def main() -> None:
    """Measure what is asked for, and keep it in scale_results.json."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("parts", nargs="*", default=[*PARTS, "line"], choices=[*PARTS, "line", []])
    options.add_argument("--rows", type=float, default=1e8, help="most rows of `line`")
    options.add_argument("--folder", type=Path, help="where rows are made; 20 GB for 1e8 of them")
    given = options.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="dperm-scale-"))
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    try:
        for part in given.parts:
            found[part] = measure_line(folder, int(given.rows)) if part == "line" else PARTS[part](folder)
            RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        if "line" in given.parts:
            draw(found["line"])
    finally:
        if given.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
