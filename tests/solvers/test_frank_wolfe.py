"""Private Frank–Wolfe: its bound with and without noise, the curvature it rests on, its default T and its refusals."""

import functools
import math

import numpy as np
import pytest
from scipy.special import softmax

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.errors import UnsupportedProblemError
from dperm.problem import L2, L1Ball, L2Ball, Logistic, Sigmoid, Simplex, Softmax, Squared
from dperm.solvers import TalwarFrankWolfe
from dperm.unsafe import empirical_risk

N, P = 2000, 30
GUARANTEE = Guarantee(1.0, 1e-6)
PROBLEMS = [
    Problem(Logistic(), domain=L1Ball(3.0), row_norm=10.0, entry_bound=1.0),
    Problem(Logistic(), domain=L1Ball(3.0)),
    Problem(Squared(), domain=Simplex(), row_norm=10.0, entry_bound=1.0),
]


def signs(n=N, p=P):
    """Rows of ±1, of which five columns matter."""
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], size=(n, p))
    return X, np.sign(X[:, :5] @ np.array([1.0, 1.0, 0.5, 0.5, 0.2]) + rng.normal(size=n))


def fit(problem, X, y, n_steps, seed=None, guarantee=GUARANTEE):
    noise = None if seed is None else "certified"
    return minimize(
        problem, X, y, guarantee=guarantee, noise=noise, solver=TalwarFrankWolfe(n_steps=n_steps), random_state=seed
    )


@functools.cache
def least_risk(problem, n=N, p=P):
    """On the rows of `signs(n, p)`, found once."""
    X, y = signs(n, p)
    return empirical_risk(problem, X, y, minimize(problem, X, y, guarantee=None, noise=None, solver="dp-accmd").w)


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_without_noise_the_gap_is_at_most_that_of_the_bound_at_every_step(problem):
    X, y = signs()
    best, curvature = least_risk(problem), problem.constants(P).curvature
    for n_steps in (1, 2, 3, 5, 10, 30, 100):
        gap = empirical_risk(problem, X, y, fit(problem, X, y, n_steps).w) - best
        assert -1e-6 <= gap <= 2.0 * curvature / (n_steps + 2.0)


def test_steps_follow_the_published_schedule():
    """η_t = 2/(t + 2) gives the vertex of step t the weight 2(t + 1)/(T(T + 1)): coefficients are sums of those."""
    X, y = signs()
    w = fit(PROBLEMS[0], X, y, 4, seed=1).w
    weights = 2.0 * np.arange(1, 5) / 20.0
    sums = {round(3.0 * float((np.array(signed) - 1) @ weights), 9) for signed in np.ndindex(3, 3, 3, 3)}
    assert {round(float(entry), 9) for entry in w} <= sums
    assert 0.0 < np.abs(w).sum() <= 3.0 + 1e-12


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_with_noise_the_mean_gap_is_at_most_that_of_the_bound(problem):
    X, y = signs()
    best, constants = least_risk(problem), problem.constants(P)
    for n_steps in (5, 40):
        fits = [fit(problem, X, y, n_steps, seed) for seed in range(10)]
        bound = 2.0 * constants.curvature / (n_steps + 2.0) + fits[0].privacy.sigma * math.log(constants.n_vertices)
        assert np.mean([empirical_risk(problem, X, y, one.w) - best for one in fits]) <= bound


def test_gumbel_noise_costs_a_choice_no_more_than_its_scale_times_the_logarithm():
    """E max gain − E gain of the winner ≤ g ln V, and some gains come near to it."""
    rng, closest = np.random.default_rng(0), 0.0
    for vertices in (2, 20, 2000):
        # The worst gains: one stands out by about ln V − ln ln V, and all others are equal.
        for gains in (*(rng.normal(size=(5, vertices)) * 3), np.log(vertices) * (np.arange(vertices) == 0)):
            lost = gains.max() - softmax(gains) @ gains
            assert lost <= math.log(vertices)
            closest = max(closest, lost / math.log(vertices))
    assert closest > 0.4


@pytest.mark.parametrize("problem", [*PROBLEMS, Problem(Softmax(3), domain=L1Ball(3.0), entry_bound=0.5)], ids=repr)
def test_no_row_is_more_curved_along_a_segment_than_declared(problem):
    """f(w + γ(v − w)) − f(w) − γ⟨∇f(w), v − w⟩ ≤ γ²Γ/2, with rows at the bounds."""
    rng = np.random.default_rng(1)
    size, curvature = problem.dimension(P), problem.constants(P).curvature
    for _ in range(100):
        x = problem.largest_entry * rng.choice([-1.0, 1.0], size=P)
        x *= min(1.0, problem.row_norm / np.linalg.norm(x))
        target = float(rng.integers(0, 3)) if problem.loss.n_outputs > 1 else rng.choice([-1.0, 1.0])
        w, v = (problem.domain.project(scale * rng.normal(size=size)) for scale in (1.0, 1e3))

        def risk(point, x=x, target=target):
            return empirical_risk(problem, x[None, :], np.array([target]), point)

        for gamma in (0.1, 1.0):
            slope = (risk(w + 1e-5 * (v - w)) - risk(w - 1e-5 * (v - w))) / 2e-5
            assert risk(w + gamma * (v - w)) - risk(w) - gamma * slope <= gamma**2 * curvature / 2.0 + 1e-8


def test_the_curvature_of_the_squared_loss_is_reached():
    problem = Problem(Squared(), domain=L1Ball(2.0), row_norm=5.0, entry_bound=0.5)
    x, v = np.full((1, P), 0.5), 2.0 * np.eye(P)[0]
    risks = [empirical_risk(problem, x, np.zeros(1), point) for point in (-v, 0.0 * v, v)]
    # ℓ = m²/2 from −v to v: the second difference of half the segment is Γ/4.
    assert risks[0] - 2.0 * risks[1] + risks[2] == pytest.approx(problem.constants(P).curvature / 4.0)


def test_the_default_number_of_steps_grows_with_the_budget_and_falls_with_the_vertices():
    def steps(n=10_000, p=100, epsilon=1.0, problem=PROBLEMS[0], **settings):
        fit = FitOptions(problem, guarantee=Guarantee(epsilon, 1e-6), solver=TalwarFrankWolfe(**settings)).plan(n, p)
        return fit.calibrated.plan.n_steps

    assert steps(n=80_000) == pytest.approx(4 * steps(), rel=0.1)  # (nε)^{2/3}
    assert steps(epsilon=5.0) > 2 * steps()
    assert steps(p=100_000) < steps()
    assert steps(max_steps=7) == 7
    assert steps(p=1, problem=Problem(Logistic(), domain=Simplex())) == 1  # a single point


@pytest.mark.parametrize(
    ("n", "radius"),
    [
        pytest.param(5000, 3.0, marks=pytest.mark.slow),
        pytest.param(10_000, 1.0, marks=pytest.mark.slow),
        pytest.param(10_000, 10.0, marks=pytest.mark.slow),
    ],
)
def test_the_default_number_of_steps_is_within_a_factor_of_the_best(n, radius):
    problem = Problem(Logistic(), domain=L1Ball(radius), row_norm=20.0, entry_bound=1.0)
    X, y = signs(n, 100)
    best = least_risk(problem, n, 100)

    def excess(n_steps):
        return np.mean([empirical_risk(problem, X, y, fit(problem, X, y, n_steps, s).w) - best for s in range(5)])

    default = FitOptions(problem, guarantee=GUARANTEE, solver=TalwarFrankWolfe()).plan(n, 100).calibrated.plan.n_steps
    fall = empirical_risk(problem, X, y, np.zeros(100)) - best
    assert excess(default) <= 3.0 * min(excess(n_steps) for n_steps in (4, 8, 16, 32, 64, 128)) + 0.01 * fall


def test_the_published_number_of_steps():
    fit = FitOptions(PROBLEMS[0], guarantee=GUARANTEE, solver=TalwarFrankWolfe(), noise="paper").plan(10_000, P)
    constants = PROBLEMS[0].constants(P)
    assert fit.calibrated.plan.n_steps == int((constants.curvature * 10_000 / constants.vertex_lipschitz) ** (2 / 3))


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Problem(Sigmoid(), domain=L1Ball()), "convex"),
        (Problem(Logistic(), L2(0.1), L1Ball()), "without a regularizer"),
        (Problem(Logistic(), domain=L2Ball()), "lists its vertices"),
        (Problem(Logistic()), "lists its vertices"),
    ],
)
def test_it_says_why_it_cannot_take_a_problem_and_who_can(problem, reason):
    with pytest.raises(UnsupportedProblemError, match=f"{reason}.*dp-gd.* can"):
        FitOptions(problem, guarantee=GUARANTEE, solver="talwar-frank-wolfe").plan(N, P)


def test_pure_guarantees_are_refused():
    with pytest.raises(UnsupportedProblemError, match="pure"):
        FitOptions(PROBLEMS[0], guarantee=Guarantee(1.0, 0.0), solver="talwar-frank-wolfe").plan(N, P)


@pytest.mark.parametrize("wrong", [{"n_steps": 0}, {"max_steps": 0}, {"paper_constant": 0.0}, {"n_steps": 1.5}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InvalidParameterError):
        TalwarFrankWolfe(**wrong)
