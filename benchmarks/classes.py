"""Ten classes of synthetic images, 60 000 × 784: dperm at its defaults beside DP-SGD tuned by an oracle.

    python benchmarks/classes.py [--rows 60000] [--epsilons 1 3] [--seeds 3]

δ = 1e-5, add_remove, rows of norm 1. The oracle picks step size and clip of DP-SGD (the same model,
Poisson batches of about 4096 rows, 20 epochs, the mean of the second half of the iterates) on the test rows and is
charged nothing. Prints test accuracies and CPU seconds of a fit.
"""

import argparse
import itertools
import time

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant
from scipy.ndimage import gaussian_filter
from scipy.special import softmax

from dperm import PrivateLogisticRegression

DELTA, N_TEST, SIDE, CLASSES, PARTS = 1e-5, 10_000, 28, 10, 40
BATCH, EPOCHS, RATES, CLIPS = 4096, 20, (8.0, 32.0, 128.0), (0.15, 0.3, 0.6)


def images(n, seed=0, separation=2.1):
    """Blurred random parts, mixed by class, nonnegative, darker at the margins, scaled to norm 1."""
    rng = np.random.default_rng(seed)
    parts = np.array([gaussian_filter(rng.normal(size=(SIDE, SIDE)), 2.0).ravel() for _ in range(PARTS)]).T
    parts /= parts.std()
    edge = np.exp(-((np.arange(SIDE) - (SIDE - 1) / 2) ** 2) / 120.0)
    means = rng.normal(size=(CLASSES, PARTS)) * separation / 1.6 * np.sqrt(CLASSES / PARTS)
    y = rng.integers(CLASSES, size=n + N_TEST)
    mixed = (means[y] + rng.normal(size=(y.size, PARTS))) @ parts.T / np.sqrt(PARTS)
    X = np.maximum(mixed - 0.3, 0.0) * np.outer(edge, edge).ravel()
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X[:n], y[:n], X[n:], y[n:]


def noise_multiplier(rate, n_steps, epsilon):
    """The least noise over the clip, by privacy loss distributions, add_remove."""

    def event(multiplier):
        sampled = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier))
        return dp_accounting.SelfComposedDpEvent(sampled, n_steps)

    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    return dp_accounting.calibrate_dp_mechanism(
        lambda: PLDAccountant(relation, value_discretization_interval=1e-3), event, epsilon, DELTA, tol=1e-3
    )


def dp_sgd(X, y, multiplier, step, clip, seed):
    """The mean of the second half of the iterates."""
    rng, n = np.random.default_rng(seed), len(y)
    rate = BATCH / n
    n_steps = round(EPOCHS / rate)
    w, mean, truth = np.zeros((X.shape[1], CLASSES)), 0.0, np.eye(CLASSES)[y]
    for number in range(n_steps):
        batch = np.flatnonzero(rng.random(n) < rate)
        slope = softmax(X[batch] @ w, axis=1) - truth[batch]
        slope /= np.maximum(1.0, np.linalg.norm(slope, axis=1, keepdims=True) / clip)  # rows have norm 1
        noise = clip * multiplier * rng.standard_normal(w.shape)
        w = w - step / BATCH * (X[batch].T @ slope + noise)
        mean = mean + w if number >= n_steps // 2 else 0.0
    return mean


def main() -> None:
    """Print a line for every ε."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    X, y, X_test, y_test = images(given.rows)
    options = {"classes": list(range(CLASSES)), "adjacency": "add_remove", "n": given.rows}
    start = time.process_time()
    exact = PrivateLogisticRegression(noise=None, **options).fit(X, y).score(X_test, y_test)
    print(f"{given.rows} rows; without noise {exact:.4f} ({time.process_time() - start:.1f} s of CPU)", flush=True)
    for epsilon in given.epsilons:
        found, seconds = [], []
        for _ in range(given.seeds):
            start = time.process_time()
            model = PrivateLogisticRegression(epsilon, DELTA, **options).fit(X, y)
            seconds.append(time.process_time() - start)
            found.append(model.score(X_test, y_test))
        ours = f"dperm {np.median(found):.4f} ({min(found):.4f} … {max(found):.4f}), {np.median(seconds):.1f} s of CPU"
        print(f"  ε = {epsilon:g}: {ours}", flush=True)
        multiplier = noise_multiplier(BATCH / given.rows, round(EPOCHS * given.rows / BATCH), epsilon)

        def accuracy(setting, seed, multiplier=multiplier):
            w = dp_sgd(X, y, multiplier, *setting, seed)
            return float(((X_test @ w).argmax(axis=1) == y_test).mean())

        best = max(itertools.product(RATES, CLIPS), key=lambda setting: accuracy(setting, seed=1000))
        tuned = [accuracy(best, seed) for seed in range(given.seeds)]
        print(
            f"    DP-SGD by an oracle {np.median(tuned):.4f} ({min(tuned):.4f} … {max(tuned):.4f}), rate {best[0]:g}, "
            f"clip {best[1]:g}; dperm is {100 * (np.median(found) - np.median(tuned)):+.2f} points from it",
            flush=True,
        )


if __name__ == "__main__":
    main()
