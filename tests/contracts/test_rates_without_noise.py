"""Without noise the variance-reduced methods converge as fast as their theorems and docstrings say."""

from dataclasses import replace

import numpy as np
import pytest

from dperm import Problem, minimize
from dperm.paper import PrintedSVRG, PrintedSVRGPlusPlus
from dperm.problem import L1, L2, Box, ElasticNet, Logistic
from dperm.solvers import DPSVRG, DPKatyusha, DPSVRGPlusPlus
from dperm.unsafe import empirical_risk

N, P = 400, 6
SMOOTHNESS = 0.25
SEEDS = 5


def rows(n=N, steep=False):
    """Rows of norm at most 1 along steep directions and flat ones, labels that no model gets all right.

    With `steep`, rows are as long as they may be and labels so noisy that F is as curved at the optimum as L allows.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, P)) * np.array([1.0, 0.7, 0.5, 0.3, 0.2, 0.1])
    X /= np.linalg.norm(X, axis=1)[:, None] if steep else np.linalg.norm(X, axis=1).max()
    return X, np.sign(X @ rng.normal(size=P) + (1.5 if steep else 0.3) * rng.normal(size=n))


def optimum(problem, X, y):
    """Plain proximal gradient descent, until nothing moves."""
    w = np.zeros(P)
    for _ in range(50_000):
        gradient = -(y / (1.0 + np.exp(y * (X @ w)))) @ X / y.size
        before, w = w, problem.prox(w - gradient / SMOOTHNESS, 1.0 / SMOOTHNESS)
        if np.abs(w - before).max() < 1e-13:
            return w
    raise AssertionError("the reference did not converge")


def gaps(problem, X, y, solver, n_epochs, seeds=SEEDS):
    """The gap at the start, then its mean after 1 … n_epochs epochs: runs of one seed differ only in where they end."""
    best = empirical_risk(problem, X, y, optimum(problem, X, y))

    def gap(k, seed):
        stopped = replace(solver, n_epochs=k)
        w = minimize(problem, X, y, guarantee=None, noise=None, solver=stopped, random_state=seed).w
        return empirical_risk(problem, X, y, w) - best

    start = empirical_risk(problem, X, y, np.zeros(P)) - best
    return [start] + [np.mean([gap(k, seed) for seed in range(seeds)]) for k in range(1, n_epochs + 1)]


@pytest.mark.parametrize(
    "problem",
    [
        Problem(Logistic(), L2(SMOOTHNESS / 5)),
        Problem(Logistic(), ElasticNet(SMOOTHNESS / 4, 0.2), Box(-0.8, 0.3)),
    ],
    ids=["l2", "elastic net on a box"],
)
def test_the_printed_algorithm_1_halves_the_gap_in_every_epoch(problem):
    """Theorem 4.2: batches of one row, η = 1/(40L) and m = 210κ make A below ½, the gap at most Aᵀ of the first."""
    X, y = rows()
    condition = SMOOTHNESS / problem.regularizer.strong_convexity
    m, eta = round(210 * condition), 1 / (40 * SMOOTHNESS)
    remainder = 1 - 8 * eta * SMOOTHNESS
    mu = problem.regularizer.strong_convexity
    assert 1 / (eta * remainder * mu * m) + 8 * SMOOTHNESS * eta * (m + 1) / (m * remainder) < 0.5
    start, *found = gaps(problem, X, y, PrintedSVRG(sampling_rate=1 / N, n_inner=m, step_size=eta), 4)
    assert start > 0.005
    for epoch, gap in enumerate(found, start=1):
        assert -1e-12 <= gap <= start / 2**epoch


def test_the_printed_algorithm_2_keeps_the_bound_of_theorem_4_4():
    """From the theorem's proof: (F(x₀) − F*)/2^(T−1) + ‖x₀ − x*‖²/(2ᵀ · (4η/3) · m)."""
    problem = Problem(Logistic(), L1(2e-3), Box(-3.0, 3.0))
    X, y = rows()
    m, eta = 200, 1 / (13 * SMOOTHNESS)
    distance = np.linalg.norm(optimum(problem, X, y))
    start, *found = gaps(
        problem, X, y, PrintedSVRGPlusPlus(sampling_rate=1 / N, n_inner=m, step_size=eta), 5
    )  # fmt: skip
    # Otherwise standing still would keep the bound.
    assert start > 2 * (start / 2**4 + distance**2 / (2**5 * (4 * eta / 3) * m))
    for epoch, gap in enumerate(found, start=1):
        assert -1e-12 <= gap <= start / 2 ** (epoch - 1) + distance**2 / (2**epoch * (4 * eta / 3) * m)


@pytest.mark.one_case_in(4, of_each="solver")
@pytest.mark.parametrize("n", [N, 3000], ids=["full batches", "samples"])
@pytest.mark.parametrize("condition", [5, 50])
@pytest.mark.parametrize("solver", [DPSVRG(), DPKatyusha()], ids=repr)
def test_anchored_epochs_reduce_the_gap_tenfold(solver, condition, n):
    """What the defaults of T count on.

    In a direction without curvature a step of DP-SVRG multiplies the error by c = 1/(1 + 1/κ), so the mean of the last
    half of 2κ steps has at most 0.27 of it at κ = 5 and 0.24 at κ = 50, and the gap a 14th of the last; curvature and
    momentum make it less: "20-fold per epoch". Tenfold leaves room for sampling.
    """
    problem = Problem(Logistic(), L2(SMOOTHNESS / condition))
    start, *found = gaps(problem, *rows(n), solver, 7, seeds=1)
    assert start > 0.01
    allowed = start
    for gap in found:
        allowed = max(allowed / 10, 1e-9)
        assert -1e-12 <= gap <= allowed
        allowed = max(gap, 1e-12)
    assert found[-1] <= 1e-9


def test_momentum_reduces_the_gap_20_fold_in_six_root_kappa_steps():
    """Steep rows and κ = 1000: z's steps of 1/(1.5 τ₁L) alone would diverge, and as many plain steps achieve less."""
    problem = Problem(Logistic(), L2(SMOOTHNESS / 1000))
    X, y = rows(steep=True)
    start, *found = gaps(problem, X, y, DPKatyusha(), 3, seeds=1)
    for epoch, gap in enumerate(found, start=1):
        assert -1e-12 <= gap <= start / 20**epoch
    _, plain = gaps(problem, X, y, DPSVRG(n_inner=190), 1, seeds=1)
    assert found[0] <= plain / 20


def descent(problem, X, y, w, n_steps):
    """The iterates of plain proximal gradient descent."""
    iterates = []
    for _ in range(n_steps):
        gradient = -(y / (1.0 + np.exp(y * (X @ w)))) @ X / y.size
        w = problem.prox(w - 0.7 * gradient / SMOOTHNESS, 0.7 / SMOOTHNESS)
        iterates.append(w)
    return iterates


@pytest.mark.parametrize(
    ("first", "second", "averaged"), [(DPSVRG, DPSVRGPlusPlus, 0.5), (PrintedSVRG, PrintedSVRGPlusPlus, 1.0)]
)
def test_without_sampling_the_epochs_are_gradient_descent_with_the_papers_restarts(first, second, averaged):
    """Algorithm 1 goes on from the mean of an epoch, Algorithm 2 from its last iterate; both return a mean."""
    problem = Problem(Logistic(), L2(0.02))
    X, y = rows()
    settings = {"n_epochs": 3, "n_inner": 6, "sampling_rate": 1.0, "step_size": 0.7 / SMOOTHNESS}
    w = last = np.zeros(P)
    for epoch in (1, 2, 3):
        w = np.mean(descent(problem, X, y, w, 6)[-round(6 * averaged) :], axis=0)
        doubled = descent(problem, X, y, last, 6 * 2**epoch)
        last, mean = doubled[-1], np.mean(doubled[-round(6 * 2**epoch * averaged) :], axis=0)
    for solver, expected in ((first(**settings), w), (second(**settings), mean)):
        found = minimize(problem, X, y, guarantee=None, noise=None, solver=solver).w
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.one_case_in(4)
@pytest.mark.parametrize("n", [N, 3000], ids=["full batches", "samples"])
@pytest.mark.parametrize(
    "problem", [Problem(Logistic(), domain=Box(-3.0, 3.0)), Problem(Logistic(), L1(2e-3))], ids=["on a box", "l1"]
)
def test_anchored_epochs_that_double_are_as_good_as_as_many_gradient_steps(problem, n):
    """D²/(2ηK), which the default T balances, K being all steps before those that are averaged."""
    X, y = rows(n)
    distance = np.linalg.norm(optimum(problem, X, y))
    start, *found = gaps(problem, X, y, DPSVRGPlusPlus(), 6, seeds=1)
    for epoch, gap in enumerate(found, start=1):
        steps = 8 * (2 ** (epoch + 1) - 2) - 8 * 2**epoch // 2
        assert -1e-12 <= gap <= distance**2 * SMOOTHNESS / (2 * steps)
    assert distance**2 * SMOOTHNESS / (2 * steps) < start / 4  # so standing still would not do


@pytest.mark.parametrize("kind", [DPSVRG, PrintedSVRG])
def test_barzilai_borwein_steps_find_the_optimum(kind):
    """Steps of at least 1/(mL), m = 2κ of them, still halve the gap in every epoch."""
    problem = Problem(Logistic(), L2(SMOOTHNESS / 5))
    start, *found = gaps(problem, *rows(), kind(barzilai_borwein=True), 8, seeds=1)
    for epoch, gap in enumerate(found, start=1):
        assert -1e-12 <= gap <= start / 2**epoch
