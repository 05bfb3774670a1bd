"""The search for a minimiser: a short subgradient on tables that are hard for it, whatever the number of outputs."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse

from dperm import PrivateLogisticRegression, Problem
from dperm.kernel import minimiser as minimiser_module
from dperm.kernel.minimiser import minimiser
from dperm.kernel.noise import Randomness
from dperm.kernel.sums import RowSums
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Logistic, NoRegularizer
from dperm.problem.losses import OneVsRestHinge, Softmax
from dperm.rows.arrays import ArraySource
from dperm.solvers.perturbation.tolerance import tolerance_for
from kernel.harness import setting_of

RNG = np.random.default_rng(5)
PLAIN = RNG.normal(size=(300, 6)) / 4.0
HARD = {
    "collinear": np.hstack([PLAIN, PLAIN, 1e-6 * PLAIN]),
    "zero rows": np.where(np.arange(300)[:, None] % 3 == 0, PLAIN, 0.0),
    "more columns than rows": RNG.normal(size=(40, 200)) / 20.0,
    "ignored rows": np.where(np.arange(300)[:, None] % 7 == 0, np.nan, PLAIN),
    "empty columns": np.hstack([PLAIN, np.zeros((300, 30))]),
    "long rows": 1e6 * PLAIN,
}
LOSSES = [Logistic(), Softmax(4), OneVsRestHinge(3)]


@pytest.fixture
def no_last_resort(monkeypatch):
    """Accelerated steps would hide that the quasi-Newton steps did not get there."""

    def refuse(*_arguments):
        raise AssertionError("the quasi-Newton steps did not end")

    monkeypatch.setattr(minimiser_module, "_accelerated", refuse)


def targets_for(loss, X):
    """Separable: the first column says it all."""
    first = np.nan_to_num(X[:, 0])
    return np.where(first > 0, 1.0, -1.0) if loss.n_outputs == 1 else (np.abs(first) * 97 // 1) % loss.n_outputs


def solve(problem, X, y, ridge, share=1.0, seed=3):
    setting = setting_of(problem, Adjacency.ADD_REMOVE, n=len(y), n_features=X.shape[1])
    convexity = problem.regularizer.strong_convexity + ridge
    tolerance = tolerance_for(setting, convexity)
    linear = np.random.default_rng(seed).normal(size=setting.constants.dimension)
    linear *= (
        10.0 * len(y) * convexity / np.linalg.norm(linear)
    )  # moves the minimiser by up to 10, as a ridge by rule does
    start = np.linspace(-0.5, 0.5, linear.size)
    with ThreadPoolExecutor(1) as pool:
        sums = RowSums(ArraySource(X, y), problem, pool, Randomness.from_random_state(0).sampling)
        w = minimiser(problem, sums, setting, linear, ridge, tolerance, start, share)
        mean = sums.gradient(w, share * setting.constants.lipschitz) / len(y)
    pulled = problem.regularizer.strong_convexity * w + ridge * (w - start)
    return np.linalg.norm(mean + linear / len(y) + pulled), tolerance


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("table", HARD)
def test_quasi_newton_steps_alone_end_with_a_short_subgradient(table, loss, as_rows, no_last_resort):
    X = HARD[table]
    length, tolerance = solve(Problem(loss, L2(1e-4), intercept=True), as_rows(X), targets_for(loss, X), 1e-5)
    assert length <= tolerance


@pytest.mark.parametrize("loss", LOSSES[:2], ids=lambda loss: loss.name)
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_they_end_where_slopes_are_clipped(share, loss, no_last_resort):
    X = HARD["collinear"]
    length, tolerance = solve(Problem(loss, NoRegularizer(), intercept=True), X, targets_for(loss, X), 1e-3, share)
    assert length <= tolerance


def test_a_run_without_noise_or_penalty_ends_on_separable_collinear_rows(no_last_resort):
    X = np.hstack([HARD["collinear"], np.ones((300, 1)) / 4.0])
    y = np.where(X[:, 0] > 0, 1, -1)
    model = PrivateLogisticRegression(noise=None, penalty=None, classes=[-1, 1]).fit(X, y)
    assert model.score(X, y) > 0.99
