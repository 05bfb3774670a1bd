"""What private scaling and a model under one ε lose against public scaling, which costs nothing.

    python benchmarks/preprocessing.py [--seeds 5] [--epsilons 0.5 1 4]

δ = 1e-6, replace_one. Three tables: Covertype's ten numeric columns (20 000 rows, lodgepole pine or not), California
housing (16 512 rows, R²; read from the folder that DPERM_DATA names, by default ../shared/data beside the repository,
and left out where that is not there), and lognormal columns made from a seed (20 000 rows, two classes). The declared
ranges are those of the data's publishers, and the same ten times as wide. Methods, with the row norm of a typical row:

    public      columns from their declared ranges to [−1, 1], √(p/3)
    standard    PrivateStandardScaler, clipped to ±3, √p
    min-max     PrivateMinMaxScaler to [−1, 1], √(p/3)
    quantile    PrivateQuantileTransformer to [−1, 1], √(p/3)
    exact       scikit-learn's StandardScaler instead of the private one, not private: what noise in a scaler costs

Prints the median score on test rows over seeds, with the smallest and the largest.
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from dperm import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMinMaxScaler,
    PrivateQuantileTransformer,
    PrivateStandardScaler,
    make_private_pipeline,
)

DELTA = 1e-6
ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("DPERM_DATA", ROOT.parent / "shared" / "data"))
COVERTYPE = [
    (1859, 3858),
    (0, 360),
    (0, 66),
    (0, 1397),
    (-173, 601),
    (0, 7117),
    (0, 254),
    (0, 254),
    (0, 254),
    (0, 7173),
]
CALIFORNIA = [(0, 15), (0, 52), (0, 12), (0, 4), (0, 6000), (0, 8), (32.5, 42), (-124.5, -114)]


def covertype(n=20_000, n_test=20_000):
    """Rows, labels, test rows, test labels, declared ranges."""
    with np.load(ROOT / "src" / "dperm" / "datasets" / "covertype.npz") as stored:
        chosen = np.random.default_rng(1).permutation(stored["y"].size)[: n + n_test]
        X, y = stored["num_T"].T[chosen].astype(float), (stored["y"][chosen] == 2).astype(int)
    return X[:n], y[:n], X[n:], y[n:], COVERTYPE


def california(n=16_512):
    """The same of a regression."""
    with np.load(FOLDER / "california_housing.npz") as stored:
        order = np.random.default_rng(1).permutation(stored["y"].size)
        X, y = stored["X"][order], (stored["y"][order] - 2.5) / 2.5
    return X[:n], y[:n], X[n:], y[n:], CALIFORNIA


def lognormal(n=20_000, n_test=20_000, p=10):
    """Skewed columns in different units; the label is linear in their logarithms."""
    rng = np.random.default_rng(1)
    logs = rng.normal(size=(n + n_test, p))
    y = (logs @ rng.normal(size=p) + rng.normal(size=n + n_test) > 0).astype(int)
    X = np.exp(logs) * 10.0 ** rng.integers(0, 4, size=p)
    return X[:n], y[:n], X[n:], y[n:], [(0.0, 50.0 * 10.0**k) for k in np.round(np.log10(np.median(X, axis=0)))]


def wider(bounds, factor):
    """Ranges around the same middles."""
    middles = [(low + high) / 2 for low, high in bounds]
    return [
        (m - factor * (high - low) / 2, m + factor * (high - low) / 2)
        for m, (low, high) in zip(middles, bounds, strict=True)
    ]


def model(regression, row_norm):
    """The model at its defaults."""
    return PrivateLinearRegression(row_norm=row_norm) if regression else PrivateLogisticRegression(
        classes=[0, 1], row_norm=row_norm
    )  # fmt: skip


def methods(X, bounds, regression):
    """Name, steps before the model, row norm."""
    p = X.shape[1]
    low, high = np.array(bounds).T
    even, long = float(np.sqrt(p / 3)), float(np.sqrt(p))
    exact = StandardScaler().fit(X)
    symmetric = FunctionTransformer(lambda Z: 2.0 * Z - 1.0)
    yield "public", [FunctionTransformer(lambda Z: np.clip((2.0 * Z - low - high) / (high - low), -1.0, 1.0))], even
    yield "standard", [PrivateStandardScaler(bounds=bounds)], long
    yield "min-max", [PrivateMinMaxScaler(bounds=bounds, feature_range=(-1.0, 1.0))], even
    yield "quantile", [PrivateQuantileTransformer(bounds=bounds), symmetric], even
    yield "exact", [FunctionTransformer(lambda Z: np.clip((Z - exact.mean_) / exact.scale_, -3.0, 3.0))], long


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 4.0])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = [("covertype", covertype), ("lognormal", lognormal)]
    if (FOLDER / "california_housing.npz").is_file():
        tables.append(("california", california))
    print(
        f"{'table':<12}{'ranges':<8}{'ε':<6}"
        + "".join(f"{name:<24}" for name in ("public", "standard", "min-max", "quantile", "exact"))
    )
    for name, load in tables:
        X, y, X_test, y_test, tight = load()
        if name != "california":
            print(f"{name}: the larger class alone {max(y_test.mean(), 1.0 - y_test.mean()):.3f}")
        for factor in (1, 10):
            for epsilon in asked.epsilons:
                cells = []
                for _, steps, norm in methods(X, wider(tight, factor), name == "california"):
                    scores = [
                        make_private_pipeline(
                            *steps, model(name == "california", norm), epsilon=epsilon, delta=DELTA, random_state=seed
                        ).fit(X, y).score(X_test, y_test)
                        for seed in range(asked.seeds)
                    ]  # fmt: skip
                    cells.append(f"{np.median(scores):.3f} ({min(scores):.3f}…{max(scores):.3f})")
                print(f"{name:<12}×{factor:<7}{epsilon:<6g}" + "".join(f"{cell:<24}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
