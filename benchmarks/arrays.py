"""Rows in arrays: what predicting on rows that are not clipped as in the fit costs, and what bounds of columns give.

    python benchmarks/arrays.py [--seeds 5] [--epsilon 1]

δ = 1e-6, replace_one. Tables: diamonds (40 000 rows for fitting, 13 940 for testing, six numbers, the price; as it is
and standardised), scikit-learn's diabetes (354 and 88 rows, ten numbers) and breast cancer (456 and 113 rows, 30
numbers, two classes), California housing (16 512 and 4128 rows, eight numbers, the value of a house). Diamonds is
`diamonds.csv` of the package plotnine and California is `california_housing.npz`; both are read from the folder that
DPERM_DATA names, by default ../shared/data beside the repository, and left out where they are not there. Ranges of
columns are those of the tables' descriptions, rounded. The targets' ranges are declared to all models alike. Columns:

    not clipped    a fit on the raw rows with row_norm = 1, its coefficients times raw rows
    as in the fit  the same fit; `predict` clips rows and predictions
    bounds         a fit with bounds=(lower, upper)
    private        a fit with bounds="private"; "-" where there are too few rows for it

Prints the median over seeds on test rows, R² or the log loss (of a constant: 0 and 0.69), with the smallest and the
largest.
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.metrics import log_loss, r2_score

from dperm import InvalidParameterError, PrivateLinearRegression, PrivateLogisticRegression

DELTA = 1e-6
ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("DPERM_DATA", ROOT.parent / "shared" / "data"))
DIAMONDS = [(0, 5), (40, 80), (40, 100), (0, 12), (0, 12), (0, 12)]
DIABETES = [(18, 80), (1, 2), (15, 45), (50, 150), (80, 320), (40, 250), (20, 100), (1, 10), (3, 7), (50, 130)]
CALIFORNIA = [(0, 15), (0, 52), (0, 12), (0, 4), (0, 6000), (0, 8), (32.5, 42), (-124.5, -114)]
CANCER = [
    (6, 29), (9, 40), (43, 190), (140, 2600), (0.05, 0.17), (0.01, 0.35), (0, 0.43), (0, 0.21), (0.1, 0.31),
    (0.04, 0.1),
    (0.1, 2.9), (0.3, 5), (0.7, 22), (6, 550), (0, 0.04), (0, 0.14), (0, 0.4), (0, 0.06), (0, 0.08), (0, 0.03),
    (7, 37), (12, 50), (50, 260), (180, 4300), (0.07, 0.23), (0.02, 1.1), (0, 1.3), (0, 0.3), (0.15, 0.67),
    (0.05, 0.21),
]  # fmt: skip


def diamonds(standardised=False):
    """The six numbers; standardised by their means and deviations, as if those were public."""
    path = FOLDER / "diamonds.csv"
    if not path.exists():
        return None
    columns = ["carat", "depth", "table", "x", "y", "z", "price"]
    table = np.genfromtxt(path, delimiter=",", names=True, dtype=None, encoding="utf-8")
    rows = np.column_stack([table[name].astype(float) for name in columns])
    X, y, bounds = rows[:, :6], rows[:, 6], np.array(DIAMONDS, dtype=float).T
    if standardised:
        middle, unit = X.mean(axis=0), X.std(axis=0)
        X, bounds = (X - middle) / unit, (bounds - middle) / unit
    return X, y, bounds, 20_000.0, 40_000


def california():
    """Block groups of 1990."""
    path = FOLDER / "california_housing.npz"
    if not path.exists():
        return None
    with np.load(path) as stored:
        X, y = np.asarray(stored["X"], dtype=float), np.asarray(stored["y"], dtype=float)
    return X, y, np.array(CALIFORNIA, dtype=float).T, 5.0, 16_512


def diabetes():
    """In the units of the clinic."""
    data = load_diabetes(scaled=False)
    return data.data, data.target, np.array(DIABETES, dtype=float).T, 350.0, 354


def cancer():
    """Two classes."""
    data = load_breast_cancer()
    return data.data, data.target, np.array(CANCER, dtype=float).T, None, 456


CASES = {
    "diamonds": diamonds,
    "diamonds, standardised": lambda: diamonds(standardised=True),
    "diabetes": diabetes,
    "breast cancer (log loss)": cancer,
    "California": california,
}


def scores(case, seed, epsilon):
    """By method, of one split."""
    X, y, (lower, upper), bound, n = case
    order = np.random.default_rng(seed).permutation(y.size)
    X, y, test, truth = X[order[:n]], y[order[:n]], X[order[n:]], y[order[n:]]
    more = {"row_warnings": False, "random_state": seed}

    def build(**own):
        if bound is None:
            return PrivateLogisticRegression(epsilon, DELTA, classes=[0, 1], **own, **more)
        return PrivateLinearRegression(epsilon, DELTA, target_bound=bound, **own, **more)

    def score(model, rows):
        if bound is None:
            return log_loss(truth, model.predict_proba(rows))
        return r2_score(truth, model.predict(rows))

    raw = build(row_norm=1.0).fit(X, y)
    margins = test @ np.ravel(raw.coef_) + raw.intercept_
    found = {
        "not clipped": log_loss(truth, expit(margins)) if bound is None else r2_score(truth, margins),
        "as in the fit": score(raw, test),
        "bounds": score(build(bounds=(lower, upper)).fit(X, y), test),
    }
    try:
        found["private"] = score(build(bounds="private").fit(X, y), test)
    except InvalidParameterError:  # from public numbers alone: too few rows
        found["private"] = None
    return found


def main():
    """Print one line per table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, load in CASES.items():
        case = load()
        if case is None:
            print(f"{name}: no such file in {FOLDER.name}")
            continue
        runs = [scores(case, seed, options.epsilon) for seed in range(options.seeds)]
        print(f"{name}, n = {case[4]}, {case[0].shape[1]} columns")
        for method in runs[0]:
            values = [run[method] for run in runs]
            if None in values:
                print(f"    {method:<14} -")
            else:
                print(f"    {method:<14} {np.median(values):.3f} ({min(values):.3f} … {max(values):.3f})")


if __name__ == "__main__":
    main()
