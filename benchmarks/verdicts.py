"""Whether the verdict of a plan is right: what it says beside the accuracy (or R²) that fits then have.

    python benchmarks/verdicts.py [adult] [covertype] [classes] [synthetic] [regression]

δ = 1e-5, replace_one, everything else at its default; medians of 3 fits. "nothing" is the most frequent class, or 0 of
R². The last lines say, for every word, which share of the way from there to the best score of the table was gone.
"""

import math
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dperm import PrivateLinearRegression, PrivateLogisticRegression
from dperm.datasets.adult import load_adult
from dperm.datasets.covertype import load_covertype

EPSILONS = (0.01, 0.1, 0.5, 2.0, 8.0)
FITS = 3

# A model, rows for n, test rows, and what predicting nothing scores on them.
Case = tuple[Any, Callable[[int], tuple[Any, Any]], tuple[Any, Any], float, tuple[int, ...]]


def most_frequent(labels: Any) -> float:
    """Share of the most frequent label."""
    return max(Counter(np.asarray(labels).tolist()).values()) / len(labels)


def adult() -> Case:
    """The raw table by its schema."""
    schema, train, test = load_adult()
    labels = test.column(schema.target.column).to_pylist()
    model = PrivateLogisticRegression(schema=replace(schema, n=None))
    return model, lambda n: (train.slice(0, n), None), (test, None), most_frequent(labels), (100, 1000, 10_000, 32_561)


def covertype() -> Case:
    """Class 2 against the rest."""
    data = load_covertype()
    test = data.X_test[:20_000], data.y_test[:20_000]
    model = PrivateLogisticRegression(classes=[-1, 1])
    return model, lambda n: (data.X[:n], data.y[:n]), test, most_frequent(test[1]), (100, 1000, 10_000, 100_000)


def classes() -> Case:
    """Five classes by the nearest of five centres."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40_000, 10))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (X @ rng.normal(size=(10, 5)) + 0.3 * rng.gumbel(size=(40_000, 5))).argmax(axis=1)
    test = X[20_000:], y[20_000:]
    model = PrivateLogisticRegression(classes=range(5))
    return model, lambda n: (X[:n], y[:n]), test, most_frequent(test[1]), (300, 3000, 20_000)


def synthetic() -> Case:
    """A logistic model with 100 columns and a weak signal."""
    rng = np.random.default_rng(3)
    w = rng.normal(size=100)
    X = rng.normal(size=(120_000, 100))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (rng.random(120_000) < 1.0 / (1.0 + np.exp(-5.0 * X @ w / np.linalg.norm(w)))).astype(int)
    test = X[100_000:], y[100_000:]
    model = PrivateLogisticRegression(classes=[0, 1])
    return model, lambda n: (X[:n], y[:n]), test, most_frequent(test[1]), (100, 1000, 10_000, 100_000)


def regression() -> Case:
    """A linear model with eight columns."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1.0, 1.0, size=(40_000, 8)) / np.sqrt(8.0)
    y = np.clip(X @ rng.normal(size=8) + 0.2 * rng.normal(size=40_000), -1.0, 1.0)
    return (
        PrivateLinearRegression(row_norm=1.0),
        lambda n: (X[:n], y[:n]),
        (X[20_000:], y[20_000:]),
        0.0,
        (100, 1000, 20_000),
    )


CASES = {case.__name__: case for case in (adult, covertype, classes, synthetic, regression)}


def cells(name: str) -> list[tuple[str, float]]:
    """Every n and ε of a table: its verdict, and the share of the way from nothing to the best score."""
    found = []
    model, rows, test, nothing, sizes = CASES[name]()
    for n in sizes:
        X, y = rows(n)
        for epsilon in EPSILONS:
            model.set_params(epsilon=epsilon, delta=1e-5)
            verdict = model.plan(n, X.shape[1]).verdict
            scores = [model.fit(X, y).score(*test) for _ in range(FITS)]
            found.append((verdict.word, float(np.median(scores))))
            print(
                f"| {name} | {n} | {epsilon:g} | {verdict.word} | {verdict.ratio:.2g} | {np.median(scores):.3f} "
                f"({min(scores):.3f} … {max(scores):.3f}) | {nothing:.3f} |",
                flush=True,
            )
    best = max(score for _, score in found)
    return [(word, (score - nothing) / (best - nothing)) for word, score in found]


def main() -> None:
    """Print the table."""
    print("| table | n | ε | verdict | noise / nothing | score | nothing |\n|---|---|---|---|---|---|---|")
    found = [cell for name in sys.argv[1:] or CASES for cell in cells(name)]
    for word in ("useful", "doubtful", "hopeless"):
        shares = [share for one, share in found if one == word] or [math.nan]
        print(f"{word}: {len(shares)} cells, {min(shares):.2f} … {np.median(shares):.2f} … {max(shares):.2f}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # what is noticed about rows of a class too few is not the matter here
    main()
