"""The second-order methods: what happens to a released Hessian, and that no noise makes them diverge."""

import math

import numpy as np
import pytest

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.problem import L2, Huber, L2Ball, Logistic, Poisson, Squared
from dperm.problem.domains import WholeSpace
from dperm.solvers import AdaSSP, DPNewton
from dperm.solvers.second_order.newton_step import Curvature, Slope, pooled, shrunk
from dperm.unsafe import empirical_risk

P = 6


def noise_matrix(rng, p, sigma):
    """N(0, σ²) on symmetric matrices."""
    square = rng.normal(size=(p, p))
    return sigma * (square + square.T) / 2.0


def test_a_hessian_without_noise_stays_as_it_is():
    matrix = np.diag([3.0, 2.0, 0.5])
    curvature = Curvature.of(matrix, 0.0)
    np.testing.assert_allclose(curvature.basis * curvature.values @ curvature.basis.T, matrix, atol=1e-15)


def test_eigenvalues_that_noise_explains_fall_together_to_their_mean():
    rng = np.random.default_rng(0)
    curvature = Curvature.of(0.02 * np.eye(80) + noise_matrix(rng, 80, 0.01), 0.01)
    np.testing.assert_allclose(curvature.values, 0.02, rtol=0.2)


def test_a_hessian_that_stands_out_is_kept_and_its_flat_directions_are_kept_above_the_noise():
    rng = np.random.default_rng(1)
    true = np.array([1.0, 0.5, *np.zeros(18)])
    curvature = Curvature.of(np.diag(true) + noise_matrix(rng, 20, 0.001), 0.001)
    np.testing.assert_allclose(np.sort(curvature.values)[-2:], [0.5, 1.0], rtol=0.02)
    assert curvature.values.min() >= 0.99 * 0.001 * math.sqrt(10.0)


def test_an_outlier_is_not_taken_for_less_than_it_is_where_noise_hides_the_rest():
    """Noise has most of the spread here; a step by a fraction of the outlier's curvature would overshoot."""
    rng = np.random.default_rng(5)
    matrix = noise_matrix(rng, 120, 0.002)
    matrix[0, 0] += 0.08
    curvature = Curvature.of(matrix, 0.002)
    assert curvature.basis[0] ** 2 @ curvature.values > 0.05
    assert np.sort(curvature.values)[-2] < 0.02


def test_gradients_are_pooled_by_their_noise_and_moved_by_the_hessian():
    matrix, w, away = np.diag([2.0, 1.0]), np.array([1.0, 1.0]), np.array([0.0, 1.0])
    near, far = Slope(w, np.array([4.0, 4.0]), 1.0), Slope(away, np.array([3.0, 0.0]), 1.0)
    gradient, sigma = pooled([near, far], w, matrix, 0.0, 0.0)
    np.testing.assert_allclose(gradient, [4.5, 2.0])
    assert sigma == pytest.approx(math.sqrt(0.5))
    gradient, sigma = pooled([near, far], w, matrix, 2.0, 0.0)  # the way of length 1 adds ½ · 2² to the variance
    np.testing.assert_allclose(gradient, [4.0 + 1.0 / 4.0, 4.0 - 4.0 / 4.0])
    assert sigma == pytest.approx(math.sqrt(0.75))
    _, sigma = pooled([near, far], w, matrix, 0.0, 0.5)  # half of an effect of length 2 is 1, over two coordinates
    assert sigma == pytest.approx(1.0 / math.sqrt(1.0 + 1.0 / 1.5))


@pytest.mark.parametrize("mean", [-1.0, 0.0])
def test_a_released_hessian_is_positive_whatever_the_noise_did(mean):
    curvature = Curvature.of(np.diag([mean] * 5), 0.3)
    assert curvature.values.min() >= 0.2


def test_shrinkage_is_nothing_without_noise_all_without_signal_and_by_direction_between():
    rng = np.random.default_rng(2)
    seen = rng.normal(size=200)
    np.testing.assert_allclose(shrunk(seen, np.full(200, 1e-6)), seen, rtol=1e-4)
    assert np.abs(shrunk(0.9 * seen, np.ones(200))).max() < 1e-3
    both = shrunk(seen, np.where(np.arange(200) < 100, 1e-6, 1.0))
    assert np.linalg.norm(both[100:]) < 0.9 * np.linalg.norm(seen[100:])


def test_shrinkage_lowers_the_error_of_a_normal_mean():
    rng = np.random.default_rng(3)
    truth, variance = 0.5 * rng.normal(size=400), rng.uniform(0.05, 2.0, 400)
    seen = truth + np.sqrt(variance) * rng.normal(size=400)
    best = 0.25 / (0.25 + variance) * seen
    assert np.mean((shrunk(seen, variance) - truth) ** 2) < 1.05 * np.mean((best - truth) ** 2)


@pytest.mark.parametrize("radius", [1e-6, 0.5, 2.0, 50.0])
def test_the_models_minimiser_is_that_over_the_ball(radius):
    """Against projected gradient descent on the same quadratic."""
    rng = np.random.default_rng(4)
    root = rng.normal(size=(P, P))
    matrix, w, gradient = root @ root.T / P + 0.05 * np.eye(P), 0.1 * rng.normal(size=P), rng.normal(size=P)
    domain = L2Ball(radius)
    found = Curvature.of(matrix, 0.0).minimiser(w, gradient, 0.1, 0.0, domain)
    slow, step = np.zeros(P), 1.0 / (np.linalg.eigvalsh(matrix)[-1] + 0.1)
    for _ in range(3000):
        slow = domain.project(slow - step * (gradient + matrix @ (slow - w) + 0.1 * slow))
    np.testing.assert_allclose(found, slow, atol=1e-7 * radius + 1e-12)


class Hostile:
    """Answers as large and as wrong as noise could ever make them."""

    def __init__(self, size, sign):
        self.size, self.sign = size, sign

    def ask(self, item, w):
        rng = np.random.default_rng(int(1e6 * abs(w).sum()) % 1000)
        if type(item.query).__name__ == "HessianQuery":
            return self.sign * noise_matrix(rng, w.size, self.size)
        return self.size * rng.normal(size=w.size) + self.sign * self.size * w


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("size", [0.0, 1e-12, 1.0, 1e12])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("strength", [1e-4, None])
def test_no_answer_takes_it_further_than_its_steps_allow(size, sign, strength):
    problem = Problem(Logistic(), L2(strength)) if strength else Problem(Logistic())
    fit = FitOptions(problem, guarantee=Guarantee(0.05, 1e-6), solver="dp-newton").plan(1000, P)
    w = fit.solver.run(Hostile(size, sign), problem, fit.calibrated.plan, np.zeros(P))
    assert np.isfinite(w).all()
    assert np.linalg.norm(w) <= 6 * 10.0 * (1.0 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("regularizer", [{}, {"regularizer": L2(1e-4)}], ids=["none", "ridge"])
def test_its_risk_stays_near_that_of_the_start_where_the_budget_is_too_small_and_below_it_else(regularizer, epsilon):
    """Undamped, Newton's method diverges here: with a flat ridge the first inverse is that of noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 30)) / math.sqrt(30)
    y = np.sign(X @ rng.normal(size=30) + 0.5 * rng.normal(size=3000))
    problem = Problem(Logistic(), **regularizer)
    start = empirical_risk(problem, X, y, np.zeros(30))
    fits = (
        minimize(problem, X, y, guarantee=Guarantee(epsilon, 1e-6), solver="dp-newton", random_state=s)
        for s in range(5)
    )
    risks = [empirical_risk(problem, X, y, fit.w) for fit in fits]
    assert max(risks) < start + 0.35
    if epsilon == 2.0:
        assert max(risks) < start - 0.1


@pytest.mark.parametrize(
    "problem", [Problem(Huber(0.1), L2(1e-4)), Problem(Poisson(), L2(1e-4))], ids=["huber", "poisson"]
)
def test_losses_without_a_largest_curvature_at_zero_do_not_run_away(problem):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 5)) / math.sqrt(5)
    y = np.clip(np.round(np.exp(X @ np.ones(5))), 0, 10) if problem.loss.name == "poisson" else X @ np.full(5, 0.3)
    w = minimize(problem, X, y, guarantee=Guarantee(4.0, 1e-6), solver="dp-newton", random_state=0).w
    assert empirical_risk(problem, X, y, w) < 0.7 * empirical_risk(problem, X, y, np.zeros(5))


def test_adassp_is_better_than_as_published():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 8)) / math.sqrt(8)
    y = X @ rng.normal(size=8) / 3
    problem = Problem(Squared(), domain=L2Ball(3.0))
    best = empirical_risk(problem, X, y, minimize(problem, X, y, guarantee=None, noise=None, solver="adassp").w)

    def excess(noise):
        fits = (
            minimize(
                problem,
                X,
                y,
                guarantee=Guarantee(0.5, 1e-6),
                solver="adassp",
                noise=noise,
                adjacency="add_remove",
                n=20_000,
                random_state=s,
            )
            for s in range(8)
        )
        return np.median([empirical_risk(problem, X, y, fit.w) - best for fit in fits])

    assert excess("certified") < 0.6 * excess("paper")


@pytest.mark.parametrize("solver", [DPNewton(), AdaSSP()], ids=repr)
def test_the_expected_risk_falls_with_the_budget_and_the_rows(solver):
    problem = Problem(Squared(), domain=L2Ball(3.0))

    def predicted(n, epsilon):
        guarantee = Guarantee(epsilon, 1e-6)
        return solver.expected_risk(
            FitOptions(problem, guarantee=guarantee, solver=solver).plan(n, P).setting, guarantee
        )

    assert 0.0 < predicted(10_000, 4.0) < predicted(10_000, 0.5) < predicted(1_000, 0.5)


@pytest.mark.parametrize(
    "settings",
    [{"n_steps": 0}, {"n_hessians": 7}, {"hessian_share": 1.0}, {"gradient_growth": 0.0}, {"nominal_distance": 0.0}],
    ids=str,
)
def test_settings_without_a_meaning_are_refused(settings):
    with pytest.raises(InvalidParameterError):
        DPNewton(**settings)


def test_budgets_that_would_be_lost_in_rounding_are_refused():
    with pytest.raises(InvalidParameterError, match="1e12-fold"):
        DPNewton(n_steps=10, gradient_growth=100.0)


def test_the_whole_space_needs_no_ball():
    found = Curvature.of(np.eye(3), 0.0).minimiser(np.zeros(3), np.array([-100.0, 0.0, 0.0]), 0.0, 0.0, WholeSpace())
    np.testing.assert_allclose(found, [100.0, 0.0, 0.0])
