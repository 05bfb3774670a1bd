"""Support descent: what it selects, how it steps, when it is plain Frank–Wolfe, and that it is worth its name."""

import math

import numpy as np
import pytest

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.accounting.curve import gaussian_mu, zcdp_delta
from dperm.errors import UnsupportedProblemError
from dperm.mechanisms import GradientQuery, VertexQuery
from dperm.problem import L2, L1Ball, Logistic, Sigmoid, Simplex
from dperm.solvers import SupportDescent, TalwarFrankWolfe
from dperm.solvers.mirror.support_descent import _smoothness_on
from dperm.unsafe import empirical_risk

GUARANTEE = Guarantee(1.0, 1e-6)
SHORT_ROWS = Problem(Logistic(), domain=L1Ball(5.0), row_norm=math.sqrt(8.0), entry_bound=1.0)
LONG_ROWS = Problem(Logistic(), domain=L1Ball(5.0), row_norm=100.0, entry_bound=1.0)


def sparse_truth(n=4000, p=200, seed=0):
    """Rows of ±1 in four columns that matter and in four others."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, p))
    X[:, :4] = rng.choice([-1.0, 1.0], size=(n, 4))
    X[np.arange(n)[:, None], rng.integers(4, p, (n, 4))] = 1.0
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-1.2 * X[:, :4].sum(axis=1))), 1.0, -1.0)


def least_risk(problem, X, y):
    solver = SupportDescent(n_steps=200)
    return empirical_risk(problem, X, y, minimize(problem, X, y, guarantee=None, noise=None, solver=solver).w)


def plan_for(problem, n, p, guarantee=GUARANTEE, **settings):
    return FitOptions(problem, guarantee=guarantee, solver=SupportDescent(**settings)).plan(n, p).calibrated


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_the_threshold_lets_as_many_false_alarms_pass_as_declared(adjacency):
    """Ignored rows have no gradient, so all that stands out is noise; a threshold 5 % off gives 12 % more or fewer."""
    n, p, alarms = 100, 2000, 100.0
    X, y = np.full((n, p), np.nan), np.ones(n)
    # A ball so wide that its projection drops nothing.
    problem = Problem(Logistic(), domain=L1Ball(1e6), row_norm=math.sqrt(8.0), entry_bound=1.0)
    more = {"guarantee": GUARANTEE, "adjacency": adjacency, "n": n}
    solver = SupportDescent(selection="gradient", false_alarms=alarms, n_steps=1)
    found = [np.count_nonzero(minimize(problem, X, y, solver=solver, random_state=s, **more).w) for s in range(25)]
    assert np.mean(found) == pytest.approx(alarms, rel=0.06)


def test_with_a_gradient_the_shares_add_up_to_the_exact_gaussian_cost():
    calibrated = plan_for(SHORT_ROWS, 4000, 500)
    assert calibrated.plan.settings.selection == "gradient"
    assert calibrated.noise_multiplier == pytest.approx(1.0, rel=1e-9)
    total = sum(item.count / item.relative_noise**2 for item in calibrated.plan.planned)
    assert math.sqrt(total) == pytest.approx(gaussian_mu(GUARANTEE), rel=1e-9)


def test_with_vertices_both_kinds_of_noise_cost_hardly_more_than_gaussians_would():
    calibrated = plan_for(LONG_ROWS, 1_000_000, 500, selection="vertices", n_vertices=7, n_steps=5, selection_share=0.3)
    assert [type(item.query) for item in calibrated.plan.planned] == [VertexQuery, GradientQuery]
    rho = sum(
        0.5 * item.count / (calibrated.noise_multiplier * item.relative_noise) ** 2 for item in calibrated.plan.planned
    )
    assert 0.999 < gaussian_mu(GUARANTEE) / math.sqrt(2.0 * rho) < 1.01
    # By the sum of ρ it would take 7 % more noise.
    assert zcdp_delta(rho / 1.06**2, 1.0) > 1e-6


def test_nothing_off_the_support_moves_and_the_support_holds_what_matters():
    X, y = sparse_truth()
    w = minimize(SHORT_ROWS, X, y, guarantee=GUARANTEE, solver="support-descent", random_state=0).w
    assert set(range(4)) <= set(np.flatnonzero(w))
    assert np.count_nonzero(w) <= 12


@pytest.mark.parametrize("size", [1, 3, 8, 20])
def test_on_a_support_no_row_is_more_curved_than_the_step_assumes(size):
    """A row of ±1 in eight columns, of which as many as can lie on the support, reaches the bound."""
    setting = FitOptions(SHORT_ROWS, guarantee=GUARANTEE, solver=SupportDescent()).plan(100, 50).setting
    x = np.where(np.arange(50) < 8, 1.0, 0.0)
    assert _smoothness_on(setting, size) == pytest.approx(0.25 * float(x[:size] @ x[:size]), rel=1e-12)


def test_where_the_descent_would_only_add_noise_it_is_plain_frank_wolfe():
    X, y = sparse_truth(p=100)
    tiny = Guarantee(0.1, 1e-6)
    plan = plan_for(LONG_ROWS, 4000, 100, tiny).plan
    assert [type(item.query) for item in plan.planned] == [VertexQuery]
    ours = minimize(LONG_ROWS, X, y, guarantee=tiny, solver="support-descent", random_state=3).w
    theirs = minimize(LONG_ROWS, X, y, guarantee=tiny, solver=TalwarFrankWolfe(), random_state=3).w
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    assert [type(item.query) for item in plan_for(LONG_ROWS, 10_000_000, 100).plan.planned] == [
        VertexQuery,
        GradientQuery,
    ]


def test_the_way_of_choosing_follows_the_rows():
    assert plan_for(SHORT_ROWS, 4000, 500).plan.settings.selection == "gradient"
    assert plan_for(LONG_ROWS, 4000, 500).plan.settings.selection == "vertices"


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_it_has_less_excess_risk_than_private_frank_wolfe(epsilon):
    X, y = sparse_truth(8000, 100)
    best = least_risk(SHORT_ROWS, X, y)

    def excess(solver):
        guarantee = Guarantee(epsilon, 1e-6)
        fits = [minimize(SHORT_ROWS, X, y, guarantee=guarantee, solver=solver, random_state=s).w for s in range(3)]
        return np.median([empirical_risk(SHORT_ROWS, X, y, w) - best for w in fits])

    assert excess(SupportDescent()) < 0.7 * excess(TalwarFrankWolfe())


def test_the_predicted_risk_falls_with_the_budget_and_is_of_the_size_that_is_measured():
    X, y = sparse_truth()
    best = least_risk(SHORT_ROWS, X, y)
    predictions = []
    for epsilon in (0.1, 0.5, 2.0, 8.0):
        guarantee = Guarantee(epsilon, 1e-6)
        fit = FitOptions(SHORT_ROWS, guarantee=guarantee, solver=SupportDescent()).plan(*X.shape)
        predictions.append(SupportDescent().expected_risk(fit.setting, guarantee))
        fits = [minimize(SHORT_ROWS, X, y, guarantee=guarantee, solver="support-descent", random_state=s).w
                for s in range(4)]  # fmt: skip
        measured = np.mean([empirical_risk(SHORT_ROWS, X, y, w) - best for w in fits])
        assert 0.05 < predictions[-1] / measured < 20.0
    assert predictions == sorted(predictions, reverse=True)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Problem(Sigmoid(), domain=L1Ball()), "convex"),
        (Problem(Logistic(), L2(0.1), L1Ball()), "without a regularizer"),
        (Problem(Logistic(), domain=Simplex()), "the l1 ball"),
    ],
)
def test_it_says_why_it_cannot_take_a_problem(problem, reason):
    with pytest.raises(UnsupportedProblemError, match=reason):
        FitOptions(problem, guarantee=GUARANTEE, solver="support-descent").plan(100, 5)


def test_a_delta_that_gumbel_noise_cannot_keep_is_refused():
    with pytest.raises(
        UnsupportedProblemError, match="support-descent cannot keep this guarantee here: it needs delta"
    ):
        plan_for(LONG_ROWS, 4000, 500, Guarantee(1.0, 1e-30))


@pytest.mark.parametrize(
    "wrong",
    [
        {"selection": "lottery"},
        {"selection": "gradient", "n_vertices": 3},
        {"n_steps": 0},
        {"n_vertices": 0},
        {"selection_share": 0.0},
        {"selection_share": 1.0},
        {"nominal_support": 0},
        {"false_alarms": 0.0},
        {"max_steps": 0},
    ],
    ids=str,
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InvalidParameterError):
        SupportDescent(**wrong)
