"""Logistic gradients at one point lie closer together than 2G: the bound holds, is attained, is used where proved."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.accounting.calibration import calibrate
from dperm.kernel.noise import Noise
from dperm.mechanisms import GradientQuery, LastIterateQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.mechanisms.sigmoid_width import sigmoid_width
from dperm.privacy.guarantee import Adjacency
from dperm.problem import Box, L2Ball, Logistic, SmoothedHinge
from dperm.solvers import DPGD
from kernel.harness import P, base_table, ignored_table, only_row, record, replay, setting_of

GUARANTEE = Guarantee(1.0, 1e-6)
MARGINS = [0.0, 0.3, 1.0, 3.0, 5.0, 12.0, 60.0]


def angles(n):
    """Pairs of rows in the plane of w: their angles to it."""
    return np.meshgrid(np.linspace(0.0, np.pi, n), np.linspace(0.0, np.pi, n))


def furthest(margin, n=400):
    """The furthest pair by search over angles and norms, and over a missing row; nothing of the proof is used."""
    best = 0.0
    one, two = angles(n)
    for r in (1.0, 0.7, 0.3):
        for r2 in (1.0, 0.7, 0.3):
            t = r / (1.0 + np.exp(-margin * r * np.cos(one)))
            t2 = r2 / (1.0 + np.exp(-margin * r2 * np.cos(two)))
            apart = np.hypot(t * np.cos(one) - t2 * np.cos(two), t * np.sin(one) + t2 * np.sin(two))
            best = max(best, apart.max(), t.max())
    return best


@pytest.mark.parametrize("margin", MARGINS)
def test_the_width_is_the_furthest_pair(margin):
    assert 0.999 * sigmoid_width(margin) < furthest(margin) <= sigmoid_width(margin)


def test_the_width_grows_from_one_to_two():
    widths = [sigmoid_width(margin) for margin in np.linspace(0.0, 800.0, 4001)]
    assert widths[0] == pytest.approx(1.0)
    assert np.all(np.diff(widths) >= -1e-12)
    assert 1.99 < widths[-1] <= 2.0 + 1e-11
    for margin, known in ((1.0, 1.10), (3.0, 1.42), (5.0, 1.62)):
        assert sigmoid_width(margin) == pytest.approx(known, abs=0.005)


def moved(problem, w, rows, adjacency):
    """How far the sum moves, through the kernels, when one row is replaced by another or comes and goes."""
    sums = [record(problem, table, adjacency, [w])[0].exact[0] for table in rows]
    return np.linalg.norm(sums[0] - sums[1]) * len(base_table().y)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("weight", [1.0, 2.5])
@pytest.mark.parametrize("norm", [0.0, 0.5, 1.5, 4.0])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_kernels_come_to_the_bound_and_never_beyond(adjacency, norm, weight):
    problem = Problem(Logistic(), row_norm=2.0, weight_bound=weight)
    setting = setting_of(problem, adjacency)
    w = norm * np.eye(P)[0]
    bound, largest = setting.sum_sensitivity_at(norm), 0.0
    for angle in np.linspace(0.0, np.pi, 61):
        across = np.array([-np.cos(angle), np.sin(angle), 0.0, 0.0, 0.0])
        mirrored = across * [1.0, -1.0, 1.0, 1.0, 1.0]
        others = [only_row(5.0 * mirrored, 1.0, weight)] if adjacency is Adjacency.REPLACE_ONE else [ignored_table()]
        for other in others:
            apart = moved(problem, w, (only_row(5.0 * across, 1.0, weight), other), adjacency)
            assert apart <= bound
            largest = max(largest, apart)
    assert largest > 0.99 * bound  # so a bound that is 5 % smaller would be found out
    assert bound <= setting.sum_sensitivity


@pytest.mark.parametrize(
    "problem", [Problem(Logistic(), intercept=True), Problem(Logistic(), row_norm=3.0, entry_bound=1.0)]
)
def test_a_constant_column_and_a_bound_on_entries_keep_within_it(problem):
    rng = np.random.default_rng(0)
    setting = setting_of(problem, Adjacency.REPLACE_ONE)
    for _ in range(200):
        w = rng.normal(size=problem.dimension(P)) * rng.choice([0.1, 1.0, 5.0])
        rows = [only_row(10.0 * rng.normal(size=P), rng.choice([-1.0, 1.0])) for _ in range(2)]
        assert moved(problem, w, rows, Adjacency.REPLACE_ONE) <= setting.sum_sensitivity_at(np.linalg.norm(w))


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_noise_of_an_answer_is_that_of_its_point_and_costs_the_same(adjacency):
    problem = Problem(Logistic(), domain=L2Ball(3.0))
    setting = setting_of(problem, adjacency)
    query = GradientQuery(setting)
    points = [(scale * np.eye(P)[1],) for scale in (0.0, 1.0, 3.0, 9.0)]  # the last lies outside the domain
    oracle = replay(problem, base_table(), adjacency, query, points, lambda plan: calibrate(plan, GUARANTEE))
    multiplier = oracle.sigmas[0] / (setting.sum_sensitivity_at(0.0) / setting.n)
    expected = [multiplier * setting.sum_sensitivity_at(norm) / setting.n for norm in (0.0, 1.0, 3.0, 9.0)]
    assert oracle.sigmas == pytest.approx(expected)
    assert multiplier == pytest.approx(
        2.0 * calibrate(Plan("one", (PlannedQuery(query),), {}), GUARANTEE).noise_multiplier
    )
    assert oracle.sigmas[0] < 0.51 * multiplier * query.sensitivity


@dataclass(frozen=True)
class Steeper(Logistic):
    """A subclass whose slope is not the sigmoid."""

    derivative = staticmethod(lambda margin, target: -target / (1.0 + np.exp(0.1 * target * margin)))


@pytest.mark.parametrize("problem", [Problem(Steeper()), Problem(SmoothedHinge(), domain=L2Ball(1.0))])
def test_other_losses_and_samples_do_not_get_it(problem):
    setting = setting_of(problem, Adjacency.REPLACE_ONE)
    assert setting.sum_sensitivity_at(0.0) == setting.sum_sensitivity == setting.domain_sensitivity
    own = GradientQuery(setting_of(Problem(Logistic()), Adjacency.REPLACE_ONE), 0.5)
    assert own.sensitivity_at_norm(0.0) == own.sensitivity


def test_published_noise_stays_as_published(monkeypatch):
    """At 0 certified noise is half of what the largest sensitivity asks for; the paper's formula does not know that."""
    problem, scales = Problem(Logistic(), domain=L2Ball(1.0)), []
    to_pass = Noise._add

    def recorded(self, exact, distribution, scale):
        scales.append(scale)
        return to_pass(self, exact, distribution, scale)

    monkeypatch.setattr(Noise, "_add", recorded)
    solver, table = DPGD(accounting="composition", n_steps=1), base_table()
    for noise, share in (("paper", 1.0), ("certified", 0.5)):
        arguments = {"guarantee": GUARANTEE, "solver": solver, "noise": noise}
        minimize(problem, table.X, table.y, **arguments)
        calibrated = FitOptions(problem, **arguments).plan(len(table.y), P).calibrated
        assert scales.pop() == pytest.approx(share * calibrated.sigma(calibrated.plan.planned[0]), rel=1e-6)


@pytest.mark.parametrize("domain", [L2Ball(1.0), Box(-1.0, 0.5)])
def test_a_hidden_path_has_the_noise_of_the_longest_point_and_must_start_in_the_domain(domain):
    problem = Problem(Logistic(), domain=domain)
    setting = setting_of(problem, Adjacency.REPLACE_ONE)
    longest = domain.norm_bound(P)
    query = LastIterateQuery(setting, 4, 1.0)
    assert query.sensitivity == pytest.approx(sigmoid_width(longest) / setting.n, rel=1e-6)
    inside, outside = longest * np.eye(P)[0], 1.01 * longest * np.eye(P)[0]
    replay(problem, base_table(), Adjacency.REPLACE_ONE, query, [(inside,)])
    with pytest.raises(InvalidParameterError, match="start in the domain"):
        replay(problem, base_table(), Adjacency.REPLACE_ONE, query, [(outside,)])


def test_the_padding_covers_rounding_at_large_margins():
    setting = Setting(Problem(Logistic(), row_norm=1e6).constants(P), 1000, Adjacency.REPLACE_ONE)
    for norm in (0.0, 1.0, 1e6, 1e300, math.inf):
        assert setting.sum_sensitivity_at(norm) <= setting.sum_sensitivity
    assert setting.sum_sensitivity_at(1e300) == setting.sum_sensitivity
