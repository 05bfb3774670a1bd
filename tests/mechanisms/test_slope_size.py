"""The size of slopes, and objective perturbation that follows it: docs/proofs/slope_size.md."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.special import ndtr
from scipy.stats import kstest

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.accounting.composition import delta_of
from dperm.accounting.events import Composed, Gaussian, ObjectivePerturbation
from dperm.mechanisms import AdaptedObjectiveQuery, SlopeSizeQuery
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Huber, L2Ball, Logistic, Softmax, Squared
from dperm.solvers import DPRegression
from kernel.harness import (
    Liar,
    N,
    P,
    Table,
    base_table,
    ignored_table,
    neighbours,
    only_row,
    replay,
    setting_of,
)
from kernel.test_trusted_boundary import check_solver

ADJACENCIES = list(Adjacency)
REPLACE = Adjacency.REPLACE_ONE
STORAGE = {"dense": None, "sparse": sparse.csr_array}


def exact(query, problem, table, points, share=1.0, **more):
    questions = [(w, np.array([share])) for w in points]
    return replay(problem, table, query.setting.adjacency, query, questions, **more).exact


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("intercept", [False, True])
def test_it_is_the_mean_slope_and_the_mean_size_over_their_bound(intercept, storage):
    problem = Problem(Squared(0.5), row_norm=2.0, intercept=intercept, weight_bound=3.0)
    table = base_table()
    table.weights = np.linspace(0.0, 3.0, N)
    w = np.linspace(-0.4, 0.7, problem.dimension(P))
    X = table.X * np.minimum(1.0, 2.0 / np.linalg.norm(table.X, axis=1))[:, None]
    full = np.column_stack([X, np.full(N, 2.0)]) if intercept else X
    query = SlopeSizeQuery(setting_of(problem, REPLACE))
    for share in (1.0, 0.3):
        slopes = np.clip(full @ w - np.clip(table.y, -0.5, 0.5), -share, share)  # the bound is 2 · 0.5
        wanted = [(table.weights * slopes).mean() / 3.0, (table.weights * np.abs(slopes)).mean() / 3.0]
        (seen,) = exact(query, problem, table, [w], share, as_rows=STORAGE[storage])
        np.testing.assert_allclose(seen, wanted, rtol=1e-12)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("share", [1.0, 0.1, 1e-6])
@pytest.mark.parametrize("loss", [Squared(), Huber(0.5), Logistic(), Liar()], ids=repr)
def test_no_hostile_row_moves_it_beyond_its_sensitivity(loss, share, adjacency):
    problem = Problem(loss, intercept=True)
    query = SlopeSizeQuery(setting_of(problem, adjacency))
    points = [np.zeros(P + 1), np.linspace(-1.0, 1.0, P + 1), np.full(P + 1, 1e9)]
    before = exact(query, problem, base_table(), points, share)
    for other in neighbours(base_table(), adjacency):
        place = 0 if adjacency is REPLACE else -1
        for target in (other.y[place], 1e9, -1e9):
            y = other.y.copy()
            y[place] = target
            for one, two in zip(
                before, exact(query, problem, Table(other.X, y), points, share), strict=True
            ):  # fmt: skip
                assert np.linalg.norm(one - two) <= query.sensitivity_of(share), other.name


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_rows_exist_that_reach_the_sensitivity(share):
    """Five per cent less would be too little."""
    problem, w = Problem(Huber(1.0, 5.0)), [np.zeros(P)]
    for adjacency in ADJACENCIES:
        query = SlopeSizeQuery(setting_of(problem, adjacency))
        (up,), (down,) = (exact(query, problem, only_row(np.eye(P)[0], sign), w, share) for sign in (-5.0, 5.0))
        moved = np.linalg.norm(up - down) if adjacency is REPLACE else np.linalg.norm(up)
        assert 0.95 * query.sensitivity_of(share) < moved <= query.sensitivity_of(share)


def test_the_noise_is_in_proportion_to_the_share():
    problem = Problem(Squared())
    query = SlopeSizeQuery(setting_of(problem, REPLACE))
    for asked, share in ((0.1, 0.1), (1.0, 1.0), (7.0, 1.0)):
        questions = [(np.zeros(P), np.array([asked]))] * 300
        oracle = replay(problem, ignored_table(), REPLACE, query, questions, noise=1.7)
        sigma = 1.7 * query.sensitivity_of(share)
        assert set(oracle.sigmas) == {sigma}
        assert kstest(np.ravel(oracle.answers) / sigma, "norm").pvalue > 1e-4


def test_what_it_cannot_be_asked_for_is_refused():
    with pytest.raises(InvalidParameterError, match="single-output"):
        SlopeSizeQuery(setting_of(Problem(Softmax(3)), REPLACE))
    with pytest.raises(InvalidParameterError, match="single-output"):
        AdaptedObjectiveQuery(setting_of(Problem(Softmax(3), L2(0.1)), REPLACE), 0.1, 1e-6, 0.01, "Gaussian")
    setting = setting_of(Problem(Squared(), L2(0.1)), REPLACE)
    with pytest.raises(InvalidParameterError, match="Gaussian"):
        AdaptedObjectiveQuery(setting, 0.1, 1e-6, 0.01, "Gamma")
    with pytest.raises(InvalidParameterError, match="share"):
        AdaptedObjectiveQuery(setting, 0.1, 1e-6, 0.01, "Gaussian", 0.5)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_an_adapted_objective_has_noise_for_its_share_and_never_less_ridge_than_was_planned(adjacency):
    problem, table = Problem(Squared(), row_norm=2.0), base_table()
    query = AdaptedObjectiveQuery(setting_of(problem, adjacency), 0.3, 1e-7, 0.5, "Gaussian")
    moved = query.setting.adjacency.records_moved * 2.0 * 2.0
    X = table.X * np.minimum(1.0, 2.0 / np.linalg.norm(table.X, axis=1))[:, None]
    centre = np.linspace(-0.2, 0.3, P)
    for share, ridge, used in ((0.25, 0.0, 0.3), (0.25, 2.0, 2.0), (3.0, -1.0, 0.3)):
        numbers = np.array([share, ridge])
        oracle = replay(problem, table, adjacency, query, [(centre, numbers)], noise=1.5)
        kept = min(share, 1.0)
        assert oracle.sigmas[0] == pytest.approx(1.5 * kept * moved, rel=1e-12)
        linear, w = oracle.left_the_gate[0][0], oracle.exact[1]
        slopes = np.clip(X @ w - table.y, -2.0 * kept, 2.0 * kept)
        gradient = X.T @ slopes / N + used * (w - centre) + linear / N
        assert np.linalg.norm(gradient) <= 1e-7


def test_the_cost_of_an_adapted_objective_does_not_depend_on_what_it_is_asked_with():
    setting = setting_of(Problem(Squared(), L2(0.1)), REPLACE)
    query = AdaptedObjectiveQuery(setting, 0.2, 1e-6, 0.01, "Gaussian")
    curvature = math.log1p(setting.constants.smoothness / (N * 0.3))
    assert query.event(2.0) == ObjectivePerturbation(4.0, pytest.approx(curvature), False, 0.01)


# --- The law of a size and of a minimiser that follows it, on one column ---

TARGETS, LEAST, SIZE_NOISE, LINEAR_NOISE = 3.0, 8.0, 1.2, 1.0
SIZES = np.linspace(-8.0, 9.0, 69)


def follow(size):
    """A share and a ridge, in the scale of sums: an attacker's choice."""
    return np.clip(0.3 + 0.25 * size, 0.05, 1.0), np.where(size > 0.5, LEAST, 2.0 * LEAST)


def law(rows, cuts):
    """Probabilities of cells: a noisy Σ|s| at w = 0 between two of `SIZES`, and ŵ ≤ cut for every cut.

    The middle of a cell decides what follows, so that the mechanism is exactly the one that is audited here.
    """
    total = sum(min(abs(y), 1.0) for _, y in rows)
    edges = np.concatenate([[-np.inf], SIZES, [np.inf]])
    chances = np.diff(ndtr((edges - total) / SIZE_NOISE))
    middles = np.concatenate([[SIZES[0]], 0.5 * (SIZES[1:] + SIZES[:-1]), [SIZES[-1]]])
    cells = []
    for chance, size in zip(chances, middles, strict=True):
        share, ridge = follow(size)
        g = ridge * cuts + sum((x * np.clip(x * cuts - y, -share, share) for x, y in rows), np.zeros(cuts.size))
        z = np.concatenate([[-np.inf], g / (LINEAR_NOISE * share), [np.inf]])
        right = z[:-1] > 0.0
        inside = ndtr(np.where(right, -z[:-1], z[1:])) - ndtr(np.where(right, -z[1:], z[:-1]))
        cells.append(chance * inside)
    return np.concatenate(cells)


def largest_delta(adjacency, epsilon):
    """Σ (P − e^ε Q)₊ over cells is at most the true δ; the largest over adversarial tables."""
    cuts, worst = np.linspace(-3.0, 3.0, 1201), 0.0
    common = [[], [(1.0, 0.3)], [(1.0, -0.6), (1.0, 0.2)]]
    for rows in common:
        for y in (-TARGETS, TARGETS):
            one = [*rows, (1.0, y)]
            others = [[*rows, (1.0, -y)], [*rows, (-1.0, y)], [*rows, (0.0, 0.0)]] if adjacency is REPLACE else [rows]
            for two in others:
                p, q = law(one, cuts), law(two, cuts)
                for a, b in ((p, q), (q, p)):
                    worst = max(worst, float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum()))
    return worst


def certified(adjacency, epsilon, noise=1.0):
    """δ of the events that the queries have: a size of Σ|s| alone moves by at most 1."""
    moved = adjacency.records_moved
    size = Gaussian(noise * SIZE_NOISE * moved)  # relative to one record of what dp-accounting counts
    objective = ObjectivePerturbation(noise * LINEAR_NOISE, math.log1p(1.0 / LEAST), False, 0.0)
    return delta_of(Composed((size, objective)), epsilon, adjacency)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_minimiser_that_follows_a_released_size_keeps_the_certified_delta(adjacency):
    for epsilon in (0.5, 1.0, 2.0):
        assert largest_delta(adjacency, epsilon) <= certified(adjacency, epsilon)


def test_too_little_noise_is_caught_by_the_same_tables():
    """The two bounds are attained by different tables, so their sum has some room; each alone has none."""
    assert largest_delta(Adjacency.ADD_REMOVE, 4.0) > certified(Adjacency.ADD_REMOVE, 4.0, noise=1.1)


# --- The solver ---


@pytest.mark.parametrize("problem", [Problem(Squared(), intercept=True), Problem(Huber(0.5), L2(0.1), L2Ball(2.0))])
def test_the_solver_sees_no_row(problem, capsys, caplog):
    check_solver(DPRegression(), problem, capsys, caplog)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_all_that_a_plan_asks_for_costs_no_more_than_the_guarantee(adjacency):
    guarantee = Guarantee(0.7, 1e-6)
    fit = FitOptions(Problem(Squared(), intercept=True), guarantee=guarantee, solver=DPRegression(),
                     adjacency=adjacency).plan(2000, P)  # fmt: skip
    assert delta_of(fit.event, 0.7, Adjacency.parse(adjacency)) <= 1e-6
    assert fit.statement.n_steps == 6


def two_sided(mu, epsilons):
    """δ of the worse of two opposite shifts by μ; 1 for negative ε, where nothing is claimed."""
    start = np.maximum(0.0, epsilons / mu - mu / 2.0)
    return np.where(epsilons < 0.0, 1.0, 2.0 * (ndtr(-start) - np.exp(epsilons) * ndtr(-start - mu)))


def shifts(event, adjacency):
    kappa = 1.0 / event.noise_multiplier
    return [kappa] if adjacency is Adjacency.ADD_REMOVE else [2.0 * kappa, math.sqrt(2.0) * kappa]


def pair_of_the_curve(event, adjacency, grid):
    """Theorem 2 of composition.md from theorem 2 of objective_perturbation.md: losses from −ε_N to ε_N, and ∞."""
    shifted = grid - event.remainder - event.log_jacobian
    points = np.append(-1.0, np.exp(grid))
    bounds = np.append(1.0, np.minimum(1.0, sum(two_sided(mu, shifted) for mu in shifts(event, adjacency))))
    corners = [0]
    for place in range(1, points.size):
        while len(corners) > 1:
            (x, y), (u, v) = ((points[at], bounds[at]) for at in corners[-2:])
            if (v - y) * (points[place] - u) < (bounds[place] - v) * (u - x):
                break
            corners.pop()
        corners.append(place)
    convex = np.interp(points, points[corners], bounds[corners])
    above = np.exp(grid) * np.diff(np.append(np.diff(convex) / np.diff(points), 0.0))
    masses = np.concatenate([(np.exp(-grid) * above)[:0:-1], [0.0], above[1:]])
    masses[grid.size - 1] = 1.0 - convex[-1] - masses.sum()
    return masses, grid.size - 1, convex[-1]


def pair_of_the_tail(event, adjacency, grid):
    """Theorem 5 of objective_perturbation.md: losses from 0 on, and ∞."""
    left = grid - event.remainder - event.log_jacobian
    tail = sum(2.0 * ndtr(mu / 2.0 - left / mu) for mu in shifts(event, adjacency))
    tail = np.where(left < 0.0, 1.0, np.minimum(1.0, tail))
    return -np.diff(tail, prepend=1.0), 0, tail[-1]


@pytest.mark.parametrize("guarantee", [Guarantee(1.0, 1e-6), Guarantee(0.2, 1e-5)], ids=str)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_accountant_composes_the_pairs_that_the_proof_names(adjacency, guarantee):
    """Composed here on a grid of another kind. The pairs of theorem 5 would give more than was promised."""
    problem = Problem(Squared(), intercept=True)
    event = FitOptions(problem, guarantee=guarantee, solver="dp-regression", adjacency=adjacency).plan(20_000, P).event
    leaves = list(event.leaves())
    minimisers = [leaf for leaf, _ in leaves if isinstance(leaf, ObjectivePerturbation)]
    assert (len(minimisers), sum(count for _, count in leaves)) == (2, 6)
    precision = sum(count / leaf.noise_multiplier**2 for leaf, count in leaves if isinstance(leaf, Gaussian))
    mu = adjacency.records_moved * math.sqrt(precision)
    grid = np.arange(8001) * guarantee.epsilon / 2000

    def delta_by(pair_of):
        masses, zero, lost = np.ones(1), 0, 0.0
        for minimiser in minimisers:
            more, at, infinite = pair_of(minimiser, adjacency, grid)
            masses, zero, lost = np.convolve(masses, more), zero + at, lost + infinite
        left = guarantee.epsilon - (np.arange(masses.size) - zero) * grid[1]
        return masses @ (ndtr(mu / 2 - left / mu) - np.exp(left) * ndtr(-mu / 2 - left / mu)) + lost

    certified = delta_of(event, guarantee.epsilon, adjacency)
    assert delta_by(pair_of_the_curve) == pytest.approx(certified, rel=0.005)
    assert delta_by(pair_of_the_tail) > 1.01 * certified


@pytest.mark.parametrize("target", [1e9, -1e9, np.nan])
def test_hostile_rows_do_not_stop_it(target):
    table = base_table()
    table.X[:20], table.y[:20] = 1e6, target
    release = minimize(Problem(Squared(), intercept=True), table.X, table.y, guarantee=Guarantee(1.0, 1e-6),
                       solver="dp-regression", random_state=0)  # fmt: skip
    assert np.isfinite(release.w).all()
