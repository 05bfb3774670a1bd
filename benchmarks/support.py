"""Support descent against private Frank–Wolfe on the l1 ball, p ≫ n: RCV1 and synthetic tables.

    python benchmarks/support.py [folder with rcv1_small.dat.xz]

The folder may also be named by DPERM_DATA. Fifteen minutes on two cores.
"""

import lzma
import math
import os
import sys
import time
from collections.abc import Set
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm import FitOptions, Guarantee, Problem, minimize
from dperm.problem import L1Ball, Logistic
from dperm.solvers import DPAccMD, Solver, SupportDescent, TalwarFrankWolfe
from dperm.unsafe import empirical_risk
from frank_wolfe import least_risk, sparse_signs

Array = NDArray[np.float64]

DELTA = 1e-6
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
SEEDS = int(os.environ.get("DPERM_SEEDS", "7"))
RIVAL, OURS = "talwar-frank-wolfe", "support-descent"
SOLVERS: dict[str, Solver] = {RIVAL: TalwarFrankWolfe(), OURS: SupportDescent(), "dp-accmd": DPAccMD()}
SLOW = {"dp-accmd"}  # a minute per fit where rows are long


def rcv1(folder: str) -> tuple[sparse.csr_matrix, Array] | None:
    """RCV1 in Vowpal Wabbit's text: a label, a bar, then column:value; None where the file is not there."""
    path = Path(folder) / "rcv1_small.dat.xz"
    if not folder or not path.exists():
        print(
            "RCV1 is left out: name the folder that holds rcv1_small.dat.xz as the first argument or as DPERM_DATA.\n"
        )
        return None
    labels, columns, values, edges = [], [], [], [0]
    with lzma.open(path, "rt") as lines:
        for line in lines:
            label, features = line.split("|f", 1)
            pairs = [pair.split(":") for pair in features.split()]
            labels.append(1.0 if float(label.split()[0]) > 0 else -1.0)
            columns += [int(pair[0]) for pair in pairs]
            values += [float(pair[1]) if len(pair) > 1 else 1.0 for pair in pairs]
            edges.append(len(columns))
    return sparse.csr_matrix((values, columns, edges), shape=(len(labels), 47_237)), np.array(labels)


def signs(n: int, p: int, per_row: int, radius: float) -> tuple[sparse.csr_matrix, Array]:
    """±1 in some columns of a row, of which the first ten matter equally."""
    X, rng = sparse_signs(n, p, per_row, seed=2), np.random.default_rng(3)
    truth = np.zeros(p)
    truth[:10] = radius / 10.0 * rng.choice([-1.0, 1.0], 10)
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-(X @ truth))), 1.0, -1.0)


def unequal(n: int, p: int, per_row: int, n_signals: int, seed: int) -> tuple[sparse.csr_matrix, Array]:
    """±1 in some columns of a row, ten of them among those that matter, which do so unequally. No default saw these."""
    rng = np.random.default_rng(seed)
    signals = np.argsort(rng.random((n, n_signals)), axis=1)[:, :10]
    columns = np.hstack([signals, n_signals + rng.integers(0, p - n_signals, (n, per_row - 10))])
    entries, edges = rng.choice([-1.0, 1.0], columns.size), np.arange(0, n * per_row + 1, per_row)
    X = sparse.csr_matrix((entries, columns.ravel(), edges), shape=(n, p))
    X.sum_duplicates()
    truth = np.zeros(p)
    truth[:n_signals] = rng.laplace(size=n_signals)
    truth *= 10.0 / np.abs(truth).sum()
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-(X @ truth))), 1.0, -1.0)


def compare(title: str, problem: Problem, X: sparse.csr_matrix, y: Array, left_out: Set[str] = frozenset()) -> None:
    """Excess risks on one table."""
    best, gap = least_risk(problem, X, y)
    fall = empirical_risk(problem, X, y, np.zeros(X.shape[1])) - best
    print(f"{title}: n = {X.shape[0]}, p = {X.shape[1]}, F(0) − F* = {fall:.4f}, F* known to {gap:.0e}", flush=True)
    for epsilon in EPSILONS:
        guarantee, medians, texts = Guarantee(epsilon, DELTA), {}, []
        for name, solver in SOLVERS.items():
            if name in left_out:
                continue
            excess, began = [], time.perf_counter()
            for seed in range(SEEDS):
                w = minimize(problem, X, y, guarantee=guarantee, solver=solver, random_state=seed).w
                excess.append(empirical_risk(problem, X, y, w) - best)
            low, medians[name], high = np.percentile(excess, [25, 50, 75])
            clock = (time.perf_counter() - began) / SEEDS
            texts.append(f"{name} {medians[name]:.5f} ({low:.5f} … {high:.5f}) {clock:.1f} s")
        fit = FitOptions(problem, guarantee=guarantee, solver=SOLVERS[OURS]).plan(*X.shape)
        choice = f"{fit.settings.selection}, T = {fit.settings.n_steps}"
        predicted = SupportDescent().expected_risk(fit.setting, guarantee)
        print(
            f"  ε = {epsilon:<4g} ratio {medians[OURS] / medians[RIVAL]:6.3f}   {'   '.join(texts)}   "
            f"[{choice}; predicted {predicted:.4f}]",
            flush=True,
        )


def main() -> None:
    """Print one block per table."""
    print(
        f"logistic loss on the l1 ball, δ = {DELTA:g}, replace_one; excess risk, median (quartiles) of {SEEDS} seeds "
        f"on one table;\nratio: {OURS} over {RIVAL}, both at their defaults\n"
    )
    table = rcv1(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("DPERM_DATA", ""))
    if table is not None:
        compare("RCV1, unit rows, radius 10", Problem(Logistic(), domain=L1Ball(10.0)), *table)
    for n, p, per_row, radius in ((5_000, 20_000, 20, 5.0), (5_000, 20_000, 20, 15.0), (10_000, 20_000, 300, 5.0)):
        problem = Problem(Logistic(), domain=L1Ball(radius), row_norm=math.sqrt(per_row), entry_bound=1.0)
        compare(f"±1 in {per_row} columns of a row, ten matter, radius {radius:g}", problem,
                *signs(n, p, per_row, radius), SLOW if per_row > 100 else set())  # fmt: skip

    for n, p, per_row, n_signals, seed in ((5_000, 20_000, 30, 25, 11), (8_000, 50_000, 15, 12, 12),
                                           (10_000, 20_000, 400, 15, 13)):  # fmt: skip
        problem = Problem(Logistic(), domain=L1Ball(10.0), row_norm=math.sqrt(per_row), entry_bound=1.0)
        compare(f"held out: ±1 in {per_row} columns of a row, {n_signals} matter unequally, radius 10", problem,
                *unequal(n, p, per_row, n_signals, seed), SLOW)  # fmt: skip


if __name__ == "__main__":
    main()
