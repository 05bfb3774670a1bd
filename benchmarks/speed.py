"""Speed of this checkout beside that of an earlier revision, on this machine, in one run, and of both beside others.

    python benchmarks/speed.py [--before REV] [--turns 2] [PART …]

Parts: start (a first and a second fit, each in a process of its own), gradient (over X @ w; rows of a schema), fit
(over scikit-learn's lbfgs), softmax (60 000 × 784, ten classes), first (the first pass over Parquet with bins), cluster
(a question to two workers; two workers over one). Both trees take turns, each part in a process of its own; numbers are
medians (quartiles). The earlier revision needs what its own pyproject names: numba.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
# The last revision whose kernels were compiled when they were first used.
BEFORE = "eec907ab"
N_ROWS, COLUMNS = 5_000_000, 20
SMALL_FIT = """
import numpy as np
from dperm import PrivateLogisticRegression
X = np.random.default_rng(0).normal(size=(1000, 5)) / 5
PrivateLogisticRegression(1.0, 1e-6, classes=[0, 1]).fit(X, (X[:, 0] > 0).astype(int))
"""
# The most that a number should be, and how many times what it was before should be at least.
AT_MOST = {
    "first fit / second fit": 1.3,
    "gradient / X @ w, dense float64": 1.45,
    "gradient / X @ w, dense float32": 1.8,
    "gradient / X @ w, CSR": 3.2,
    "fit / lbfgs, 10000 x 20": 2.0,
    "fit / lbfgs, 10000 x 100": 2.0,
    "fit / lbfgs, 10000 x 1000": 2.0,
    "softmax, CPU seconds": 15.0,
    "question to 12 partitions, ms": 10.0,
    "two workers / one worker, seconds": 1 / 1.7,
}
TIMES = {"gradient over rows of a schema, ms": 3.0, "bytes a row of a schema": 4.0, "first pass, µs a row": 3.0}


def seconds(work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long it takes."""
    began = clock()
    work()
    return clock() - began


def burst(work: Callable[[], Any]) -> float:
    """Median of a few runs, after a pause in which other threads fall asleep."""
    time.sleep(0.1)
    work()
    return statistics.median(seconds(work) for _ in range(5))


# Parts: each runs in a process of its own, with one of the two trees.


def gradient(folder: Path) -> dict[str, list[float]]:
    """Ratios within the process."""
    import pandas as pd
    from scipy import sparse

    from dperm import Problem
    from dperm.kernel.block import Block
    from dperm.kernel.objectives import objective_of
    from dperm.kernel.threads import n_threads
    from dperm.problem import Logistic
    from dperm.rows.arrays import TableSource

    n, p, rng, found = 581_012, 54, np.random.default_rng(0), {}
    X = rng.normal(size=(n, p))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y, w, problem = np.sign(rng.normal(size=n)), rng.normal(size=p), Problem(Logistic())
    with ThreadPoolExecutor(n_threads()) as pool:

        def of(block: Any, point: Any = w, asked: Any = problem) -> Callable[[], Any]:
            return lambda: objective_of(asked).gradient_sum(block, point, None, pool)

        tables = {"dense float64": X, "dense float32": X.astype(np.float32)}
        tables["CSR"] = sparse.random(n, p, density=0.1, format="csr", random_state=0)
        for name, table in tables.items():
            block, vector = Block.from_table(table, y, problem), w.astype(table.dtype)
            found[f"gradient / X @ w, {name}"] = [
                burst(of(block)) / burst(lambda t=table, v=vector: t @ v) for _ in range(7)
            ]
        columns = {f"x{j}": rng.uniform(-1, 1, n) for j in range(COLUMNS)}
        frame = pd.DataFrame(columns | {"y": (y > 0).astype(int)})
        schema = schema_of()
        problem = Problem(Logistic(), row_norm=schema.bound)
        (coded,) = TableSource(frame, None, schema)._blocks(problem)
        point, stored = rng.normal(size=coded.table.shape[1]), coded.table
        found["gradient over rows of a schema, ms"] = [1e3 * burst(of(coded, point, problem)) for _ in range(7)]
        arrays = stored.arrays if hasattr(stored, "arrays") else [stored.data, stored.indices]
        found["bytes a row of a schema"] = [sum(array.nbytes for array in arrays) / n]
        if hasattr(stored, "expanded"):
            block = Block.from_table(sparse.csr_matrix(stored.expanded()), coded.target, problem)
            found["gradient over rows of a schema / over the same as CSR"] = [
                burst(of(coded, point, problem)) / burst(of(block, point, problem)) for _ in range(7)
            ]
    return found


def fit(folder: Path) -> dict[str, list[float]]:
    """CPU seconds of a whole fit over those of lbfgs; every fit has another ε, so that no plan is remembered."""
    from sklearn.linear_model import LogisticRegression

    from dperm import PrivateLogisticRegression
    from dperm.problem import L2

    found = {}
    for p in (20, 100, 1000):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(10_000, p))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        w = rng.normal(size=p)
        y = np.where(rng.uniform(size=len(X)) < 1 / (1 + np.exp(-X @ (5 / np.linalg.norm(w) * w))), 1, -1)
        ratios = []
        for k in range(8):
            model = PrivateLogisticRegression(1.0 + 1e-3 * k, 1e-7, penalty=L2(1e-4), classes=[-1, 1])
            plain = LogisticRegression(C=1 / (1e-4 * len(y)), max_iter=1000)
            ours, theirs = (seconds(partial(one.fit, X, y), time.process_time) for one in (model, plain))
            ratios.append(ours / theirs)
        found[f"fit / lbfgs, 10000 x {p}"] = ratios[1:]
    return found


def softmax(folder: Path) -> dict[str, list[float]]:
    """One fit of ten classes of images."""
    from dperm import PrivateLogisticRegression

    with np.load(folder / "images.npz") as stored:
        X, y = stored["X"], stored["y"]
    warm = PrivateLogisticRegression(1.0, 1e-5, classes=range(10), adjacency="add_remove")
    warm.fit(X[:2000], y[:2000])
    model = PrivateLogisticRegression(1.0, 1e-5, classes=range(10), adjacency="add_remove")
    return {"softmax, CPU seconds": [seconds(lambda: model.fit(X, y), time.process_time)]}


def schema_of(encode: str = "bins") -> Any:
    """Of the rows that are made here."""
    from dperm import Classes, Number, Schema

    bins = {"bins": "even", "n_bins": 10} if encode == "bins" else {}
    return Schema({f"x{j}": Number((-1, 1), encode=encode, **bins) for j in range(COLUMNS)}, Classes("y", [0, 1]))


def first(folder: Path) -> dict[str, list[float]]:
    """A gradient over files that were never read."""
    from dperm import Problem
    from dperm.kernel.objectives import objective_of
    from dperm.kernel.parts import GradientPart
    from dperm.kernel.threads import n_threads
    from dperm.problem import Logistic
    from dperm.rows.streamed import FileSource

    schema = schema_of()
    problem = Problem(Logistic(), row_norm=schema.bound)
    w, taken = np.zeros(schema.n_features), []
    with ThreadPoolExecutor(n_threads()) as pool:
        for _ in range(2):
            source = FileSource(folder / "rows", schema, cache=folder)
            work = GradientPart(w, None, None)
            taken.append(seconds(lambda s=source, q=work: s._total(problem, q, objective_of(problem), pool)))
            source.close()
    return {"first pass, µs a row": [1e6 * one / N_ROWS for one in taken[1:]]}


def cluster(folder: Path) -> dict[str, list[float]]:
    """Questions to tiny partitions, and gradients over large ones by one worker and by two."""
    from dperm import Problem
    from dperm.kernel.objectives import objective_of
    from dperm.kernel.parts import GradientPart
    from dperm.problem import Logistic
    from dperm.rows.cluster import ClusterSource
    from dperm.rows.dask_client import open_cluster

    schema = schema_of(encode="linear")
    problem = Problem(Logistic(), row_norm=schema.bound)
    asked, times = GradientPart(np.zeros(schema.n_features), None, None), {}
    with ThreadPoolExecutor(1) as pool, open_cluster("local[1]") as one, open_cluster("local[2]") as two:

        def ask(source: Any, n: int) -> None:
            for _ in range(n):
                source._total(problem, asked, objective_of(problem), pool)

        tiny = ClusterSource(folder / "tiny", two, schema)
        ask(tiny, 5)
        questions = [1e3 * seconds(lambda: ask(tiny, 1)) for _ in range(40)]
        tiny.close()
        sources = {n: ClusterSource(folder / "rows", client, schema) for n, client in ((1, one), (2, two))}
        for source in sources.values():
            ask(source, 2)
        for _ in range(5):
            for n, source in sources.items():
                times.setdefault(n, []).append(seconds(lambda s=source: ask(s, 10)))
    return {
        "question to 12 partitions, ms": questions,
        "two workers / one worker, seconds": [b / a for a, b in zip(times[1], times[2], strict=True)],
    }


PARTS: dict[str, Callable[[Path], dict[str, list[float]]]] = {
    "gradient": gradient, "fit": fit, "softmax": softmax, "first": first, "cluster": cluster,
}  # fmt: skip


# What makes rows, runs both trees and compares.


def write_rows(folder: Path, parts: list[str]) -> None:
    """Images, a large table and twelve tiny ones."""
    if "softmax" in parts:
        from classes import images

        X, y, _, _ = images(60_000)
        np.savez(folder / "images.npz", X=X, y=y)
    if {"first", "cluster"} & set(parts):
        import pyarrow as pa
        from pyarrow import parquet

        rng = np.random.default_rng(0)
        for place, n, n_files in (("rows", N_ROWS, 4), ("tiny", 12_000, 12)):
            (folder / place).mkdir()
            for k in range(n_files):
                columns = {
                    f"x{j}": rng.random(n // n_files, dtype=np.float32) * np.float32(2) - np.float32(1)
                    for j in range(COLUMNS)
                }
                y = (columns["x0"] + rng.normal(size=n // n_files) > 0).astype(np.int8)
                table = pa.table({**columns, "y": y})
                parquet.write_table(table, folder / place / f"{k:02}.parquet", row_group_size=250_000)


def environment(source: Path, cache: Path, part: str) -> dict[str, str]:
    """Of a process that imports one of the two trees and compiles into a folder of its own."""
    one_thread = {"OPENBLAS_NUM_THREADS": "1"} if part == "fit" else {}
    return os.environ | one_thread | {
        "PYTHONPATH": str(source), "DPERM_CACHE": str(cache), "PYTHONWARNINGS": "ignore"
    }  # fmt: skip


def started(tree: Mapping[str, Path], folder: Path) -> dict[str, list[float]]:
    """A small fit in a new process, where nothing was compiled yet, and in the next."""
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        own = environment(tree["source"], Path(cache), "start")
        command = [sys.executable, "-c", SMALL_FIT]
        taken = [seconds(lambda: subprocess.run(command, check=True, env=own, cwd=folder)) for _ in range(2)]
    return {"first fit, s": taken[:1], "second fit, s": taken[1:], "first fit / second fit": [taken[0] / taken[1]]}


def said(values: list[float]) -> str:
    """Median and quartiles."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return f"{middle:.3g} ({low:.3g} … {high:.3g}, n = {len(values)})" if len(values) > 1 else f"{middle:.3g}"


def main() -> None:
    """Print one line per number."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("parts", nargs="*", default=["start", *PARTS])
    options.add_argument("--before", default=BEFORE)
    options.add_argument("--turns", type=int, default=2)
    options.add_argument("--probe", nargs=2, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.probe:
        part, place = asked.probe
        print(json.dumps(PARTS[part](Path(place))))
        return
    with tempfile.TemporaryDirectory(prefix="dperm-speed-") as name:
        folder = Path(name)
        archive = subprocess.run(["git", "archive", asked.before, "src"], cwd=ROOT, check=True, capture_output=True)
        (folder / "before").mkdir()
        subprocess.run(["tar", "-x"], cwd=folder / "before", input=archive.stdout, check=True)
        trees = {
            "before": {"source": folder / "before" / "src", "cache": folder / "compiled"},
            "now": {"source": ROOT / "src", "cache": folder / "none"},
        }
        for tree in trees.values():
            tree["cache"].mkdir()
        write_rows(folder, asked.parts)
        print(f"| what | before ({asked.before}) | now | before / now | target |\n{'|---' * 5}|")
        for part in asked.parts:
            found: dict[str, dict[str, list[float]]] = {"before": {}, "now": {}}
            for _ in range(1 if part == "softmax" else asked.turns):
                for name, tree in trees.items():
                    if part == "start":
                        measured = started(tree, folder)
                    else:
                        command = [sys.executable, __file__, "--probe", part, str(folder)]
                        own = environment(tree["source"], tree["cache"], part)
                        ended = subprocess.run(command, env=own, check=True, stdout=subprocess.PIPE, text=True)
                        measured = json.loads(ended.stdout.splitlines()[-1])
                    for what, values in measured.items():
                        found[name].setdefault(what, []).extend(values)
            for what in found["now"]:
                before, now = found["before"].get(what, []), found["now"][what]
                ratio, met = np.median(before) / np.median(now) if before else None, ""
                if what in AT_MOST:
                    met = f"≤ {AT_MOST[what]:.3g}: {'met' if np.median(now) <= AT_MOST[what] else 'MISSED'}"
                elif what in TIMES and ratio is not None:
                    met = f"{TIMES[what]:.3g} times: {'met' if ratio >= TIMES[what] else 'MISSED'}"
                shown = "" if ratio is None else f"{ratio:.2f}"
                print(f"| {what} | {said(before) if before else '–'} | {said(now)} | {shown} | {met} |", flush=True)


if __name__ == "__main__":
    main()
