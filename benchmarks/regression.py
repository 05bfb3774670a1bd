"""Linear regression on California housing: AdaSSP here and as published, objective perturbation and DP-GD.

Excess empirical risk of the squared loss on an l2 ball, medians and quartiles over seeds. The repository does not ship
the table: give the folder that holds california_housing.npz (X, y) as an argument or in DPERM_DATA.
"""

import os
import sys
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dperm import Guarantee, L2Ball, LargeDeltaWarning, Problem, Squared, empirical_risk, minimize

DELTA, SEEDS, RADIUS = 1e-6, 20, 5.0
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)

# Declared without a look at the rows: median income in 10 000 $, age of houses, rooms, bedrooms, people in a block,
# people in a household, latitude, longitude; house values up to 500 000 $.
LOW = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 32.0, -125.0])
HIGH = np.array([15.0, 52.0, 20.0, 5.0, 5000.0, 10.0, 42.0, -114.0])
HIGHEST_VALUE = 5.0

METHODS = (
    ("adassp", "adassp", "certified"),
    ("adassp, published", "adassp", "paper"),
    ("kifer-objective", "kifer-objective", "certified"),
    ("dp-newton", "dp-newton", "certified"),
    ("dp-gd", "dp-gd", "certified"),
)

Array = NDArray[np.float64]


def california(folder: Path) -> tuple[Array, Array]:
    """Columns and target to [−1, 1] by the declared ranges, a column of ones, rows to unit norm."""
    with np.load(folder / "california_housing.npz") as table:
        raw, value = table["X"], table["y"]
    columns = 2.0 * (np.clip(raw, LOW, HIGH) - LOW) / (HIGH - LOW) - 1.0
    X = np.column_stack([columns, np.ones(len(columns))])
    return X / np.linalg.norm(X, axis=1)[:, None], 2.0 * np.clip(value / HIGHEST_VALUE, 0.0, 1.0) - 1.0


def main() -> None:
    """Print one block per adjacency and ε."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("DPERM_DATA", ""))
    if not (folder / "california_housing.npz").is_file():
        print("California housing is left out: name the folder with california_housing.npz, here or as DPERM_DATA.")
        return
    warnings.simplefilter("ignore", LargeDeltaWarning)
    X, y = california(folder)
    problem, n = Problem(Squared(), domain=L2Ball(RADIUS)), len(y)
    best = empirical_risk(problem, X, y, minimize(problem, X, y, guarantee=None, noise=None, solver="adassp").w)
    start = empirical_risk(problem, X, y, np.zeros(X.shape[1])) - best
    print(f"California housing, n = {n}, p = {X.shape[1]}, l2 ball of radius {RADIUS:g}, δ = {DELTA:g}, {SEEDS} seeds")
    print(f"least risk {best:.4f}; w = 0 has an excess of {start:.3f}")
    for adjacency in ("add_remove", "replace_one"):
        for epsilon in EPSILONS:
            medians = {}
            for title, solver, noise in METHODS:
                risks = []
                for seed in range(SEEDS):
                    release = minimize(problem, X, y, guarantee=Guarantee(epsilon, DELTA), solver=solver, noise=noise,
                                       adjacency=adjacency, n=n, random_state=seed)  # fmt: skip
                    risks.append(empirical_risk(problem, X, y, release.w) - best)
                low, medians[title], high = np.percentile(risks, [25, 50, 75])
                print(
                    f"{adjacency:<12} ε = {epsilon:<4g} {title:<18} {medians[title]:.2e} ({low:.2e} … {high:.2e})   "
                    f"certified ε = {release.privacy.certified_epsilon:.3g}",
                    flush=True,
                )
            ratio = medians["adassp, published"] / medians["adassp"]
            print(f"{adjacency:<12} ε = {epsilon:<4g} published/ours = {ratio:.1f}", flush=True)


if __name__ == "__main__":
    main()
