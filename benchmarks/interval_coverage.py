"""How often intervals hold the true coefficient: private ones, and those that ignore the noise.

    python benchmarks/interval_coverage.py --models logistic --n 10000 --p 5 --epsilon 1 --fits 200

Rows are Gaussian with a standard deviation of 0.8/√p, cut to norm 1; the true coefficients have the norm 3 (logistic),
0.5 (linear) or 1 (Poisson). Every fit draws new rows and new noise. Intervals are at 95 % with δ = 1e-6. Beside what is
held of the coefficients is the standard error of its mean over fits.
"""

import argparse
import warnings

import numpy as np
from scipy.stats import norm

from dperm import PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegression

KINDS = {
    "linear": (PrivateLinearRegression, 0.5, 0.1),
    "logistic": (PrivateLogisticRegression, 3.0, -0.5),
    "poisson": (PrivatePoissonRegression, 1.0, 0.1),
}
RESIDUAL = 0.15
Z = float(norm.ppf(0.975))


def truth(kind, p):
    """Coefficients and intercept."""
    w = np.where(np.arange(p) % 2 == 0, 1.0, -0.5)
    return KINDS[kind][1] * w / np.linalg.norm(w), KINDS[kind][2]


def table(kind, n, p, rng):
    """Rows within the declared norm, and targets within the declared range but for about one in a thousand."""
    w, b = truth(kind, p)
    X = rng.normal(size=(n, p)) * 0.8 / np.sqrt(p)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    margins = X @ w + b
    if kind == "linear":
        return X, margins + RESIDUAL * rng.normal(size=n)
    if kind == "logistic":
        return X, rng.random(n) < 1.0 / (1.0 + np.exp(-margins))
    return X, rng.poisson(np.exp(margins))


def errors_without_privacy(kind, X, y, w, b):
    """Standard errors by the textbook at given coefficients."""
    Z1 = np.column_stack([X, np.ones(len(X))])
    margins = X @ w + b
    weights, scale = np.ones(len(X)), 1.0
    if kind == "linear":
        scale = np.mean((y - margins) ** 2)
    elif kind == "logistic":
        weights = 0.25 / np.cosh(0.5 * margins) ** 2
    else:
        weights = np.exp(np.minimum(margins, 10.0))
    information = (Z1 * weights[:, None]).T @ Z1 / scale
    return np.sqrt(np.diag(np.linalg.pinv(information, hermitian=True)))


def measure(kind, n, p, epsilon, fits, share, delta=1e-6, adjacency="replace_one"):
    """One row of the table."""
    w, b = truth(kind, p)
    true = np.append(w, b)
    held, naive, finite, ratios = [], [], [], []
    for seed in range(fits):
        rng = np.random.default_rng([seed, n, p, int(1000 * epsilon), list(KINDS).index(kind)])
        X, y = table(kind, n, p, rng)
        model = KINDS[kind][0](epsilon, delta, intervals=share, adjacency=adjacency, n=n, random_state=seed)
        model.fit(X, y)
        found = model.confidence_intervals()
        held.append((found.lower <= true) & (true <= found.upper))
        finite.append(np.isfinite(found.upper - found.lower))
        private = np.append(model.coef_.ravel(), np.ravel(model.intercept_))
        errors = errors_without_privacy(kind, X, y, private[:-1], private[-1])
        naive.append(np.abs(private - true) <= Z * errors)
        plain = 2.0 * Z * errors_without_privacy(kind, X, y, w, b)
        ratios.append((found.upper - found.lower) / plain)
    held, naive, finite = np.array(held), np.array(naive), np.array(finite)
    spread = 100.0 * held[:, :-1].mean(axis=1).std(ddof=1) / np.sqrt(fits)
    within = held[finite]
    return (
        f"| {kind} | {n} | {p} | {epsilon:g} | {fits} | {100 * held[:, :-1].mean():.1f} ± {spread:.1f} "
        f"| {100 * held[:, -1].mean():.0f} | {100 * naive.mean():.0f} | {np.median(ratios):.3g} "
        f"| {100 * (1 - finite.mean()):.0f} | {100 * within.mean() if within.size else np.nan:.1f} |"
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--n", nargs="+", type=int, default=[1000, 10_000, 100_000])
    parser.add_argument("--p", nargs="+", type=int, default=[5, 20])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.5, 1.0, 2.0, 8.0])
    parser.add_argument("--fits", type=int, default=100)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--adjacency", default="replace_one")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"share {given.share}, adjacency {given.adjacency}")
    heads = ["model", "n", "p", "ε", "fits", "coefficients held %", "intercept held %", "naive held %"]
    heads += ["width ÷ non-private", "infinite %", "held where finite %"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for kind in given.models:
        for n in given.n:
            for p in given.p:
                for epsilon in given.epsilon:
                    row = measure(kind, n, p, epsilon, given.fits, given.share, adjacency=given.adjacency)
                    print(row, flush=True)


if __name__ == "__main__":
    main()
