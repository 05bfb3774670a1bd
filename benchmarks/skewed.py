"""What regressions predict of skewed targets: how far their mean and their median are off.

    python benchmarks/skewed.py [--seeds 9] [--epsilon 1]

δ = 1e-6, replace_one, four uniform columns. The target is lognormal (σ = 0.8 around a line in its logarithm) and
clipped to [100, 50 000]; its mean is about 1.4 times its median. Fits at their defaults, on n rows; all numbers are of
20 000 further rows. Prints medians over seeds, with the smallest and the largest:

    mean     mean of the predictions over the mean of the targets, less 1
    below    share of the targets that lie below their prediction: 0.5 for a median
    R²       of the predictions
"""

import argparse
import warnings

import numpy as np
from sklearn.metrics import r2_score

from dperm import (
    Amount,
    Number,
    PrivateHuberRegression,
    PrivateLinearRegression,
    Schema,
)

DELTA, LOW, HIGH = 1e-6, 100.0, 50_000.0
COLUMNS = {f"x{place}": Number((0, 1), encode="linear") for place in range(4)}
PLAIN, LOGARITHM = (Schema(COLUMNS, Amount("y", (LOW, HIGH), transform=name)) for name in (None, "log"))
MODELS = {
    "linear": (PrivateLinearRegression, {"schema": PLAIN}),
    "linear, without noise": (PrivateLinearRegression, {"schema": PLAIN, "noise": None}),
    "huber, threshold 0.1": (PrivateHuberRegression, {"schema": PLAIN, "threshold": 0.1}),
    'linear, transform = "log"': (PrivateLinearRegression, {"schema": LOGARITHM}),
}


def rows(n, seed):
    """Rows and targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 4))
    return X, np.clip(np.exp(np.log(2000.0) + X @ [1.0, 0.5, -0.5, 0.0] + 0.8 * rng.normal(size=n)), LOW, HIGH)


def spread(values):
    """The median, the smallest and the largest."""
    return f"{np.median(values):7.3f} ({min(values):.3f} … {max(values):.3f})"


def main():
    """Print a line per model and n."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=9)
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for n in (1000, 2000, 10_000, 50_000):
        for name, (kind, parameters) in MODELS.items():
            found = []
            for seed in range(options.seeds):
                (X, y), (test, truth) = rows(n, seed), rows(20_000, 1000 + seed)
                predicted = kind(options.epsilon, DELTA, random_state=seed, **parameters).fit(X, y).predict(test)
                found.append(
                    (predicted.mean() / truth.mean() - 1.0, np.mean(truth < predicted), r2_score(truth, predicted))
                )
            mean, below, explained = map(spread, zip(*found, strict=True))
            print(f"n = {n:<6} {name:<26} mean {mean}   below {below}   R² {explained}")


if __name__ == "__main__":
    main()
