"""The full gradient against X @ w: both over the same rows, alternating, in one run."""

import platform
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy import sparse

from dperm import Problem
from dperm.kernel.block import Block
from dperm.kernel.objectives import objective_of
from dperm.kernel.threads import n_threads
from dperm.problem import Logistic

N, P, ROUNDS, BURST = 581_012, 54, 21, 7


def burst(work) -> float:
    """Median of a few runs in a row, after a pause in which the other side's spinning threads fall asleep."""
    time.sleep(0.15)
    work()
    seconds = []
    for _ in range(BURST):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds))


def compare(name: str, baseline, work, limit: float | None) -> None:
    """Alternate bursts of the two, so that both meet the same disturbances; print the median ratio and quartiles."""
    pairs = np.array([(burst(baseline), burst(work)) for _ in range(ROUNDS)])
    low, middle, high = np.percentile(pairs[:, 1] / pairs[:, 0], [25, 50, 75])
    best = pairs[:, 1].min() / pairs[:, 0].min()
    target = "" if limit is None else f"   target ≤ {limit}: {'met' if middle <= limit else 'MISSED'}"
    print(
        f"{name:<32} X @ w {1e3 * np.median(pairs[:, 0]):5.1f} ms   gradient {1e3 * np.median(pairs[:, 1]):5.1f} ms   "
        f"ratio {middle:.2f} (quartiles {low:.2f} … {high:.2f}, best/best {best:.2f}){target}"
    )


def main() -> None:
    """Print one line per storage."""
    print(f"{platform.machine()}, {n_threads()} threads, n = {N}, p = {P}, {ROUNDS} alternating bursts of {BURST}")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y, w = np.sign(rng.normal(size=N)), rng.normal(size=P)
    problem = Problem(Logistic())
    objective = objective_of(problem)
    with ThreadPoolExecutor(n_threads()) as pool:
        for name, table, limit in (
            ("dense float64", X, 1.5),
            ("dense float32", X.astype(np.float32), None),
            ("sparse, 10 % non-zero", sparse.random(N, P, density=0.1, format="csr", random_state=0), None),
        ):
            block = Block.from_table(table, y, problem)
            vector = w.astype(table.dtype)
            compare(
                name, lambda t=table, v=vector: t @ v, lambda b=block: objective.gradient_sum(b, w, None, pool), limit
            )
        slopes = -y / (1 + np.exp(y * (X @ w)))
        compare("dense float64, two BLAS passes", lambda: X @ w, lambda: X.T @ (slopes * (X @ w)), None)


if __name__ == "__main__":
    main()
