"""Peak memory of a fit relative to the table handed in, each fit in a process of its own."""

import multiprocessing
from pathlib import Path

import numpy as np
from scipy import sparse

from dperm import DPGD, L2, Guarantee, Logistic, Problem, minimize

N, P = 581_012, 54


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


def main() -> None:
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
    main()
