"""DP-Spider: its bound, the noise of what it follows, its shares, and what it returns."""

import math

import numpy as np
import pytest

from dperm import DPGD, DPSpider, FitOptions, Guarantee, InvalidParameter, Problem, Sigmoid, minimize
from dperm.accounting.curve import gaussian_mu
from dperm.mechanisms import DifferenceQuery, GradientQuery
from dperm.mechanisms.plan import PlannedQuery
from dperm.solvers.variance_reduced.dp_spider import pace_of

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


@pytest.mark.parametrize(("n_steps", "period", "step"), [(40, 8, 0.5), (60, 20, 0.75), (30, 1, 1.0)])
def test_the_mean_squared_gradient_norm_is_at_most_that_of_the_bound(n_steps, period, step):
    """On a wavy function that uses up the smoothness, with the gap that it has at the start."""
    setting = setting_for()
    pace = pace_of(setting, gaussian_mu(GUARANTEE), n_steps, period, step / setting.smoothness)
    solver = DPSpider(n_steps=n_steps, period=period, step_size=pace.step_size)
    plan = solver._plan(setting, pace)
    norms, gap = [], 0.0
    for seed in range(30):
        oracle = WavyOracle(setting, seed)
        start = np.full(P, 0.25 / oracle.root)
        gap = P * (1.0 - math.cos(0.25))
        solver.run(oracle, PROBLEM, plan, start)
        assert len(oracle.points) == n_steps
        norms += [float(oracle.gradient(w) @ oracle.gradient(w)) for w in oracle.points]
    noise = pace.bound - 2.0 * setting.constants.initial_gap / (pace.step_size * n_steps)
    assert np.mean(norms) <= 2.0 * gap / (pace.step_size * n_steps) + noise


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_differences_are_as_quiet_as_the_descent_makes_up_for_and_no_quieter(adjacency):
    """(period − 1) p η² C = 1 − ηL for noise of variance C ‖w − w'‖² on every entry of a difference."""
    setting = setting_for(adjacency=adjacency)
    pace = pace_of(setting, gaussian_mu(GUARANTEE), 100, 10, 0.5 / setting.smoothness)
    distance = 1e-3
    sigma = DifferenceQuery(setting, 1.0).sensitivity_at_distance(distance) / pace.difference_mu
    grown = 9 * P * (pace.step_size * sigma / distance) ** 2
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
        return DPSpider(max_steps=1_000_000, **settings)._pace(setting, gaussian_mu(GUARANTEE)).bound

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
    # The last of nine iterates has the shortest step; it is the one after eight.
    np.testing.assert_allclose(ours, minimize(PROBLEM, X, y, guarantee=None, noise=None, solver=theirs).w, atol=1e-12)


def test_a_budget_that_does_not_suffice_is_refused_in_a_sentence():
    with pytest.raises(InvalidParameter, match="fewer steps"):
        FitOptions(PROBLEM, guarantee=GUARANTEE, solver=DPSpider(n_steps=1000, period=1000, step_size=5.0)).plan(200, P)


@pytest.mark.parametrize(
    "wrong",
    [{"n_steps": 0}, {"period": 0}, {"step_size": 0.0}, {"release": "last"}, {"max_steps": 0}, {"nominal_distance": 0}],
    ids=str,
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InvalidParameter):
        DPSpider(**wrong)
