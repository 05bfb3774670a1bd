"""Settings and problems that a solver cannot serve are refused in one sentence; what it says of itself is true."""

import numpy as np
import pytest

from contracts.solvers import SOLVER_EXAMPLES
from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.errors import DivergedError, NoiseTooLargeError, UnsupportedProblemError
from dperm.mechanisms import GradientQuery, ObjectivePerturbationQuery, OutputPerturbationQuery
from dperm.mechanisms.base import smallest_tolerance
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.paper import PrintedSVRG
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Box, L1Ball, Logistic, Sigmoid, SmoothedHinge
from dperm.solvers import DPGD, DPSVRG, ChaudhuriObjective, DPKatyusha, DPObjective, DPSVRGPlusPlus, KiferObjective

GUARANTEE = Guarantee(1.0, 1e-6)
N, P = 1000, 5
RIDGE = Problem(Logistic(), L2(0.01))
SETTING = Setting(RIDGE.constants(P), N, Adjacency.REPLACE_ONE)


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, P)) / 3.0
    return X, np.sign(X[:, 0] + 0.1 * rng.normal(size=N))


# --- How long a run takes ---


def test_a_plan_of_more_steps_than_a_run_could_take_is_refused():
    Plan("test", (PlannedQuery(GradientQuery(SETTING), 10**8),), {})
    with pytest.raises(InvalidParameterError, match="more than 100,000,000 steps"):
        Plan("test", (PlannedQuery(GradientQuery(SETTING), 10**8 + 1),), {})
    halves = tuple(PlannedQuery(GradientQuery(SETTING), 6 * 10**7, noise) for noise in (1.0, 2.0))
    with pytest.raises(InvalidParameterError, match="more than 100,000,000 steps"):
        Plan("test", halves, {})


@pytest.mark.parametrize("noise", ["certified", None])
@pytest.mark.parametrize(
    "solver",
    [
        DPSVRGPlusPlus(n_epochs=40),
        DPSVRGPlusPlus(n_epochs=500),
        DPSVRGPlusPlus(n_epochs=10**12, n_inner=1),
        DPSVRG(n_epochs=10**12),
        DPSVRG(n_inner=2**53),
        DPSVRG(step_size=1e-300),
        DPSVRG(step_size=5e-324),
        DPKatyusha(n_epochs=10**12),
        DPKatyusha(n_inner=10**9),
        DPGD(n_steps=10**12),
    ],
    ids=repr,
)
def test_settings_that_would_take_for_ever_are_refused_before_anything_is_built(solver, noise):
    with pytest.raises(InvalidParameterError, match="more than 100,000,000 steps"):
        FitOptions(RIDGE, guarantee=GUARANTEE, solver=solver, noise=noise).plan(N, P)


@pytest.mark.parametrize("strength", [1e-9, 5e-324])
@pytest.mark.parametrize("solver", [DPSVRG(), DPSVRG(n_inner=2**53), DPSVRGPlusPlus(n_epochs=40)], ids=repr)
def test_the_papers_number_of_steps_is_refused_where_it_would_take_for_ever(solver, strength):
    with pytest.raises(InvalidParameterError, match="more than 100,000,000 steps"):
        FitOptions(Problem(Logistic(), L2(strength)), guarantee=GUARANTEE, solver=solver, noise="paper").plan(N, P)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("strength", [1e-5, 1e-9, 1e-300, 5e-324])
@pytest.mark.parametrize("solver", [DPSVRG(), DPSVRG(n_epochs=300), PrintedSVRG(), DPKatyusha(), DPGD()], ids=repr)
def test_without_noise_small_penalties_do_not_make_a_run_endless(solver, strength):
    plan = (
        FitOptions(Problem(Logistic(), L2(strength)), guarantee=None, solver=solver, noise=None)
        .plan(N, P)
        .calibrated.plan
    )
    assert plan.n_steps <= 101_000
    if strength < 1e-8:
        assert plan.n_steps >= 99_000


def test_without_noise_well_conditioned_problems_get_all_their_steps():
    """κ = 25: 2κ and 6√κ steps per epoch."""
    assert DPSVRG().plan(SETTING, None).settings.n_inner == 50
    assert DPKatyusha().plan(SETTING, None).settings.n_inner == 30


# --- Shares of the budget ---


@pytest.mark.parametrize("solver", [DPSVRG, DPKatyusha])
@pytest.mark.parametrize(
    ("growth", "largest"), [(6.0, 16), (1e3, 5), (1e-3, 5), (10.0, 13), (0.1, 13), (1.001, 27_000)]
)
def test_budgets_of_anchors_differ_1e12_fold_at_the_most(solver, growth, largest):
    plan = solver(n_epochs=largest, anchor_growth=growth, n_inner=1).plan(SETTING, GUARANTEE)
    noises = [item.relative_noise for item in plan.planned[:-1]]
    assert (max(noises) / min(noises)) ** 2 <= 1.0001e12
    with pytest.raises(InvalidParameterError, match=r"budgets of .* anchors would differ more than 1e12-fold"):
        solver(n_epochs=largest + 1000, anchor_growth=growth, n_inner=1).plan(SETTING, GUARANTEE)


def test_defaults_never_ask_for_more_growth_than_is_allowed():
    """Even where hardly any noise would allow anchors to differ further."""
    for growth in (1.5, 6.0, 10.0, 1e3):
        solver = DPSVRG(anchor_growth=growth)
        noises = [item.relative_noise for item in solver.plan(SETTING, Guarantee(1e6, 1e-6)).planned[:-1]]
        assert len(noises) > 1
        assert (max(noises) / min(noises)) ** 2 <= 1.0001e12


# --- Runs that diverge ---


@pytest.mark.parametrize(
    "solver",
    [
        DPGD(n_steps=40, step_size=1e308, accounting="composition"),  # refused when it asks again
        DPGD(n_steps=1, step_size=1.7e308, accounting="composition"),  # refused at the end
        DPSVRG(n_epochs=3, n_inner=20, step_size=1e308),
        PrintedSVRG(n_epochs=3, n_inner=20, step_size=1e308),
        DPSVRGPlusPlus(n_epochs=3, step_size=1e308),
        DPKatyusha(n_epochs=3, n_inner=20, step_size=1e308),
    ],
    ids=repr,
)
def test_a_run_that_diverged_is_not_released(solver):
    problem = Problem(Logistic(), L2(1e-320))
    with pytest.raises(DivergedError, match=r"^the run diverged; use a smaller step_size\.$"):
        minimize(problem, *rows(), guarantee=Guarantee(1e-3, 1e-6), solver=solver, random_state=0)


# --- What a solver says ---


@pytest.mark.parametrize("problem", [RIDGE, Problem(Logistic(), domain=L1Ball())], ids=["ridge", "l1 ball"])
@pytest.mark.parametrize("solver", SOLVER_EXAMPLES, ids=repr)
def test_the_mechanism_says_whether_there_is_noise(solver, problem):
    if solver.refusal(problem) is None:
        exact = FitOptions(problem, guarantee=None, solver=solver, noise=None).plan(N, P).statement
        assert exact.mechanism == f"{solver.name} without noise"
        noisy = FitOptions(problem, guarantee=GUARANTEE, solver=solver).plan(N, P).statement
        assert noisy.mechanism.startswith(solver.name)
        assert "without noise" not in noisy.mechanism


@pytest.mark.parametrize(
    "problem",
    [Problem(Sigmoid()), Problem(Logistic()), Problem(Sigmoid(), L2(0.1), L1Ball())],
    ids=["sigmoid", "logistic", "all"],
)
@pytest.mark.parametrize("solver", SOLVER_EXAMPLES, ids=repr)
def test_a_refusal_gives_the_reason_and_names_no_solver(solver, problem):
    reason = solver.refusal(problem)
    if reason is not None:
        assert reason.startswith("it ")
        assert reason.endswith(".")
        assert "dp-" not in reason


# --- Exact minimisation ---


def test_a_minimisation_that_might_fail_on_some_table_is_refused_before_a_row_is_read():
    """With one usable row it would be solved and with two not: the release itself would tell which it was."""
    hinge = Problem(SmoothedHinge(0.01), L2(1e-8))
    with pytest.raises(UnsupportedProblemError, match="cannot be solved for exactly on every table"):
        FitOptions(hinge, guarantee=Guarantee(1.0, 0.0), solver="chaudhuri-output").plan(N, P)
    assert FitOptions(hinge, guarantee=GUARANTEE, solver="kifer-objective").plan(N, P).settings.ridge > 1e-6


@pytest.mark.parametrize("usable", [0, 1, 2, N])
def test_a_minimisation_at_the_largest_condition_is_solved_whatever_the_rows(usable):
    X, y = rows()
    X = X.copy()
    X[usable:] = np.nan
    problem = Problem(SmoothedHinge(0.01), L2(2e-4))
    assert np.isfinite(minimize(problem, X, y, guarantee=Guarantee(1.0, 0.0), solver="chaudhuri-output").w).all()


@pytest.mark.parametrize("share", [0.5, 1e-10])
def test_a_query_refuses_a_tolerance_below_what_rounding_allows(share):
    setting = Setting(RIDGE.constants(P), N, Adjacency.ADD_REMOVE)
    tolerance = share * smallest_tolerance(setting)
    with pytest.raises(InvalidParameterError, match="below what rounding allows"):
        OutputPerturbationQuery(setting, tolerance)
    with pytest.raises(InvalidParameterError, match="below what rounding allows"):
        ObjectivePerturbationQuery(setting, 0.1, tolerance, 0.005, "Gaussian")


def test_a_box_with_a_bound_per_coefficient_is_refused_in_words():
    box = Problem(Logistic(), L2(0.1), Box((-1.0,) * P, (2.0,) * P))
    with pytest.raises(UnsupportedProblemError, match="without a regularizer"):
        FitOptions(box, guarantee=GUARANTEE, solver="talwar-objective").plan(N, P)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: L1Ball(1e300), InvalidParameterError),
        (lambda: Guarantee(1e7, 1e-6), InvalidParameterError),
        (
            lambda: FitOptions(BALL, guarantee=Guarantee(1.0, 1e-30), solver="talwar-frank-wolfe").plan(N, P),
            UnsupportedProblemError,
        ),
        (lambda: Problem(Logistic(), domain=UnderstatedBall()).constants(P), InvalidParameterError),
    ],
    ids=["radius", "epsilon", "delta", "vertices"],
)
def test_numbers_that_would_overflow_or_void_a_bound_are_refused(make, error):
    with pytest.raises(error):
        make()


@pytest.mark.parametrize(
    ("solver", "noise"),
    [
        (KiferObjective(ridge=3e-8), "certified"),
        (KiferObjective(ridge=3e-8), "paper"),
        (ChaudhuriObjective(ridge=3e-8), "certified"),
        (DPObjective(ridge=3e-8), "certified"),
        (DPObjective(ridge=3e-8, n_stages=2), "certified"),
    ],
    ids=repr,
)
def test_a_ridge_that_leaves_the_minimiser_too_long_is_refused_before_a_row_is_read(solver, noise):
    """It would take minutes and then not be solved: the minimiser is 1e8 long, and its margins are rounded."""
    with pytest.raises(NoiseTooLargeError, match="use a larger ridge"):
        FitOptions(Problem(Logistic()), guarantee=Guarantee(100.0, 1e-6), solver=solver, noise=noise).plan(30, 900)


@pytest.mark.parametrize("usable", [0, 30])
@pytest.mark.parametrize("solver", [KiferObjective(ridge=1e-5), DPObjective(ridge=1e-4, n_stages=2)], ids=repr)
def test_a_small_ridge_that_is_planned_is_solved_for_whatever_the_rows(solver, usable):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 300)) / 17.0, rng.choice([-1.0, 1.0], 30)
    X[usable:] = np.nan
    w = minimize(Problem(Logistic()), X, y, guarantee=Guarantee(100.0, 1e-6), solver=solver, random_state=0).w
    assert np.isfinite(w).all()
    assert np.linalg.norm(w) > 300.0  # as long as the noise makes it


class UnderstatedBall(L1Ball):
    def norm_bound(self, dimension):
        return 0.5 * self.radius


BALL = Problem(Logistic(), domain=L1Ball())
