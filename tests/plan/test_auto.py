"""How "auto" chooses, and the rules of DP-Objective, from public numbers."""

import itertools
import math

import numpy as np
import pytest

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.errors import UnsupportedProblemError
from dperm.mechanisms.setting import Setting
from dperm.plan.auto import predictions
from dperm.privacy.guarantee import Adjacency
from dperm.problem import (
    L1,
    L2,
    ElasticNet,
    Huber,
    L1Ball,
    L2Ball,
    Logistic,
    NoRegularizer,
    Sigmoid,
    Simplex,
    SmoothedHinge,
    Softmax,
    Squared,
)
from dperm.solvers import DPObjective
from dperm.unsafe import empirical_risk

GUARANTEE = Guarantee(1.0, 1e-6)
PROBLEMS = [
    Problem(Logistic(), L2(1e-2)),
    Problem(Logistic()),
    Problem(Logistic(), L1(1e-3)),
    Problem(Softmax(3), L2(1e-2)),
    Problem(Squared(), domain=L2Ball(2.0)),
    Problem(Huber(), L2(1e-2)),
    Problem(SmoothedHinge(), L2(1e-3)),
    Problem(Sigmoid(), L2(1e-2)),
]


def setting_for(problem, n=20_000, p=30, adjacency=Adjacency.ADD_REMOVE):
    return Setting(problem.constants(p), n, adjacency)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: f"{problem.loss.name}-{problem.regularizer.name}")
def test_auto_is_the_solver_with_the_smallest_prediction(problem):
    for adjacency, epsilon in itertools.product(Adjacency, (0.1, 2.0)):
        guarantee = Guarantee(epsilon, 1e-6)
        ranked = predictions(problem, setting_for(problem, adjacency=adjacency), guarantee)
        risks = [risk for _, risk in ranked]
        assert risks == sorted(risks)
        assert 0.0 < risks[0] < math.inf
        assert all(solver.refusal(problem) is None for solver, _ in ranked)
        fit = FitOptions(problem, guarantee=guarantee, adjacency=adjacency.value).plan(20_000, 30)
        assert fit.solver == ranked[0].solver


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: f"{problem.loss.name}-{problem.regularizer.name}")
def test_more_rows_or_budget_never_raise_the_smallest_prediction(problem):
    def least(n, epsilon):
        return predictions(problem, setting_for(problem, n), Guarantee(epsilon, 1e-6))[0].risk

    by_rows = [least(n, 1.0) for n in (1_000, 10_000, 100_000)]
    by_budget = [least(20_000, epsilon) for epsilon in (0.1, 0.5, 2.0, 8.0)]
    assert by_rows == sorted(by_rows, reverse=True)
    assert by_budget == sorted(by_budget, reverse=True)


def test_without_noise_auto_finds_the_exact_minimiser_where_it_can():
    assert FitOptions(PROBLEMS[0], guarantee=None, noise=None).plan(100, 3).solver.name == "dp-objective"
    assert FitOptions(PROBLEMS[3], guarantee=None, noise=None).plan(100, 3).solver.name == "dp-softmax"
    assert FitOptions(PROBLEMS[7], guarantee=None, noise=None).plan(100, 3).solver.name == "dp-gd"


def test_pure_guarantees_get_solvers_that_keep_them():
    names = {solver.name for solver, _ in predictions(PROBLEMS[0], setting_for(PROBLEMS[0]), Guarantee(1.0, 0.0))}
    assert names == {"dp-objective", "kifer-objective", "chaudhuri-objective", "chaudhuri-output"}
    with pytest.raises(UnsupportedProblemError, match="no solver"):
        FitOptions(PROBLEMS[7], guarantee=Guarantee(1.0, 0.0)).plan(1000, 5)


def test_published_noise_and_the_papers_accountant_keep_the_papers_method():
    assert FitOptions(PROBLEMS[0], guarantee=GUARANTEE, noise="paper").plan(1000, 5).solver.name == "dp-gd"
    appendix = FitOptions(PROBLEMS[0], guarantee=GUARANTEE, accountant="advanced-composition").plan(1000, 5)
    assert appendix.solver.name == "dp-gd"


ENDS_OF_THE_SCALE = [
    (Problem(Logistic(), domain=Simplex(1.0)), 100, 1, Guarantee(1.0, 1e-6)),  # C is a point
    (Problem(Softmax(3), ElasticNet(0.01, 0.01), row_norm=1e10), 10**6, 1, Guarantee(1e-5, 1e-6)),
    (Problem(Logistic(), L2(1e-8), row_norm=1e50), 100, 5, Guarantee(1e6, 1e-60)),
    (Problem(Logistic()), 10**6, 5, Guarantee(1.0, 1e-20)),
    (Problem(Logistic()), 1, 1, Guarantee(1e-5, 1e-60)),
    (Problem(Logistic()), 1, 1, Guarantee(1e6, 0.0)),
]


@pytest.mark.parametrize(("problem", "n", "p", "guarantee"), ENDS_OF_THE_SCALE)
def test_auto_prices_the_ends_of_the_scale(problem, n, p, guarantee):
    for adjacency in ("add_remove", "replace_one"):
        fit = FitOptions(problem, guarantee=guarantee, adjacency=adjacency).plan(n, p)
        assert fit.privacy.certified_epsilon <= guarantee.epsilon


FAR_PROBLEMS = [
    Problem(loss, regularizer, domain, row_norm=row_norm)
    for loss in (Logistic(), Softmax(3), Squared(), SmoothedHinge(1e-8), Sigmoid())
    for regularizer in (NoRegularizer(), L2(5e-324), L2(1e-8), L2(1e300))
    for domain in (L2Ball(1e-100), L1Ball(1e10), Simplex(1.0))
    for row_norm in (1e-50, 1.0, 1e50)
]


@pytest.mark.parametrize("seed", range(4))
def test_predictions_are_numbers_or_unknown_however_far_the_public_numbers_are(seed):
    rng = np.random.default_rng(seed)
    for problem in rng.choice(np.array(FAR_PROBLEMS, dtype=object), 6, replace=False):
        n, p = int(rng.choice([1, 100, 10**12])), int(rng.choice([1, 5, 5000]))
        guarantee = Guarantee(float(rng.choice([1e-5, 1.0, 1e6])), float(rng.choice([0.0, 1e-60, 1e-6])))
        risks = [risk for _, risk in predictions(problem, setting_for(problem, n, p), guarantee)]
        assert risks == sorted(risks)
        assert all(risk >= 0.0 for risk in risks)


def test_a_solver_that_cannot_keep_the_guarantee_is_passed_by_and_refused_by_name():
    vertices = Problem(Logistic(), domain=L1Ball(3.0))
    for problem, p, guarantee, name in [
        (Problem(SmoothedHinge(0.01), L2(1e-8)), 5, GUARANTEE, "chaudhuri-output"),
        (vertices, 5, Guarantee(1.0, 1e-30), "talwar-frank-wolfe"),
        (Problem(Logistic(), L2(0.1)), 5000, GUARANTEE, "dp-newton"),
    ]:
        setting = setting_for(problem, 1000, p)
        assert name not in {solver.name for solver, _ in predictions(problem, setting, guarantee)}
        with pytest.raises(UnsupportedProblemError, match=f"^{name} cannot keep this guarantee here: "):
            FitOptions(problem, guarantee=guarantee, solver=name).plan(1000, p)


# DP-Objective


def settings_of(problem, n, epsilon, adjacency="add_remove", **options):
    fit = FitOptions(
        problem, guarantee=Guarantee(epsilon, 1e-5), solver=DPObjective(**options), adjacency=adjacency
    ).plan(n, 54)
    return fit.settings


def test_slopes_are_cut_the_more_the_more_noise_there_is():
    shares = [settings_of(PROBLEMS[0], 30_000, epsilon).slope_share for epsilon in (0.05, 0.2, 1.0, 5.0)]
    assert shares == sorted(shares)
    assert 0.5 <= shares[0] < 0.7
    assert 0.8 < shares[-1] < 1.0
    assert settings_of(PROBLEMS[6], 30_000, 0.05).slope_share == 1.0  # a hinge has the same slope in all active rows


def test_a_second_stage_comes_where_the_determinant_asks_for_more_ridge_than_the_balance():
    many, few = settings_of(Problem(Logistic()), 200_000, 1.0), settings_of(Problem(Logistic()), 5_000, 0.2)
    assert (many.n_stages, many.slope_share, few.n_stages) == (2, 1.0, 1)
    assert many.ridge == pytest.approx(1.0 / 200_000)  # 4β/(nε) for rows of norm 1
    assert settings_of(PROBLEMS[0], 200_000, 1.0).n_stages == 1
    assert settings_of(PROBLEMS[0], 200_000, 1.0, n_stages=2).n_stages == 2


def test_a_first_look_comes_where_the_determinant_is_cheap_and_slopes_could_be_clipped_further():
    def looks(problem, n, epsilon, **options):
        return settings_of(problem, n, epsilon, **options).look_noise is not None

    assert looks(PROBLEMS[0], 30_000, 1.0)
    assert looks(PROBLEMS[0], 30_000, 1.0, adjacency="replace_one")
    assert not looks(Problem(Logistic(), L2(1e-4)), 30_000, 1.0)  # the sigmoid's help is needed there
    assert not looks(PROBLEMS[0], 1000, 0.1)  # slopes are clipped at half of their bound as it is
    assert not looks(PROBLEMS[6], 30_000, 1.0)  # a hinge
    for options in ({"slope_share": 0.9}, {"n_stages": 1}, {"ridge": 0.1}):
        assert not looks(PROBLEMS[0], 30_000, 1.0, **options)


def test_a_weak_signal_has_less_noise_after_a_first_look():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 20))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.choice([-1.0, 1.0], size=5000)  # no signal at all: the minimiser is short
    problem = Problem(Logistic(), L2(0.05))
    best = minimize(problem, X, y, guarantee=None, noise=None).w

    def excess(solver):
        fits = (minimize(problem, X, y, guarantee=GUARANTEE, solver=solver, random_state=seed) for seed in range(60))
        return np.mean([empirical_risk(problem, X, y, fit.w) for fit in fits]) - empirical_risk(problem, X, y, best)

    # Without shrinkage to 0 the ratio would be about (0.55/0.8)²; the means of 60 fits vary by 4 %.
    assert settings_of(problem, 5000, 1.0, adjacency="replace_one").slope_share > 0.7
    assert excess(DPObjective()) < 0.9 * excess(DPObjective(n_stages=1))


NONSENSE = [
    {"n_stages": 3},
    {"n_stages": 0},
    {"slope_share": 0.0},
    {"slope_share": 1.5},
    {"slope_share": math.nan},
    {"ridge": -1.0},
    {"nominal_distance": 0.0},
]


@pytest.mark.parametrize("options", NONSENSE, ids=str)
def test_settings_that_mean_nothing_are_refused(options):
    with pytest.raises(InvalidParameterError):
        DPObjective(**options)


def test_where_there_is_no_signal_shrinkage_keeps_the_answer_near_zero():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 100)) / 10.0, rng.choice([-1.0, 1.0], 3000)
    problem = Problem(Logistic(), L2(1e-2))
    guarantee = Guarantee(0.1, 1e-6)
    zero = empirical_risk(problem, X, y, np.zeros(100))
    shrunk, plain = (
        np.mean(
            [
                empirical_risk(problem, X, y, minimize(problem, X, y, guarantee=guarantee, solver=s, random_state=i).w)
                for i in range(5)
            ]
        )
        - zero
        for s in ("dp-objective", "kifer-objective")
    )
    assert shrunk < 0.2 * plain


def test_two_stages_come_nearer_to_a_far_minimiser_than_one_with_the_same_ridge():
    """Without noise to speak of: what is left of the ridge's bias is squared."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 4)) / 4.0
    y = np.where(rng.uniform(size=4000) < 1.0 / (1.0 + np.exp(-X @ np.array([9.0, -7.0, 5.0, 3.0]))), 1.0, -1.0)
    problem = Problem(Logistic())
    best = empirical_risk(problem, X, y, minimize(problem, X, y, guarantee=None, noise=None).w)
    one, two = (
        empirical_risk(
            problem, X, y,
            minimize(problem, X, y, guarantee=Guarantee(1000.0, 1e-6), random_state=0,
                     solver=DPObjective(ridge=0.003, slope_share=1.0, n_stages=n_stages)).w,
        ) - best
        for n_stages in (1, 2)
    )  # fmt: skip
    assert 0.0 < two < 0.3 * one


def test_a_lasso_keeps_its_exact_zeros():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 12)) / 5.0
    y = np.sign(X[:, 0] + X[:, 1])
    w = minimize(Problem(Logistic(), L1(0.02), L1Ball(20.0)), X, y, guarantee=Guarantee(4.0, 1e-6)).w
    assert (w[2:] == 0.0).sum() >= 6
    assert (w[:2] > 0.1).all()


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("loss", [Squared(), Squared(50.0)], ids=repr)
def test_regression_is_solved_by_released_sizes_unless_the_guarantee_is_pure(loss, adjacency):
    problem = Problem(loss, row_norm=3.0, entry_bound=1.0, intercept=True)
    for n, p, epsilon in ((500, 3, 0.3), (500, 100, 1.0), (20_000, 8, 1.0), (20_000, 300, 0.5), (1_000_000, 8, 8.0)):
        for delta, name in ((1e-6, "dp-regression"), (0.0, "objective")):
            options = FitOptions(problem, guarantee=Guarantee(epsilon, delta), adjacency=adjacency)
            assert options.plan(n, p).solver.name.endswith(name)
