"""DP-Adam: its defaults, what it makes of the answers, and what it does not."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.accounting.curve import gaussian_mu
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.problem import L1, L2, FunctionLoss, L2Ball, Logistic, Sigmoid
from dperm.solvers import DPAdam
from dperm.solvers.descent.dp_adam import DPAdamSettings
from dperm.unsafe import empirical_risk

GUARANTEE = Guarantee(1.0, 1e-6)
P = 6
PROBLEM = Problem(Sigmoid())
UNITS = 3
NETWORK = Problem(
    FunctionLoss(
        lambda w, x, y: jnp.square((jnp.tanh(x @ w["in"]) @ w["out"])[0] - y),
        {"in": np.ones((P, UNITS)), "out": np.ones((UNITS, 1))},
    )
)


def plan_for(solver=None, n=100_000, epsilon=1.0, problem=PROBLEM, adjacency="replace_one"):
    options = FitOptions(
        problem, guarantee=Guarantee(epsilon, 1e-6), solver=solver or DPAdam(), adjacency=adjacency
    )  # fmt: skip
    return options.plan(n, P)


def decided(*arguments, **more):
    (item,) = (fit := plan_for(*arguments, **more)).calibrated.plan.planned
    return fit.settings.n_steps, item.query.sampling_rate


# Defaults.


def test_the_number_of_steps_grows_with_n_and_with_the_budget():
    """In proportion to nμ, wherever no cap is in the way."""
    free = DPAdam(max_passes=1e9)
    (one, _), (more_rows, _), (more_budget, _) = decided(free), decided(free, n=400_000), decided(free, epsilon=4.0)
    assert more_rows / one == pytest.approx(4.0, rel=1e-3)
    ratio = gaussian_mu(Guarantee(4.0, 1e-6)) / gaussian_mu(GUARANTEE)
    assert more_budget / one == pytest.approx(ratio, rel=1e-3)


@pytest.mark.parametrize(
    ("problem", "inputs"), [(PROBLEM, P), (NETWORK, (P + 1) + (UNITS + 1))], ids=["margins", "network"]
)
def test_noise_alone_moves_the_sums_on_a_rows_way_by_ten(problem, inputs):
    """√k·sTΔ/(√3 Gnμ), √k times the deviation of T noises √TΔ/(nμ) times step sizes s/G that fall to 0."""
    n_steps, _ = decided(DPAdam(max_passes=1e9), problem=problem)
    setting = plan_for(problem=problem).setting
    noise = math.sqrt(n_steps) * setting.sum_sensitivity / (setting.n * gaussian_mu(GUARANTEE))
    falling = 16.0 / setting.constants.lipschitz * (1.0 - np.arange(n_steps) / n_steps)
    assert math.sqrt(inputs) * noise * math.sqrt((falling**2).sum()) == pytest.approx(10.0, rel=2e-3)


def test_replacing_a_row_takes_half_the_steps():
    free = DPAdam(max_passes=1e9)
    replaced, _ = decided(free)
    added, _ = decided(free, adjacency="add_remove")
    assert added / replaced == pytest.approx(2.0, rel=1e-2)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("passes", [1.0, 10.0, 60.0])
@pytest.mark.parametrize("n", [300, 20_000, 2_000_000])
def test_the_passes_over_the_rows_are_at_most_those_allowed(passes, n):
    n_steps, rate = decided(DPAdam(max_passes=passes), n=n)
    assert n_steps * rate <= passes + rate  # T is rounded up
    n_steps, rate = decided(DPAdam(max_passes=passes, sampling_rate=0.05), n=n)
    assert rate == 0.05
    assert n_steps * rate <= passes + rate


def test_there_are_twenty_steps_on_the_smallest_tables():
    n_steps, _ = decided(DPAdam(max_passes=1e9), n=200)
    assert n_steps == 20


def test_the_noise_multiplier_is_about_four_where_passes_allow_it_and_not_below_one():
    def multiplier(solver):
        return plan_for(solver, n=50_000).calibrated.noise_multiplier

    assert multiplier(DPAdam(max_passes=1e9)) == pytest.approx(4.0, rel=0.1)
    assert multiplier(DPAdam()) > 0.9
    assert multiplier(DPAdam(max_passes=6.0)) == pytest.approx(1.0, rel=0.15)


def test_what_is_given_is_kept():
    assert decided(DPAdam(n_steps=17, sampling_rate=0.2)) == (17, 0.2)
    assert decided(DPAdam(n_steps=17))[0] == 17


def test_the_expected_noise_is_that_of_the_plan():
    fit = plan_for()
    (item,) = fit.calibrated.plan.planned
    sigma = item.multiplier(fit.calibrated.noise_multiplier) * item.query.sensitivity
    assert fit.settings.noise == pytest.approx(sigma, rel=0.05)


# What it makes of the answers.


class Scripted:
    """Answers that are fixed beforehand, and the points that were asked about."""

    def __init__(self, answers):
        self.answers, self.points = list(answers), []

    def ask(self, item, w):
        assert isinstance(item, PlannedQuery)
        self.points.append(w)
        return self.answers[len(self.points) - 1]


def run_scripted(solver, problem, n_steps=12, noise=0.02, seed=0):
    planned = plan_for(problem=problem).calibrated.plan.planned
    rng = np.random.default_rng(seed)
    # Some coefficients have a clear gradient, some none but noise.
    answers = rng.normal(size=(n_steps, P)) * noise + np.array([0.3, -0.2, 0.0, 0.0, 0.0, 1e-3])
    oracle = Scripted(answers)
    start = rng.normal(size=P)
    end = solver.run(oracle, problem, Plan("test", planned, DPAdamSettings(n_steps, noise)), start)
    return answers, start, [*oracle.points, end], planned[0].query.setting.constants.lipschitz


@pytest.mark.parametrize("problem", [PROBLEM, Problem(Sigmoid(), L2(0.1), L2Ball(2.0))], ids=["free", "with r and C"])
@pytest.mark.parametrize("reach", [16.0, 0.5, math.inf])
def test_the_steps_are_those_of_adam_without_the_bias_of_the_noise(problem, reach):
    solver = DPAdam(step_size=0.05, reach=reach, momentum=0.8, second_momentum=0.95)
    answers, w, points, lipschitz = run_scripted(solver, problem)
    m, v, floors = np.zeros(P), np.zeros(P), 0
    np.testing.assert_array_equal(points[0], w)
    for t, g in enumerate(answers, start=1):
        m, v = 0.8 * m + 0.2 * g, 0.95 * v + 0.05 * g * g
        size = np.sqrt(np.maximum(v / (1 - 0.95**t) - 0.02**2, 0.0))
        floor = max(0.05 * lipschitz / reach, 0.02 * 1e-12)
        floors += int((size < floor).sum())
        rate = 0.05 * (1 - (t - 1) / 12)
        steps = rate / np.maximum(size, floor)
        w = w - steps * m / (1 - 0.8**t)
        if problem is not PROBLEM:
            w = problem.domain.project(w / (1.0 + 0.1 * steps))  # the ridge in the metric of the steps
        np.testing.assert_allclose(points[t], w, rtol=1e-10)
    assert floors > 0


@pytest.mark.parametrize("problem", [PROBLEM, Problem(Sigmoid(), L1(0.05))], ids=["free", "with r"])
def test_without_squares_it_is_sgd_with_momentum(problem):
    solver = DPAdam(step_size=0.05, reach=3.0, momentum=0.8, second_momentum=None)
    answers, w, points, lipschitz = run_scripted(solver, problem)
    m = np.zeros(P)
    for t, g in enumerate(answers, start=1):
        m = 0.8 * m + 0.2 * g
        rate = 3.0 / lipschitz * (1 - (t - 1) / 12)
        w = problem.prox(w - rate * m / (1 - 0.8**t), rate)
        np.testing.assert_allclose(points[t], w, rtol=1e-10)


def test_without_squares_the_cap_on_a_coefficients_step_does_nothing():
    points = [
        run_scripted(DPAdam(step_size=size, reach=3.0, second_momentum=None), Problem(Sigmoid(), L1(0.05)))[2]
        for size in (0.01, 1.0)
    ]
    np.testing.assert_allclose(points[0], points[1], rtol=1e-10)


@pytest.mark.parametrize("answer", [0.0, 1e-300, 1e150])
def test_no_answer_breaks_it(answer):
    for solver in (DPAdam(), DPAdam(reach=math.inf), DPAdam(second_momentum=None)):
        planned = plan_for().calibrated.plan.planned
        plan = Plan("test", planned, DPAdamSettings(5, 0.0))
        with np.errstate(over="ignore"):
            end = solver.run(Scripted(np.full((5, P), answer)), PROBLEM, plan, np.zeros(P))
        assert np.isfinite(end).all()


# What it fits.


def steps_to(w, x, y):
    return jnp.square(jnp.tanh(x @ w["in"]) @ w["out"] - y)


def test_without_noise_it_fits_a_simple_function():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.tanh(X @ [1.0, -0.5]) * 0.8
    loss = FunctionLoss(steps_to, {"in": rng.normal(size=(2, 3)), "out": 0.1 * np.ones(3)}, clip=10.0)
    problem = Problem(loss)
    fit = minimize(problem, X, y, guarantee=None, noise=None, solver=DPAdam(n_steps=500), random_state=0)
    before, after = (empirical_risk(problem, X, y, w) for w in (loss.start_point, fit.w))
    assert before > 0.1
    assert after < 1e-3


def test_with_noise_it_comes_closer_than_the_start():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5_000, 2))
    y = np.tanh(X @ [1.0, -0.5]) * 0.8
    loss = FunctionLoss(steps_to, {"in": rng.normal(size=(2, 3)), "out": 0.1 * np.ones(3)}, clip=1.0)
    problem = Problem(loss)
    fit = minimize(problem, X, y, guarantee=Guarantee(4.0, 1e-6), solver=DPAdam(n_steps=300), random_state=0)
    before, after = (empirical_risk(problem, X, y, w) for w in (loss.start_point, fit.w))
    assert after < 0.5 * before


@pytest.mark.parametrize("problem", [Problem(Logistic(), L2(0.05)), Problem(Logistic(), L1(0.01))], ids=["l2", "l1"])
@pytest.mark.parametrize("second_momentum", [None, 0.999])
def test_without_noise_it_minimises_the_risk_and_the_regularizer_together(problem, second_momentum):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, P)) / math.sqrt(P)
    y = np.sign(X[:, 0])
    solver = DPAdam(n_steps=4000, sampling_rate=1.0, second_momentum=second_momentum)
    best, ours = (
        empirical_risk(problem, X, y, minimize(problem, X, y, guarantee=None, noise=None, solver=method).w)
        for method in ("dp-gd", solver)
    )
    assert ours <= best + 1e-6


# What is refused.


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_steps": 0}, {"n_steps": 1.5}, {"sampling_rate": 0.0}, {"sampling_rate": 1.1}, {"step_size": 0.0},
        {"step_size": math.inf}, {"reach": 0.0}, {"reach": -1.0}, {"reach": math.nan}, {"momentum": 1.0},
        {"momentum": -0.1}, {"second_momentum": 1.0}, {"second_momentum": math.nan}, {"max_passes": 0.0},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_settings_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(InvalidParameterError, match=name):
        DPAdam(**wrong)


def test_without_squares_the_reach_must_be_finite():
    with pytest.raises(InvalidParameterError, match="reach must be finite"):
        DPAdam(second_momentum=None, reach=math.inf)
