"""No two units show more of an objective perturbation than is certified for units, however many rows they have.

Laws are exact: in one dimension by the distribution function of the noise (objective_runs.py), in a plane by the
density of the minimiser, for the softmax as in softmax_runs.py. Units are lists of rows (x, y, weight).
"""

import itertools
import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from mpmath import mp
from scipy.integrate import quad
from scipy.stats import chi

from contracts.events import EVENT_EXAMPLES
from dperm import Guarantee, Problem
from dperm.accounting.calibration import calibrate
from dperm.accounting.composition import delta_of, epsilon_of
from dperm.accounting.curve import gaussian_delta
from dperm.accounting.events import Composed, ObjectivePerturbation, UnitPerturbation, event_from_list, event_to_list
from dperm.mechanisms import AdaptedObjectiveQuery, ObjectivePerturbationQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import L2, Huber, Logistic, Softmax
from dperm.solvers import DPObjective, DPRegression, DPSoftmax, KiferObjective
from mechanisms.objective_runs import (
    ADD,
    ADJACENCIES,
    HINGE,
    HUBER,
    KNOWN,
    LOGISTIC,
    REPLACE,
    TARGETS,
    Known,
    Mechanism,
    a_row,
    calibrated_plan,
    cells,
    moved_by,
    places,
)
from mechanisms.softmax_runs import EVEN, PLANE
from mechanisms.softmax_runs import audited as audited_softmax
from mechanisms.softmax_runs import audited_near as audited_softmax_near
from mechanisms.softmax_runs import mechanism as softmax_mechanism

ROWS = [2, 3, 5]
both = pytest.mark.parametrize("adjacency", ADJACENCIES)


@dataclass(frozen=True)
class Run(Mechanism):
    """What the code would run where units are protected."""

    @property
    def leaf(self):
        return self.event.events[0].event

    def delta_with(self, epsilon, noise=1.0, **changes):
        """δ(ε) if some constants were different."""
        leaf = replace(self.leaf, noise_multiplier=noise * self.leaf.noise_multiplier, **changes)
        return leaf.curve(self.adjacency).delta(epsilon)

    def delta_of_a_row(self, epsilon):
        """δ(ε) with the same noise and ridge if rows were protected one by one."""
        leaf, ratio = self.leaf, math.expm1(self.leaf.log_jacobian / self.leaf.rank) * self.leaf.rank
        row = ObjectivePerturbation(
            leaf.noise_multiplier, math.log1p(ratio), leaf.monotone, leaf.remainder, leaf.sigmoidal, leaf.slope_share
        )
        return delta_of(row, epsilon, self.adjacency)


def unit_of(k):
    return PrivacyUnit("person", k, "limit" if k else "average")


def unit_run(known, adjacency, k, mu=1.0, curvature=0.1, *, share=1.0, columns=1, distribution="Gaussian"):
    """Noise of scale G/mu on b, β/Λ = `curvature`, rows of norm 1, slopes clipped at a share of their bound."""
    n, ridge = 4, known.largest_curvature / curvature
    problem = Problem(known.loss, L2(0.5 * ridge / n))
    setting = Setting(problem.constants(columns), n, adjacency, unit_of(k))
    query = ObjectivePerturbationQuery(setting, 0.5 * ridge / n, 1e-6, 1e-13, distribution, share)
    calibrated = calibrated_plan(query, 1.0 / (mu * moved_by(adjacency)))
    clipped = Known(
        known.loss,
        lambda m, y: np.clip(known.slope(m, y), -share, share),
        lambda m, y: np.where(np.abs(known.slope(m, y)) <= share, known.curvature(m, y), 0.0),
        known.largest_curvature,
        known.targets,
    )
    scale = calibrated.sigma(calibrated.plan.planned[0])
    assert scale == pytest.approx(share / mu, rel=1e-9)
    return Run(clipped, 1.0, scale, ridge, calibrated.event(), adjacency)


def a_unit(known, k, rng):
    """Up to k rows of weight 1/k each, or of equal weights that sum to 1."""
    count = int(rng.integers(1, k + 1))
    weight = 1.0 / (k if rng.random() < 0.5 else count)
    return [(*a_row(known, 1.0, rng), weight) for _ in range(count)]


def pairs_of_units(known, adjacency, k, rng, count):
    """Tables of a few units, one of which comes, goes, turns round or becomes another, in both orders."""
    for _ in range(count):
        common = [row for _ in range(rng.integers(3)) for row in a_unit(known, k, rng)]
        unit = a_unit(known, k, rng)
        others = [[(-x, y, weight) for x, y, weight in unit], [], a_unit(known, k, rng)]
        other = others[rng.integers(3)] if adjacency is REPLACE else []
        yield [*common, *unit], [*common, *other]
        yield [*common, *other], [*common, *unit]


def law(run, rows, w):
    """Probabilities of the cells between these w."""
    pull = run.ridge * w
    for x, y, weight in rows:
        pull = pull + weight * x * run.known.slope(x * w, y)
    return cells(run, pull)


def audited(run, one, two, epsilons, cut=None):
    """A lower bound on δ(ε) between two tables, for every ε."""
    w = places(run, 20) if cut is None else cut
    p, q = law(run, one, w), law(run, two, w)
    return np.array([np.maximum(p - math.exp(epsilon) * q, 0.0).sum() for epsilon in epsilons])


# One dimension.


@pytest.mark.parametrize("k", ROWS)
@both
@pytest.mark.parametrize("known", KNOWN, ids=repr)
def test_no_two_units_exceed_the_bound(known, adjacency, k):
    rng = np.random.default_rng(k)
    for _ in range(8):
        mu, curvature = 10 ** rng.uniform(-2, 0.8), 10 ** rng.uniform(-3, 2)
        share = rng.choice([1.0, 0.6]) if known is LOGISTIC else 1.0
        run = unit_run(known, adjacency, k, mu, curvature, share=share)
        cost, shift = math.log1p(curvature), mu * moved_by(adjacency)
        epsilons = [0.9 * cost, cost * (1 + 1e-9)] + [cost + shift * (t + shift / 2) for t in (0.0, 1.0, 2.5, 5.0)]
        certified = np.array([run.certified_delta(epsilon) for epsilon in epsilons])
        for one, two in pairs_of_units(known, adjacency, k, rng, 4):
            shown = audited(run, one, two, epsilons)
            assert (shown <= certified * (1 + 1e-9) + 1e-15).all(), (mu, curvature, one, two)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("k", ROWS)
@pytest.mark.parametrize(
    ("known", "adjacency", "mu", "curvature", "one", "two", "epsilon"),
    [
        (HINGE, ADD, 2.0, 0.003, [], [(1.0, 1.0)], 8.0),
        (HINGE, ADD, 2.0, 0.003, [(1.0, 1.0)], [], 8.0),
        (HINGE, REPLACE, 1.0, 0.003, [(1.0, 1.0)], [(-1.0, 1.0)], 8.0),
        (HUBER, ADD, 2.0, 0.003, [], [(1.0, TARGETS)], 10.0),
        (HUBER, REPLACE, 2.0, 0.003, [(1.0, TARGETS)], [(-1.0, TARGETS)], 24.0),
        (LOGISTIC, ADD, 5.0, 3.0, [], [(1.0, 1.0)], 27.5),
    ],
    ids=str,
)
def test_a_bound_for_five_percent_more_noise_would_be_exceeded(known, adjacency, mu, curvature, one, two, epsilon, k):
    """By k rows that are alike: what all of them do at once is what one row of weight 1 does."""
    run = unit_run(known, adjacency, k, mu, curvature)
    one, two = ([(x, y, 1.0 / k) for x, y in rows] * k for rows in (one, two))
    (shown,) = audited(run, one, two, [epsilon])
    assert run.delta_with(epsilon, noise=1.05) < shown <= run.certified_delta(epsilon)


@pytest.mark.parametrize("k", ROWS)
def test_a_bound_for_clipped_sigmoids_five_percent_too_small_would_be_exceeded(k):
    run = unit_run(LOGISTIC, ADD, k, 0.3, 0.02, share=0.8)
    pulled = [(1.0, -1.0, 2000.0)]
    epsilons = [0.3, 0.6, 0.9]
    shown = audited(run, [*pulled, *[(1.0, 1.0, 1.0 / k)] * k], pulled, epsilons, cut=np.linspace(-9.0, 1.0, 4001))
    assert (shown <= [run.certified_delta(epsilon) for epsilon in epsilons]).all()
    assert (shown > [run.delta_with(epsilon, noise=1.05) for epsilon in epsilons]).any()


@pytest.mark.parametrize("k", ROWS)
@both
def test_rows_that_keep_their_weight_under_a_claim_for_units_are_caught(adjacency, k):
    """k rows of weight 1 where the noise is for one: what a guarantee for rows does not cover."""
    run = unit_run(HINGE, adjacency, k, 1.0, 0.003)
    one, two = [(1.0, 1.0, 1.0)] * k, [(-1.0, 1.0, 1.0)] * k if adjacency is REPLACE else []
    epsilon = 4.0 * moved_by(adjacency)
    (shown,) = audited(run, one, two, [epsilon])
    assert shown > 10.0 * run.certified_delta(epsilon)
    assert shown > 10.0 * run.delta_of_a_row(epsilon)


@pytest.mark.cases_with_every_value
@both
@pytest.mark.parametrize("known", KNOWN, ids=repr)
def test_two_minimisers_show_no_more_than_is_accounted_for_both_together(known, adjacency):
    rng = np.random.default_rng(5)
    for _ in range(3):
        mu, curvature = 10 ** rng.uniform(-1.5, 0.3), 10 ** rng.uniform(-3, 0.5)
        runs = [unit_run(known, adjacency, 3, mu * part, curvature * part) for part in (0.6, 1.0)]
        together = Composed([run.event for run in runs])
        epsilons = [t * mu * moved_by(adjacency) + math.log1p(curvature) for t in (0.5, 1.5, 3.0)]
        certified = np.array([delta_of(together, epsilon, adjacency) for epsilon in epsilons])
        for one, two in pairs_of_units(known, adjacency, 3, rng, 2):
            p, q = (np.outer(*(law(run, rows, places(run, 20)[::8]) for run in runs)) for rows in (one, two))
            shown = [np.maximum(p - math.exp(epsilon) * q, 0.0).sum() for epsilon in epsilons]
            assert (np.array(shown) <= certified * (1 + 1e-9)).all(), (mu, curvature, one, two)


# Rows that point in different directions.


def log_density(run, rows, points):
    """Of the minimiser at points of the plane, or of a space of more dimensions."""
    p = points.shape[1]
    pull, hessian = run.ridge * points, np.broadcast_to(run.ridge * np.eye(p), (len(points), p, p)).copy()
    for x, y, weight in rows:
        margins = points @ x
        pull = pull + weight * run.known.slope(margins, y)[:, None] * x
        hessian += (weight * run.known.curvature(margins, y))[:, None, None] * np.outer(x, x)
    of_noise = -0.5 * ((pull / run.scale) ** 2).sum(axis=1) - p * math.log(run.scale * math.sqrt(2.0 * math.pi))
    return of_noise + np.linalg.slogdet(hessian)[1]


def square(reach, size, centre=(0.0, 0.0)):
    """A random point of each cell of a square, and their area: a fixed one would see every jump alike."""
    axis, width = np.linspace(-reach, reach, size, retstep=True)
    points = np.array(list(itertools.product(axis, axis)))
    return points + np.random.default_rng(0).uniform(-0.5, 0.5, points.shape) * width + centre, width**2


@pytest.mark.parametrize("k", [2, 3])
@both
@pytest.mark.parametrize("known", KNOWN, ids=repr)
def test_units_in_a_plane_do_not_exceed_the_bound(known, adjacency, k):
    rng = np.random.default_rng(k)
    run = unit_run(known, adjacency, k, 1.0, 1.0, columns=2)
    points, area = square((7.0 * run.scale + 2.0) / run.ridge, 300)
    cost = run.leaf.log_jacobian
    epsilons = [cost * (1 + 1e-9), cost + 1.0, cost + 3.0]
    certified = np.array([run.certified_delta(epsilon) for epsilon in epsilons])
    for _ in range(3):
        units = [
            [(np.array([math.cos(a), math.sin(a)]), rng.choice(known.targets), 1.0 / k) for a in rng.uniform(0, 7, k)]
            for _ in range(2)
        ]
        one, two = units if adjacency is REPLACE else (units[0], [])
        p, q = (np.exp(log_density(run, rows, points)) * area for rows in (one, two))
        assert p.sum() == pytest.approx(1.0, abs=3e-3)
        for first, second in ((p, q), (q, p)):
            shown = np.array([np.maximum(first - math.exp(e) * second, 0.0).sum() for e in epsilons])
            assert (shown <= certified * (1 + 5e-3) + 1e-6).all()


@pytest.mark.parametrize("curvature", [0.3, 3.0])
@both
@pytest.mark.parametrize("known", KNOWN, ids=repr)
def test_a_determinant_five_percent_smaller_or_that_of_one_row_would_be_exceeded(known, adjacency, curvature):
    """Two rows at a right angle, with noise so large that only determinants tell: by 2 ln(1 + β/(2Λ))."""
    cost = 2.0 * math.log1p(curvature / 2.0)
    run = unit_run(known, adjacency, 2, 1e-3 * cost, curvature, columns=2)
    assert run.leaf.log_jacobian == pytest.approx(cost, rel=1e-9)
    y, centre = {HINGE: (1.0, 0.75), HUBER: (0.0, 0.0), LOGISTIC: (1.0, 0.0)}[known]
    one, two = [(axis, y, 0.5) for axis in np.eye(2)], [(np.zeros(2), y, 0.5)] * (2 if adjacency is REPLACE else 0)
    points, area = square(0.1, 60, (centre, centre))
    p, q = (np.exp(log_density(run, rows, points)) * area for rows in (one, two))
    epsilon = 0.97 * cost
    shown = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
    assert run.certified_delta(epsilon) >= shown > 0.0
    assert shown > 10.0 * run.delta_with(epsilon, log_jacobian=0.95 * cost)
    if curvature > 1.0:
        assert shown > 10.0 * run.delta_of_a_row(epsilon)


@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("k", [*ROWS, None])
def test_the_determinant_of_a_unit_is_no_larger_than_declared_and_orthogonal_rows_attain_it(k, columns):
    rng = np.random.default_rng(columns)
    run = unit_run(LOGISTIC, ADD, k, 1.0, 4.0, columns=columns)
    declared, origin = run.leaf.log_jacobian, np.zeros((1, columns))

    def cost(rows):
        flat = replace(run, scale=1e9)  # what is left is the determinant
        return (log_density(flat, rows, origin) - log_density(flat, [], origin))[0]

    for _ in range(100):
        count = k or 12
        x = rng.normal(size=(count, columns))
        weights = rng.dirichlet(np.ones(count))
        assert cost([(v / np.linalg.norm(v), 1.0, u) for v, u in zip(x, weights, strict=True)]) <= declared
    rank = min(k or columns, columns)
    attained = cost([(axis, 1.0, 1.0 / rank) for axis in np.eye(columns)[:rank]])
    assert 0.95 * declared < attained <= declared


@pytest.mark.parametrize(("k", "columns"), [(2, 1), (2, 3), (3, 2), (3, 5)])
@both
@pytest.mark.parametrize("monotone", [True, False])
def test_no_choice_of_slopes_for_each_draw_exceeds_the_bound(monotone, adjacency, k, columns):
    """Every row's slope may follow b: all corners by brute force. False alarms: five standard errors, 4e-5 in all."""
    rng, draws = np.random.default_rng(columns), 20_000
    slopes = [0.0, 1.0] if monotone else [-1.0, 1.0]
    n_rows = k * (2 if adjacency is REPLACE else 1)
    corners = np.array(list(itertools.product(slopes, repeat=n_rows)))
    for kappa, t in ((0.5, 0.6), (1.0, 1.0), (2.0, 6.0)):
        curve = UnitPerturbation(1.0 / kappa, 0.0, 1, 1, monotone, 0.0).curve(adjacency)
        for angle in (0.0, 0.5, 10.0):  # from rows that are alike to rows in any direction
            e = np.eye(columns)[0] + angle * rng.normal(size=(n_rows, columns))
            e /= np.linalg.norm(e, axis=1, keepdims=True)
            e[k:] = -e[k:]
            weights = np.concatenate([rng.dirichlet(np.ones(k)) for _ in range(n_rows // k)])
            v = kappa * (corners * weights) @ e
            losses = (rng.normal(size=(draws, columns)) @ v.T + 0.5 * (v**2).sum(axis=1)).max(axis=1)
            shown = np.maximum(-np.expm1(np.minimum(t - losses, 0.0)), 0.0)
            assert shown.mean() <= curve.delta(t) + 5.0 * shown.std() / math.sqrt(draws)
            if angle == 0.0 and adjacency is ADD and monotone:  # and the bound is not far from what can be shown
                assert shown.mean() > 0.85 * curve.delta(t) - 5.0 * shown.std() / math.sqrt(draws)


@pytest.mark.parametrize("k", ROWS)
@both
@pytest.mark.parametrize("known", [HINGE, HUBER], ids=repr)
def test_the_pure_bound_holds_in_any_direction(known, adjacency, k):
    rng = np.random.default_rng(k)
    run = unit_run(known, adjacency, k, 0.5, 2.0, columns=3, distribution="Gamma")
    certified = epsilon_of(run.event, 0.0, adjacency)
    rank = min(k, 3)
    assert certified == pytest.approx(0.5 * moved_by(adjacency) + rank * math.log1p(2.0 / rank), rel=1e-9)
    flat, largest = replace(run, scale=1e9), 0.0
    for _ in range(30):
        points = rng.normal(size=(200, 3))
        units = [[(axis, rng.choice(known.targets), 1.0 / k) for axis in np.eye(3)[rng.integers(3, size=k)]]] * 2
        if adjacency is REPLACE:
            units[1] = [(-x, y, weight) for x, y, weight in units[0]]
        one, two = units[0], units[1] if adjacency is REPLACE else []
        lengths = [
            np.linalg.norm(
                run.ridge * points + sum(u * run.known.slope(points @ x, y)[:, None] * x for x, y, u in rows), axis=1
            )
            for rows in (one, two)
        ]
        ratios = (lengths[1] - lengths[0]) / run.scale + log_density(flat, one, points) - log_density(flat, two, points)
        largest = max(largest, np.abs(ratios).max())
    assert 0.3 * certified < largest <= certified


# Several classes.


@pytest.mark.parametrize("cut", [1.0, 0.3])
@both
def test_no_two_units_exceed_the_bound_for_several_classes(adjacency, cut):
    rng = np.random.default_rng(int(100 * cut))

    def a_unit(k):
        return [(rng.choice([-1.0, 0.5, 1.0]), int(rng.integers(3)), 1.0 / k) for _ in range(k)]

    for k in ROWS:
        run = softmax_mechanism(adjacency, 1.0, 10 ** rng.uniform(-1, 0.6), 10 ** rng.uniform(-1, 1), cut, unit_of(k))
        shift = moved_by(adjacency) * math.sqrt(2.0) * cut / run.scale
        common, unit, other = a_unit(k), a_unit(k), a_unit(k)
        one, two = [*common, *unit], [*common, *other] if adjacency is REPLACE else common
        epsilons = [run.cost * 1.001, *(run.cost + shift * (t + shift / 2) for t in (0.0, 1.5, 3.0))]
        certified = np.array([run.certified_delta(epsilon) for epsilon in epsilons])
        for first, second in ((one, two), (two, one)):
            assert (audited_softmax(run, first, second, epsilons, cells=31) <= certified * 1.01 + 1e-12).all()


@pytest.mark.parametrize(
    ("adjacency", "more", "other", "mu", "epsilon"),
    [(ADD, [], [(1.0, 0, 0.5)] * 2, 2.0, 12.0), (REPLACE, [(1.0, 1, 0.5)] * 2, [(1.0, 0, 0.5)] * 2, 1.0, 12.0)],
    ids=["add_remove", "replace_one"],
)
def test_a_bound_for_several_classes_and_five_percent_more_noise_would_be_exceeded(adjacency, more, other, mu, epsilon):
    run = softmax_mechanism(adjacency, 1.0, mu, 20.0, cut=0.2, unit=unit_of(2))
    (shown,) = audited_softmax(run, EVEN + more, EVEN + other, [epsilon], cells=61)
    assert run.delta_with(epsilon, noise=1.05) < shown <= run.certified_delta(epsilon)


@both
def test_a_determinant_for_several_classes_five_percent_smaller_would_be_exceeded(adjacency):
    """One column: k rows of it have the rank of one."""
    cost = softmax_mechanism(adjacency, 1.0, 1.0, 1.0, unit=unit_of(3)).cost
    run = softmax_mechanism(adjacency, 1.0, 1e-3 * cost, 1.0, unit=unit_of(3))
    one, two = [(1.0, 0, 1.0 / 3.0)] * 3, [] if adjacency is ADD else [(0.0, 0, 1.0 / 3.0)] * 3
    margins = np.log([1.0 / 3.0] * 3)
    shown = audited_softmax_near(run, one, two, 0.97 * cost, PLANE @ margins, 0.3, cells=101)
    assert run.certified_delta(0.97 * cost) >= shown > 10.0 * run.delta_with(0.97 * cost, log_jacobian=0.95 * cost)


def test_the_rank_of_a_unit_of_several_classes():
    """k(K − 1) eigenvalues, as long as there are columns for them."""
    for k, columns, rank in ((2, 7, 4), (5, 7, 10), (50, 7, 14), (None, 7, 14)):
        setting = Setting(Problem(Softmax(3), L2(0.1)).constants(columns), 100, ADD, unit_of(k))
        event = ObjectivePerturbationQuery(setting, 0.0, 1e-6, 0.01, "Gaussian").event(5.0)
        assert (event.rank, event.n_outputs) == (rank, 3)
        trace = 2.0 / 3.0
        assert event.log_jacobian == pytest.approx(rank * math.log1p(trace / (rank * 10.0)), rel=1e-9)


# The curve itself.


@pytest.mark.one_case_in(3)
@both
@pytest.mark.parametrize(
    "event",
    [
        UnitPerturbation(4.0, 0.1, 5, 1, True, 0.005),
        UnitPerturbation(0.7, 0.4, 5, 1, False, 0.005),
        UnitPerturbation(30.0, 0.01, 5, 1, True, 1e-5),
        UnitPerturbation(6.0, 0.1, 8, 5, False, 0.005),
    ],
    ids=repr,
)
def test_the_curve_is_the_least_over_all_lines_with_forty_digits(event, adjacency):
    scale = event.scale(adjacency)
    with mp.workdps(40):
        kappa, others = 1 / mp.mpf(event.noise_multiplier), event.n_outputs - 1
        shifts = {
            (True, ADD): [(1, kappa)],
            (True, REPLACE): [(1, 2 * kappa), (2, kappa)],
            (False, ADD): [(2, kappa)],
            (False, REPLACE): [(2, 2 * kappa), (2, mp.sqrt(2) * kappa)],
        }[event.monotone, adjacency]
        if others:
            shifts = [(others, kappa)]
            if adjacency is REPLACE:
                shifts = [(others, 2 * kappa), (others * (others - 1), mp.sqrt(3) * kappa), (2 * others, kappa)]

        for sigmas in (1.0, 4.0, 8.0, 20.0, 33.0):
            epsilon = event.log_jacobian + event.remainder + sigmas * scale + 0.5 * scale**2
            t = mp.mpf(epsilon) - mp.mpf(event.remainder) - mp.mpf(event.log_jacobian)

            def bound(y, t=t):
                total = mp.mpf(0)
                for times, length in shifts:
                    z = (t - y + mp.log1p(y)) / length - length / 2
                    total += times * length * (mp.npdf(z) - z * mp.ncdf(-z))
                return total / (1 + y)

            low, high = mp.mpf(0), mp.findroot(lambda y, t=t: y - mp.log1p(y) - t, mp.sqrt(2 * t) + t)
            for _ in range(120):  # it falls and then rises
                first, second = low + (high - low) / 3, high - (high - low) / 3
                low, high = (low, second) if bound(first) < bound(second) else (first, high)
            exact, found = min(bound(low), mp.mpf(1)), event.curve(adjacency).delta(epsilon)
            assert exact <= found <= exact * (1 + mp.mpf("1e-7"))


def test_lines_lie_above_the_privacy_profile_and_stop_losses_are_integrals():
    losses = np.linspace(-5.0, 60.0, 20_001)
    for t in (0.0, 0.7, 5.0):
        for y in (0.0, 0.05, 1.0, 20.0):
            line = np.maximum(losses - (t - y + math.log1p(y)), 0.0) / (1.0 + y)
            profile = np.maximum(-np.expm1(np.minimum(t - losses, 0.0)), 0.0)
            assert (line >= profile - 1e-12).all()
            assert (line - profile).min() < 1e-5
    for kappa, m in ((0.2, 0.9), (1.5, 0.0), (0.05, 0.01)):
        curve = UnitPerturbation(1.0 / kappa, 0.0, 1, 1, True, 0.0).curve(ADD)
        zero = np.zeros((1, 1))
        above, beyond = curve._stop_loss(np.array([[m]]), zero, zero)
        start = m / kappa - kappa / 2.0
        exact = quad(lambda z, k=kappa, s=start: k * (z - s) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi), start, 40)
        assert above[0, 0] == pytest.approx(exact[0], rel=1e-8)
        assert beyond[0, 0] == pytest.approx(0.5 * math.erfc(start / math.sqrt(2.0)), rel=1e-8)


@both
@pytest.mark.parametrize("monotone", [True, False])
def test_a_unit_costs_hardly_more_than_a_row_and_never_less(monotone, adjacency):
    for noise, cost in ((40.0, 0.01), (4.0, 0.2), (0.8, 0.5)):
        row = epsilon_of(ObjectivePerturbation(noise, cost, monotone, 0.005), 1e-5, adjacency)
        unit = epsilon_of(UnitPerturbation(noise, cost, 1, 1, monotone, 0.005), 1e-5, adjacency)
        assert row < unit < 1.012 * row


def test_corners_or_a_sphere_in_place_of_the_mean_would_need_more_noise():
    """Of two rows or more: k Gaussians, or a χ law of r dimensions (docs/proofs/units.md)."""
    for epsilon, delta in ((0.1, 1e-5), (1.0, 1e-5), (8.0, 1e-9), (40.0, 1e-5)):
        noise = 2.0 * math.sqrt(2.0 * math.log(1.0 / delta)) / epsilon
        low, high = 0.001, 10.0 * noise + 10.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            kept = UnitPerturbation(middle, 0.0, 1, 1, True, 0.0).curve(ADD).delta(epsilon) <= delta
            low, high = (low, middle) if kept else (middle, high)
        kappa = 1.0 / high
        assert 2.0 * gaussian_delta(kappa, epsilon) > delta
        start = epsilon / kappa - kappa / 2.0
        sphere, _ = quad(
            lambda x, k=kappa, e=epsilon: chi.pdf(x, 2) * -math.expm1(e - k * x - k * k / 2.0), start, start + 20.0
        )
        assert sphere > delta


# What is used where.


def test_units_of_one_row_are_rows():
    for loss in (Logistic(), Huber(), Softmax(3)):
        constants = Problem(loss, L2(0.1)).constants(4)
        for adjacency, distribution in itertools.product(ADJACENCIES, ("Gaussian", "Gamma")):
            rows, units = (
                ObjectivePerturbationQuery(Setting(constants, 50, adjacency, unit), 0.05, 1e-6, 0.01, distribution, 0.7)
                for unit in (None, unit_of(1))
            )
            assert rows.event(3.0) == units.event(3.0)
            assert rows.log_jacobian == units.log_jacobian


def test_plain_data_of_rows_do_not_change_and_those_of_units_are_not_taken_for_rows():
    (row,) = event_to_list(EVENT_EXAMPLES[ObjectivePerturbation])
    assert set(row) == {
        "mechanism", "count", "noise_multiplier", "log_jacobian", "monotone", "remainder", "sigmoidal", "slope_share",
    }  # fmt: skip
    (unit,) = json.loads(json.dumps(event_to_list(EVENT_EXAMPLES[UnitPerturbation])))
    assert unit["mechanism"] == "unit perturbation"
    assert set(unit) - set(row) == {"rank", "n_outputs"}
    for wrong in (
        {"sigmoidal": True, "n_outputs": 3},
        {"sigmoidal": True, "monotone": False},
        {"rank": 0},
        {"rank": 2.5},
    ):
        with pytest.raises((ValueError, TypeError)):
            event_from_list([unit | wrong])


@both
def test_a_minimiser_that_adapts_is_accounted_without_the_help_of_a_sigmoid(adjacency):
    setting = Setting(Problem(Logistic(), L2(0.1)).constants(4), 50, adjacency, unit_of(3))
    event = AdaptedObjectiveQuery(setting, 0.05, 1e-6, 0.01, "Gaussian").event(3.0)
    assert event == UnitPerturbation(
        3.0 * moved_by(adjacency), event.log_jacobian, 3, 1, setting.constants.monotone, 0.01
    )


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("k", [2, 50, None])
@both
@pytest.mark.parametrize(
    ("loss", "solver"),
    [(Logistic(), DPObjective()), (Logistic(), KiferObjective()), (Huber(), DPRegression()), (Softmax(4), DPSoftmax())],
    ids=lambda each: getattr(each, "name", None),
)
def test_plans_for_units_keep_the_guarantee_with_hardly_more_noise(loss, solver, adjacency, k):
    guarantee = Guarantee(1.0, 1e-5)
    constants = Problem(loss).constants(20)
    row, unit = (Setting(constants, 20_000, adjacency, each) for each in (None, unit_of(k)))
    noise = [calibrate(solver.plan(setting, guarantee), guarantee) for setting in (row, unit)]
    assert epsilon_of(noise[1].event(), 1e-5, adjacency) <= 1.0
    assert noise[1].noise_multiplier < 1.04 * noise[0].noise_multiplier
    assert solver.expected_risk(unit, guarantee) < 1.05 * solver.expected_risk(row, guarantee)


@pytest.mark.parametrize("k", [1, 2, 50, None])
def test_the_ridge_for_a_determinant_is_the_one_at_which_it_costs_that(k):
    setting = Setting(Problem(Logistic()).constants(20), 1000, ADD, unit_of(k))
    for cost in (0.01, 0.3, 5.0):
        total = KiferObjective.jacobian_ridge(setting, cost)
        assert KiferObjective.jacobian_cost(setting, total) == pytest.approx(cost, rel=1e-9)
        query = ObjectivePerturbationQuery(setting, total, 1e-6, 0.01, "Gaussian")
        assert query.log_jacobian == pytest.approx(cost, rel=1e-9)


def test_two_stages_for_units_are_planned_where_their_grid_sees_delta():
    """With a δ below what the grid of all events can tell, one stage is left."""
    setting = Setting(Problem(Logistic()).constants(5), 10_000_000, ADD, unit_of(4))
    for delta, stages in ((1e-9, 2), (1e-13, 1)):
        plan = DPObjective().plan(setting, Guarantee(1.0, delta))
        assert plan.settings.n_stages == stages
        assert epsilon_of(calibrate(plan, Guarantee(1.0, delta)).event(), delta, ADD) <= 1.0
