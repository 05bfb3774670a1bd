"""Pitfalls 5, 9, 11, 12, 13, 18, 22, 26, 33: objective perturbation against the exact law of its answer.

In one dimension the law is known. In the scale of sums ŵ ≤ w exactly if b ≥ −g(w), g(w) = Σ ℓ'(w x_i, y_i) x_i + Λw,
so the probability of every interval, and of every atom, is a difference of two values of the noise's distribution
function. Any partition into such cells gives Σ (P − e^ε Q)₊ ≤ δ(ε): a lower bound on the true δ, without any error of
integration, that no price may be below. Losses, rows and Λ are written out again here: nothing comes from the code
under test but the noise that it adds and the price that it names.
"""

import math
from dataclasses import dataclass, replace
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy import integrate, optimize, sparse
from scipy.integrate import trapezoid
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from dperm import (
    L1,
    L2,
    Box,
    ChaudhuriObjective,
    ChaudhuriOutput,
    ElasticNet,
    FitOptions,
    Guarantee,
    Huber,
    InvalidParameter,
    KiferObjective,
    L2Ball,
    Logistic,
    NoRegularizer,
    NotSolved,
    Problem,
    Simplex,
    SmoothedHinge,
    Softmax,
    Squared,
    TalwarObjective,
    WholeSpace,
    minimize,
)
from dperm.accounting.calibration import calibrate
from dperm.accounting.composition import delta_of, epsilon_of
from dperm.accounting.curve import gaussian_delta, gaussian_epsilon, pure_delta, two_sided_delta, zcdp_delta
from dperm.accounting.events import Composed, ObjectivePerturbation, Pure, Repeated
from dperm.accounting.events.objective_perturbation import TailCurve, TangentCurve
from dperm.accounting.guarantee import Adjacency
from dperm.errors import NoiseTooLarge
from dperm.mechanisms import GradientQuery, ObjectivePerturbationQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.trusted import minimiser as minimiser_module
from dperm.trusted.noise import Randomness
from dperm.trusted.sources import ArraySource
from privacy.harness import N, P, RecordingOracle, Table, base_table, hostile_rows, neighbours, setting_of

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
ADJACENCIES = [ADD, REPLACE]

SMOOTHING, THRESHOLD, TARGETS = 0.5, 1.0, 10.0


@dataclass(frozen=True)
class Known:
    """A loss, with ℓ', ℓ'' and their suprema by hand."""

    loss: object
    slope: object
    curvature: object
    largest_curvature: float
    targets: tuple

    def __repr__(self):
        return self.loss.name


def sigmoid(t):
    return 1.0 / (1.0 + np.exp(-np.clip(t, -700.0, 700.0)))


LOGISTIC = Known(
    Logistic(), lambda m, y: -y * sigmoid(-y * m), lambda m, y: sigmoid(m) * sigmoid(-m), 0.25, (-1.0, 1.0)
)
HINGE = Known(
    SmoothedHinge(SMOOTHING),
    lambda m, y: -y * np.clip((1.0 - y * m) / SMOOTHING, 0.0, 1.0),
    lambda m, y: np.where((1.0 - y * m > 0.0) & (1.0 - y * m < SMOOTHING), 1.0 / SMOOTHING, 0.0),
    1.0 / SMOOTHING,
    (-1.0, 1.0),
)
HUBER = Known(
    Huber(THRESHOLD, TARGETS),
    lambda m, y: np.clip(m - y, -THRESHOLD, THRESHOLD),
    lambda m, y: np.where(np.abs(m - y) < THRESHOLD, 1.0, 0.0),
    1.0,
    (-TARGETS, -1.0, 0.0, 0.5, TARGETS),
)
KNOWN = [LOGISTIC, HINGE, HUBER]
# All three have |ℓ'| ≤ 1, so G = R.


@dataclass(frozen=True)
class Mechanism:
    """What the code would run on one column: the noise on b, the total ridge in the scale of sums, the price."""

    known: Known
    row_norm: float
    scale: float
    ridge: float
    event: object
    adjacency: Adjacency

    def price(self, epsilon):
        return delta_of(self.event, epsilon, self.adjacency)

    @property
    def cdf(self):
        """The noise's distribution function on the left of 0 and, mirrored, on the right."""
        return half_laplace if isinstance(self.event.events[0].event, Pure) else ndtr

    def price_with(self, epsilon, noise=1.0, **changes):
        """The price if some constants were different."""
        leaf = self.event.events[0].event
        leaf = replace(leaf, noise_multiplier=noise * leaf.noise_multiplier, **changes)
        return TangentCurve(leaf, self.adjacency).delta(epsilon)


def mechanism(
    known, adjacency, row_norm=1.0, mu=1.0, curvature=0.1, *, distribution="Gaussian", regularizer=None, domain=None
):
    """Noise of scale G/mu on b and β/Λ = `curvature`; half of the ridge is the problem's own if nothing else is.

    The remainder is so small that it may be neglected: the law is that of the exact minimiser.
    """
    n, ridge = 4, known.largest_curvature * row_norm**2 / curvature
    problem = Problem(known.loss, regularizer or L2(0.5 * ridge / n), domain or WholeSpace(), row_norm=row_norm)
    added = (1.0 if regularizer else 0.5) * ridge / n
    query = ObjectivePerturbationQuery(setting_of(problem, adjacency, n, 1), added, 1e-6, 1e-13, distribution)
    paid = paid_for(query, 1.0 / (mu * moved_by(adjacency)))
    # What b is drawn with is read off the plan; that the oracle draws b so is tested further down.
    return Mechanism(known, row_norm, paid.sigma(paid.plan.planned[0]), ridge, paid.event(), adjacency)


def paid_for(query, multiplier):
    return CalibratedPlan(Plan("test", (PlannedQuery(query),), {}), multiplier)


def moved_by(adjacency):
    return {ADD: 1.0, REPLACE: 2.0}[adjacency]


def places(run, n_rows):
    """Where to cut: over all that the noise reaches, and finely where the losses bend."""
    reach = (12.0 * run.scale + n_rows * run.row_norm) / run.ridge
    bends = np.linspace(-3.0, 3.0, 1501) / run.row_norm
    far = [bends + sign * TARGETS / run.row_norm for sign in (1.0, -1.0) if run.known is HUBER]
    w = np.concatenate([np.linspace(-reach, reach, 3001), bends, *far])
    # No cell so thin that rounding would be seen in its probability.
    quantum = 1e-7 * min(reach, 1.0 / run.row_norm)
    return np.unique(np.round(w[np.abs(w) <= reach] / quantum)) * quantum


def path(run, rows, w, lasso=0.0):
    """g(w) from the left to the right; an l1 penalty jumps at 0, which must be in `w`."""
    smooth = run.ridge * w + sum((x * run.known.slope(x * w, y) for x, y in rows), np.zeros(w.size))
    if lasso == 0.0:
        return smooth
    return np.concatenate([smooth[w <= 0.0] - lasso, smooth[w >= 0.0] + lasso])


def half_laplace(z):
    return np.where(z < 0.0, 0.5 * np.exp(np.minimum(z, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(z, 0.0)))


def cells(run, g):
    """Probabilities that the noise lies between neighbouring values of g, precise in both tails."""
    z = np.concatenate([[-np.inf], g / run.scale, [np.inf]])
    right = z[:-1] > 0.0
    low, high = np.where(right, -z[1:], z[:-1]), np.where(right, -z[:-1], z[1:])
    return run.cdf(high) - run.cdf(low)


def audited(run, one, two, epsilons, cut=None, lasso=0.0):
    """A lower bound on δ(ε) between two tables, for every ε."""
    w = places(run, max(len(one), len(two))) if cut is None else cut
    p, q = (cells(run, path(run, rows, w, lasso)) for rows in (one, two))
    assert p.sum() == pytest.approx(1.0)
    assert min(p.min(), q.min()) >= 0.0
    return np.array([np.maximum(p - math.exp(epsilon) * q, 0.0).sum() for epsilon in epsilons])


def largest_log_ratio(run, one, two):
    """The largest ln(p/q) of the answer's densities, for b of density ∝ exp(−|b|/scale)."""
    w = places(run, max(len(one), len(two)))
    g, h = path(run, one, w), path(run, two, w)
    slopes = [run.ridge + sum(x**2 * run.known.curvature(x * w, y) for x, y in rows) for rows in (one, two)]
    return ((np.abs(h) - np.abs(g)) / run.scale + np.log(slopes[0] / slopes[1])).max()


def pairs_of(known, adjacency, row_norm, rng, count):
    """Small adversarial tables: up to three common rows, and one that comes, goes or turns round."""
    for _ in range(count):
        common = [a_row(known, row_norm, rng) for _ in range(rng.integers(4))]
        x, y = a_row(known, row_norm, rng)
        others = [(-x, y), (0.0, y), a_row(known, row_norm, rng)]
        one, two = [*common, (x, y)], [*common, others[rng.integers(3)]] if adjacency is REPLACE else common
        yield one, two
        yield two, one


def a_row(known, row_norm, rng):
    x = rng.choice([-1.0, 1.0]) if rng.random() < 0.7 else rng.uniform(-1.0, 1.0)
    return row_norm * x, rng.choice(known.targets)


# No pair of tables shows more than is paid for.


@pytest.mark.parametrize("row_norm", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("known", KNOWN, ids=repr)
def test_no_pair_of_small_tables_exceeds_the_gaussian_price(known, adjacency, row_norm):
    rng = np.random.default_rng(int(row_norm))
    for _ in range(15):
        mu, curvature = 10 ** rng.uniform(-2, 0.8), 10 ** rng.uniform(-3, 2)
        run = mechanism(known, adjacency, row_norm, mu, curvature)
        cost, shift = math.log1p(curvature), mu * moved_by(adjacency)
        epsilons = [0.9 * cost, cost * (1 + 1e-9)] + [cost + shift * (t + shift / 2) for t in (0.0, 1.0, 2.5, 5.0)]
        prices = np.array([run.price(epsilon) for epsilon in epsilons])
        for one, two in pairs_of(known, adjacency, row_norm, rng, 4):
            shown = audited(run, one, two, epsilons)
            assert (shown <= prices * (1 + 1e-9) + 1e-15).all(), (mu, curvature, one, two)


@pytest.mark.parametrize("row_norm", [1.0, 100.0])
@pytest.mark.parametrize(
    ("known", "adjacency", "mu", "curvature", "one", "two", "epsilon"),
    [
        # Much ridge: w stays near 0, where these slopes are at their bounds, and the determinants cost nothing.
        (HINGE, ADD, 2.0, 0.003, [], [(1.0, 1.0)], 8.0),
        (HINGE, ADD, 2.0, 0.003, [(1.0, 1.0)], [], 8.0),
        (HINGE, REPLACE, 1.0, 0.003, [(1.0, 1.0)], [(-1.0, 1.0)], 8.0),
        (HUBER, ADD, 2.0, 0.003, [], [(1.0, TARGETS)], 10.0),
        (HUBER, REPLACE, 2.0, 0.003, [(1.0, TARGETS)], [(-1.0, TARGETS)], 24.0),
        # Logistic slopes get there only for large w. (In one dimension two of them add up to G, never to 2G.)
        (LOGISTIC, ADD, 5.0, 3.0, [], [(1.0, 1.0)], 27.5),
    ],
    ids=str,
)
def test_a_price_for_five_percent_more_noise_would_be_exceeded(
    known, adjacency, mu, curvature, one, two, epsilon, row_norm
):
    run = mechanism(known, adjacency, row_norm, mu, curvature)
    one, two = ([(row_norm * x, y) for x, y in rows] for rows in (one, two))
    (shown,) = audited(run, one, two, [epsilon])
    assert run.price_with(epsilon, noise=1.05) < shown <= run.price(epsilon)


@pytest.mark.parametrize("row_norm", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("curvature", [0.05, 1.0, 50.0])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("known", KNOWN, ids=repr)
def test_a_determinant_five_percent_cheaper_would_be_exceeded(known, adjacency, curvature, row_norm):
    """With much noise only the determinants tell the tables apart: by ln(1 + β/Λ), where the curvature is largest."""
    cost = math.log1p(curvature)
    run = mechanism(known, adjacency, row_norm, 1e-3 * cost, curvature)
    # In the hinge's corner, at the centre of the others.
    one = [(row_norm, known.targets[-1] if known is HINGE else 0.0 if known is HUBER else 1.0)]
    two = [] if adjacency is ADD else [(0.0, 1.0)]
    (shown,) = audited(run, one, two, [0.97 * cost])
    assert run.price(0.97 * cost) >= shown
    if known is not LOGISTIC:  # whose determinant is small where it is steep: something is promised all the same
        assert run.price(0.97 * cost) == 1.0
    assert shown > 10 * run.price_with(0.97 * cost, log_jacobian=0.95 * cost)
    if row_norm > 1.0:
        assert shown > 10 * run.price_with(0.97 * cost, log_jacobian=math.log1p(curvature / row_norm))  # R for R²


@pytest.mark.parametrize("row_norm", [1.0, 100.0])
def test_a_loss_that_turns_is_not_priced_as_a_monotone_one(row_norm):
    """Huber's slope at the centre has the sign of w, so both tails of b tell: more than one Gaussian shift does."""
    run = mechanism(HUBER, ADD, row_norm, 5.0, 1000.0)
    epsilon = math.log1p(1000.0) * (1 + 1e-9)
    (shown,) = audited(run, [], [(row_norm, 0.0)], [epsilon])
    assert run.price_with(epsilon, monotone=True) < shown <= run.price(epsilon)


def test_which_losses_are_monotone_is_declared_as_it_is():
    margins = np.linspace(-50.0, 50.0, 10_001)
    for known in KNOWN:
        turns = any(known.slope(margins, y).min() < 0.0 < known.slope(margins, y).max() for y in known.targets)
        assert Problem(known.loss).constants(1).monotone is not turns
        assert np.abs([known.slope(margins, y) for y in known.targets]).max() <= 1.0


@pytest.mark.parametrize("row_norm", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("known", KNOWN, ids=repr)
def test_no_pair_of_small_tables_exceeds_the_pure_price(known, adjacency, row_norm):
    rng = np.random.default_rng(int(row_norm))
    for _ in range(15):
        mu, curvature = 10 ** rng.uniform(-2, 0.8), 10 ** rng.uniform(-3, 2)
        run = mechanism(known, adjacency, row_norm, mu, curvature, distribution="Gamma")
        priced = epsilon_of(run.event, 0.0, adjacency)
        assert priced == pytest.approx(mu * moved_by(adjacency) + math.log1p(curvature), rel=1e-9)
        for one, two in pairs_of(known, adjacency, row_norm, rng, 4):
            assert largest_log_ratio(run, one, two) <= priced


@pytest.mark.parametrize("row_norm", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("known", [HINGE, HUBER], ids=repr)
def test_the_pure_price_is_attained(known, adjacency, row_norm):
    """At the inner end of a corner a slope is at its bound and bends at once; common rows put b on the bad side."""
    run = mechanism(known, adjacency, row_norm, 0.5, 2.0, distribution="Gamma")
    y = 1.0 if known is HINGE else 0.5
    common = [(row_norm, known.targets[0])] * 3
    opposed = [(-row_norm, y if known is HINGE else TARGETS)] if adjacency is REPLACE else []
    shown = largest_log_ratio(run, [*common, (row_norm, y)], [*common, *opposed])
    priced = epsilon_of(run.event, 0.0, adjacency)
    assert 0.99 * priced <= shown <= priced


@pytest.mark.parametrize("row_norm", [10.0, 100.0])
@pytest.mark.parametrize("known", KNOWN, ids=repr)
def test_a_row_norm_that_is_not_squared_shows_in_the_pure_price(known, row_norm):
    """Pitfall 11: D = {R}, D' = {0} in the words of the list; a public library has R for R²."""
    run = mechanism(known, REPLACE, row_norm, 0.1, 2.0 * row_norm, distribution="Gamma")
    shown = max(
        largest_log_ratio(run, [*common, (row_norm, y)], [*common, (0.0, 1.0)])
        for y in known.targets
        for common in ([], [(row_norm, known.targets[0])] * 3)
    )
    wrong = 0.1 * 2.0 + math.log1p(2.0)  # sup ℓ'' · R/Λ = 2
    assert wrong < shown <= epsilon_of(run.event, 0.0, REPLACE)


# Atoms: a penalty with a corner, and a domain.


@pytest.mark.parametrize("shape", ["lasso", "box", "lasso in a box"])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("known", KNOWN, ids=repr)
def test_atoms_of_a_non_smooth_problem_do_not_exceed_the_price(known, adjacency, shape):
    rng = np.random.default_rng(7)
    seen = 0.0
    for _ in range(20):
        mu, curvature = 10 ** rng.uniform(-2, 0.5), 10 ** rng.uniform(-2, 1)
        strength, low, high = 10 ** rng.uniform(-2, 1), -rng.uniform(0.0, 1.0), rng.uniform(0.1, 1.0)
        regularizer = L1(strength) if "lasso" in shape else NoRegularizer()
        domain = Box(low, high) if "box" in shape else WholeSpace()
        run = mechanism(known, adjacency, 1.0, mu, curvature, regularizer=regularizer, domain=domain)
        lasso = 4 * strength if "lasso" in shape else 0.0
        cost, shift = math.log1p(curvature), mu * moved_by(adjacency)
        epsilons = [cost * (1 + 1e-9)] + [cost + shift * (t + shift / 2) for t in (0.0, 1.0, 2.5)]
        prices = np.array([run.price(epsilon) for epsilon in epsilons])
        for one, two in pairs_of(known, adjacency, 1.0, rng, 4):
            cut = np.union1d(places(run, 4), [0.0])
            if "box" in shape:
                cut = np.union1d(cut[(cut > low) & (cut < high)], [low, 0.0, high])
            seen = max(seen, cells(run, path(run, one, cut, lasso)).max())
            assert (audited(run, one, two, epsilons, cut, lasso) <= prices * (1 + 1e-9) + 1e-15).all()
    assert seen > 0.3  # there were atoms to see


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_price_is_nearly_attained_by_atoms_too(adjacency):
    """A box so small that only its two ends are left: the answer tells the side of b, and that is a Gaussian test."""
    run = mechanism(HUBER, adjacency, 1.0, 1.0, 1e-3, regularizer=NoRegularizer(), domain=Box(-1e-3, 1e-3))
    one, two = [(1.0, TARGETS)], [(-1.0, TARGETS)] if adjacency is REPLACE else []
    (shown,) = audited(run, one, two, [0.0], np.array([-1e-3, 1e-3]))
    # At ε = 0 the best test of two Gaussians is by the side of the middle; here the middle is at b = 0 or beside it.
    assert shown > 0.8 * gaussian_delta(0.5 * moved_by(adjacency), 0.0)
    assert shown <= gaussian_delta(moved_by(adjacency), 0.0)


# Two dimensions: two rows that point in different directions.


@pytest.mark.parametrize("angle", [0.5, math.pi / 2, 2.5])
@pytest.mark.parametrize("known", KNOWN, ids=repr)
def test_two_rows_in_a_plane_do_not_exceed_the_price(known, angle):
    mu, curvature = 1.0, 0.5
    run = mechanism(known, REPLACE, 1.0, mu, curvature)
    x, turned = np.array([1.0, 0.0]), np.array([math.cos(angle), math.sin(angle)])
    epsilons = [math.log1p(curvature) * (1 + 1e-9), 1.5, 3.0, 6.0]
    prices = np.array([run.price(epsilon) for epsilon in epsilons])
    for y, z in [(known.targets[-1], known.targets[-1]), (0.5 if known is HUBER else 1.0, known.targets[0])]:
        for common in ([], [(turned, known.targets[0])]):
            p, q = densities(run, [*common, (x, y)], [*common, (turned, z)])
            for first, second in ((p, q), (q, p)):
                shown = np.array([np.maximum(first - math.exp(e) * second, 0.0).sum() for e in epsilons])
                assert (shown <= prices * (1 + 2e-3) + 1e-6).all()


def test_rows_that_are_opposed_in_a_plane_nearly_attain_the_price():
    run = mechanism(HINGE, REPLACE, 1.0, 1.0, 0.003)
    x = np.array([0.6, 0.8])
    p, q = densities(run, [(x, 1.0)], [(-x, 1.0)])
    shown = np.maximum(p - math.exp(6.0) * q, 0.0).sum()
    assert run.price_with(6.0, noise=1.05) < shown <= run.price(6.0) * (1 + 2e-3)


def densities(run, *tables):
    """Density times area on a square grid: φ(g(w)) det g'(w). Sums to 1 within 2e-3, which the callers allow for."""
    reach, size = (7.0 * run.scale + 2.0) / run.ridge, 450
    axis, width = np.linspace(-reach, reach, size, retstep=True)
    # A random point of every square: where a density jumps, a fixed one would be off by the same in all of them.
    w = np.stack(np.meshgrid(axis, axis)) + width * np.random.default_rng(0).uniform(-0.5, 0.5, (2, size, size))
    for rows in tables:
        g = run.ridge * w
        xx, xy, yy = run.ridge, 0.0, run.ridge
        for x, y in rows:
            margin = x[0] * w[0] + x[1] * w[1]
            bend = run.known.curvature(margin, y)
            g = g + run.known.slope(margin, y) * x[:, None, None]
            xx, xy, yy = xx + bend * x[0] ** 2, xy + bend * x[0] * x[1], yy + bend * x[1] ** 2
        mass = norm.pdf(g, scale=run.scale).prod(axis=0) * (xx * yy - xy**2) * width**2
        assert mass.sum() == pytest.approx(1.0, abs=2e-3)
        yield mass


# The solvers, as they would run: what they price is what their noise does.


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("known", KNOWN, ids=repr)
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_a_solver_at_its_defaults_keeps_its_guarantee_on_adversarial_tables(known, adjacency, delta):
    rng = np.random.default_rng(3)
    for epsilon, row_norm in ((0.1, 10.0), (3.0, 1.0)):
        for solver in (KiferObjective(), ChaudhuriObjective(), TalwarObjective()):
            strength = 0.0 if isinstance(solver, TalwarObjective) else 0.01
            problem = Problem(
                known.loss,
                L2(strength) if strength else NoRegularizer(),
                WholeSpace() if strength else L2Ball(1000.0 / row_norm),  # nearly everything
                row_norm=row_norm,
            )
            fit = FitOptions(
                problem, guarantee=Guarantee(epsilon, delta), solver=solver, adjacency=adjacency.value
            ).plan(5, 1)
            item = fit.calibrated.plan.planned[0]
            ridge = 5 * (strength + item.query.ridge)
            run = Mechanism(known, row_norm, fit.calibrated.sigma(item), ridge, fit.event, adjacency)
            for one, two in pairs_of(known, adjacency, row_norm, rng, 6):
                if delta == 0.0:
                    assert largest_log_ratio(run, one, two) <= epsilon
                else:  # a pure mechanism may then have a larger ε of its own
                    assert audited(run, one, two, [epsilon])[0] <= delta


def ask(problem, table, query, multiplier=1.0, seed=5, as_rows=np.asarray):
    paid = paid_for(query, multiplier)
    rows = ArraySource(as_rows(table.X), table.y, table.weights)
    with RecordingOracle(rows, problem, query.setting, paid, Randomness.from_random_state(seed)) as oracle:
        oracle.answer = oracle.ask(paid.plan.planned[0], problem.start(table.X.shape[1]))
    return oracle


@pytest.mark.parametrize("distribution", ["Gaussian", "Gamma"])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_linear_term_has_the_planned_noise(adjacency, distribution):
    """Within 3 standard errors: false alarm 0.3 %, fixed seed. ‖b‖ of a Gamma vector has mean pθ and spread √p θ."""
    problem = Problem(Logistic(), L2(1.0), row_norm=2.0)
    query = ObjectivePerturbationQuery(setting_of(problem, adjacency), 0.0, 1e-3, 1.0, distribution)
    void = Table(np.full((N, P), np.nan), np.ones(N))
    planned = 1.7 * 2.0 * moved_by(adjacency)
    paid = CalibratedPlan(Plan("test", (PlannedQuery(query, 400),), {}), 1.7)
    rows = ArraySource(void.X, void.y)
    with RecordingOracle(rows, problem, query.setting, paid, Randomness.from_random_state(1)) as oracle:
        for _ in range(400):
            oracle.ask(paid.plan.planned[0], np.zeros(P))
    linear = np.array([noisy for noisy, _, _ in oracle.left_the_gate[::2]])
    assert {(scale, kind) for _, scale, kind in oracle.left_the_gate[::2]} == {(planned, distribution)}
    if distribution == "Gaussian":
        assert abs(linear.std() - planned) <= 3 * planned / math.sqrt(2 * linear.size)
    else:
        lengths = np.linalg.norm(linear, axis=1)
        assert abs(lengths.mean() - P * planned) <= 3 * math.sqrt(P / lengths.size) * planned
    # Ignored rows leave −b/(nμ) as the minimiser: sign and scale of the linear term.
    np.testing.assert_allclose(oracle.exact[1::2], -linear / N, atol=query.tolerance)


STORAGE = {"dense": np.asarray, "sparse": sparse.csr_array}
GEOMETRIES = {
    "whole space": (NoRegularizer(), WholeSpace()),
    "ridge": (L2(0.03), WholeSpace()),
    "lasso": (L1(0.02), WholeSpace()),
    "elastic net": (ElasticNet(0.04, 0.5), WholeSpace()),
    "box": (NoRegularizer(), Box(-0.2, 0.3)),
    "ball": (L2(0.01), L2Ball(0.4)),
    "lasso in a box": (L1(0.02), Box(-0.2, 0.3)),
}
SOLVED = [(HINGE, 1.0), (HUBER, 1.0), (LOGISTIC, 10.0)]


def mean_gradient(known, X, y, w, row_norm, intercept):
    """Σ ∇f/n of rows clipped to the norm, by hand."""
    X = X * np.minimum(1.0, row_norm / np.linalg.norm(X, axis=1))[:, None]
    if intercept:
        X = np.column_stack([X, np.full(len(X), row_norm)])
    return X.T @ known.slope(X @ w, y) / len(X)


def shortest_subgradient(gradient, w, regularizer, domain):
    """Length of the shortest vector in gradient + ∂r(w) + the normal cone of C at w, for the geometries above."""
    g = gradient + regularizer.strong_convexity * w
    lasso = {"l1": 0.02, "elastic_net": 0.02}.get(regularizer.name, 0.0)
    up, down = g + lasso, g - lasso  # the slopes to the right and to the left
    low, high = (domain.low, domain.high) if isinstance(domain, Box) else (-np.inf, np.inf)
    to_the_right = np.where(w > 0, up, np.where(w < 0, down, np.minimum(up, 0.0)))
    to_the_left = np.where(w > 0, up, np.where(w < 0, down, np.maximum(down, 0.0)))
    inside = np.where(w == 0, to_the_right + to_the_left, to_the_right) if lasso else g
    inside = np.where(w >= high, np.maximum(inside, 0.0), np.where(w <= low, np.minimum(inside, 0.0), inside))
    if isinstance(domain, L2Ball) and np.linalg.norm(w) >= domain.radius * (1 - 1e-12):
        outward = w / np.linalg.norm(w)
        inside = inside - min(inside @ outward, 0.0) * outward
    return np.linalg.norm(inside)


@pytest.mark.parametrize(("storage", "intercept"), [("dense", False), ("sparse", True)])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize(("known", "row_norm"), SOLVED, ids=str)
def test_the_answer_is_within_its_tolerance_of_the_minimiser(known, row_norm, geometry, storage, intercept):
    """A subgradient of length τ puts it within τ/(μ + ridge), whatever else the search did."""
    regularizer, domain = GEOMETRIES[geometry]
    problem = Problem(known.loss, regularizer, domain, row_norm=row_norm, intercept=intercept)
    table = base_table(seed=2)
    setting, ridge = setting_of(problem, REPLACE), 0.05 * row_norm**2
    for tolerance in (1e-9 * row_norm, 1e-2 * row_norm):
        query = ObjectivePerturbationQuery(setting, ridge, tolerance, 0.01, "Gaussian")
        oracle = ask(problem, table, query, as_rows=STORAGE[storage])
        (linear, _, _), (answer, scale, kind) = oracle.left_the_gate
        w = oracle.exact[1]
        smooth = mean_gradient(known, table.X, table.y, w, row_norm, intercept) + linear / N + ridge * w
        assert shortest_subgradient(smooth, w, regularizer, domain) <= tolerance
        np.testing.assert_array_equal(domain.project(w), w)
        # Two such answers are within 2τ/(μ + ridge): noise of this scale hides which at ε = remainder.
        assert scale == pytest.approx(2 * tolerance / (regularizer.strong_convexity + ridge) / 0.01, rel=1e-9)
        assert kind == "Gamma"
        np.testing.assert_array_equal(answer, oracle.answer)
        assert not np.array_equal(answer, w)


@pytest.mark.parametrize("known", KNOWN, ids=repr)
def test_a_search_to_a_coarse_tolerance_ends_nearer_to_the_minimiser_than_it_says(known):
    problem = Problem(known.loss, L2(0.02))
    table = base_table(seed=4)
    query = ObjectivePerturbationQuery(setting_of(problem, ADD), 0.03, 1e-2, 0.01, "Gaussian")
    oracle = ask(problem, table, query)
    linear = oracle.left_the_gate[0][0]

    def gradient(w):
        return mean_gradient(known, table.X, table.y, w, 1.0, False) + linear / N + 0.05 * w

    exact = optimize.root(gradient, oracle.exact[1], method="hybr", tol=1e-14).x
    assert np.linalg.norm(gradient(exact)) < 1e-13
    assert 0.0 < np.linalg.norm(exact - oracle.exact[1]) <= 1e-2 / 0.05


def test_the_remainder_is_charged():
    problem = Problem(Logistic(), L2(0.1))
    for distribution in ("Gaussian", "Gamma"):
        one, two = (
            ObjectivePerturbationQuery(setting_of(problem, ADD), 0.0, 1e-6, remainder, distribution).event(2.0)
            for remainder in (1e-9, 0.3)
        )
        for delta in (1e-5,) if distribution == "Gaussian" else (0.0, 1e-5):
            small, large = epsilon_of(one, delta, ADD), epsilon_of(two, delta, ADD)
            # For δ > 0 the pure form's own curve bends; at δ = 0 and for the Gaussian form the sum is exact.
            assert large - small == pytest.approx(0.3, abs=1e-4)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_hostile_rows_change_neither_the_course_nor_the_size_of_the_answer(adjacency, geometry):
    regularizer, domain = GEOMETRIES[geometry]
    problem = Problem(Huber(), regularizer, domain)
    query = ObjectivePerturbationQuery(setting_of(problem, adjacency), 0.02, 1e-7, 0.01, "Gaussian")
    before = ask(problem, base_table(), query)
    # b is the same, so the minimiser moves as in output perturbation.
    reach = (moved_by(adjacency) / N + 2e-7) / (regularizer.strong_convexity + 0.02)
    names = []
    for other in neighbours(base_table(), adjacency):
        after = ask(problem, other, query)
        names.append(other.name)
        assert np.isfinite(after.answer).all(), other.name
        assert after.sigmas == before.sigmas
        np.testing.assert_array_equal(after.left_the_gate[0][0], before.left_the_gate[0][0])
        assert np.linalg.norm(after.exact[1] - before.exact[1]) <= reach, other.name
    assert len(names) == len(hostile_rows())


@pytest.mark.parametrize("geometry", ["ridge", "lasso", "ball"])
@pytest.mark.parametrize("solver", [KiferObjective(ridge=1e-3), ChaudhuriOutput()], ids=lambda s: s.name)
def test_a_search_that_does_not_end_releases_nothing_and_says_nothing(monkeypatch, geometry, solver):
    if geometry == "lasso" and isinstance(solver, ChaudhuriOutput):
        geometry = "elastic net"
    monkeypatch.setattr(minimiser_module, "_NEWTON_STEPS", 1)
    monkeypatch.setattr(minimiser_module, "_HOPEFUL_STEPS", 3)
    monkeypatch.setattr(minimiser_module, "_STEPS_PER_ROOT_CONDITION", 0.01)
    regularizer, domain = GEOMETRIES[geometry]
    table = base_table()
    progress = []
    with pytest.raises(NotSolved) as caught:
        minimize(
            Problem(Logistic(), regularizer, domain), table.X, table.y,
            guarantee=Guarantee(20.0, 1e-6 if isinstance(solver, KiferObjective) else 0.0), solver=solver,
            progress=lambda *steps: progress.append(steps), random_state=1,  # with some b a lasso ends at 0, at once
        )  # fmt: skip
    assert not any(character.isdigit() for character in str(caught.value))
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert (1, 1) not in progress


def test_a_search_that_does_not_end_is_spent(monkeypatch):
    monkeypatch.setattr(minimiser_module, "_HOPEFUL_STEPS", 1)
    monkeypatch.setattr(minimiser_module, "_STEPS_PER_ROOT_CONDITION", 0.01)
    problem = Problem(Logistic(), L1(0.01))
    query = ObjectivePerturbationQuery(setting_of(problem, ADD), 0.02, 1e-9, 0.01, "Gaussian")
    paid = paid_for(query, 1.0)
    table = base_table()
    rows = ArraySource(table.X, table.y)
    with RecordingOracle(rows, problem, query.setting, paid, Randomness.from_random_state(0)) as oracle:
        with pytest.raises(NotSolved):
            oracle.ask(paid.plan.planned[0], np.zeros(P))
        assert oracle._left[paid.plan.planned[0]] == 0
        assert len(oracle.left_the_gate) == 1  # b was drawn, and stays on the trusted side


@pytest.mark.parametrize("n", [1, 2, 3, 10, 19])
@pytest.mark.parametrize("geometry", ["lasso", "box", "ball", "lasso in a box"])
@pytest.mark.filterwarnings("ignore:delta = ")
def test_one_row_more_than_the_smoothness_allows_for_does_not_stop_the_search(geometry, n):
    """1.05 n rows are spoken of, n + 1 may come: at small n their mean loss is steeper than the step size expects."""
    regularizer, domain = GEOMETRIES[geometry]
    X = np.tile(np.eye(P)[0], (n + 1, 1))
    for loss in (Huber(), SmoothedHinge(0.1)):
        minimize(
            Problem(loss, regularizer, domain), X, np.ones(n + 1),
            guarantee=Guarantee(1.0, 1e-3), solver=KiferObjective(), adjacency="add_remove", n=n, random_state=0,
        )  # fmt: skip


# The curves.


def test_the_two_sided_curve_is_the_integral_that_it_stands_for():
    for mu in (1e-3, 0.1, 1.0, 5.0, 20.0):
        for epsilon in (0.0, 1e-3, 0.3, 2.0, 40.0):
            start = max(0.0, epsilon / mu - mu / 2)

            def gain(z, mu=mu, epsilon=epsilon):
                return -2.0 * norm.pdf(z) * math.expm1(min(epsilon - mu * z - mu**2 / 2, 0.0))

            exact = integrate.quad(gain, start, start + 12.0, epsabs=0.0, epsrel=1e-11, limit=200)[0]
            assert two_sided_delta(mu, epsilon) == pytest.approx(exact, rel=1e-8, abs=1e-300)


def digits(function):
    """Evaluate with sixty digits."""
    with mpmath.workdps(60):
        return function()


def exact_two_sided(mu, epsilon):
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    start = max(mpmath.mpf(0), epsilon / mu - mu / 2)
    return 2 * (mpmath.ncdf(-start) - mpmath.exp(epsilon) * mpmath.ncdf(-start - mu))


def exact_gaussian(mu, epsilon):
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)


def exact_pure(total, epsilon):
    total, epsilon = mpmath.mpf(total), mpmath.mpf(epsilon)
    return max(mpmath.mpf(0), (mpmath.exp(total) - mpmath.exp(epsilon)) / (1 + mpmath.exp(total)))


def test_the_curves_are_rounded_up_and_hardly_so():
    rng = np.random.default_rng(0)
    for _ in range(400):
        mu, t, epsilon = 10 ** rng.uniform(-7, 1.5), rng.uniform(0.0, 25.0), 10 ** rng.uniform(-6, 2)
        for curve, exact, x, e in [
            (two_sided_delta, exact_two_sided, mu, mu * t),
            (two_sided_delta, exact_two_sided, mu, epsilon),
            (gaussian_delta, exact_gaussian, mu, mu * t),
            (pure_delta, exact_pure, epsilon, epsilon * rng.uniform()),
        ]:
            value, true = curve(x, e), digits(lambda exact=exact, x=x, e=e: exact(x, e))
            if true < 1e-250:
                continue
            assert value >= true
            # Relative rounding of a difference of logarithms of the size of log δ, divided by what is left: about μ.
            assert value <= float(true) * (1 + 1e-9 + 1e-10 / x)


def best_zcdp(rho, epsilon):
    """The minimum over all α > 1, with sixty digits: a root of the derivative, by golden section on log(α − 1)."""
    rho, epsilon = mpmath.mpf(rho), mpmath.mpf(epsilon)

    def log_delta(u):
        less_one = mpmath.exp(u)
        alpha = 1 + less_one
        return less_one * (alpha * rho - epsilon) + alpha * mpmath.log(less_one / alpha) - u

    low, high = mpmath.mpf(-30), mpmath.mpf(90)
    shrink = (mpmath.sqrt(5) - 1) / 2
    for _ in range(120):
        left, right = high - shrink * (high - low), low + shrink * (high - low)
        low, high = (low, right) if log_delta(left) < log_delta(right) else (left, high)
    return mpmath.exp(min(log_delta((low + high) / 2), 0))


def test_the_concentrated_curve_is_above_its_best_order_and_near_it():
    rng = np.random.default_rng(1)
    for _ in range(40):
        rho, t = 10 ** rng.uniform(-30, 1), rng.uniform(0.0, 15.0)
        epsilon = rho + t * math.sqrt(rho)
        value, true = zcdp_delta(rho, epsilon), digits(lambda rho=rho, epsilon=epsilon: best_zcdp(rho, epsilon))
        assert true <= value <= float(true) * 1.01
        # A Gaussian release with μ = √(2ρ) is one such mechanism.
        assert digits(lambda rho=rho, epsilon=epsilon: exact_gaussian(math.sqrt(2 * rho), epsilon)) <= value
    assert zcdp_delta(0.1, 0.0) <= 1.0


def test_the_pure_curve_is_that_of_randomized_response_and_above_laplace():
    for total in (1e-4, 0.5, 3.0, 40.0, 2000.0):
        for epsilon in (0.0, 0.3 * total, 0.99 * total):
            # 1/(1 + e^−t) − e^(ε − t)/(1 + e^−t): truth told under D, and by chance under D'.
            truth = 1.0 / (1.0 + math.exp(-total))
            response = truth - math.exp(epsilon - total) * truth
            assert pure_delta(total, epsilon) == pytest.approx(response, rel=1e-9)
            laplace = -math.expm1((epsilon - total) / 2)  # of noise of scale 1/total on a shift by 1
            assert laplace <= pure_delta(total, epsilon) * (1 + 1e-9)
        assert pure_delta(total, total) == pure_delta(total, 2 * total) == 0.0


@pytest.mark.parametrize("curve", [two_sided_delta, gaussian_delta, pure_delta, zcdp_delta])
def test_the_curves_fall_in_epsilon_and_rise_in_what_is_lost(curve):
    losses, epsilons = np.geomspace(1e-3, 30.0, 60), np.linspace(0.0, 20.0, 60)
    values = np.array([[curve(loss, epsilon) for epsilon in epsilons] for loss in losses])
    assert (np.diff(values, axis=1) <= 1e-9 * values[:, 1:] + 1e-12).all()
    assert (np.diff(values, axis=0) >= -1e-9 * values[1:] - 1e-12).all()
    assert values.min() >= 0.0
    assert values.max() <= 1.0


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("monotone", [True, False])
def test_the_price_is_the_sum_over_the_corners_and_above_their_maximum(monotone, adjacency):
    """The proof bounds E max over corners v of (1 − exp(t − ⟨b, v⟩ − ‖v‖²/2))₊: here by integrating over the plane."""
    mu, cost = 1.3, 0.2
    event = ObjectivePerturbation(1.0 / mu, cost, monotone, 0.1)
    slopes = [0.0, 1.0] if monotone else [-1.0, 1.0]
    axis, width = np.linspace(-9.0, 9.0, 601, retstep=True)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    weight = norm.pdf(grid).prod(axis=1) * width**2
    for left in (0.0, 0.5, 2.0, 8.0):
        terms = {
            (ADD, True): [exact_gaussian(mu, left)],
            (ADD, False): [exact_two_sided(mu, left)],
            (REPLACE, True): [exact_gaussian(2 * mu, left), exact_gaussian(mu, left), exact_gaussian(mu, left)],
            (REPLACE, False): [exact_two_sided(2 * mu, left), exact_two_sided(math.sqrt(2) * mu, left)],
        }[adjacency, monotone]
        priced = TangentCurve(event, adjacency).delta(cost + 0.1 + left)
        assert priced == pytest.approx(min(1.0, float(sum(terms))), rel=1e-9)
        for angle in (math.pi / 2, 2.5, math.pi) if adjacency is REPLACE else (0.0,):
            rows = [np.array([1.0, 0.0]), np.array([math.cos(angle), math.sin(angle)])][: int(moved_by(adjacency))]
            corners = [mu * sum(a * x for a, x in zip(c, rows, strict=True)) for c in product(slopes, repeat=len(rows))]
            loss = np.max([grid @ v + 0.5 * v @ v for v in corners], axis=0)
            largest = (weight * -np.expm1(np.minimum(left - loss, 0.0))).sum()
            assert largest <= priced * (1 + 5e-3)  # of the grid


def test_degenerate_noise_never_looks_private():
    for adjacency in ADJACENCIES:
        for monotone in (True, False):
            loud = ObjectivePerturbation(1e12, 1e-9, monotone, 1e-9)
            assert TangentCurve(loud, adjacency).delta(1.0) == 0.0
            assert TangentCurve(loud, adjacency).delta(1e-9) == 1.0  # less than the determinants and the remainder cost
            for multiplier in (1e-3, 1e-160, 1e-300):
                silent = ObjectivePerturbation(multiplier, 0.1, monotone, 0.01)
                assert TangentCurve(silent, adjacency).delta(1.0) == 1.0
            assert TangentCurve(ObjectivePerturbation(1.0, 0.1, monotone, 0.01), adjacency).delta(0.0) == 1.0
    problem = Problem(Logistic(), L2(0.1))
    query = ObjectivePerturbationQuery(setting_of(problem, ADD), 0.0, 1e-6, 0.1, "Gaussian")
    for multiplier in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameter):
            query.event(multiplier)


@pytest.mark.parametrize("monotone", [True, False])
def test_gaussian_noise_is_never_pure(monotone):
    """δ(ε) of Gaussian noise is above 0 for every ε, also where a float cannot show it."""
    event = ObjectivePerturbation(1.0, 0.1, monotone, 0.01)
    for adjacency in ADJACENCIES:
        assert epsilon_of(event, 0.0, adjacency) == math.inf
        assert epsilon_of(event, 1e-60, adjacency) < math.inf
        problem = Problem(Logistic() if monotone else Huber(), L2(1.0))
        query = ObjectivePerturbationQuery(setting_of(problem, adjacency), 0.0, 1e-6, 0.01, "Gaussian")
        with pytest.raises(NoiseTooLarge, match="no noise was found that is certified"):
            calibrate(Plan("test", (PlannedQuery(query),), {}), Guarantee(1.0, 0.0))


# Calibration.


def by_hand(sigma, epsilon, setting, ridge, monotone):
    """δ of the Gaussian form from scratch, remainder of ε/200 included."""
    left = 0.995 * epsilon - math.log1p(setting.constants.smoothness / (setting.n * ridge))
    if left < 0.0:
        return 1.0
    mu = setting.constants.lipschitz / sigma

    def curve(shift, sides):
        z = left / shift - shift / 2
        z = max(z, 0.0) if sides == 2.0 else z
        return sides * (math.exp(log_ndtr(-z)) - math.exp(left + log_ndtr(-z - shift)))

    if setting.adjacency is ADD:
        return curve(mu, 1.0 if monotone else 2.0)
    return curve(2 * mu, 1.0) + 2 * curve(mu, 1.0) if monotone else curve(2 * mu, 2.0) + curve(math.sqrt(2) * mu, 2.0)


def steep_or_curved(mu, ratio, epsilon, share=1.0):
    """δ by theorem 4 without tangents: the loss is the largest over t of tμZ + t²μ²/2 + ln(1 + ratio · t(1 − t))."""
    z, t = np.linspace(-10.0, 38.0, 20_001), share * np.linspace(0.0, 1.0, 401)[:, None]
    fixed = 0.5 * (t * mu / share) ** 2 + np.log1p(ratio * t * (1.0 - t))
    excess = np.max([row * mu / share * z + add for row, add in zip(t, fixed, strict=True)], axis=0) - epsilon
    return trapezoid(np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi) * -np.expm1(-np.maximum(excess, 0.0)), z)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("known", KNOWN, ids=repr)
def test_random_plans_keep_their_promise_and_waste_less_than_a_percent_of_noise(known, adjacency):
    rng = np.random.default_rng(11)
    for _ in range(10):
        row_norm, n, strength = 10 ** rng.uniform(-1, 2), int(10 ** rng.uniform(1, 6)), 10 ** rng.uniform(-6, 0)
        epsilon, delta = 10 ** rng.uniform(-2, 1.5), 10 ** rng.uniform(-12, -2)
        problem = Problem(known.loss, L2(strength), row_norm=row_norm)
        constants = {"smoothness": known.largest_curvature * row_norm**2, "lipschitz": row_norm}
        for solver, pure in ((KiferObjective(), False), (KiferObjective(), True), (ChaudhuriObjective(), True)):
            guarantee = Guarantee(epsilon, 0.0 if pure else delta)
            fit = FitOptions(problem, guarantee=guarantee, solver=solver, adjacency=adjacency.value).plan(n, 3)
            assert fit.privacy.certified_epsilon <= epsilon
            assert {name: getattr(fit.setting.constants, name) for name in constants} == pytest.approx(constants)
            ridge = strength + fit.calibrated.plan.planned[0].query.ridge
            sigma, monotone = fit.privacy.sigma, known is not HUBER
            if pure:
                spent = moved_by(adjacency) * row_norm / sigma
                spent += math.log1p(constants["smoothness"] / (n * ridge)) + 0.005 * epsilon
                assert spent == pytest.approx(epsilon, rel=1e-9)
            elif known is not LOGISTIC:
                assert by_hand(sigma, epsilon, fit.setting, ridge, monotone) <= delta * (1 + 1e-6)
                assert by_hand(0.99 * sigma, epsilon, fit.setting, ridge, monotone) > delta
            elif adjacency is ADD:
                ratio = row_norm**2 / (n * ridge)  # 4β/Λ
                assert steep_or_curved(row_norm / sigma, ratio, 0.995 * epsilon) <= delta * (
                    1 + 1e-4
                )  # of the integral
                assert steep_or_curved(row_norm / sigma * 1.02, ratio, 0.995 * epsilon) > delta


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("loss", [Logistic(), Huber()], ids=lambda loss: loss.name)
def test_more_privacy_takes_more_noise(loss, adjacency):
    def sigma(epsilon, delta):
        problem = Problem(loss, L2(0.1))
        fit = FitOptions(
            problem, guarantee=Guarantee(epsilon, delta), solver=KiferObjective(ridge=0.1), adjacency=adjacency.value
        ).plan(1000, 3)
        return fit.privacy.sigma

    by_epsilon = [sigma(epsilon, 1e-6) for epsilon in np.geomspace(0.05, 20.0, 12)]
    by_delta = [sigma(1.0, delta) for delta in np.geomspace(1e-18, 1e-2, 12)]
    pure = [sigma(epsilon, 0.0) for epsilon in np.geomspace(0.05, 20.0, 12)]
    for sigmas in (by_epsilon, by_delta, pure):
        assert (np.diff(sigmas) < 0.0).all()
        assert np.isfinite(sigmas).all()


def test_a_ridge_that_cannot_do_is_refused_in_one_sentence():
    free, little = Problem(Logistic()), Problem(Logistic(), L2(1e-4))
    for solver in (KiferObjective(ridge=0.0), ChaudhuriObjective(ridge=0.0)):
        guarantee = Guarantee(1.0, 0.0 if isinstance(solver, ChaudhuriObjective) else 1e-6)
        with pytest.raises(InvalidParameter, match=r"^ridge must be above 0, got 0\.0\.$"):
            FitOptions(free, guarantee=guarantee, solver=solver).plan(1000, 3)
        with pytest.raises(NoiseTooLarge, match=r"^no amount of noise gives epsilon = 0\.1[^.]*\.$"):
            FitOptions(little, guarantee=replace(guarantee, epsilon=0.1), solver=solver).plan(1000, 3)
    with pytest.raises(InvalidParameter, match="ridge must be 0 or above"):
        KiferObjective(ridge=-1.0)


def test_what_the_proof_does_not_cover_is_refused():
    setting = setting_of(Problem(Softmax(3), L2(0.1)), ADD)
    with pytest.raises(InvalidParameter, match="one margin"):
        ObjectivePerturbationQuery(setting, 0.0, 1e-6, 0.1, "Gaussian")
    with pytest.raises(InvalidParameter, match="bounded derivative"):
        FitOptions(Problem(Squared()), guarantee=Guarantee(1.0, 1e-6), solver=KiferObjective()).plan(100, 3)
    good = setting_of(Problem(Logistic(), L2(0.1)), ADD)
    for arguments in [(-1.0, 1e-6, 0.1), (0.0, 0.0, 0.1), (0.0, 1e-6, 0.0), (0.0, math.nan, 0.1)]:
        with pytest.raises(InvalidParameter):
            ObjectivePerturbationQuery(good, *arguments, "Gaussian")
    with pytest.raises(InvalidParameter, match="distribution"):
        ObjectivePerturbationQuery(good, 0.0, 1e-6, 0.1, "Laplace")
    for share in (0.0, 1.1, math.nan):
        with pytest.raises(InvalidParameter, match="slope_share"):
            ObjectivePerturbationQuery(good, 0.0, 1e-6, 0.1, "Gaussian", share)


def test_an_objective_perturbation_beside_a_gradient_needs_more_noise_than_either():
    good, guarantee = setting_of(Problem(Logistic(), L2(0.1)), ADD), Guarantee(1.0, 1e-6)
    both = (
        PlannedQuery(ObjectivePerturbationQuery(good, 0.0, 1e-6, 0.1, "Gaussian")),
        PlannedQuery(GradientQuery(good)),
    )
    noises = [calibrate(Plan("test", plan, {}), guarantee).noise_multiplier for plan in (both, both[:1], both[1:])]
    # Two Gaussians would need the root of squares; the remainder, a tenth of ε, is there whatever the noise.
    assert max(noises[1:]) < noises[0] < math.hypot(*noises[1:]) / 0.9


# Theorem 4: a sigmoidal loss is steep or curved, never both.


@pytest.mark.parametrize("share", [1.0, 0.9, 0.6, 0.3])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_pair_of_small_tables_exceeds_the_price_of_cut_slopes(adjacency, share):
    """Also where the determinant counts as much as the noise, the region that theorem 4 makes cheaper."""
    rng = np.random.default_rng(int(100 * share))
    for _ in range(25):
        mu, curvature = 10 ** rng.uniform(-2, 0.5), 10 ** rng.uniform(-3, 1)
        run = cut_mechanism(adjacency, share, mu, curvature)
        epsilons = [(mu * t + curvature) * scale for t in (0.5, 2.0, 4.0) for scale in (0.5, 1.0)]
        prices = np.array([run.price(epsilon) for epsilon in epsilons])
        for one, two in pairs_of(run.known, adjacency, 1.0, rng, 4):
            shown = audited(run, one, two, epsilons)
            assert (shown <= prices * (1 + 1e-9) + 1e-15).all(), (mu, curvature, one, two)


@pytest.mark.parametrize("share", [1.0, 0.8])
def test_the_price_of_a_sigmoidal_loss_five_percent_too_small_would_be_exceeded(share):
    """A row that is badly wrong, where the others pull w, is as steep as it may be and shows all of the price."""
    steep = cut_mechanism(ADD, share, 0.3, 0.02)
    pulled = [(1.0, -1.0)] * 2000
    epsilons = [0.3, 0.6, 0.9]
    shown = audited(steep, [*pulled, (1.0, 1.0)], pulled, epsilons, cut=np.linspace(-9.0, 1.0, 4001))
    assert (shown <= [steep.price(epsilon) for epsilon in epsilons]).all()
    assert (shown > [steep.price_with(epsilon, noise=1.05) for epsilon in epsilons]).any()


@pytest.mark.parametrize("ratio", [0.3, 0.99, 3.0])
def test_the_determinant_of_the_logistic_loss_is_free_from_a_ridge_on(ratio):
    """Λ ≥ 4β/ε in the scale of sums: then δ(ε) is that of the Gaussian alone; with less ridge it is more."""
    epsilon, mu = 0.4, 0.15
    event = ObjectivePerturbation(1.0 / mu, math.log1p(ratio * epsilon / 4.0), True, 1e-13, True)
    free = gaussian_delta(mu, epsilon)
    priced = TangentCurve(event, ADD).delta(epsilon)
    assert priced == pytest.approx(free, rel=1e-6) if ratio <= 1.0 else priced > 1.2 * free


def test_the_curvature_of_a_sigmoid_is_checked():
    class Kinked(Logistic):
        """Cut at 0.7, and so still bent where it is steepest."""

        name = "kinked"

        @staticmethod
        def derivative(margin, target):
            return np.clip(-target / (1.0 + np.exp(target * margin)), -0.7, 0.7)

        def slope_bound(self, margin_bound):
            return 0.7

    with pytest.raises(InvalidParameter, match="sigmoid"):
        Problem(Kinked(), L2(0.1)).constants(3)


@dataclass(frozen=True)
class Scaled(SmoothedHinge):
    """A hinge a hundredth as steep and curved, which bends where it is steep."""

    smoothing: float = 1.0
    sigmoidal = True
    name = "scaled"

    @staticmethod
    def derivative(margin, target, smoothing):
        return -0.01 * target * np.minimum(np.maximum(1.0 - target * margin, 0.0), 1.0)

    def slope_bound(self, margin_bound):
        return 0.01

    def curvature_bound(self, margin_bound):
        return 0.01


@dataclass(frozen=True)
class Shifted(Logistic):
    """A sigmoid whose middle lies beyond the domain, with the smaller curvature that it has there."""

    name = "shifted"

    @staticmethod
    def value(margin, target):
        return np.logaddexp(0.0, 12.0 - target * margin)

    @staticmethod
    def derivative(margin, target):
        return -target / (1.0 + np.exp(target * margin - 12.0))

    def curvature_bound(self, margin_bound):
        middle = max(0.0, 12.0 - margin_bound)
        return float(sigmoid(middle) * sigmoid(-middle)) * (1.0 + 1e-9)


def test_losses_of_any_scale_are_checked_for_their_form():
    with pytest.raises(InvalidParameter, match="sigmoid"):
        Problem(Scaled(), L2(0.1)).constants(3)


def test_a_sigmoid_that_the_domain_shows_a_part_of_is_priced_as_any_monotone_loss():
    assert Problem(Shifted(), L2(0.1)).constants(1).sigmoidal
    assert not Problem(Shifted(), L2(0.1), L2Ball(10.0)).constants(1).sigmoidal
    assert Problem(Logistic(), domain=L2Ball(1.0)).constants(1).sigmoidal


@pytest.mark.parametrize("ridge", [1e3, 1e6, 2e7])
def test_a_strong_ridge_around_a_point_is_solved_for_and_a_stronger_one_refused(ridge):
    X, y = np.ones((10, 2)) / 2.0, np.ones(10)
    problem, guarantee = Problem(Logistic(), domain=Simplex(2.0)), Guarantee(1.0, 1e-6)
    for seed in range(5):
        solver = KiferObjective(ridge=ridge)
        w = minimize(problem, X, y, guarantee=guarantee, solver=solver, random_state=seed).w
        np.testing.assert_allclose(w, 1.0, atol=100.0 / ridge)
    with pytest.raises(InvalidParameter, match="rounds the loss away"):
        FitOptions(problem, guarantee=guarantee, solver=KiferObjective(ridge=1e9)).plan(10, 2)


# Theorem 5: one after the other.


@pytest.mark.parametrize("known", KNOWN, ids=repr)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_two_minimisers_show_no_more_than_both_together_are_paid_for(adjacency, known):
    rng = np.random.default_rng(5)
    for _ in range(6):
        mu, curvature = 10 ** rng.uniform(-1.5, 0.3), 10 ** rng.uniform(-3, 0.5)
        runs = [mechanism(known, adjacency, 1.0, mu * part, curvature * ridge) for part, ridge in ((0.5, 0.6), (1, 1))]
        both = Composed([run.event for run in runs])
        epsilons = [t * mu * moved_by(adjacency) + math.log1p(curvature) for t in (0.5, 1.5, 3.0)]
        prices = [delta_of(both, epsilon, adjacency) for epsilon in epsilons]
        for one, two in pairs_of(known, adjacency, 1.0, rng, 3):
            laws = [[cells(run, path(run, rows, places(run, 4)[::8])) for run in runs] for rows in (one, two)]
            p, q = (np.outer(*law) for law in laws)
            shown = [np.maximum(p - math.exp(epsilon) * q, 0.0).sum() for epsilon in epsilons]
            assert (np.array(shown) <= np.array(prices) * (1 + 1e-9)).all(), (mu, curvature, one, two)


@pytest.mark.parametrize("mu", [0.03, 0.3, 2.0])
def test_two_minimisers_with_hardly_any_determinant_cost_as_two_gaussians(mu):
    """A little more, because the proof counts losses below 0 as 0; five per cent less noise would be too little."""
    events = [ObjectivePerturbation(1.0 / (mu * part), 1e-9, True, 1e-13) for part in (0.6, 0.8)]
    curve = TailCurve(tuple(events), ADD).delta
    for epsilon in (2.0 * mu, 4.0 * mu):
        assert gaussian_delta(mu, epsilon) <= curve(epsilon) <= gaussian_delta(1.05 * mu, epsilon)


def cut_mechanism(adjacency, share, mu, curvature):
    """As `mechanism`, with slopes cut to a share of their bound: noise of scale share·G/mu."""
    known = Known(
        Logistic(),
        lambda m, y: np.clip(LOGISTIC.slope(m, y), -share, share),
        lambda m, y: np.where(np.abs(LOGISTIC.slope(m, y)) < share, LOGISTIC.curvature(m, y), 0.0),
        0.25,
        (-1.0, 1.0),
    )
    n, ridge = 4, 0.25 / curvature
    setting = setting_of(Problem(Logistic(), L2(0.5 * ridge / n)), adjacency, n, 1)
    query = ObjectivePerturbationQuery(setting, 0.5 * ridge / n, 1e-6, 1e-13, "Gaussian", share)
    paid = paid_for(query, 1.0 / (mu * moved_by(adjacency)))
    return Mechanism(known, 1.0, paid.sigma(paid.plan.planned[0]), ridge, paid.event(), adjacency)


# The published constants.


def paper_fit(solver, problem, n, guarantee, adjacency):
    fit = FitOptions(problem, guarantee=guarantee, solver=solver, adjacency=adjacency.value, noise="paper").plan(n, 4)
    return fit.privacy, fit.calibrated.plan.planned[0].query


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("row_norm", [1.0, 10.0])
@pytest.mark.parametrize(("strength", "enough"), [(0.5, True), (1e-4, False), (0.0, False)])
def test_chaudhuris_objective_noise_is_as_published(strength, enough, row_norm, adjacency):
    """‖x‖ ≤ 1, |ℓ'| ≤ 1, ℓ'' ≤ c. Rows of norm R are rows of norm 1 with w/R: R² for c and Λ/R² for Λ, or cR² for c."""
    n, epsilon, c = 500, 0.4, 0.25 * row_norm**2
    problem = Problem(Logistic(), L2(strength) if strength else NoRegularizer(), row_norm=row_norm)
    statement, query = paper_fit(ChaudhuriObjective(), problem, n, Guarantee(epsilon, 0.0), adjacency)
    if enough:
        left, ridge = epsilon - math.log(1 + 2 * c / (n * strength) + c**2 / (n * strength) ** 2), 0.0
        assert left > 0
    else:
        left, ridge = epsilon / 2, c / (n * (math.exp(epsilon / 4) - 1)) - strength
    assert query.ridge == pytest.approx(ridge)
    assert statement.sigma == pytest.approx(2 * row_norm / left)
    cost = math.log1p(c / (n * (strength + ridge)))
    certified = moved_by(adjacency) * left / 2 + cost + 0.005 * epsilon
    assert statement.certified_epsilon == pytest.approx(certified, rel=1e-9)
    assert statement.certified_epsilon <= 1.005 * epsilon
    assert not statement.for_release


@pytest.mark.parametrize("row_norm", [1.0, 10.0])
@pytest.mark.parametrize("loss", [Logistic(), Huber()], ids=lambda loss: loss.name)
def test_kifers_noise_is_as_published(loss, row_norm):
    n, epsilon, delta = 700, 0.8, 1e-5
    beta = {"logistic": 0.25, "huber": 1.0}[loss.name] * row_norm**2
    for guarantee, scale in [
        (Guarantee(epsilon, delta), row_norm * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon),
        (Guarantee(epsilon, 0.0), 2 * row_norm / epsilon),
    ]:
        for adjacency in ADJACENCIES:
            problem = Problem(loss, L1(0.01), row_norm=row_norm)
            statement, query = paper_fit(KiferObjective(), problem, n, guarantee, adjacency)
            assert query.ridge == pytest.approx(2 * beta / epsilon / n)
            assert statement.sigma == pytest.approx(scale)
            assert statement.distribution == ("Gaussian" if guarantee.delta else "Gamma")
            assert not statement.for_release


@pytest.mark.parametrize("loss", [Logistic(), Huber()], ids=lambda loss: loss.name)
def test_kifers_gaussian_noise_is_valid_where_it_was_published(loss):
    """Under add_remove, for every ε and δ that were tried; the little that the remainder costs is in its slack."""
    for epsilon in (1e-3, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0):
        for delta in (1e-12, 1e-6, 1e-3, 0.05):
            for strength in (1e-6, 1.0):
                guarantee = Guarantee(epsilon, delta)
                statement, _ = paper_fit(KiferObjective(), Problem(loss, L2(strength)), 1000, guarantee, ADD)
                assert statement.certified_epsilon <= epsilon


def test_kifers_pure_noise_is_valid_up_to_the_remainder_for_one_record_more_or_less():
    for epsilon in (0.01, 1.0, 10.0):
        guarantee = Guarantee(epsilon, 0.0)
        one, _ = paper_fit(KiferObjective(), Problem(Logistic(), L1(0.01)), 1000, guarantee, ADD)
        two, _ = paper_fit(KiferObjective(), Problem(Logistic(), L1(0.01)), 1000, guarantee, REPLACE)
        assert one.certified_epsilon == pytest.approx(0.505 * epsilon + math.log1p(epsilon / 2))
        assert one.certified_epsilon <= 1.005 * epsilon
        assert two.certified_epsilon == pytest.approx(1.005 * epsilon + math.log1p(epsilon / 2))
        assert two.certified_epsilon > epsilon


def test_pure_events_add_up():
    one, two = Pure(0.3), Pure(0.5)
    for adjacency in ADJACENCIES:
        assert epsilon_of(Composed([one, two]), 0.0, adjacency) == pytest.approx(0.8, rel=1e-11)
        assert epsilon_of(Repeated(one, 5), 0.0, adjacency) == pytest.approx(1.5, rel=1e-11)
        # Many of them are better off by Rényi accounting, never below the Gaussian that they resemble.
        many = epsilon_of(Repeated(Pure(0.01), 10_000), 1e-6, adjacency)
        assert gaussian_epsilon(0.99, 1e-6) < many < 10.0
