"""DP-SGD, the noisy SGD of Bassily et al. and RRPSGD: their steps, what they return, where their defaults come from."""

import math

import numpy as np
import pytest

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.accounting.central_limit import central_limit_multiplier, central_limit_precision, central_limit_rate
from dperm.accounting.curve import gaussian_mu
from dperm.errors import UnsupportedProblemError
from dperm.mechanisms.setting import Setting
from dperm.paper import RRPSGD
from dperm.paper.printed import published_plan
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, L2Ball, Logistic, Sigmoid
from dperm.solvers import DPSGD, BassilySGD
from dperm.solvers.descent.stochastic import expected_sigma, rate_for, step_variance
from dperm.solvers.expected import noise_floor
from dperm.unsafe import empirical_risk

N, P = 300, 4
GUARANTEE = Guarantee(1.0, 1e-6)
RIDGE = Problem(Logistic(), L2(0.05))
BALL = Problem(Logistic(), domain=L2Ball(2.0))


def table(n=N):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, P))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return X, np.sign(X @ rng.normal(size=P) + 0.5 * rng.normal(size=n))


def setting_for(problem, n=N, adjacency=Adjacency.REPLACE_ONE):
    return Setting(problem.constants(P), n, adjacency)


def descent(problem, X, y, step_sizes):
    """The iterates of proximal gradient descent with these step sizes."""
    w, iterates = np.zeros(P), []
    for step in step_sizes:
        gradient = -(y / (1.0 + np.exp(y * (X @ w)))) @ X / y.size
        w = problem.prox(w - step * gradient, step)
        iterates.append(w)
    return np.array(iterates)


def fit_without_noise(problem, solver, **more):
    X, y = table()
    return minimize(problem, X, y, guarantee=None, noise=None, solver=solver, **more).w


# --- The steps ---


def test_strongly_convex_steps_are_one_over_mu_t_and_the_last_iterate_is_returned():
    expected = descent(RIDGE, *table(), 1.0 / (0.05 * np.arange(1, 41)))[-1]
    np.testing.assert_allclose(fit_without_noise(RIDGE, BassilySGD(n_steps=40)), expected, rtol=1e-10)


def test_convex_steps_are_the_diameter_over_the_root_of_t_and_the_second_moment():
    # D = 4, G = 1; at rate 1 and without noise nothing is added to G².
    expected = descent(BALL, *table(), 4.0 / np.sqrt(np.arange(1, 41)))[-1]
    np.testing.assert_allclose(fit_without_noise(BALL, BassilySGD(n_steps=40)), expected, rtol=1e-10)


@pytest.mark.parametrize("problem", [Problem(Logistic(), domain=L2Ball(2.0), row_norm=3.0)])
def test_convex_steps_count_the_noise_and_the_sample_in_the_second_moment(problem):
    calibrated = published_plan(BassilySGD(n_steps=500, sampling_rate=0.02), setting_for(problem), GUARANTEE).calibrated
    sigma = calibrated.sigma(calibrated.plan.planned[0])
    second_moment = 9.0 + 9.0 * 0.98 / (0.02 * N) + P * sigma**2  # G = 3
    assert calibrated.plan.settings.step_size == pytest.approx(4.0 / math.sqrt(second_moment))
    assert calibrated.plan.settings.decay == 0.5


def test_where_no_domain_bounds_the_distance_a_public_guess_does():
    problem = Problem(Logistic(), row_norm=2.0)  # L = 1
    plan = BassilySGD(n_steps=9, nominal_distance=7.0).plan(setting_for(problem), None)
    assert plan.settings.step_size == pytest.approx(7.0 * 0.5 / 2.0)  # nominal/R over G = 2


def test_a_ridge_too_weak_for_the_steps_that_there_are_does_not_set_their_size():
    setting = setting_for(Problem(Logistic(), L2(1e-6)))
    assert BassilySGD().plan(setting, GUARANTEE).settings.decay == 0.5
    assert BassilySGD().plan(setting_for(RIDGE), GUARANTEE).settings.decay == 1.0


@pytest.mark.parametrize("averaging", [0.5, 0.3, 1.0])
@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_dp_sgd_returns_the_mean_of_its_last_iterates(decay, averaging):
    step_sizes = 1.3 * np.arange(1, 21) ** -decay
    expected = descent(RIDGE, *table(), step_sizes)[-round(20 * averaging) :].mean(axis=0)
    solver = DPSGD(n_steps=20, step_size=1.3, decay=decay, averaging=averaging)
    np.testing.assert_allclose(fit_without_noise(RIDGE, solver), expected, rtol=1e-10)


def test_a_single_step_is_its_own_mean():
    expected = descent(RIDGE, *table(), [1.3])[0]
    np.testing.assert_allclose(fit_without_noise(RIDGE, DPSGD(n_steps=1, step_size=1.3)), expected, rtol=1e-12)


def test_with_one_row_a_step_the_last_iterate_keeps_the_bound_of_shamir_and_zhang():
    """17 M²(1 + ln T)/(μT) with M² ≤ 2G²; standing still would break it."""
    X, y = table()
    best = empirical_risk(RIDGE, X, y, descent(RIDGE, X, y, [4.0] * 5000)[-1])
    n_steps = 20_000
    allowed = 17.0 * 2.0 * (1.0 + math.log(n_steps)) / (0.05 * n_steps)
    solver = BassilySGD(n_steps=n_steps, sampling_rate=1 / N)
    gaps = [empirical_risk(RIDGE, X, y, fit_without_noise(RIDGE, solver, random_state=s)) - best for s in range(5)]
    assert 0.0 < np.mean(gaps) <= allowed / 100.0  # a smooth loss does far better than the bound
    assert np.mean(gaps) <= 0.05 * (empirical_risk(RIDGE, X, y, np.zeros(P)) - best)


# --- The random round ---


class CountingOracle:
    """Answers nothing, and keeps how many steps it was asked for."""

    def __init__(self, seed):
        self.public_coin = np.random.default_rng(seed)
        self.n_steps = 0

    def ask(self, item, start, step_size):
        self.n_steps = len(step_size)
        np.testing.assert_allclose(step_size, 7.0 * np.arange(1, self.n_steps + 1) ** -0.5)
        return np.stack([start + 1.0, start - 1.0])


def test_the_round_is_drawn_in_proportion_to_what_its_step_gains():
    """P[R = t] ∝ 2η_t − Lη_t², the iterate before step R is returned, and R = 1 asks nothing."""
    problem = Problem(Logistic())  # L = ¼
    solver = RRPSGD(n_steps=6, step_size=7.0, decay=0.5)
    plan = solver.plan(setting_for(problem), None)
    draws = 20_000
    counts = np.zeros(6)
    for seed in range(draws):
        oracle = CountingOracle(seed)
        w = solver.run(oracle, problem, plan, np.zeros(P))
        counts[oracle.n_steps] += 1
        assert w[0] == (1.0 if oracle.n_steps else 0.0)
    eta = 7.0 * np.arange(1, 7) ** -0.5
    weights = 2.0 * eta - 0.25 * eta**2
    expected = weights / weights.sum()
    assert expected[0] < 0.6 * expected[2]  # far from uniform
    # Binomial standard errors, 4.5 of them over six rounds: false alarm below 1e-4.
    assert (np.abs(counts / draws - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / draws)).all()


def test_only_the_steps_before_the_round_are_run():
    X, y = table()
    for seed in range(5):
        done = []
        minimize(
            Problem(Sigmoid()), X, y, guarantee=GUARANTEE, solver=RRPSGD(n_steps=40), random_state=seed,
            progress=lambda *pair, seen=done: seen.append(pair),
        )  # fmt: skip
        assert all(total == 40 for _, total in done)
        assert not done or done[-1][0] < 40


def test_steps_that_are_too_long_to_gain_anything_are_refused():
    with pytest.raises(InvalidParameterError, match="2/L"):
        FitOptions(Problem(Logistic()), guarantee=GUARANTEE, solver=RRPSGD(step_size=8.0)).plan(N, P)


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_the_rounds_default_step_minimises_the_bound_of_ghadimi_and_lan(decay):
    setting = setting_for(Problem(Sigmoid()), n=5000)
    solver = RRPSGD(n_steps=4000, sampling_rate=0.05, decay=decay)
    chosen = solver.plan(setting, GUARANTEE).settings.step_size
    variance = step_variance(setting, 0.05, expected_sigma(setting, GUARANTEE, 0.05, 4000))
    shape = np.arange(1, 4001) ** -decay

    def bound(step):
        eta = step * shape
        gained = (2.0 * eta - setting.smoothness * eta**2).sum()
        return (2.0 * setting.constants.initial_gap + setting.smoothness * variance * (eta**2).sum()) / gained

    best = min(bound(step) for step in np.geomspace(1e-3, 0.99, 300) / setting.smoothness)
    assert bound(chosen) <= 1.15 * best


# --- Defaults ---


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("n", [500, 5000, 200_000])
@pytest.mark.parametrize("solver", [DPSGD(), BassilySGD(max_steps=200_000), RRPSGD()], ids=repr)
def test_batches_are_large_enough_for_the_noise_and_small_enough_for_the_time(solver, n, adjacency):
    setting = setting_for(RIDGE, n, adjacency)
    plan = solver.plan(setting, GUARANTEE)
    rate = plan.planned[0].query.sampling_rate
    steps = plan.n_steps
    assert 1.0 / n <= rate <= 1.0
    assert plan.passes <= solver.max_passes * (1 + 1e-9)
    precision = gaussian_mu(GUARANTEE) ** 2 / steps
    if rate < 1.0 and plan.passes < 0.99 * solver.max_passes:
        assert central_limit_precision(rate, 1.0, adjacency) >= precision * (1 - 1e-9)  # ν is 1 or above
    sampling = (1.0 - rate) * setting.constants.lipschitz**2 / (rate * n)
    sampled_more = n * rate > 1.01 and central_limit_precision(rate, 1.0, adjacency) > 1.01 * precision
    if sampled_more and plan.passes < 0.99 * solver.max_passes:
        assert sampling == pytest.approx(3.0 * steps * noise_floor(setting, GUARANTEE), rel=1e-6)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(("n", "rate", "steps"), [(1000, 0.1, 500), (5000, 0.02, 20_000), (5000, 1.0, 30)])
def test_the_noise_that_step_sizes_rest_on_is_about_that_of_the_calibration(n, rate, steps, adjacency):
    solver = BassilySGD(n_steps=steps, sampling_rate=rate)
    fit = FitOptions(RIDGE, guarantee=GUARANTEE, solver=solver, adjacency=adjacency).plan(n, P)
    expected = expected_sigma(fit.setting, GUARANTEE, rate, steps)
    assert fit.statement.sigma == pytest.approx(expected, rel=0.1)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("rate", [0.003, 0.4, 1.0])
@pytest.mark.parametrize("multiplier", [0.6, 2.0, 50.0])
def test_what_many_samples_are_worth_is_turned_into_noise_and_rates_and_back(rate, multiplier, adjacency):
    precision = central_limit_precision(rate, multiplier, adjacency)
    # It is (q/ν)² where there is much noise, and above it where there is little.
    assert precision >= (rate / multiplier) ** 2 * (1.0 - 1e-12)
    assert precision <= (rate / multiplier) ** 2 * math.exp(1.0 / multiplier**2)
    assert central_limit_multiplier(rate, precision, adjacency) == pytest.approx(multiplier, rel=1e-9)
    if rate < 1.0:
        assert central_limit_rate(multiplier, precision, adjacency) == pytest.approx(rate, rel=1e-9)


@pytest.mark.parametrize("averaging", [0.5, 0.8])
@pytest.mark.parametrize("problem", [RIDGE, BALL, Problem(Logistic())], ids=str)
def test_dp_sgd_runs_for_the_time_that_minimises_its_bound(problem, averaging):
    """The bound summed step by step, with η = 1/L, against the closed form that the plan minimises."""
    setting = setting_for(problem, n=20_000)
    plan = DPSGD(averaging=averaging).plan(setting, GUARANTEE)
    constants, eta = setting.constants, plan.settings.step_size
    assert eta == pytest.approx(1.0 / setting.smoothness, rel=0.05)
    per_step = 4.0 * noise_floor(setting, GUARANTEE)
    mu = constants.strong_convexity
    start = 16.0 if problem is BALL else 100.0
    if mu:
        start = min(start, 2.0 * constants.initial_gap / mu)

    def bound(n_steps):
        variance, distance, gaps = n_steps * per_step, start, 0.0
        first_averaged = n_steps - round(averaging * n_steps)
        for _ in range(first_averaged):
            distance = (distance + 2.0 * eta**2 * variance) / (1.0 + eta * mu)
        # Σ gap ≤ d/(2η) + KηV over the K averaged steps.
        gaps = distance / (2.0 * eta) + (n_steps - first_averaged) * eta * variance
        return gaps / (n_steps - first_averaged)

    steps = plan.n_steps
    assert bound(steps) <= 1.03 * min(bound(max(2, round(steps * f))) for f in (0.5, 0.7, 0.85, 1.2, 1.5, 2.0))


def test_more_noise_than_one_step_can_bear_makes_the_step_shorter():
    plan = DPSGD().plan(setting_for(RIDGE, n=40), Guarantee(0.02, 1e-6))
    assert plan.n_steps == 1
    assert plan.settings.step_size < 0.5 / setting_for(RIDGE).smoothness


@pytest.mark.parametrize("n", [3, 50])
@pytest.mark.parametrize("solver", [DPSGD(), BassilySGD(), RRPSGD()], ids=repr)
def test_tiny_tables_have_a_plan(solver, n):
    for epsilon in (1e-3, 1.0, 50.0):
        plan = solver.plan(setting_for(RIDGE, n), Guarantee(epsilon, 1e-6))
        assert plan.n_steps >= 1
        assert plan.settings.step_size > 0.0


def test_rates_never_exceed_one_nor_fall_below_one_row():
    setting = setting_for(RIDGE, 100)
    assert rate_for(setting, Guarantee(50.0, 1e-6), 1, 100.0) == 1.0
    assert rate_for(setting, Guarantee(1e-3, 1e-6), 10_000_000, 100.0) == 0.01


@pytest.mark.parametrize(
    "bad",
    [
        {"n_steps": 0}, {"n_steps": 1.5}, {"max_steps": 0}, {"sampling_rate": 0.0}, {"sampling_rate": 1.5},
        {"sampling_rate": math.nan}, {"step_size": 0.0}, {"step_size": math.nan}, {"decay": -0.1}, {"decay": 1.1},
        {"decay": math.nan}, {"averaging": 0.0}, {"averaging": 1.1}, {"nominal_distance": 0.0}, {"max_passes": 0.0},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("solver", [DPSGD, BassilySGD, RRPSGD])
def test_degenerate_settings_are_refused(solver, bad):
    (name,) = bad
    if name in solver.__dataclass_fields__:
        with pytest.raises(InvalidParameterError, match=name):
            solver(**bad)


@pytest.mark.parametrize("solver", [BassilySGD(), BassilySGD(max_steps=10)], ids=repr)
def test_losses_that_are_not_convex_are_sent_to_methods_for_them(solver):
    with pytest.raises(UnsupportedProblemError, match=r"convex loss.*dp-gd.*rrpsgd.* can"):
        FitOptions(Problem(Sigmoid()), guarantee=GUARANTEE, solver=solver).plan(1000, P)


def test_without_convexity_dp_sgd_takes_the_steps_of_rrpsgd_and_returns_the_last_iterate():
    problem = Problem(Sigmoid(), L2(0.05))
    plan = FitOptions(problem, guarantee=GUARANTEE, solver=DPSGD()).plan(2000, P)
    alike = FitOptions(problem, guarantee=GUARANTEE, solver=RRPSGD(max_steps=20_000, max_passes=100.0)).plan(2000, P)
    assert plan.calibrated.plan.planned == alike.calibrated.plan.planned
    assert (plan.settings.n_steps, plan.settings.step_size) == (alike.settings.n_steps, alike.settings.step_size)

    class Answers:
        def ask(self, item, start, step_size):
            assert len(step_size) == item.query.n_steps
            return np.full(P, 2.0), np.full(P, 5.0)  # the last iterate, and a mean of iterates

    np.testing.assert_array_equal(
        plan.solver.run(Answers(), problem, plan.calibrated.plan, np.zeros(P)), np.full(P, 2.0)
    )


def test_cutting_n_squared_shows_in_the_plan():
    assert published_plan(BassilySGD(max_steps=1000), setting_for(RIDGE), GUARANTEE).calibrated.plan.n_steps == 1000
    assert published_plan(BassilySGD(), setting_for(RIDGE), GUARANTEE).calibrated.plan.n_steps == N**2
