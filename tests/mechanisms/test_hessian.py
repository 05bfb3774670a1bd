"""The Hessian, its smallest eigenvalue, and gradients with noise for the slopes at a point."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import kstest

from contracts.discovered import LOSSES
from dperm import FitOptions, Guarantee, InvalidParameterError, PlanExceededError, Problem
from dperm.accounting.composition import curve_of
from dperm.accounting.curve import gaussian_epsilon, gaussian_mu
from dperm.accounting.events.sampled.curve import SampledCurve
from dperm.kernel.block import Block
from dperm.kernel.noise import Randomness
from dperm.kernel.objectives import objective_of
from dperm.kernel.oracle import Oracle
from dperm.kernel.symmetric import to_matrix, to_vector
from dperm.mechanisms import HessianQuery, LocalGradientQuery, SmallestEigenvalueQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.paper.printed import published_plan
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Huber, L2Ball, Logistic, SmoothedHinge, Softmax, Squared
from dperm.rows.arrays import ArraySource
from dperm.solvers import AdaSSP, DPNewton
from kernel.harness import Liar, N, P, Table, base_table, ignored_table, neighbours, only_row, replay, setting_of
from kernel.test_trusted_boundary import check_solver

ADJACENCIES = list(Adjacency)
SCALAR = [loss for loss in LOSSES if loss.n_outputs == 1]
STORAGE = {"dense": None, "float32": lambda X: np.clip(X, -3e38, 3e38).astype(np.float32), "sparse": sparse.csr_array}


def problem_for(loss, **more):
    return Problem(loss, domain=L2Ball(3.0), **more)


def exact(query, problem, table, points, **more):
    """What the oracle computes before noise."""
    return replay(problem, table, query.setting.adjacency, query, [(w,) for w in points], **more).exact


def points_for(problem):
    rng = np.random.default_rng(5)
    p = problem.dimension(P)
    return [np.zeros(p), 0.5 * rng.normal(size=p), 3.0 * np.sign(rng.normal(size=p)) / math.sqrt(p)]


def basis_row(k, sign=1.0):
    return sign * np.eye(P)[k]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("storage", STORAGE)
def test_it_is_the_mean_of_curvature_times_outer_products(storage, intercept):
    problem = Problem(Logistic(), row_norm=2.0, intercept=intercept, weight_bound=3.0)
    table = base_table()
    table.weights = np.linspace(0.0, 3.0, N)
    w = np.linspace(-0.4, 0.7, problem.dimension(P))
    query = HessianQuery(setting_of(problem, Adjacency.ADD_REMOVE))
    X = table.X * np.minimum(1.0, 2.0 / np.linalg.norm(table.X, axis=1))[:, None]
    full = np.column_stack([X, np.full(N, 2.0)]) if intercept else X
    chance = 1.0 / (1.0 + np.exp(-full @ w))
    wanted = (full * (table.weights * chance * (1.0 - chance))[:, None]).T @ full / N
    (vector,) = exact(query, problem, table, [w], as_rows=STORAGE[storage])
    np.testing.assert_allclose(to_matrix(vector, w.size), wanted, atol=1e-9 if storage != "float32" else 1e-6)


@pytest.mark.parametrize("loss", [*SCALAR, Liar()], ids=repr)
def test_curvatures_are_clipped_whatever_the_loss_returns(loss):
    problem = problem_for(loss)
    query = HessianQuery(setting_of(problem, Adjacency.ADD_REMOVE))
    for target in (-1e9, 0.3, 1e9):
        for vector in exact(query, problem, only_row(basis_row(1), target), points_for(problem)):
            assert np.linalg.norm(vector) <= query.sensitivity
            assert np.linalg.eigvalsh(to_matrix(vector, P)).min() >= -1e-18


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("loss", "query_type"),
    [
        (Logistic(), HessianQuery),
        (Huber(0.5), HessianQuery),
        (Liar(), HessianQuery),
        (Squared(), SmallestEigenvalueQuery),
        (Squared(), LocalGradientQuery),
        (Liar(), LocalGradientQuery),
    ],
    ids=repr,
)
def test_no_hostile_row_moves_an_answer_beyond_its_sensitivity(loss, query_type, adjacency):
    problem = problem_for(loss, intercept=True)
    query, points = query_type(setting_of(problem, adjacency)), points_for(problem)
    before = exact(query, problem, base_table(), points)
    for other in neighbours(base_table(), adjacency):
        for w, one, two in zip(points, before, exact(query, problem, other, points), strict=True):
            local = query.sensitivity_at(w) if query_type is LocalGradientQuery else query.sensitivity
            assert np.linalg.norm(one - two) <= local, other.name


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [Logistic(), Squared(2.0), Huber(0.5), SmoothedHinge(0.3)], ids=repr)
def test_rows_exist_that_reach_the_declared_sensitivity_of_the_hessian(loss, intercept, adjacency):
    """A constant smaller by 5 % would be exceeded: √2 for orthogonal rows that trade places, 1 for one that comes."""
    problem = Problem(loss, domain=L2Ball(3.0), row_norm=1.5, weight_bound=2.0, intercept=intercept)
    query = HessianQuery(setting_of(problem, adjacency))
    # At the corner of the hinge the margin must be 1, elsewhere 0; with a constant column rows ±x are orthogonal.
    first, second = (basis_row(0), basis_row(0, -1.0)) if intercept else (basis_row(0), basis_row(1))
    w = np.zeros(problem.dimension(P))
    if isinstance(loss, SmoothedHinge):
        w[-1 if intercept else slice(0, 2)] = 0.9 / 1.5
    tables = [only_row(1.5 * x, 0.0 if loss.clipped_range else 1.0, 2.0) for x in (first, second)]
    if adjacency is Adjacency.ADD_REMOVE:
        tables[1] = ignored_table()
    one, two = (exact(query, problem, table, [w])[0] for table in tables)
    assert 0.95 * query.sensitivity < np.linalg.norm(one - two) <= query.sensitivity


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_random_search_for_worse_rows_finds_none_and_comes_close(adjacency):
    problem, rng = Problem(Squared(), domain=L2Ball(3.0), row_norm=2.0), np.random.default_rng(1)
    query, largest = HessianQuery(setting_of(problem, adjacency)), 0.0
    before = exact(query, problem, ignored_table(), [np.zeros(P)])[0]
    for _ in range(30):
        x, z = rng.normal(size=(2, P))
        z -= (z @ x) / (x @ x) * x * rng.integers(2)  # half of them orthogonal
        one, two = (exact(query, problem, only_row(10.0 * row, 0.0), [np.zeros(P)])[0] for row in (x, z))
        moved = np.linalg.norm(one - (two if adjacency is Adjacency.REPLACE_ONE else before))
        assert moved <= query.sensitivity
        largest = max(largest, moved)
    assert largest > 0.95 * query.sensitivity


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_smallest_eigenvalue_moves_by_all_that_is_declared(adjacency):
    """Rows along all axes but one, then one more along it: the smallest eigenvalue rises from 0 by R²/n."""
    problem = problem_for(Squared())
    query = SmallestEigenvalueQuery(setting_of(problem, adjacency))
    X = np.tile(np.eye(P)[1:], (40, 1))
    with_it = np.vstack([X, np.eye(P)[:1]])
    without = np.vstack([X, np.eye(P)[1:2]]) if adjacency is Adjacency.REPLACE_ONE else X
    one, two = (
        exact(query, problem, Table(rows, np.zeros(len(rows))), [np.zeros(P)])[0] for rows in (with_it, without)
    )
    assert 0.95 * query.sensitivity < abs(one - two)[0] <= query.sensitivity


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("loss", "norm"),
    [(Squared(0.7), 0.0), (Squared(0.7), 0.3), (Huber(6.0, 0.7), 0.0), (Huber(6.0, 0.7), 0.5), (Huber(6.0, 0.7), 2.0)],
    ids=repr,
)
def test_rows_exist_that_reach_the_sensitivity_of_a_gradient_at_a_point(loss, norm, adjacency):
    problem = Problem(loss, domain=L2Ball(3.0), row_norm=1.5)
    query, w = LocalGradientQuery(setting_of(problem, adjacency)), norm * basis_row(0)
    query_bound = query.sensitivity_at_norm(norm)
    assert query_bound < 0.9 * query.sensitivity
    (one,) = exact(query, problem, only_row(1.5 * basis_row(0), -0.7), [w])
    # What one row adds; under replace_one it counts twice, which two rows reach where w = 0.
    assert 0.95 * query_bound < query.setting.adjacency.records_moved * np.linalg.norm(one) <= query_bound
    if norm == 0.0 and adjacency is Adjacency.REPLACE_ONE:
        (two,) = exact(query, problem, only_row(1.5 * basis_row(0), 0.7), [w])
        assert 0.95 * query_bound < np.linalg.norm(one - two) <= query_bound


def test_noise_has_the_declared_scale_on_and_off_the_diagonal():
    problem = problem_for(Squared())
    query = HessianQuery(setting_of(problem, Adjacency.REPLACE_ONE))
    oracle = replay(problem, ignored_table(), query.setting.adjacency, query, [(np.zeros(P),)] * 200, noise=1.7)
    answers, sigma = np.stack(oracle.answers), 1.7 * query.sensitivity
    assert np.array_equal(answers, answers.transpose(0, 2, 1))
    above = np.triu_indices(P, 1)
    assert kstest(answers[:, range(P), range(P)].ravel() / sigma, "norm").pvalue > 1e-4
    assert kstest(answers[:, *above].ravel() / (sigma / math.sqrt(2.0)), "norm").pvalue > 1e-4
    # Its length is that of P(P + 1)/2 independent numbers of scale σ.
    mean = (np.linalg.norm(answers, axis=(1, 2)) ** 2).mean() / sigma**2
    assert mean == pytest.approx(P * (P + 1) / 2, rel=0.08)


def test_matrices_and_vectors_have_the_same_length_and_come_back():
    matrix = np.random.default_rng(0).normal(size=(6, 6))
    matrix += matrix.T
    assert np.linalg.norm(to_vector(matrix)) == pytest.approx(np.linalg.norm(matrix), rel=1e-14)
    np.testing.assert_allclose(to_matrix(to_vector(matrix), 6), matrix, rtol=1e-15)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("query_type", [HessianQuery, SmallestEigenvalueQuery, LocalGradientQuery])
def test_an_answer_costs_what_a_shift_of_its_sensitivity_costs(query_type, adjacency):
    query = query_type(setting_of(problem_for(Squared()), adjacency))
    event = query.event(2.5)
    assert curve_of(event, adjacency).mu == pytest.approx(1.0 / 2.5, rel=1e-14)
    assert SampledCurve(tuple(event.leaves()), adjacency).pld_epsilon(1e-5) == pytest.approx(
        gaussian_epsilon(0.4, 1e-5), rel=1e-3
    )


@pytest.mark.parametrize("solver", [DPNewton(), AdaSSP(), AdaSSP(n_steps=5, hessian_share=0.4)], ids=repr)
def test_the_budget_is_divided_exactly_so_that_the_noise_is_known_beforehand(solver):
    fit = FitOptions(problem_for(Squared()), guarantee=Guarantee(0.7, 1e-6), solver=solver).plan(1000, P)
    assert fit.calibrated.noise_multiplier == pytest.approx(1.0, rel=1e-9)
    spent = sum(item.count / item.relative_noise**2 for item in fit.calibrated.plan.planned)
    assert math.sqrt(spent) == pytest.approx(gaussian_mu(Guarantee(0.7, 1e-6)), rel=1e-9)


def test_the_published_noise_of_adassp_is_that_of_its_algorithm():
    problem = Problem(Squared(0.5), domain=L2Ball(3.0), row_norm=2.0)
    fit = FitOptions(
        problem, guarantee=Guarantee(0.6, 1e-6), solver="adassp", noise="paper", adjacency="add_remove"
    ).plan(1000, P)
    unit = math.sqrt(math.log(6e6)) / 0.2 / 1000
    smallest, moments, gradient = fit.calibrated.plan.planned
    assert fit.calibrated.sigma(smallest) == pytest.approx(4.0 * unit)
    assert fit.calibrated.sigma(moments) == pytest.approx(4.0 * unit)
    assert fit.calibrated.sigma(gradient, gradient.query.sensitivity_at_norm(0.0)) == pytest.approx(2.0 * 0.5 * unit)
    assert fit.privacy.certified_epsilon < 0.6


def test_a_hessian_of_several_margins_or_of_too_many_columns_is_refused():
    with pytest.raises(InvalidParameterError, match="single-output"):
        HessianQuery(setting_of(Problem(Softmax(3)), Adjacency.ADD_REMOVE))
    with pytest.raises(InvalidParameterError, match="5000²"):
        HessianQuery(setting_of(Problem(Logistic()), Adjacency.ADD_REMOVE, n_features=5000))


@pytest.mark.parametrize("solver", [DPNewton(), AdaSSP()], ids=repr)
def test_second_order_solvers_stay_on_their_side(solver, capsys, caplog):
    check_solver(solver, problem_for(Squared()), capsys, caplog)


def test_published_adassp_stays_on_its_side():
    """Nothing unreleased is touched, and what is asked is what is planned."""
    from kernel.harness import TaintedOracle

    problem, table = Problem(Squared(), L2(0.1), L2Ball(3.0)), base_table()
    setting = setting_of(problem, Adjacency.ADD_REMOVE)
    solver, calibrated = published_plan(AdaSSP(), setting, Guarantee(1.0, 1e-6))
    rows = ArraySource(table.X, table.y)
    with TaintedOracle(rows, problem, setting, calibrated, Randomness.from_random_state(0)) as oracle:
        w = solver.run(oracle, problem, calibrated.plan, np.zeros(P))
    assert oracle.asked == 3
    assert np.linalg.norm(w) <= 3.0 * (1.0 + 1e-12)


def test_an_eigenvalue_is_not_answered_in_place_of_a_hessian():
    """A plan that contains one query does not answer the other."""
    problem, table = problem_for(Squared()), base_table()
    setting = setting_of(problem, Adjacency.ADD_REMOVE)
    calibrated = CalibratedPlan(Plan("test", (PlannedQuery(HessianQuery(setting)),), {}), 1.0)
    rows = ArraySource(table.X, table.y)
    oracle = Oracle(rows, problem, setting, calibrated, Randomness.from_random_state(0))
    with oracle, pytest.raises(PlanExceededError, match="query is not in the plan"):
        oracle.ask(PlannedQuery(SmallestEigenvalueQuery(setting)), np.zeros(P))


def test_parts_do_not_depend_on_how_a_table_is_stored_or_on_ignored_rows():
    """Margins summed in another order would differ in their last digits, and a curvature that jumps with them."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(300, 40)), 3.0 * rng.normal(size=40)
    problem = Problem(Logistic(), L2(0.1))
    ignored = np.vstack([np.full(40, np.nan), X])
    tables = X, np.asfortranarray(X), ignored, np.asfortranarray(ignored)
    blocks = [Block.from_table(table, np.ones(len(table)), problem) for table in tables]
    sums = [objective_of(problem).hessian_sum(block, w, 1, np.inf) for block in blocks]
    for other in sums[1:]:
        np.testing.assert_array_equal(other, sums[0])
