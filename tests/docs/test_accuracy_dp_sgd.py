"""The DP-SGD that dperm is compared with is neither wrong nor weaker than it should be."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import norm

HERE = Path(__file__).parents[2] / "benchmarks" / "accuracy"


@pytest.fixture
def dp_sgd(monkeypatch):
    """The benchmark's module, a script and no package."""
    monkeypatch.syspath_prepend(HERE)
    before = set(sys.modules)
    import dp_sgd

    yield dp_sgd
    for name in set(sys.modules) - before:
        if str(HERE) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def loss(kind, margins, y):
    if kind == "squared":
        return 0.5 * (margins[0] - y) ** 2
    if kind == "logistic":
        return np.logaddexp(0.0, margins[0]) - y * margins[0]
    return logsumexp(margins) - margins[int(y)]


@pytest.mark.parametrize(("kind", "n_outputs"), [("squared", 1), ("logistic", 1), ("softmax", 3)])
def test_the_sum_is_that_of_each_rows_numerical_gradient_scaled_to_the_clip(dp_sgd, kind, n_outputs):
    rng = np.random.default_rng(0)
    X = sparse.random(12, 4, density=0.6, format="csr", random_state=1)
    y = rng.integers(0, max(2, n_outputs), size=12).astype(float)
    w, clip, h = rng.normal(size=(4, n_outputs)), 0.3, 1e-6
    expected, clipped = np.zeros_like(w), 0
    for row, target in zip(X.toarray(), y, strict=True):
        gradient = np.zeros_like(w)
        for place in np.ndindex(*w.shape):
            moved = np.zeros_like(w)
            moved[place] = h
            ends = [loss(kind, row @ (w + sign * moved), target) for sign in (1.0, -1.0)]
            gradient[place] = (ends[0] - ends[1]) / (2 * h)
        length = np.linalg.norm(gradient)
        clipped += length > clip
        expected += gradient * min(1.0, clip / max(length, 1e-300))
    arguments = (X.indptr, X.indices, X.data, y, w, np.arange(12), clip, kind == "squared")
    assert 0 < clipped < 12
    assert dp_sgd.clipped_sum.py_func(*arguments) == pytest.approx(expected, abs=1e-7)


def test_noise_on_sums_of_everybody_is_the_least_that_the_exact_gaussian_curve_allows(dp_sgd):
    epsilon, delta, n_steps = 1.0, 1e-5, 30
    found = dp_sgd.noise_multiplier(1.0, n_steps, epsilon, delta)

    def curve(multiplier):
        mu = math.sqrt(n_steps) / multiplier
        return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)

    assert curve(found) <= delta * (1 + 1e-3)
    assert curve(0.99 * found) > delta


def test_sampling_lowers_the_noise_of_as_many_steps_and_more_steps_raise_it(dp_sgd):
    everybody, sampled, longer = (
        dp_sgd.noise_multiplier(*shape, 1.0, 1e-5) for shape in ((1.0, 30), (0.1, 30), (0.1, 60))
    )
    assert sampled < longer < everybody
