"""CPU time of a whole private fit, side by side with scikit-learn's lbfgs at its default tolerance.

    python benchmarks/speed.py [--pairs 5] [--largest 1000000] [--penalty 1e-2]

Same rows, same array, same ridge; medians over alternating pairs of process CPU time, the first pair (which compiles)
left out. Every fit has another ε, so that no plan is remembered from the one before. Run it with one thread of BLAS.
"""

import argparse
import math
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from dperm import LargeDeltaWarning, PrivateLogisticRegression
from dperm.problem import L2

SHAPES = [(10_000, 20), (10_000, 100), (10_000, 1000), (100_000, 20), (100_000, 100), (100_000, 1000), (1_000_000, 20)]


def dense(n: int, p: int) -> tuple[Any, Any]:
    """Rows of norm 1, and labels of a logistic model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    w = rng.normal(size=p)
    return X, labels(X @ (5.0 / np.linalg.norm(w) * w), rng)


def one_hot(n: int, n_columns: int = 20, width: int = 200) -> tuple[Any, Any]:
    """One of `width` categories in each of 20 columns, some of them rare."""
    rng = np.random.default_rng(0)
    chosen = np.minimum(rng.pareto(1.0, size=(n, n_columns)) * 3.0, width - 1.0).astype(np.int64)
    indices = (chosen + width * np.arange(n_columns)).ravel()
    values = np.full(indices.size, 1.0 / math.sqrt(n_columns))
    X = sparse.csr_array((values, indices, np.arange(0, indices.size + 1, n_columns)), shape=(n, width * n_columns))
    return X, labels(X @ rng.normal(scale=2.0, size=width * n_columns), rng)


def labels(margins: Any, rng: np.random.Generator) -> Any:
    """±1 with the probabilities of these margins."""
    return np.where(rng.uniform(size=margins.size) < expit(margins), 1, -1)


def seconds(fit: Callable[[], Any]) -> float:
    """Process CPU time."""
    started = time.process_time()
    fit()
    return time.process_time() - started


def compare(name: str, X: Any, y: Any, strength: float, pairs: int) -> None:
    """One line of the table."""
    ours, theirs = [], []
    for k in range(pairs + 1):
        private = PrivateLogisticRegression(1.0 + 1e-3 * k, 1e-7, penalty=L2(strength), classes=[-1, 1])
        plain = LogisticRegression(C=1.0 / (strength * len(y)), max_iter=1000)
        ours.append(seconds(lambda model=private: model.fit(X, y)))
        theirs.append(seconds(lambda model=plain: model.fit(X, y)))
    ratios = [a / b for a, b in zip(ours[1:], theirs[1:], strict=True)]
    print(
        f"| {name} | {statistics.median(ours[1:]):.3f} | {statistics.median(theirs[1:]):.3f} "
        f"| {statistics.median(ratios):.2f} | {min(ratios):.2f} … {max(ratios):.2f} |",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--largest", type=int, default=1_000_000, help="rows of the largest table")
    parser.add_argument("--penalty", type=float, default=1e-2)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", LargeDeltaWarning)
    print(f"| rows × columns | dperm, s | scikit-learn, s | ratio | least … largest |\n{'|---' * 5}|")
    for rows, columns in SHAPES:
        if rows <= asked.largest:
            compare(f"{rows} × {columns}", *dense(rows, columns), asked.penalty, asked.pairs)
    if asked.largest >= 200_000:
        compare("200000 × 4000, one-hot", *one_hot(200_000), asked.penalty, asked.pairs)
