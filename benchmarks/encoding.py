"""How numbers are encoded: test AUC of private logistic regression with linear numbers, with bins, and with "auto".

    python benchmarks/encoding.py {adult,covertype,small} [--epsilons 0.5 1 2 8] [--seeds 3] [--adjacency replace_one]

Raw tables and schemas of ranges and categories only; δ = 1e-5, medians over seeds. "small" fits subsets of
Adult, with a heavier penalty on the smallest.
"""

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

import dperm.datasets
from dperm import Category, Classes, LargeDeltaWarning, Number, PrivateLogisticRegression, Schema
from dperm.datasets.adult import load_adult
from dperm.problem import L2

ENCODINGS = ("linear", "bins", "auto")
SIZES = (300, 600, 1000, 3000, 10_000)

# As documented with the data.
COVERTYPE_RANGES = {
    "elevation": (1859, 3858), "aspect": (0, 360), "slope": (0, 66), "to water": (0, 1397), "above water": (-173, 601),
    "to road": (0, 7117), "shade at 9": (0, 254), "shade at 12": (0, 254), "shade at 15": (0, 254),
    "to fire": (0, 7173),
}  # fmt: skip


class Task(NamedTuple):
    """A table to fit, one to test on, and what is public about them; with a size, a subset for every seed."""

    name: str
    schema: Schema
    train: pd.DataFrame
    test: pd.DataFrame
    strength: float = 1e-5
    size: int | None = None

    def rows(self, seed: int) -> pd.DataFrame:
        """What is fitted."""
        if self.size is None:
            return self.train
        return self.train.iloc[np.random.default_rng(seed).permutation(len(self.train))[: self.size]]


def adult() -> Task:
    """The published files."""
    schema, train, test = load_adult()
    return Task("Adult", replace(schema, n=None), train.to_pandas(), test.to_pandas())


def covertype(n_train: int = 481_012) -> Task:
    """Class 2 against the rest, permuted."""
    with np.load(Path(dperm.datasets.__file__).parent / "covertype.npz") as stored:
        table = pd.DataFrame(stored["num_T"].T, columns=list(COVERTYPE_RANGES))
        table = table.assign(wilderness=stored["wilderness"], soil=stored["soil"], y=(stored["y"] == 2).astype(int))
    table = table.iloc[np.random.default_rng(0).permutation(len(table))]
    columns = {name: Number(ends) for name, ends in COVERTYPE_RANGES.items()}
    columns |= {"wilderness": Category(range(4)), "soil": Category(range(40))}
    return Task("Covertype", Schema(columns, Classes("y", [0, 1])), table[:n_train], table[n_train:])


def small(sizes: list[int]) -> Iterator[Task]:
    """Subsets of Adult."""
    for size in sizes:
        yield adult()._replace(name=f"Adult, {size} rows", strength=1e-2 if size < 2000 else 1e-4, size=size)


def auc(task: Task, encoding: str, epsilon: float, seeds: int, adjacency: str) -> str:
    """The median over seeds, with the spread."""
    schema, found = replace(task.schema, encode=encoding), []
    labels = task.test[schema.target.column].astype(str).str.strip(" .")
    positive = labels == str(schema.target.labels[1])
    model = PrivateLogisticRegression(
        epsilon, 1e-5, penalty=L2(task.strength), schema=schema, adjacency=adjacency
    )  # fmt: skip
    plan = model.plan(len(task.rows(0)))
    for seed in range(seeds):
        model.set_params(random_state=seed).fit(task.rows(seed), plan=plan)
        found.append(roc_auc_score(positive, model.decision_function(task.test)))
    return f"{np.median(found):.4f} ({min(found):.4f} … {max(found):.4f}, {seeds} fits), {plan.n_features} columns"


def main() -> None:
    """Print a line for every table, ε and encoding."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=("adult", "covertype", "small"))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0, 8.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--adjacency", default="replace_one")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="rows, for small")
    parser.add_argument("--encodings", nargs="+", default=list(ENCODINGS))
    parser.add_argument("--interactions", type=int, default=0)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", LargeDeltaWarning)
    for task in small(asked.sizes) if asked.table == "small" else [adult() if asked.table == "adult" else covertype()]:
        chosen = task._replace(schema=replace(task.schema, interactions=asked.interactions))
        for epsilon in asked.epsilons:
            for encoding in asked.encodings:
                found = auc(chosen, encoding, epsilon, asked.seeds, asked.adjacency)
                print(f"{task.name}, ε = {epsilon:g}, {asked.adjacency}, {encoding}: AUC {found}", flush=True)


if __name__ == "__main__":
    main()
