"""Pitfalls 7, 8, 17, 33: the sensitivity of scores, both privacy curves against exact laws, and what is released."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import quad
from scipy.optimize import nnls
from scipy.special import log_softmax, softmax

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.accounting.calibration import calibrate
from dperm.accounting.composition import epsilon_of
from dperm.accounting.renyi import rdp_epsilon
from dperm.kernel.block import Block
from dperm.mechanisms import VertexQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L1Ball, L2Ball, Logistic, Simplex, Softmax, Squared
from dperm.problem.domains.polytope import EntropicDomain
from dperm.solvers import TalwarFrankWolfe
from dperm.unsafe import empirical_risk
from kernel.harness import (
    BoundaryBreach,
    N,
    P,
    Table,
    TaintedOracle,
    base_table,
    hostile_rows,
    ignored_table,
    neighbours,
    record,
    replay,
    setting_of,
)
from kernel.test_trusted_boundary import run_watched

ADJACENCIES = list(Adjacency)
GUARANTEE = Guarantee(1.0, 1e-6)
# No bound on entries, one below the row norm, and one above it that can never bind.
ENTRY_BOUNDS = [None, 0.3, 5.0]


def problem_with(domain=None, loss=None, **more):
    return Problem(loss or Logistic(), domain=domain or L1Ball(2.0), **more)


def points_for(problem):
    """The start, a vertex, and points inside."""
    rng = np.random.default_rng(5)
    size = problem.dimension(P)
    vertex = problem.domain.coefficients(np.eye(problem.domain.n_vertices(size))[0])
    return [(problem.start(P),), (vertex,), *((problem.domain.project(rng.normal(size=size)),) for _ in range(3))]


def winners(query, table, questions, multiplier):
    """Which vertex won, for every question: the l1 ball's vertices are numbered as in `L1Ball.coefficients`."""
    oracle = replay(problem_with(), table, None, query, questions, multiplier)
    answers = np.array(oracle.answers)
    return np.argmax(np.hstack([answers, -answers]), axis=1), oracle


# The sensitivity


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("entry_bound", ENTRY_BOUNDS)
@pytest.mark.parametrize(
    ("domain", "loss"),
    [(L1Ball(2.0), Logistic()), (Simplex(3.0), Squared(target_bound=2.0)), (L1Ball(2.0), Softmax(3))],
    ids=["l1 ball", "simplex", "softmax"],
)
def test_no_hostile_row_moves_a_score_beyond_the_sensitivity(domain, loss, entry_bound, adjacency):
    for intercept in (False, True):
        problem = problem_with(domain, loss, entry_bound=entry_bound, intercept=intercept)
        query = VertexQuery(setting_of(problem, adjacency))
        table = base_table(n_classes=3 if loss.n_outputs > 1 else 2)
        before = replay(problem, table, adjacency, query, points_for(problem))
        for other in neighbours(table, adjacency):
            after = replay(problem, other, adjacency, query, points_for(problem))
            for one, two in zip(before.exact, after.exact, strict=True):
                assert np.isfinite(two).all(), other.name
                assert np.abs(one - two).max() <= query.sensitivity, other.name


@pytest.mark.one_case_in(7)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_sensitivity_smaller_by_five_percent_would_be_exceeded(adjacency):
    """One column makes the slope steep, the other carries it: two rows reach 2 · radius · slope · entry."""
    problem = problem_with(L1Ball(20.0), row_norm=2.0, entry_bound=0.5)
    query = VertexQuery(setting_of(problem, adjacency))
    corner = 20.0 * np.eye(P)[0]
    scores = []
    for carried in (0.5, -0.5):
        table = ignored_table()
        table.X[0] = [-0.5, carried, *np.zeros(P - 2)]
        scores.append(replay(problem, table, adjacency, query, [(corner,)]).exact[0])
    moved = scores[0] - scores[1] if adjacency is Adjacency.REPLACE_ONE else scores[0]
    assert 0.95 * query.sensitivity <= np.abs(moved).max() <= query.sensitivity


def test_replacing_a_row_moves_scores_twice_as_far_as_adding_one():
    one, two = (VertexQuery(setting_of(problem_with(), adjacency)).sensitivity for adjacency in ADJACENCIES)
    assert one == 2.0 * two


def test_the_sensitivity_is_that_of_the_better_geometry():
    by_entry = problem_with(row_norm=10.0, entry_bound=0.5).constants(1000)
    slope = Logistic().slope_bound(1.0)
    assert by_entry.vertex_lipschitz == pytest.approx(2.0 * 0.5 * slope)
    assert by_entry.lipschitz == pytest.approx(10.0 * slope)
    assert by_entry.curvature == pytest.approx(0.25 * (4.0 * 0.5) ** 2)
    by_norm = problem_with(L2Ball(2.0), row_norm=10.0, entry_bound=5.0).constants(1000)
    assert by_norm.vertex_lipschitz == pytest.approx(2.0 * 10.0)
    assert by_norm.curvature == pytest.approx(0.25 * (4.0 * 10.0) ** 2)


def test_weights_scale_the_sensitivity():
    light, heavy = (
        VertexQuery(setting_of(problem_with(weight_bound=bound), Adjacency.REPLACE_ONE)) for bound in (1.0, 3.0)
    )
    assert heavy.sensitivity == pytest.approx(3.0 * light.sensitivity)


# Bounded entries


@pytest.mark.parametrize(("row_norm", "entry_bound"), [(1.0, 0.3), (3.0, 0.7), (1.0, 1.0), (0.5, 2.0)])
def test_clipped_rows_keep_both_bounds_to_the_last_digit(row_norm, entry_bound):
    rng = np.random.default_rng(1)
    for p in (1, 3, 54, 1000):
        X = rng.normal(size=(300, p)) * 10.0 ** rng.uniform(-3, 8, size=(300, 1))
        X[:50, 0] *= 1e5  # one entry that stands out
        for table in (X, sparse.csr_matrix(X)):
            rows = Block.from_table(
                table, np.ones(300), Problem(Logistic(), row_norm=row_norm, entry_bound=entry_bound)
            )
            scaled = [[float(s) * float(v) for v in x] for s, x in zip(rows.scale, X, strict=True)]
            assert max(max(map(abs, x)) for x in scaled) <= entry_bound
            assert max(math.sqrt(math.fsum(v * v for v in x)) for x in scaled) <= row_norm


def test_clipping_scales_by_the_tighter_of_the_two_bounds():
    X = np.array([[3.0, 4.0], [0.2, 0.1], [0.6, 0.0], [4.0, 0.1]])
    rows = Block.from_table(X, np.ones(4), Problem(Logistic(), row_norm=2.0, entry_bound=0.5))
    np.testing.assert_allclose(rows.scale, [0.125, 1.0, 0.5 / 0.6, 0.125], rtol=1e-14)


def test_hostile_rows_keep_both_bounds_or_count_as_nothing():
    problem = Problem(Logistic(), row_norm=2.0, entry_bound=0.5)
    X, y = np.array([x for _, x, _ in hostile_rows()]), np.array([target for *_, target in hostile_rows()])
    for table in (X, sparse.csr_matrix(X)):
        rows = Block.from_table(table, y, problem)
        counted = rows.weight > 0
        assert (np.abs(rows.scale[counted, None] * X[counted]) <= 0.5).all()
        np.testing.assert_array_equal(counted, (np.abs(X) <= 1e150).all(axis=1) & np.isfinite(y))


def test_the_constant_column_is_an_entry_like_others():
    problem = problem_with(row_norm=3.0, entry_bound=0.5, intercept=True)
    assert problem.intercept_value == 0.5
    assert problem.full_row_norm == pytest.approx(math.hypot(3.0, 0.5))
    assert problem.constants(P).vertex_lipschitz == pytest.approx(2.0 * 0.5 * Logistic().slope_bound(1.0))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", 1e-200, 1e200])
def test_a_degenerate_bound_on_entries_is_refused(bad):
    with pytest.raises(InvalidParameterError, match="entry_bound"):
        Problem(Logistic(), entry_bound=bad)


def test_a_declared_bound_on_entries_is_in_the_statement():
    with_bound = FitOptions(problem_with(entry_bound=0.25), guarantee=GUARANTEE).plan(N, P).privacy
    assert "clipped to ‖x‖₂ ≤ 1 and ‖x‖_∞ ≤ 0.25;" in str(with_bound)
    assert "∞" not in str(FitOptions(problem_with(), guarantee=GUARANTEE).plan(N, P).privacy)
    assert type(with_bound).from_dict(with_bound.to_dict()) == with_bound


# Gumbel noise


def test_gumbel_noise_wins_with_the_probabilities_of_the_exponential_mechanism():
    query = VertexQuery(setting_of(problem_with(), Adjacency.REPLACE_ONE))
    draws, w = 20_000, points_for(problem_with())[3]
    multiplier = 5.0
    won, oracle = winners(query, base_table(), [w] * draws, multiplier)
    expected = softmax(oracle.exact[0] / (multiplier * query.sensitivity))
    assert expected.max() > 3 * expected.min()  # so that uniform answers would be noticed
    # Five standard errors of a binomial share; ten of them: false alarm 6e-6, and the seed is fixed.
    found = np.bincount(won, minlength=2 * P) / draws
    assert (np.abs(found - expected) <= 5 * np.sqrt(expected * (1 - expected) / draws)).all()


def neighbouring_scores(sensitivity, rng):
    """Score vectors that adjacent tables could have: near and far apart, moved by Δ and by less."""
    for size in (2, 3, 6):
        for spread in (0.0, 0.3, 1.0, 3.0, 10.0):
            scores = spread * sensitivity * rng.normal(size=size)
            for _ in range(20):
                yield scores, scores + sensitivity * rng.choice([-1.0, 1.0], size=size)
                yield scores, scores + sensitivity * rng.uniform(-1.0, 1.0, size=size)
    # Two even candidates that trade places: the worst case for much noise.
    yield sensitivity * np.array([0.5, -0.5]), sensitivity * np.array([-0.5, 0.5])


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 5.0, 50.0])
def test_the_privacy_loss_of_gumbel_noise_has_its_range_and_five_percent_less_would_be_exceeded(multiplier):
    """The exact losses of the exponential mechanism on small score vectors."""
    query = VertexQuery(setting_of(problem_with(), Adjacency.REPLACE_ONE))
    length, worst = query.event(multiplier).epsilon, 0.0
    for pair in neighbouring_scores(query.sensitivity, np.random.default_rng(0)):
        p, q = (log_softmax(scores / (multiplier * query.sensitivity)) for scores in pair)
        worst = max(worst, np.ptp(p - q) / length)
    assert 0.95 < worst <= 1.0 + 1e-9


# Laplace noise, the published form


def laplace_win(gap):
    """P(gap + A − B > 0) for independent Laplace A and B of scale 1: the tail of their sum is (½ + x/4) e^{−x}."""
    tail = (0.5 + abs(gap) / 4.0) * math.exp(-abs(gap))
    return 1.0 - tail if gap > 0 else tail


def laplace_wins(scores):
    """Probability of every winner, by integrating over its own noise; scores in units of the noise."""

    def density(x, own):
        others = np.prod([0.5 * math.exp(y) if y < 0 else 1 - 0.5 * math.exp(-y) for y in x - np.delete(scores, own)])
        return 0.5 * math.exp(-abs(x - scores[own])) * others

    edges = sorted({*scores, scores.min() - 60.0, scores.max() + 60.0})
    return np.array(
        [sum(quad(density, a, b, args=(own,))[0] for a, b in itertools.pairwise(edges)) for own in range(scores.size)]
    )


def test_two_candidates_win_as_the_closed_form_says():
    for gap in (-3.0, -0.2, 0.0, 1.5):
        assert laplace_wins(np.array([gap, 0.0]))[0] == pytest.approx(laplace_win(gap), rel=1e-6)


def test_laplace_noise_wins_with_its_probabilities():
    query = VertexQuery(setting_of(problem_with(), Adjacency.REPLACE_ONE), noise="laplace")
    draws, multiplier = 20_000, 4.0
    won, oracle = winners(query, base_table(), [points_for(problem_with())[3]] * draws, multiplier)
    expected = laplace_wins(oracle.exact[0] / (multiplier * query.sensitivity))
    assert expected.sum() == pytest.approx(1.0, abs=1e-6)
    found = np.bincount(won, minlength=2 * P) / draws
    # As for Gumbel noise.
    assert (np.abs(found - expected) <= 5 * np.sqrt(expected * (1 - expected) / draws)).all()


@pytest.mark.parametrize("multiplier", [0.5, 2.0, 20.0])
def test_the_price_of_laplace_noise_holds_for_two_vertices_and_five_percent_less_would_not(multiplier):
    query = VertexQuery(setting_of(problem_with(), Adjacency.REPLACE_ONE), noise="laplace")
    epsilon = query.event(multiplier).epsilon
    # One score rises by Δ and the other falls by Δ.
    losses = [
        math.log(laplace_win(gap + 2.0 / multiplier) / laplace_win(gap)) for gap in np.linspace(-300.0, 300.0, 2001)
    ]
    assert 0.95 * epsilon < max(losses) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("multiplier", [0.5, 2.0])
def test_the_price_of_laplace_noise_holds_for_more_vertices(multiplier):
    query = VertexQuery(setting_of(problem_with(), Adjacency.REPLACE_ONE), noise="laplace")
    rng = np.random.default_rng(3)
    for _ in range(10):
        scores = rng.normal(size=4) * rng.choice([0.1, 1.0, 4.0])
        moved = scores + rng.choice([-1.0, 1.0], size=4) / multiplier
        losses = np.log(laplace_wins(scores) / laplace_wins(moved))
        assert np.abs(losses).max() <= query.event(multiplier).epsilon + 1e-6


# Accounting


def planned(noise, n_steps=100, adjacency=Adjacency.REPLACE_ONE):
    query = VertexQuery(setting_of(problem_with(), adjacency), noise=noise)
    return Plan("test", (PlannedQuery(query, n_steps),), {})


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("n_steps", [1, 20, 1000])
@pytest.mark.parametrize("guarantee", [Guarantee(0.2, 1e-6), Guarantee(1.0, 1e-6), Guarantee(8.0, 1e-3)], ids=str)
def test_gumbel_noise_is_less_than_the_published_laplace_noise(guarantee, n_steps):
    gumbel = calibrate(planned("gumbel", n_steps), guarantee)
    assert epsilon_of(gumbel.event(), guarantee.delta, Adjacency.REPLACE_ONE) <= guarantee.epsilon
    # The published scale over Δ = 2 L₁‖C‖₁/n.
    published = math.sqrt(8.0 * n_steps * math.log(1.0 / guarantee.delta)) / (2.0 * guarantee.epsilon)
    if guarantee.epsilon <= 1.0:
        assert gumbel.noise_multiplier < published
    if n_steps > 1:  # Laplace noise that is accounted for as well needs more than Gumbel noise does
        assert gumbel.noise_multiplier < calibrate(planned("laplace", n_steps), guarantee).noise_multiplier


def test_the_published_noise_is_stated_with_what_can_be_certified_for_it():
    fit = FitOptions(problem_with(), guarantee=GUARANTEE, solver=TalwarFrankWolfe(n_steps=50), noise="paper").plan(
        5000, P
    )
    expected = 2.0 * Logistic().slope_bound(2.0) * math.sqrt(8 * 50 * math.log(1e6)) / 5000
    assert fit.statement.sigma == pytest.approx(expected, rel=1e-6)
    assert fit.statement.distribution == "Laplace"
    assert fit.statement.certified_epsilon > 1.0
    assert not fit.statement.for_release


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_renyi_accounting_by_other_code_agrees(adjacency):
    calibrated = calibrate(planned("gumbel", 300, adjacency), GUARANTEE)
    check = rdp_epsilon(calibrated.event(), GUARANTEE.delta, adjacency)
    assert 1.0 <= check / epsilon_of(calibrated.event(), GUARANTEE.delta, adjacency) <= 1.08


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_degenerate_multiplier_is_refused(bad):
    for noise in ("gumbel", "laplace"):
        with pytest.raises(InvalidParameterError):
            VertexQuery(setting_of(problem_with(), Adjacency.REPLACE_ONE), noise=noise).event(bad)


def test_a_vertex_cannot_be_asked_for_where_there_are_none():
    with pytest.raises(InvalidParameterError, match="lists its vertices"):
        VertexQuery(setting_of(problem_with(L2Ball(2.0)), Adjacency.REPLACE_ONE))
    with pytest.raises(InvalidParameterError, match="noise must be one of"):
        VertexQuery(setting_of(problem_with(), Adjacency.REPLACE_ONE), noise="gaussian")


# What leaves


@pytest.mark.parametrize("noise", [0.5, 50.0, None])
def test_nothing_but_a_vertex_leaves(noise):
    for problem in (problem_with(), problem_with(Simplex(3.0)), problem_with(loss=Softmax(3))):
        query = VertexQuery(setting_of(problem, Adjacency.REPLACE_ONE))
        size = problem.dimension(P)
        vertices = {tuple(problem.domain.coefficients(one)) for one in np.eye(problem.domain.n_vertices(size))}
        answers = replay(problem, base_table(), None, query, points_for(problem) * 20, noise).answers
        assert {tuple(answer) for answer in answers} <= vertices


def test_without_noise_the_steepest_vertex_wins():
    problem = problem_with()
    query = VertexQuery(setting_of(problem, Adjacency.REPLACE_ONE))
    oracle = replay(problem, base_table(), None, query, points_for(problem), None)
    gradients = record(problem, base_table(), Adjacency.REPLACE_ONE, [w for (w,) in points_for(problem)])[0].exact
    for gradient, vertex in zip(gradients, oracle.answers, strict=True):
        assert vertex @ gradient == pytest.approx(-2.0 * np.abs(gradient).max(), rel=1e-12)


class ReadsTheScores(TalwarFrankWolfe):
    def run(self, oracle, problem, plan, start):
        return start + oracle._sums.gradient(start).min()


def test_the_wall_catches_a_solver_that_reads_the_scores():
    with pytest.raises(BoundaryBreach):
        run_watched(ReadsTheScores(), base_table(), problem_with(), TaintedOracle)


def test_sparse_rows_have_the_same_scores_as_dense_ones():
    problem = problem_with(entry_bound=0.3)
    query = VertexQuery(setting_of(problem, Adjacency.REPLACE_ONE))
    table = base_table()
    table.X[np.abs(table.X) < 0.5] = 0.0
    dense, thin = (
        replay(problem, table, None, query, points_for(problem), as_rows=rows) for rows in (None, sparse.csr_matrix)
    )
    np.testing.assert_allclose(dense.exact, thin.exact, rtol=1e-12, atol=1e-16)
    np.testing.assert_array_equal(dense.answers, thin.answers)


# A polytope of one's own


@dataclass(frozen=True)
class Hull(EntropicDomain):
    """The convex hull of listed points around 0."""

    points: tuple[tuple[float, ...], ...]
    name = "hull"

    @property
    def _matrix(self):
        return np.array(self.points)

    def n_vertices(self, dimension):
        return len(self.points)

    def coefficients(self, point):
        return point @ self._matrix

    def pull_back(self, gradient):
        return self._matrix @ gradient

    def project(self, w):
        # Weights with a sum of 1, which a heavy last row enforces.
        heavy = 1e6
        weights, _ = nnls(np.vstack([self._matrix.T, np.full(len(self.points), heavy)]), np.append(w, heavy))
        return self.coefficients(weights / weights.sum())

    def minkowski_norm(self, w):
        raise NotImplementedError

    def dual_norm(self, v):
        return float(np.abs(self._matrix @ v).max())

    def norm_bound(self, dimension):
        return float(np.linalg.norm(self._matrix, axis=1).max())

    def diameter(self, dimension):
        return float(max(np.linalg.norm(a - b) for a in self._matrix for b in self._matrix))

    def gaussian_width(self, dimension):
        return math.sqrt(dimension) * self.norm_bound(dimension)


HEXAGON = Hull(tuple((2.0 * math.cos(k * math.pi / 3), 2.0 * math.sin(k * math.pi / 3), 0.1 * k) for k in range(6)))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_polytope_of_ones_own_keeps_its_sensitivity(adjacency):
    problem = problem_with(HEXAGON, entry_bound=0.6)
    query = VertexQuery(setting_of(problem, adjacency, n_features=3))
    thin = lambda table: Table(table.X[:, :3], table.y, table.name)  # noqa: E731
    questions = [(np.array(point),) for point in HEXAGON.points]
    before = replay(problem, thin(base_table()), adjacency, query, questions)
    for other in neighbours(base_table(), adjacency):
        after = replay(problem, thin(other), adjacency, query, questions)
        assert max(np.abs(a - b).max() for a, b in zip(before.exact, after.exact, strict=True)) <= query.sensitivity


def test_a_polytope_of_ones_own_is_minimised_over():
    problem = problem_with(HEXAGON)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3)) / 2
    y = np.sign(X @ np.array([1.0, -0.5, 0.2]) + 0.3 * rng.normal(size=20_000))
    best = minimize(problem, X, y, guarantee=None, noise=None, solver="talwar-frank-wolfe")
    private = minimize(problem, X, y, guarantee=GUARANTEE, solver="talwar-frank-wolfe", random_state=0)
    excess = empirical_risk(problem, X, y, private.w) - empirical_risk(problem, X, y, best.w)
    start = empirical_risk(problem, X, y, problem.start(3)) - empirical_risk(problem, X, y, best.w)
    assert 0 <= excess < 0.2 * start
