"""Peak memory of a fit relative to the table handed in, and of fits on files relative to what `--memory` promises.

    python benchmarks/memory.py [in-memory] [on-disk] [quick]

Each fit has a process of its own. Of a fit on files the anonymous memory is sampled every 20 ms, of all its processes,
and what a fit of a thousand rows takes is subtracted: Python, its libraries and planning. The quick part is a selection
of the one on disk.
"""

import contextlib
import itertools
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import sparse

from dperm import Guarantee, Problem, minimize
from dperm.problem import L2, Logistic
from dperm.solvers import DPGD

N, P = 581_012, 54
# On disk: rows of files, and of a row group.
ROWS, ROWS_OF_CSV, COLUMNS = 2_400_000, 400_000, 40
PARQUET = {"few-groups": ROWS // 6, "one-group": ROWS, "many-groups": 10_000}


def table_of(kind: str):
    """Random rows in one of the storages."""
    rng = np.random.default_rng(0)
    if kind == "sparse":
        return sparse.random(N, 500, density=0.05, format="csr", random_state=0)
    return rng.standard_normal(size=(N, P), dtype=np.float32 if kind == "float32" else np.float64)


def bytes_of(table) -> int:
    """Size of what is handed in."""
    return sum(a.nbytes for a in (table.data, table.indices, table.indptr)) if sparse.issparse(table) else table.nbytes


def measure(kind: str, results) -> None:
    """Fit once and report how far the peak rose above what was resident."""
    problem, guarantee = Problem(Logistic(), L2(0.01)), Guarantee(1.0, 1e-6)
    small = np.ones((10, 3)) if kind != "sparse" else sparse.csr_matrix(np.ones((10, 3)))
    minimize(problem, small, np.ones(10), guarantee=Guarantee(1.0, 1e-6), solver=DPGD(n_steps=2))  # compile first
    table = table_of(kind)
    y = np.ones(N)
    minimize(problem, table[:1000], y[:1000], guarantee=guarantee, solver=DPGD(n_steps=2))
    resident = kilobytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # start the high-water mark anew: making the table had its own peak
    minimize(problem, table, y, guarantee=guarantee, solver=DPGD(n_steps=20))
    results.put((bytes_of(table), 1024 * (kilobytes("VmHWM") - resident)))


def kilobytes(field: str) -> int:
    """One of the kernel's figures about this process."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])


def write_tables(folder: Path) -> None:
    """Random float32 columns and ids in files of every kind, and the schemas that are fitted on them."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.uniform(-1, 1, ROWS).astype(np.float32) for j in range(COLUMNS)}
    columns["y"] = (columns["x0"] + rng.normal(size=ROWS) > 0).astype(np.int8)
    columns["id"] = rng.integers(0, ROWS // 4, ROWS)
    table = pa.table(columns)
    for kind, rows in PARQUET.items():
        (folder / kind).mkdir()
        parquet.write_table(table, folder / kind / "table.parquet", row_group_size=rows, max_rows_per_page=ROWS)
    for kind, rows in (("csv", ROWS_OF_CSV), ("small", 1000)):
        (folder / kind).mkdir()
        csv.write_csv(table.slice(0, rows), folder / kind / "table.csv")
    for encoding in ("bins", "linear"):
        for unit in ("", 'unit = "id"\nmax_rows = 5\n'):
            lines = f'[table]\n{unit}[target]\ncolumn = "y"\nclasses = [0, 1]\n'
            lines += "".join(f"[columns.x{j}]\nrange = [-1, 1]\nencode = '{encoding}'\n" for j in range(COLUMNS))
            (folder / f"{encoding}{'-units' if unit else ''}.toml").write_text(lines)


def anonymous(process: int) -> int:
    """Bytes of memory that belong to a process alone: what is mapped from files can be dropped at any time."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return 1024 * int(line.split()[1])
    return 0


def descendants(process: int) -> list[int]:
    """Processes that it started, and those that they started."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            for child in map(int, children.read_text().split()):
                found += [child, *descendants(child)]
    return found


def peaks(folder: Path, kind: str, schema: str, memory: str, *options: str) -> tuple[int, int]:
    """The most anonymous memory of the process of a fit, and of any process that it started."""
    fit = f"fit {kind} --schema {schema}.toml --memory {memory} --epsilon 1 --delta 1e-9 --force".split()
    command = [sys.executable, "-m", "dperm", *fit, "-o", "model.json", *options]
    with (folder / "log").open("w+") as log:
        running = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        own = others = 0
        while running.poll() is None:
            own = max(own, anonymous(running.pid))
            others = max([others, *map(anonymous, descendants(running.pid))])
            time.sleep(0.02)
        if running.returncode:
            log.seek(0)
            sys.exit(f"dperm {' '.join(fit)} failed: {log.read()}")
    return own, others


def on_disk(kinds: Sequence[str], memories: Sequence[str], encodings: Sequence[str]) -> None:
    """Print how much of the promised memory a fit takes beyond what it takes for a thousand rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Elsewhere: its memory would count as that of the processes that this one starts.
        writing = multiprocessing.get_context("spawn").Process(target=write_tables, args=(folder,))
        writing.start()
        writing.join()
        print(f"| table | schema | memory, MB | beyond a fit of 1000 rows, MB | ratio | seconds |\n{'|---' * 6}|")
        worst = 0.0
        for kind, encoding in itertools.product(kinds, encodings):
            options = ("--cluster", "local[2]") if kind == "cluster" else ()
            little = peaks(folder, "small", encoding, "100MB", *options)
            for memory in memories:
                started = time.monotonic()
                found = peaks(folder, "few-groups" if kind == "cluster" else kind, encoding, memory, *options)
                more, promised = max(a - b for a, b in zip(found, little, strict=True)), int(memory.removesuffix("MB"))
                worst = max(worst, more / 1e6 / promised)
                print(f"| {kind} | {encoding} | {promised} | {more / 1e6:.0f} | {more / 1e6 / promised:.2f} "
                      f"| {time.monotonic() - started:.1f} |", flush=True)  # fmt: skip
        print(f"\nlargest ratio {worst:.2f}; promised ≤ 1: {'kept' if worst <= 1 else 'BROKEN'}")


def in_memory() -> None:
    """Print one line per storage."""
    context = multiprocessing.get_context("spawn")
    for kind in ("float64", "float32", "sparse"):
        results = context.Queue()
        process = context.Process(target=measure, args=(kind, results))
        process.start()
        data, extra = results.get()
        process.join()
        ratio = (data + extra) / data
        print(
            f"{kind:<8} table {data / 1e6:7.1f} MB, the fit adds {extra / 1e6:6.1f} MB: peak {ratio:.2f} × the table"
            f"   target ≤ 1.5: {'met' if ratio <= 1.5 else 'MISSED'}"
        )


if __name__ == "__main__":
    everything = (*PARQUET, "csv", "cluster"), ("100MB", "300MB"), ("bins", "linear", "bins-units", "linear-units")
    for part in sys.argv[1:] or ("in-memory", "on-disk"):
        if part == "in-memory":
            in_memory()
        elif part == "on-disk":
            on_disk(*everything)
        elif part == "quick":
            on_disk(("few-groups", "csv"), ("100MB",), ("bins", "linear-units"))
        else:  # the same axes, chosen by hand: few-groups/100MB,300MB/bins
            on_disk(*(axis.split(",") for axis in part.split("/")))
