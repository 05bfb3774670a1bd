"""DP-AGD: the bound of docs/proofs/accelerated.md on quadratics, where it is attained, and the solver's own numbers."""

import math

import numpy as np
import pytest

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.accounting.composition import curve_of
from dperm.accounting.curve import gaussian_mu
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, L2Ball, Logistic, NoRegularizer, Squared
from dperm.solvers import DPAGD
from dperm.solvers.descent.dp_agd import accelerated_path, risk_on_quadratics

GUARANTEE = Guarantee(1.0, 1e-6)
ETA = 4.0
CURVATURES = np.geomspace(1e-6, 1.0, 60) / ETA


def printed_path(n_steps, eta, mu):
    """a_t, A_t, γ_t as the proof writes them."""
    small, sums = np.zeros(n_steps + 1), np.zeros(n_steps + 1)
    for t in range(1, n_steps + 1):
        gamma = 1.0 + mu * sums[t - 1]
        small[t] = (eta * gamma + math.sqrt((eta * gamma) ** 2 + 4.0 * eta * gamma * sums[t - 1])) / 2.0
        sums[t] = sums[t - 1] + small[t]
        assert small[t] ** 2 == pytest.approx(eta * sums[t] * gamma)
    return small[1:], sums[1:], 1.0 + mu * sums[1:]


def moments(n_steps, eta, mu, h, distance, sigmas):
    """E of x_T² and z_T² about the optimum in a direction of curvature h, and of the weighted mean's square."""
    small, sums, gammas = printed_path(n_steps, eta, mu)
    weights = accelerated_path(n_steps, eta, mu).weights
    mean, cov = np.array([distance, distance, 0.0]), np.zeros((3, 3))  # of x, z and the weighted mean so far
    for t in range(n_steps):
        theta, step = small[t] / sums[t], small[t] / (gammas[t - 1] if t else 1.0)
        shrink = 1.0 / (1.0 + step * mu)
        # Of the fixed point: h(w* − w°) + μw* = 0, so about w* the step is linear.
        z = shrink * np.array([-step * h * (1 - theta), 1 - step * h * theta, 0.0])
        x = np.array([1 - theta, 0.0, 0.0]) + theta * z
        step_map = np.array([x, z, np.array([0.0, 0.0, 1.0]) + weights[t] * x])
        kick = -shrink * step * np.array([theta, 1.0, weights[t] * theta])
        mean, cov = step_map @ mean, step_map @ cov @ step_map.T + sigmas[t] ** 2 * np.outer(kick, kick)
    return mean**2 + np.diag(cov)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("mu", [0.0, 1e-4, 0.02, 3.0])
@pytest.mark.parametrize("n_steps", [1, 2, 7, 60, 400])
def test_the_path_has_the_numbers_of_the_proof(n_steps, mu):
    if mu == 3.0 and n_steps > 60:
        return  # the sums of the proof overflow there, the path's own recursion does not
    path = accelerated_path(n_steps, ETA, mu)
    small, sums, gammas = printed_path(n_steps, ETA, mu)
    later = np.array([(path.weights / sums)[k:].sum() for k in range(n_steps)])
    np.testing.assert_allclose(path.theta, small / sums, rtol=1e-9)
    assert path.bias == pytest.approx((path.weights / sums).sum(), rel=1e-9)
    np.testing.assert_allclose(path.noise, small**2 / gammas * later, rtol=1e-8)
    assert path.weights.sum() == pytest.approx(1.0)
    assert path.shares.sum() == pytest.approx(1.0)
    assert path.noise @ (1.0 / path.shares) <= 2.0 * np.sqrt(path.noise).sum() ** 2


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("mu", [0.0, 1e-4, 0.02])
@pytest.mark.parametrize("n_steps", [1, 2, 7, 60])
def test_the_exact_risk_on_quadratics_is_below_the_bound(n_steps, mu):
    path = accelerated_path(n_steps, ETA, mu)
    bias, noise = risk_on_quadratics(n_steps, ETA, mu, CURVATURES)
    assert bias.max() <= 0.5 * path.bias
    assert noise.max() <= (path.noise / path.shares).sum()
    sigmas = 1.0 / np.sqrt(path.shares)
    for h, of_distance, of_noise in zip(CURVATURES[::12], bias[::12], noise[::12], strict=True):
        assert 0.5 * (h + mu) * moments(n_steps, ETA, mu, h, 1.0, 0.0 * sigmas)[2] == pytest.approx(
            of_distance, abs=1e-9
        )
        assert 0.5 * (h + mu) * moments(n_steps, ETA, mu, h, 0.0, sigmas)[2] == pytest.approx(of_noise, rel=1e-6)


@pytest.mark.parametrize("factor", [1.0, 0.95], ids=["as proved", "5 % less noise"])
def test_the_step_inequality_of_the_proof_is_attained_and_less_would_be_wrong(factor):
    """E[A(F − F*) + (γ/2)‖z − w*‖²] ≤ ½D² + Σ (a²/γ)σ²: equality after one step from the optimum with h = L."""
    largest = 0.0
    for mu in (0.0, 0.02, 1.0):
        for n_steps in (1, 3, 20):
            small, sums, gammas = printed_path(n_steps, ETA, mu)
            for h in [*CURVATURES[::6].tolist(), 1.0 / ETA]:
                for distance in (0.0, 1.0):
                    x, z, _ = moments(n_steps, ETA, mu, h, distance, np.ones(n_steps))
                    potential = sums[-1] * 0.5 * (h + mu) * x + 0.5 * gammas[-1] * z
                    allowed = 0.5 * distance**2 + factor * (small**2 / gammas).sum()
                    largest = max(largest, potential / allowed)
    if factor == 1.0:
        assert 0.999 < largest <= 1.0 + 1e-9
    else:
        assert largest > 1.04


def test_a_mean_over_curved_directions_costs_little_more_than_one_release_at_the_optimum():
    """½/h is what one release of the whole budget costs; the last iterate of the same steps costs many times that."""
    _, noise = risk_on_quadratics(400, ETA, 0.0, CURVATURES)
    curved = CURVATURES * ETA > 1e-3
    assert (noise * 2.0 * CURVATURES)[curved].max() < 1.25
    assert (noise * 2.0 * CURVATURES).min() < 1.0  # flat directions are stopped early
    sigmas = 1.0 / np.sqrt(accelerated_path(400, ETA, 0.0).shares)
    h = 0.1 / ETA
    assert 0.5 * h * moments(400, ETA, 0.0, h, 0.0, sigmas)[0] > 20.0 * 0.5 / h


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_noise_is_divided_as_the_shares_say_and_costs_the_whole_budget(adjacency):
    fit = FitOptions(Problem(Logistic(), L2(0.01)), guarantee=GUARANTEE, solver=DPAGD(), adjacency=adjacency).plan(
        5000, 6
    )
    items = fit.calibrated.plan.planned
    path = accelerated_path(len(items), fit.settings.step_size, 0.01)
    sigmas = np.array([fit.calibrated.sigma(item) for item in items])
    one = fit.setting.sum_sensitivity / (fit.setting.n * gaussian_mu(GUARANTEE))
    np.testing.assert_allclose(sigmas, one / np.sqrt(path.shares), rtol=1e-9)
    assert curve_of(fit.event, adjacency).mu == pytest.approx(gaussian_mu(GUARANTEE), rel=1e-9)


def test_runs_on_a_quadratic_have_the_risk_that_was_computed():
    """Squared loss on a large ball with rows along the axes: F is a quadratic with known curvatures."""
    n, p, lam = 2000, 4, 0.05
    X = np.eye(p)[np.arange(n) % p]
    y = np.tile([0.6, -0.2, 0.1, 0.3], n // p)
    problem = Problem(Squared(), L2(lam), L2Ball(50.0))
    solver = DPAGD(n_steps=15)
    fit = FitOptions(problem, guarantee=GUARANTEE, solver=solver).plan(n, p)
    h, optimum = 1.0 / p, (1.0 / p) * y[:p] / (1.0 / p + lam)
    bias, noise = risk_on_quadratics(15, fit.settings.step_size, lam, np.array([h]))
    variance = (fit.setting.sum_sensitivity / (n * gaussian_mu(GUARANTEE))) ** 2
    expected = bias[0] * optimum @ optimum + p * variance * noise[0]
    seen = [
        0.5
        * (h + lam)
        * ((minimize(problem, X, y, guarantee=GUARANTEE, solver=solver, random_state=s).w - optimum) ** 2).sum()
        for s in range(100)
    ]
    assert np.mean(seen) == pytest.approx(expected, abs=4.0 * np.std(seen) / 10.0)
    assert 4.0 * np.std(seen) / 10.0 < 0.4 * expected


def test_the_default_number_of_steps_minimises_the_bound_and_follows_public_numbers():
    def steps(solver=None, n=20_000, epsilon=1.0, problem=None):
        problem = problem or Problem(Logistic())
        return (
            FitOptions(problem, guarantee=Guarantee(epsilon, 1e-6), solver=solver or DPAGD())
            .plan(n, 20)
            .privacy.n_steps
        )

    assert steps(n=80_000) == pytest.approx(2.0 * steps(), rel=0.1)  # T ∝ √(D nμ)
    assert steps(DPAGD(nominal_distance=160.0)) == pytest.approx(2.0 * steps(DPAGD(nominal_distance=40.0)), rel=0.1)
    assert steps(problem=Problem(Logistic(), domain=L2Ball(1.0))) < steps()
    assert steps(DPAGD(max_steps=17)) == 17
    assert steps(DPAGD(n_steps=5)) == 5


@pytest.mark.parametrize("regularizer", [NoRegularizer(), L2(1e-3)], ids=["convex", "strongly convex"])
def test_the_expected_risk_is_the_worst_quadratics_and_falls_with_the_budget(regularizer):
    setting = FitOptions(Problem(Logistic(), regularizer), guarantee=GUARANTEE, solver=DPAGD()).plan(50_000, 20).setting
    risks = [DPAGD().expected_risk(setting, Guarantee(epsilon, 1e-6)) for epsilon in (0.1, 1.0, 4.0)]
    assert risks[0] > risks[1] > risks[2] > 0.0
    one = (setting.sum_sensitivity / (setting.n * gaussian_mu(GUARANTEE))) ** 2
    if regularizer.strong_convexity > 0.0:  # ½pv/μ is one release on a function that only r curves
        assert 1.0 < risks[1] / (0.5 * 20 * one / 1e-3) < 1.3


@pytest.mark.parametrize("bad", [{"n_steps": 0}, {"step_size": -1.0}, {"nominal_distance": 0.0}, {"max_steps": 0}])
def test_settings_without_meaning_are_refused(bad):
    with pytest.raises(InvalidParameterError):
        DPAGD(**bad)
