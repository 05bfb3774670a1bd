"""Peak memory of a fit relative to the table handed in, and of commands on files, each in a process of its own.

    python benchmarks/memory.py [in-memory] [on-disk]

The first part prints ratios, the second megabytes.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import sparse

from dperm import Guarantee, Problem, minimize
from dperm.problem import L2, Logistic
from dperm.solvers import DPGD

N, P = 581_012, 54
N_ON_DISK, P_ON_DISK, ROW_GROUPS = 2_400_000, 40, 6


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
    """Parquet files of random float64 columns, as they are and rounded to two digits (they pack well), and a schema."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.uniform(-1, 1, N_ON_DISK) for j in range(P_ON_DISK)}
    columns["y"] = (columns["x0"] + rng.normal(size=N_ON_DISK) > 0).astype(np.int8)
    for name, digits in (("table", 17), ("rounded", 2)):
        table = pa.table({column: np.round(values, digits) for column, values in columns.items()})
        parquet.write_table(table, folder / f"{name}.parquet", row_group_size=N_ON_DISK // ROW_GROUPS)
        size = (folder / f"{name}.parquet").stat().st_size / 1e6
        print(f"{name}.parquet: {N_ON_DISK} rows of {P_ON_DISK} columns, {ROW_GROUPS} row groups, {size:.0f} MB")
    lines = ["[table]", f"n = {N_ON_DISK}", "[target]", 'column = "y"', "classes = [0, 1]"]
    lines += [f"[columns.x{j}]\nrange = [-1, 1]" for j in range(P_ON_DISK)]
    (folder / "table.toml").write_text("\n".join(lines))


def peak_of(folder: Path, command: str) -> float:
    """Megabytes that the process of a command took at most."""
    running = subprocess.Popen([sys.executable, "-m", "dperm", *command.split()], cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(running.pid, 0)
    if status:
        sys.exit(f"dperm {command} failed")
    return used.ru_maxrss * 1024 / 1e6


def on_disk() -> None:
    """Print one line per command on a Parquet file."""
    fit = "fit table.parquet --schema table.toml --epsilon 1 --delta 1e-9 -o model.json --force"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Elsewhere: Linux counts what this process takes among the memory of those that it starts.
        writing = multiprocessing.get_context("spawn").Process(target=write_tables, args=(folder,))
        writing.start()
        writing.join()
        drafts = [f"schema draft {name}.parquet --target y" for name in ("table", "rounded")]
        for command in [*(f"{fit} --memory {memory}" for memory in ("300MB", "1GB")), *drafts]:
            print(f"{peak_of(folder, command):6.0f} MB  dperm {command}", flush=True)


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
    for part in sys.argv[1:] or ("in-memory", "on-disk"):
        {"in-memory": in_memory, "on-disk": on_disk}[part]()
