"""What a fit costs that protects persons instead of rows: both sides of every ratio are measured in the same run.

    python benchmarks/unit_speed.py [--repeats 5] [--quick] [--only NAME] [--solver NAME]

Rows and ids are made from a seed; a person's rows stand anywhere in the table. A fit here is all that happens once the
plan is made: ids are read, rows are encoded, bounded and gone over by the solver. Both fits ask the same number of
questions, and sample with the same rate. Prints medians of paired ratios with the smallest and the largest, of
seconds and of processor time, which others on the machine disturb less.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from dperm import Classes, Guarantee, Number, PrivacyUnit, Problem, Schema
from dperm.plan.options import FitOptions
from dperm.problem import L2, Logistic
from dperm.rows.arrays import ArraySource, TableSource
from dperm.rows.streamed import FileSource
from dperm.solvers import DPGD, DPSGD, DPNewton

SOLVERS = {
    "dp-gd": DPGD(n_steps=50, accounting="composition"),
    "dp-sgd": DPSGD(n_steps=2000, sampling_rate=0.005),
    "dp-newton": DPNewton(n_steps=6, n_hessians=3),
}
UNIT = PrivacyUnit("person", 5)


def table_of(n_rows: int, n_columns: int, n_persons: int, *, words: bool) -> tuple[pa.Table, Schema]:
    """An Arrow table and its schema, without a unit."""
    rng = np.random.default_rng(1)
    X = rng.random((n_columns, n_rows), dtype=np.float32) * 2 - 1
    y = (rng.normal(size=n_columns) @ X + rng.normal(size=n_rows) > 0).astype(np.int8)
    ids = rng.integers(0, n_persons, n_rows)
    columns = {f"x{j}": X[j] for j in range(n_columns)}
    table = pa.table({**columns, "y": y, "person": np.char.add("p-", ids.astype(str)) if words else ids})
    schema = Schema({name: Number((-1, 1), encode="linear") for name in columns}, Classes("y", [0, 1]))
    return table, schema


def with_unit(schema: Schema) -> Schema:
    """The same, protecting persons."""
    return Schema(schema.columns, schema.target, unit=UNIT)


def in_table(table: pa.Table, schema: Schema, folder: Path):
    """Rows of a table, encoded by a schema."""
    return (lambda: TableSource(table, None, schema)), (lambda: TableSource(table, None, with_unit(schema)))


def in_array(table: pa.Table, schema: Schema, folder: Path):
    """Rows of an array, which is read as it is."""
    X = np.column_stack([table.column(name).to_numpy() for name in schema.columns])
    y, ids = table.column("y").to_numpy() * 2.0 - 1.0, table.column("person").to_numpy()
    return (lambda: ArraySource(X, y)), (lambda: ArraySource(X, y, None, ids, UNIT))


def in_files(table: pa.Table, schema: Schema, folder: Path):
    """Rows of four Parquet files, most of them kept on disk."""
    step = -(-table.num_rows // 4)
    for k in range(4):
        parquet.write_table(table.slice(k * step, step), folder / f"part-{k}.parquet")
    memory = 100 * table.num_rows  # a third of that is for encoded rows, of about 110 bytes each
    return (
        lambda: FileSource(folder, schema, memory=memory, cache=folder.parent),
        lambda: FileSource(folder, with_unit(schema), memory=memory, cache=folder.parent),
    )


CASES = {
    "table in memory, 100 000 x 30": (in_table, 100_000, 30, False),
    "array in memory, 100 000 x 30": (in_array, 100_000, 30, False),
    "table in memory, 1 000 000 x 20": (in_table, 1_000_000, 20, False),
    "table in memory, 1 000 000 x 20, ids are text": (in_table, 1_000_000, 20, True),
    "array in memory, 1 000 000 x 20": (in_array, 1_000_000, 20, False),
    "Parquet out of core, 1 000 000 x 20": (in_files, 1_000_000, 20, False),
}


def fit_seconds(source, solver) -> tuple[float, float]:
    """Seconds and processor seconds of one fit, the plan apart."""
    problem = Problem(Logistic(), L2(1e-3), row_norm=3.0)
    opened = source()
    options = FitOptions(
        problem, guarantee=Guarantee(4.0, 1e-8), solver=solver, unit=opened.unit, schema=None, n=opened._n_units
    )
    plan = options.plan(opened._n_units, opened.n_features)
    began = time.perf_counter(), time.process_time()
    plan.run(source(), random_state=0, row_warnings=False)
    return time.perf_counter() - began[0], time.process_time() - began[1]


def main() -> None:
    """Print a line for every case and solver."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="only tables of 100 000 rows")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--solver", default="", help="solvers whose name has this in it")
    arguments = parser.parse_args()
    print(f"{UNIT.described}; ratios unit / row: median (smallest … largest), n = {arguments.repeats}")
    for name, (sources, n_rows, n_columns, words) in CASES.items():
        if arguments.only not in name or (arguments.quick and n_rows > 100_000):
            continue
        table, schema = table_of(n_rows, n_columns, n_rows // 5, words=words)
        with tempfile.TemporaryDirectory() as folder:
            (rows := Path(folder) / "rows").mkdir()
            by_row, by_unit = sources(table, schema, rows)
            for solver_name, solver in SOLVERS.items():
                if arguments.solver not in solver_name:
                    continue
                fit_seconds(by_row, solver), fit_seconds(by_unit, solver)  # compiled once
                pairs = [(fit_seconds(by_row, solver), fit_seconds(by_unit, solver)) for _ in range(arguments.repeats)]
                row, unit = (np.array(side) for side in zip(*pairs, strict=True))
                shown = [
                    f"{np.median(ratios):.2f} ({ratios.min():.2f} … {ratios.max():.2f})" for ratios in (unit / row).T
                ]
                print(
                    f"{name:48} {solver_name:10} seconds {shown[0]}  processor {shown[1]}  "
                    f"row {np.median(row[:, 0]):.2f} s", flush=True,
                )  # fmt: skip


if __name__ == "__main__":
    main()
