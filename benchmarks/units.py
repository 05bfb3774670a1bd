"""What it costs to protect a person with all rows: excess risk of a fit by unit against the naive ways.

The naive ways keep the same k rows of every person, fit as if rows were people, and make up for it with noise:
`k × noise` multiplies the noise of the row-level plan by k; `ε/k` plans for the row-level guarantee whose
group-privacy bound for k rows is (ε, δ). Excess risk is the mean loss over all rows (logistic, or half the squared
error of a target scaled to [−1, 1]), without a penalty, above its minimum; medians over seeds, which draw the rows
that are kept and the noise; ratios of medians, and the smallest … largest of the same seed's.

    python benchmarks/units.py                     # rows made from a seed: 1 … 50 rows a person
    python benchmarks/units.py bike --data FOLDER  # Bike sharing, unit: a day (bike_hour.csv.xz, or DPERM_DATA)
"""

import argparse
import math
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from dperm import (
    Amount,
    Category,
    DroppedRowsWarning,
    LargeDeltaWarning,
    Number,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Schema,
)
from regression import CODES, NUMBERS

DELTA = 1e-5
WAYS = ("limit", "average", "k × noise", "ε/k")


@dataclass(frozen=True)
class Table:
    """Rows, whose they are, and how a model is fitted on them and judged."""

    name: str
    ids: np.ndarray
    limits: tuple[int, ...]
    model: Callable[..., Any]
    rows: Callable[[np.ndarray], tuple[Any, Any]]
    excess: Callable[[Any], float]


def made_up(skewed: bool, n_persons: int = 4000, p: int = 10) -> Table:
    """Labels of a logistic model with a person's own shift; 1 to 50 rows a person, evenly or few for most."""
    rng = np.random.default_rng(7)
    sizes = np.minimum(rng.geometric(0.15, n_persons), 50) if skewed else rng.integers(1, 51, n_persons)
    ids = np.repeat(np.arange(n_persons), sizes)
    centres = rng.normal(size=(n_persons, p))
    X = centres[ids] + rng.normal(size=(ids.size, p))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    truth = rng.normal(size=p)
    truth *= 5.0 / np.linalg.norm(truth)
    y = (rng.random(ids.size) < 1.0 / (1.0 + np.exp(-(X @ truth + 0.5 * rng.normal(size=n_persons)[ids])))).astype(int)
    Z = np.column_stack([X, np.ones(len(X))])

    def risk(w: np.ndarray) -> float:
        return float(np.logaddexp(0.0, -(2 * y - 1) * (Z @ w)).mean())

    def slope(w: np.ndarray) -> np.ndarray:
        signs = 2 * y - 1
        return -(Z.T @ (signs / (1.0 + np.exp(signs * (Z @ w))))) / len(Z)

    least = minimize(risk, np.zeros(p + 1), jac=slope, method="BFGS").fun

    def excess(model: Any) -> float:
        return risk(np.append(model.coef_.ravel(), model.intercept_)) - least

    def model(*guarantee: float, **parameters: Any) -> Any:
        return PrivateLogisticRegression(*guarantee, classes=[0, 1], **parameters)

    shape = "few rows for most" if skewed else "evenly 1 … 50"
    return Table(
        f"made up, {n_persons} persons, {shape} ({ids.size} rows)", ids, (5, 10, 20, 50), model,
        lambda kept: (X[kept], y[kept]), excess,
    )  # fmt: skip


def bike(folder: Path) -> Table:
    """Weather and the calendar, and how many bikes were hired in an hour; all hours of a day are protected together."""
    rows = pd.read_csv(folder / "bike_hour.csv.xz").astype(dict.fromkeys(CODES, str))
    columns = {name: Number((0, 1)) for name in NUMBERS}
    columns |= {name: Category([str(code) for code in codes]) for name, codes in CODES.items()}
    schema = Schema(columns, Amount("count", (0, 1000)), encode="linear")
    target = np.clip(rows["count"].to_numpy(), 0, 1000) / 500.0 - 1.0
    hot = pd.get_dummies(rows[[*columns]], columns=list(CODES)).to_numpy(dtype=float)
    design = np.column_stack([hot, np.ones(len(rows))])
    least = float(((design @ np.linalg.lstsq(design, target, rcond=None)[0] - target) ** 2).mean() / 2)

    def excess(model: Any) -> float:
        return float(((model.predict(rows) / 500.0 - 1.0 - target) ** 2).mean() / 2) - least

    def model(*guarantee: float, unit: str | None = None, **parameters: Any) -> Any:
        named = None if unit is None else "dateday"
        return PrivateLinearRegression(*guarantee, schema=schema, unit=named, **parameters)

    return Table(
        f"Bike sharing, {rows['dateday'].nunique()} days ({len(rows)} rows)", rows["dateday"].to_numpy(), (5, 12, 24),
        model, lambda kept: (rows.iloc[kept], None), excess,
    )  # fmt: skip


def fitted(table: Table, way: str, k: int, epsilon: float, solver: str, rng: np.random.Generator) -> float:
    """The excess risk of one fit."""
    seed = int(rng.integers(2**31))
    options = {"solver": solver, "random_state": seed, "row_warnings": False}
    if way in ("limit", "average"):
        model = table.model(epsilon, DELTA, unit="person", max_rows_per_unit=k, contribution=way, **options)
        X, y = table.rows(np.arange(table.ids.size))
        groups = table.ids if model.schema is None else None
        return table.excess(model.fit(X, y, groups=groups))
    order = rng.permutation(table.ids.size)
    place = pd.Series(table.ids[order]).groupby(table.ids[order]).cumcount().to_numpy()
    kept = order[place < k]
    X, y = table.rows(kept)
    if way == "k × noise":
        model = table.model(epsilon, DELTA, **options)
        plan = model.plan(len(kept), None if model.schema is not None else X.shape[1])
        noisier = replace(plan.calibrated, noise_multiplier=k * plan.calibrated.noise_multiplier)
        return table.excess(model.fit(X, y, plan=replace(plan, calibrated=noisier)))
    share = DELTA * math.expm1(epsilon / k) / math.expm1(epsilon)
    return table.excess(table.model(epsilon / k, share, **options).fit(X, y))


def compare(table: Table, epsilon: float, solver: str, seeds: int) -> None:
    """One line per k."""
    print(f"\n{table.name}; ε = {epsilon:g}, δ = {DELTA:g}, replace_one, solver {solver}, {seeds} seeds")
    ratios = "".join(f"{way + ' / average':>24}" for way in WAYS[2:])
    print(f"{'k':>4} " + "".join(f"{way:>12}" for way in WAYS) + ratios)
    for k in table.limits:
        found = {way: np.empty(seeds) for way in WAYS}
        for way in WAYS:
            for seed in range(seeds):
                found[way][seed] = fitted(table, way, k, epsilon, solver, np.random.default_rng([seed, k]))
        medians = {way: float(np.median(risks)) for way, risks in found.items()}
        line = "".join(f"{medians[way]:>12.5f}" for way in WAYS)
        ratios = "".join(f"{_ratio(found[naive], found['average']):>24}" for naive in WAYS[2:])
        print(f"{k:>4} {line}{ratios}", flush=True)


def _ratio(naive: np.ndarray, average: np.ndarray) -> str:
    """Of medians, and from where to where seed by seed."""
    ratios = naive / average
    return f"{np.median(naive) / np.median(average):.2f} ({ratios.min():.2f} … {ratios.max():.2f})"


def main() -> None:
    """Read the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", choices=("made-up", "bike"), default="made-up")
    parser.add_argument("--data", default=os.environ.get("DPERM_DATA"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--epsilon", type=float, nargs="*", default=None)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", LargeDeltaWarning)
    warnings.simplefilter("ignore", DroppedRowsWarning)
    if asked.table == "bike":
        if asked.data is None:
            print("Left out: name the folder with bike_hour.csv.xz by --data or DPERM_DATA.")
            return
        tables, epsilons = [bike(Path(asked.data))], asked.epsilon or (1.0, 4.0)
    else:
        tables, epsilons = [made_up(skewed=False), made_up(skewed=True)], asked.epsilon or (1.0,)
    for table in tables:
        for epsilon in epsilons:
            compare(table, epsilon, asked.solver, asked.seeds)


if __name__ == "__main__":
    main()
