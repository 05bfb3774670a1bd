"""Regression at its defaults: R² on held-out rows of California housing and Bike sharing, against least squares.

Numbers are scaled by declared ranges, categories are one-hot; medians and the smallest and largest of a few seeds,
which draw the split and the noise. The repository does not ship the tables: give the folder that holds
california_housing.npz and bike_hour.csv.xz as an argument or in DPERM_DATA. Further arguments are names of solvers to
compare with "auto".
"""

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from dperm import (
    Amount,
    Category,
    LargeDeltaWarning,
    Number,
    PrivateLinearRegression,
    PrivatePoissonRegression,
    Schema,
)
from dperm.problem import L2

DELTA, SEEDS = 1e-5, 5
EPSILONS = (0.5, 1.0, 2.0, 8.0)

# Declared without a look at the rows: median income in 10 000 $, age of houses, rooms, bedrooms, people in a block,
# people in a household, latitude, longitude; house values up to 500 000 $.
CALIFORNIA = {
    "income": (0, 15), "age": (0, 52), "rooms": (0, 20), "bedrooms": (0, 5), "population": (0, 5000),
    "household": (0, 10), "latitude": (32, 42), "longitude": (-125, -114),
}  # fmt: skip
NUMBERS = ("temp", "feelingTemp", "humidity", "windspeed", "year", "holiday", "workingday")
CODES = {
    "season": range(1, 5),
    "month": range(1, 13),
    "hour": range(24),
    "weekday": range(7),
    "weathersit": range(1, 5),
}


def california(folder: Path) -> tuple[pd.DataFrame, Schema]:
    """Eight numbers and the value of houses."""
    with np.load(folder / "california_housing.npz") as table:
        rows = pd.DataFrame(table["X"], columns=list(CALIFORNIA)).assign(value=table["y"])
    return rows, Schema({name: Number(bounds) for name, bounds in CALIFORNIA.items()}, Amount("value", (0, 5)))


def bike(folder: Path) -> tuple[pd.DataFrame, Schema]:
    """Weather and the calendar, and how many bikes were hired in an hour."""
    rows = pd.read_csv(folder / "bike_hour.csv.xz")
    columns = {name: Number((0, 1)) for name in NUMBERS}
    columns |= {name: Category([str(code) for code in codes]) for name, codes in CODES.items()}
    rows = rows.astype(dict.fromkeys(CODES, str))
    return rows[[*columns, "count"]], Schema(columns, Amount("count", (0, 1000)))


def halves(rows: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Four fifths to fit, one to score."""
    order = np.random.default_rng(seed).permutation(len(rows))
    cut = len(rows) * 4 // 5
    return rows.iloc[order[:cut]], rows.iloc[order[cut:]]


def spread(scores: list[float]) -> str:
    """Median, and from where to where."""
    return f"{np.median(scores):.4f} ({min(scores):.4f} … {max(scores):.4f})"


def main() -> None:
    """Print a line for every table, model, adjacency, solver and ε."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("DPERM_DATA", ""))
    if not (folder / "california_housing.npz").is_file():
        print("Left out: name the folder with california_housing.npz and bike_hour.csv.xz, here or as DPERM_DATA.")
        return
    warnings.simplefilter("ignore", LargeDeltaWarning)
    models = {"linear": PrivateLinearRegression, "Poisson": PrivatePoissonRegression}
    for title, read, kind in (
        ("california", california, "linear"),
        ("bike", bike, "linear"),
        ("bike", bike, "Poisson"),
    ):
        rows, schema = read(folder)
        splits = [halves(rows, seed) for seed in range(SEEDS)]

        def scores(splits=splits, kind=kind, schema=schema, **parameters) -> list[float]:
            return [
                models[kind](schema=schema, delta=DELTA, random_state=seed, **parameters).fit(one).score(other)
                for seed, (one, other) in enumerate(splits)
            ]

        print(f"{title}, {kind}, n = {len(splits[0][0])}, without noise", end=" ")
        print(spread(scores(noise=None, penalty=L2(1e-6))), flush=True)
        for adjacency in ("replace_one", "add_remove"):
            for solver in ("auto", *sys.argv[2:]):
                for epsilon in EPSILONS:
                    seen = scores(
                        epsilon=epsilon, penalty=None, adjacency=adjacency, n=len(splits[0][0]), solver=solver
                    )
                    print(
                        f"{title:<11}{kind:<8}{adjacency:<12}{solver:<14} ε = {epsilon:<4g} {spread(seen)}", flush=True
                    )


if __name__ == "__main__":
    main()
