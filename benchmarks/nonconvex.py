"""DP-Spider against DP-GD and RRPSGD on losses that are not convex: the squared gradient norm of what is released.

    python benchmarks/nonconvex.py [folder with a9a.npz]

The folder may also be named by DPERM_DATA. Half an hour on two cores.
"""

import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm import Guarantee, Problem, minimize
from dperm.paper import RRPSGD
from dperm.problem import Sigmoid
from dperm.solvers import DPGD, DPSpider, Solver

Array = NDArray[np.float64]

DELTA, EPSILONS = 1e-5, (0.5, 1.0, 2.0)
SEEDS = int(os.environ.get("DPERM_SEEDS", "5"))
SOLVERS: dict[str, Solver] = {
    "dp-gd": DPGD(),
    "dp-gd, last": DPGD(accounting="composition", release="last"),
    "rrpsgd": RRPSGD(),
    "dp-spider": DPSpider(),
}


def synthetic() -> tuple[Array, Array]:
    """Draw 30 000 rows in the unit ball of 100 dimensions, logistic labels of a truth of norm 5."""
    rng = np.random.default_rng(2)
    truth = rng.normal(size=100)
    truth *= 5.0 / np.linalg.norm(truth)
    X = rng.normal(size=(30_000, 100))
    X *= (rng.random(30_000) ** 0.25 / np.linalg.norm(X, axis=1))[:, None]
    return X, np.where(rng.random(30_000) < 1.0 / (1.0 + np.exp(-X @ truth)), 1.0, -1.0)


def a9a(folder: str) -> tuple[Any, Array] | None:
    """The training rows of a9a, every row scaled by 1/√14; None where the file is not there."""
    path = Path(folder) / "a9a.npz"
    if not folder or not path.exists():
        print("a9a is left out: name the folder that holds a9a.npz as the first argument or as DPERM_DATA.\n")
        return None
    stored = np.load(path)
    names = {name.split("_")[-1]: name for name in stored.files if "test" not in name}
    indices, edges, y = stored[names["indices"]], stored[names["indptr"]], stored[names["y"]]
    entries = np.full(indices.size, 1.0 / math.sqrt(14.0))
    return sparse.csr_matrix((entries, indices, edges), shape=(edges.size - 1, 123)), y.astype(float)


def squared_gradient_norm(problem: Problem, X: Any, y: Array, w: Array) -> float:
    """‖∇F(w)‖², exactly."""
    slope = problem.loss.derivative(X @ w, y, *problem.loss.parameters)
    gradient = X.T @ slope / y.size
    return float(gradient @ gradient)


def compare(title: str, problem: Problem, X: Any, y: Array) -> None:
    """Squared gradient norms on one table."""
    first = squared_gradient_norm(problem, X, y, np.zeros(X.shape[1]))
    print(f"{title}: n = {X.shape[0]}, p = {X.shape[1]}, ‖∇F(0)‖² = {first:.2e}", flush=True)
    for epsilon in EPSILONS:
        medians, texts = {}, []
        for name, solver in SOLVERS.items():
            norms, began = [], time.perf_counter()
            for seed in range(SEEDS):
                release = minimize(problem, X, y, guarantee=Guarantee(epsilon, DELTA), solver=solver, random_state=seed)
                norms.append(squared_gradient_norm(problem, X, y, release.w))
            low, medians[name], high = np.percentile(norms, [25, 50, 75])
            clock = (time.perf_counter() - began) / SEEDS
            texts.append(
                f"{name} {medians[name]:.2e} ({low:.1e} … {high:.1e}, mean {np.mean(norms):.1e}) {clock:.1f} s"
            )
        ratios = ", ".join(
            f"{medians['dp-spider'] / medians[name]:.2f} of {name}" for name in ("dp-gd", "dp-gd, last", "rrpsgd")
        )
        print(f"  ε = {epsilon:<4g} dp-spider has {ratios}\n      " + "\n      ".join(texts), flush=True)


def main() -> None:
    """Print one block per table and loss."""
    print(f"‖∇F‖² of what is released, δ = {DELTA:g}, replace_one, defaults; median (quartiles) of {SEEDS} seeds\n")
    compare("synthetic, sigmoid loss", Problem(Sigmoid()), *synthetic())
    table = a9a(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("DPERM_DATA", ""))
    if table is not None:
        compare("a9a, sigmoid loss", Problem(Sigmoid()), *table)


if __name__ == "__main__":
    main()
