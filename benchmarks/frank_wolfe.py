"""Private Frank–Wolfe: what an iteration costs as n and p grow, and its excess risk against DP-AccMD on the l1 ball.

Ten minutes on two cores.
"""

import math
import time

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import svds

from dperm import Guarantee, Problem, minimize
from dperm.problem import L1Ball, Logistic
from dperm.solvers import DPAccMD, Solver, TalwarFrankWolfe
from dperm.unsafe import empirical_risk

Array = NDArray[np.float64]

GUARANTEE, SEEDS = Guarantee(1.0, 1e-6), 10
ENTRIES = 1_000_000
SIGNALS, RADIUS = 10, 5.0
HINDSIGHT = (5, 10, 20, 40, 80)


def sparse_signs(n: int, p: int, per_row: int, seed: int = 0) -> sparse.csr_matrix:
    """Rows of ±1 in `per_row` columns: the first ten, and others at random."""
    rng = np.random.default_rng(seed)
    signals = np.tile(np.arange(SIGNALS), (n, 1))
    columns = np.hstack([signals, SIGNALS + rng.integers(0, p - SIGNALS, (n, per_row - SIGNALS))])
    signs = rng.choice([-1.0, 1.0], size=columns.shape)
    X = sparse.csr_matrix((signs.ravel(), columns.ravel(), np.arange(0, n * per_row + 1, per_row)), shape=(n, p))
    X.sum_duplicates()
    return X


def seconds_an_iteration(n: int, p: int, n_steps: int = 20, rounds: int = 5) -> tuple[float, float]:
    """Medians: one step of a fit, and one product with X and one with its transpose, side by side."""
    X = sparse_signs(n, p, ENTRIES // n)
    y = np.where(np.random.default_rng(1).random(n) < 0.5, 1.0, -1.0)
    problem = Problem(Logistic(), domain=L1Ball(RADIUS), row_norm=math.sqrt(ENTRIES // n), entry_bound=1.0)
    w, r = np.full(p, 1e-3), np.full(n, 1e-3)

    def fit(steps: int) -> float:
        began = time.perf_counter()
        minimize(problem, X, y, guarantee=GUARANTEE, solver=TalwarFrankWolfe(n_steps=steps))
        return time.perf_counter() - began

    def pair() -> float:
        began = time.perf_counter()
        for _ in range(n_steps):
            X @ w
            X.T @ r
        return time.perf_counter() - began

    fit(1)  # compiles
    # A fit of one step takes off what reading the table and calibrating cost.
    measured = [(fit(n_steps + 1) - fit(1), pair()) for _ in range(rounds)]
    step, product = np.median(measured, axis=0) / n_steps
    return float(step), float(product)


def least_risk(problem: Problem, X: sparse.csr_matrix, y: Array) -> tuple[float, float]:
    """The least risk on the ball, by accelerated projected gradient, and the duality gap that proves it."""
    rows = sparse.diags_array(1.0 / np.maximum(1.0, abs(X).max(axis=1).toarray().ravel())) @ X  # as they are clipped
    columns = rows.T.tocsr()
    step = 4.0 * y.size / float(svds(rows, k=1, return_singular_vectors=False)[0]) ** 2

    def gradient(w: Array) -> Array:
        return np.asarray(columns @ (-y / (1.0 + np.exp(y * (rows @ w)))) / y.size)

    w = ahead = np.zeros(X.shape[1])
    momentum, gap = 1.0, math.inf
    while gap > 1e-5:
        for _ in range(20):
            new = problem.domain.project(ahead - step * gradient(ahead))
            if (ahead - new) @ (new - w) > 0:
                momentum = 1.0  # restart: the momentum points uphill
            grown = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
            ahead, w, momentum = new + (momentum - 1.0) / grown * (new - w), new, grown
        slope = gradient(w)
        gap = float(slope @ w + problem.domain.dual_norm(slope))
    return empirical_risk(problem, X, y, w), gap


def compare(n: int, p: int, per_row: int) -> None:
    """Excess risk of both methods on one table."""
    X = sparse_signs(n, p, per_row, seed=2)
    rng = np.random.default_rng(3)
    truth = np.zeros(p)
    truth[:SIGNALS] = RADIUS / SIGNALS * rng.choice([-1.0, 1.0], SIGNALS)
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-(X @ truth))), 1.0, -1.0)
    problem = Problem(Logistic(), domain=L1Ball(RADIUS), row_norm=math.sqrt(per_row), entry_bound=1.0)
    best, gap = least_risk(problem, X, y)
    fall = math.log(2.0) - best
    print(f"n = {n}, p = {p}, {per_row} of ±1 in a row: F(0) − F* = {fall:.4f}, F* known to {gap:.0e}", flush=True)
    methods: dict[str, Solver] = {
        "talwar-frank-wolfe (default)": TalwarFrankWolfe(),
        "dp-accmd (default)": DPAccMD(),
        **{f"talwar-frank-wolfe, T = {steps}": TalwarFrankWolfe(n_steps=steps) for steps in HINDSIGHT},
    }
    for name, solver in methods.items():
        excess, steps, began = [], 0, time.perf_counter()
        for seed in range(SEEDS):
            release = minimize(problem, X, y, guarantee=GUARANTEE, solver=solver, random_state=seed)
            excess.append(empirical_risk(problem, X, y, release.w) - best)
            steps = release.privacy.n_steps
        low, middle, high = np.percentile(excess, [25, 50, 75])
        clock = (time.perf_counter() - began) / SEEDS
        print(f"  {name:<30} T = {steps:4d}   {middle:.4f} ({low:.4f} … {high:.4f})   {clock:5.2f} s a fit", flush=True)
    published = minimize(problem, X, y, guarantee=GUARANTEE, solver=TalwarFrankWolfe(), noise="paper", random_state=0)
    excess_published = empirical_risk(problem, X, y, published.w) - best
    print(
        f"  as published: T = {published.privacy.n_steps}, excess {excess_published:.4f} (one seed), "
        f"certified ε = {published.privacy.certified_epsilon:.3f} at δ = {GUARANTEE.delta:g}"
    )


def main() -> None:
    """Print the cost of an iteration, then the risks."""
    print(f"one iteration with {ENTRIES} entries, against one product with X and one with its transpose")
    for n, p in ((1_000, 100_000), (10_000, 1_000), (10_000, 10_000), (10_000, 100_000), (10_000, 1_000_000),
                 (50_000, 100_000)):  # fmt: skip
        step, product = seconds_an_iteration(n, p)
        print(
            f"  n = {n:6d}, p = {p:7d} ({ENTRIES / n / p:7.3%} not zero): {1e3 * step:6.1f} ms, "
            f"pair {1e3 * product:6.1f} ms, ratio {step / product:.1f}",
            flush=True,
        )
    print(
        f"\nlogistic loss on the l1 ball of radius {RADIUS:g}, ten columns that matter, ε = {GUARANTEE.epsilon:g}, "
        f"δ = {GUARANTEE.delta:g}, replace_one\nexcess risk, median (quartiles) of {SEEDS} seeds on one table"
    )
    for n, p, per_row in ((10_000, 100_000, 20), (10_000, 100_000, 100), (5_000, 20_000, 1_000)):
        compare(n, p, per_row)


if __name__ == "__main__":
    main()
