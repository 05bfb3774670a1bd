"""DP-Spider: its bound, the noise of what it follows, its shares, and what it returns."""

import math

import numpy as np
import pytest

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.accounting.curve import gaussian_mu
from dperm.mechanisms import DifferenceQuery, GradientQuery
from dperm.mechanisms.plan import PlannedQuery
from dperm.paper import RRPSGD
from dperm.problem import Logistic, Sigmoid
from dperm.solvers import DPGD, DPSVRG, SOLVERS, DPSpider
from dperm.solvers.variance_reduced.stationary import Stationary, pace_of

GUARANTEE = Guarantee(1.0, 1e-6)
PROBLEM = Problem(Sigmoid())
P = 20


def setting_for(n=20_000, adjacency="replace_one"):
    return FitOptions(PROBLEM, guarantee=GUARANTEE, solver="dp-gd", adjacency=adjacency).plan(n, P).setting


class WavyOracle:
    """F(w) = Σ_j (1 − cos(√L w_j)), smooth with L and not convex; answers carry the noise of the plan."""

    def __init__(self, setting, seed):
        self.setting, self.rng = setting, np.random.default_rng(seed)
        self.root = math.sqrt(setting.smoothness)
        self.public_coin = np.random.default_rng(seed + 1)
        self.points, self.errors = [], []

    def gradient(self, w):
        return self.root * np.sin(self.root * w)

    def ask(self, item: PlannedQuery, *points):
        if isinstance(item.query, GradientQuery):
            sigma = item.relative_noise * item.query.sensitivity
            answer = self.gradient(points[0])
        else:
            distance = float(np.linalg.norm(points[0] - points[1]))
            sigma = item.relative_noise * item.query.sensitivity_at_distance(distance)
            answer = self.gradient(points[0]) - self.gradient(points[1])
        self.points.append(points[0])
        return answer + sigma * self.rng.normal(size=P)


@pytest.mark.parametrize("from_anchor", [False, True], ids=["dp-spider", "dp-svrg"])
@pytest.mark.parametrize(("n_steps", "period", "step"), [(40, 8, 0.5), (60, 20, 0.75), (30, 1, 1.0)])
def test_the_mean_squared_gradient_norm_is_at_most_that_of_the_bound(n_steps, period, step, from_anchor):
    """On a wavy function that uses up the smoothness, with the gap that it has at the start."""
    setting = setting_for()
    pace = pace_of(setting, gaussian_mu(GUARANTEE), n_steps, period, step / setting.smoothness, from_anchor)
    method = Stationary("test", from_anchor, n_steps, period, pace.step_size, n_steps)
    plan = method._plan(setting, pace)
    norms, gap = [], 0.0
    for seed in range(30):
        oracle = WavyOracle(setting, seed)
        start = np.full(P, 0.25 / oracle.root)
        gap = P * (1.0 - math.cos(0.25))
        method.run(oracle, PROBLEM, plan, start, "shortest")
        assert len(oracle.points) == n_steps
        norms += [float(oracle.gradient(w) @ oracle.gradient(w)) for w in oracle.points]
    noise = pace.bound - 2.0 * setting.constants.initial_gap / (pace.step_size * n_steps)
    assert np.mean(norms) <= 2.0 * gap / (pace.step_size * n_steps) + noise


@pytest.mark.parametrize(("from_anchor", "counted"), [(False, 9), (True, 45)], ids=["dp-spider", "dp-svrg"])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_differences_are_as_quiet_as_the_descent_makes_up_for_and_no_quieter(adjacency, from_anchor, counted):
    """(period − 1) p η² C = 1 − ηL for noise of variance C ‖w − w'‖² on every entry of a difference.

    From an anchor it is period(period − 1)/2: a difference is up to so many steps long.
    """
    setting = setting_for(adjacency=adjacency)
    pace = pace_of(setting, gaussian_mu(GUARANTEE), 100, 10, 0.5 / setting.smoothness, from_anchor)
    distance = 1e-3
    sigma = DifferenceQuery(setting, 1.0).sensitivity_at_distance(distance) / pace.difference_mu
    grown = counted * P * (pace.step_size * sigma / distance) ** 2
    assert grown == pytest.approx(1.0 - pace.step_size * setting.smoothness, rel=1e-9)


@pytest.mark.parametrize("n_steps", [1, 7, 50])
def test_the_shares_add_up_to_the_whole_budget(n_steps):
    calibrated = (
        FitOptions(PROBLEM, guarantee=GUARANTEE, solver=DPSpider(n_steps=n_steps, period=5)).plan(20_000, P).calibrated
    )
    assert calibrated.noise_multiplier == pytest.approx(1.0, rel=1e-9)
    assert calibrated.plan.n_steps == n_steps


def test_the_default_has_a_bound_no_worse_than_that_of_gradient_descent_and_falls_faster_with_n():
    def bound(n, **settings):
        setting = setting_for(n)
        return DPSpider(max_steps=1_000_000, **settings)._method.pace(setting, GUARANTEE).bound

    assert bound(20_000) <= bound(20_000, period=1)
    # (√p/(nε))^{4/3} against √p/(nε).
    assert bound(80_000) / bound(640_000) == pytest.approx(8.0 ** (4 / 3), rel=0.1)
    assert bound(80_000, period=1) / bound(640_000, period=1) == pytest.approx(8.0, rel=0.1)


def test_without_noise_the_differences_add_up_to_the_steps_of_gradient_descent():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, P)) / math.sqrt(P)
    y = np.sign(X[:, 0])
    ours = minimize(PROBLEM, X, y, guarantee=None, noise=None, solver=DPSpider(n_steps=9, period=3)).w
    theirs = DPGD(n_steps=8, accounting="composition", release="last")
    from_anchors = DPSVRG(n_epochs=3, n_inner=3)
    # The last of nine iterates has the shortest step; it is the one after eight.
    np.testing.assert_allclose(ours, minimize(PROBLEM, X, y, guarantee=None, noise=None, solver=theirs).w, atol=1e-12)
    again = minimize(PROBLEM, X, y, guarantee=None, noise=None, solver=from_anchors).w
    np.testing.assert_allclose(ours, again, atol=1e-12)


def test_differences_are_taken_from_the_iterate_before_or_from_the_anchor():
    for from_anchor in (False, True):
        method = Stationary("test", from_anchor, 7, 3, 0.1, 7)
        plan = method.plan(setting_for(), None)
        oracle = WavyOracle(plan.planned[0].query.setting, 0)
        asked = []
        answer = oracle.ask
        oracle.ask = lambda item, *points, answer=answer, asked=asked: asked.append(points) or answer(item, *points)
        method.run(oracle, PROBLEM, plan, np.full(P, 0.25), "shortest")
        assert [len(points) for points in asked] == [1, 2, 2, 1, 2, 2, 1]
        for place in (1, 2, 4, 5):
            last = place - place % 3 if from_anchor else place - 1
            np.testing.assert_array_equal(asked[place][1], asked[last][0])


WITH_A_THEOREM = [DPGD(), RRPSGD(), DPSVRG(), DPSpider()]


@pytest.mark.parametrize("solver", WITH_A_THEOREM, ids=lambda solver: solver.name)
def test_gradient_bounds_are_finite_where_a_theorem_holds_and_fall_with_n(solver):
    bounds = [solver.gradient_bound(setting_for(n), GUARANTEE) for n in (2_000, 20_000)]
    assert 0.0 < bounds[1] < 0.5 * bounds[0] < math.inf


@pytest.mark.parametrize("name", sorted(set(SOLVERS) - {solver.name for solver in WITH_A_THEOREM}))
def test_gradient_bounds_are_infinite_without_a_theorem(name):
    assert SOLVERS[name]().gradient_bound(setting_for(), GUARANTEE) == math.inf


def test_the_bound_of_dp_svrg_is_for_losses_that_are_not_convex_and_no_better_than_dp_spiders():
    convex = FitOptions(Problem(Logistic()), guarantee=GUARANTEE, solver="dp-gd").plan(20_000, P).setting
    assert DPSVRG().gradient_bound(convex, GUARANTEE) == math.inf
    ours, theirs = (solver.gradient_bound(setting_for(), GUARANTEE) for solver in (DPSpider(), DPSVRG()))
    assert ours <= theirs


def test_the_bound_of_gradient_descent_is_that_of_the_theorem():
    """2(F(w_0) − F*)/(ηT) + p (Δ/n)² T/μ², and none for steps longer than 1/L."""
    setting = setting_for()
    solver = DPGD(n_steps=30, step_size=0.5 / setting.smoothness)
    noise = P * 30 * (setting.sum_sensitivity / (setting.n * gaussian_mu(GUARANTEE))) ** 2
    left = 2.0 * setting.constants.initial_gap * setting.smoothness / (0.5 * 30)
    assert solver.gradient_bound(setting, GUARANTEE) == pytest.approx(left + noise, rel=1e-6)
    assert DPGD(n_steps=30, step_size=1.1 / setting.smoothness).gradient_bound(setting, GUARANTEE) == math.inf


def test_a_budget_that_does_not_suffice_is_refused_in_a_sentence():
    with pytest.raises(InvalidParameterError, match="fewer steps"):
        FitOptions(PROBLEM, guarantee=GUARANTEE, solver=DPSpider(n_steps=1000, period=1000, step_size=5.0)).plan(200, P)


@pytest.mark.parametrize(
    "wrong",
    [{"n_steps": 0}, {"period": 0}, {"step_size": 0.0}, {"release": "last"}, {"max_steps": 0}, {"nominal_distance": 0}],
    ids=str,
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InvalidParameterError):
        DPSpider(**wrong)
