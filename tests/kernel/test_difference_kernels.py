"""The compiled differences and the compiled printed epoch against plain numpy."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from contracts.discovered import examples
from dperm import Problem
from dperm.kernel import sampling
from dperm.kernel.block import Block
from dperm.kernel.noise import Randomness
from dperm.kernel.objectives import Steps, objective_of
from dperm.kernel.oracle import Oracle
from dperm.kernel.sampling import Batches
from dperm.mechanisms import PrintedEpochQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L1, L2, Box, ElasticNet, L2Ball, Logistic, Loss, NoRegularizer, Softmax, WholeSpace
from dperm.problem.prox import coordinate_prox
from dperm.rows.arrays import ArraySource
from kernel.harness import VectorLiar, gate_with

P = 4
NEVER = 1e9  # a bound that clips nothing
UNBOUNDED_CURVATURE = {"poisson"}  # outside its margins
STORAGE = {
    "dense": np.asarray,
    "sparse": sparse.csr_matrix,
    "float32": lambda X: X.astype(np.float32),
    "column order": np.asfortranarray,
}


def table(n=60, seed=0):
    """Block long and short, a few entries zero, one row that is ignored."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, P)) * rng.uniform(0, 2, size=(n, 1))
    X[np.abs(X) < 0.2] = 0.0
    X[5, 1] = np.nan
    return X, rng.integers(0, 3, n).astype(float), rng.uniform(0, 2.5, n)


def problem_for(loss, **more):
    domain = {"domain": L2Ball(2.0)} if loss.name == "squared" else {}
    return Problem(loss, row_norm=0.8, weight_bound=2.0, **domain, **more)


def check_difference(problem, rows, n, tolerance):
    rng, objective = np.random.default_rng(1), objective_of(problem)
    w, anchor = rng.normal(size=(2, problem.dimension(P)))
    with ThreadPoolExecutor(2) as pool:
        for chosen in (np.arange(n), np.sort(rng.choice(n, n // 3, replace=False)), np.arange(0)):
            part = rows.take(chosen)
            expected = objective_of(problem).gradient_sum(part, w, None, pool) - objective_of(problem).gradient_sum(
                part, anchor, None, pool
            )
            computed = objective.difference_sum(rows, chosen, w, anchor, NEVER, pool)
            np.testing.assert_allclose(computed, expected, rtol=tolerance, atol=tolerance)
            assert computed.any() == bool(chosen.size)
            if problem.loss.convex and problem.loss.name not in UNBOUNDED_CURVATURE:
                # The parts of a convex loss are in their ball by themselves.
                smoothness = problem.constants(P).smoothness
                in_ball = objective.difference_sum(rows, chosen, w, anchor, NEVER, pool, smoothness)
                np.testing.assert_allclose(in_ball, expected, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", examples(Loss), ids=repr)
def test_a_difference_is_that_of_two_gradients_for_every_loss(loss, intercept):
    problem = problem_for(loss, intercept=intercept)
    X, y, weights = table()
    check_difference(problem, Block.from_table(X, y, problem, weights), 60, 1e-12)


@pytest.mark.one_case_in(4)
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_a_difference_is_that_of_two_gradients_in_every_storage(loss, storage):
    problem = problem_for(loss, intercept=True)
    X, y, weights = table()
    rows = Block.from_table(STORAGE[storage](X), y, problem, weights)
    check_difference(problem, rows, 60, 1e-5 if storage == "float32" else 1e-12)


@pytest.mark.parametrize("kind", [np.int8, bool])
def test_whole_numbers_and_truth_values_have_differences_too(kind):
    X = np.array([[1, 0], [0, 1], [1, 1]])
    problem = Problem(Logistic(), row_norm=5.0)
    w, anchor = np.array([1.0, 2.0]), np.array([-1.0, 0.5])
    rows = Block.from_table(X.astype(kind), np.ones(3), problem)
    with ThreadPoolExecutor(1) as pool:
        computed = objective_of(problem).difference_sum(rows, np.arange(3), w, anchor, NEVER, pool)
    slopes = [-1.0 / (1.0 + np.exp(X @ point)) for point in (w, anchor)]
    np.testing.assert_allclose(computed, (slopes[0] - slopes[1]) @ X, rtol=1e-13)


def test_the_pieces_and_blocks_of_a_difference_add_up_whatever_the_threads():
    n, p = 90_000, 7  # several pieces, several blocks
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(n, p)) / 5, np.sign(rng.normal(size=n))
    w, anchor = rng.normal(size=(2, p))
    problem = Problem(Logistic(), row_norm=100.0)
    rows = Block.from_table(X, y, problem)
    chosen = np.flatnonzero(rng.random(n) < 0.9)
    results = []
    for threads in (1, 2, 5):
        with ThreadPoolExecutor(threads) as pool:
            results.append(objective_of(problem).difference_sum(rows, chosen, w, anchor, NEVER, pool))
    slopes = [-y / (1 + np.exp(y * (X @ point))) for point in (w, anchor)]
    np.testing.assert_allclose(results[0], (slopes[0] - slopes[1])[chosen] @ X[chosen], rtol=1e-10)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def printed_steps(
    problem, rows, bound, divisor, batches, start, anchor, anchor_gradient, noise, step_size, prox
):  # fmt: skip
    """The compiled loop, with given noise."""
    steps = Steps(start, np.full(len(noise), step_size), divisor, bound, anchor, anchor_gradient, prox)
    return objective_of(problem).steps(rows, batches, steps, *gate_with(noise))


def plain_epoch(problem, rows, bound, divisor, batches, start, anchor, anchor_gradient, noise, step_size):
    """Lines 5 to 9 of Algorithm 1, row by row."""
    x, iterates, directions = start, [], []
    with ThreadPoolExecutor(1) as pool:
        for t, u in enumerate(noise):
            chosen = batches.rows[batches.edges[t] : batches.edges[t + 1]]
            parts = [objective_of(problem).difference_sum(rows, np.array([i]), x, anchor, bound, pool) for i in chosen]
            v = np.sum(parts, axis=0) / divisor + anchor_gradient + u if parts else anchor_gradient + u
            x = problem.prox(x - step_size * v, step_size)
            iterates.append(x)
            directions.append(v)
    return np.array(iterates), np.array(directions)


@pytest.mark.one_case_in(5)
@pytest.mark.parametrize(
    "domain", [WholeSpace(), L2Ball(0.4), Box(-0.3, 0.2), Box((-0.1, -1, -0.2, -3, 0), 0.4)], ids=repr
)
@pytest.mark.parametrize("regularizer", [NoRegularizer(), L2(0.7), L1(0.2), ElasticNet(0.6, 0.4)], ids=repr)
def test_a_compiled_epoch_is_the_printed_algorithm(regularizer, domain):
    problem = Problem(Logistic(), regularizer, domain, row_norm=0.8, weight_bound=2.0, intercept=True)
    X, y, weights = table()
    rows = Block.from_table(X, y, problem, weights)
    rng = np.random.default_rng(2)
    chosen = np.flatnonzero(rng.random(12 * 60) < 0.1)
    chosen = chosen[(chosen < 180) | (chosen >= 240)]  # step 4 has an empty batch
    batches = Batches(chosen % 60, np.searchsorted(chosen, 60 * np.arange(13)))
    start, anchor, gradient = (0.4 * rng.normal(size=P + 1) for _ in range(3))
    # A bound that clips some rows, so that it is seen to be used.
    fixed = (0.1, 6.0, batches, start, anchor, gradient, 0.1 * rng.normal(size=(12, P + 1)), 0.7)
    expected = plain_epoch(problem, rows, *fixed)
    form = coordinate_prox(regularizer, domain)
    assert form is not None
    for prox in (form, problem.prox):
        for found, wanted in zip(printed_steps(problem, rows, *fixed, prox), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-13)
    assert not np.allclose(printed_steps(problem, rows, NEVER, *fixed[1:], form)[0], expected[0], atol=1e-6)


@pytest.mark.parametrize("storage", ["sparse", "float32"])
def test_a_printed_epoch_of_several_outputs_is_the_printed_algorithm(storage):
    problem = Problem(Softmax(3), L2(0.3), L2Ball(0.5), row_norm=0.8, weight_bound=2.0, intercept=True)
    X, y, weights = table()
    rows = Block.from_table(STORAGE[storage](X), y, problem, weights)
    rng = np.random.default_rng(3)
    chosen = np.flatnonzero(rng.random(5 * 60) < 0.1)
    batches = Batches(chosen % 60, np.searchsorted(chosen, 60 * np.arange(6)))
    start, anchor, gradient = 0.3 * rng.normal(size=(3, 3 * (P + 1)))
    fixed = (0.1, 6.0, batches, start, anchor, gradient, 0.1 * rng.normal(size=(5, 3 * (P + 1))), 0.7)
    expected = plain_epoch(problem, rows, *fixed)
    for found, wanted in zip(printed_steps(problem, rows, *fixed, problem.prox), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6 if storage == "float32" else 1e-11, atol=1e-7)


@pytest.mark.parametrize("n", [5000, 70_000])
def test_a_printed_step_adds_its_batch_up_in_blocks(n):
    """The sensitivity is padded for the rounding of blocks; one long chain of additions could exceed that."""
    rng = np.random.default_rng(4)
    problem = Problem(Logistic())
    rows = Block.from_table(rng.normal(size=(n, 3)), np.sign(rng.normal(size=n)), problem)
    w, anchor = rng.normal(size=(2, 3))
    whole = Batches(np.arange(n), np.array([0, n]))
    fixed = (1.0, whole, w, anchor, np.zeros(3), np.zeros((1, 3)), 1.0, coordinate_prox(NoRegularizer(), WholeSpace()))
    _, (direction,) = printed_steps(problem, rows, NEVER, *fixed)
    with ThreadPoolExecutor(1) as pool:
        np.testing.assert_array_equal(
            direction, objective_of(problem).difference_sum(rows, whole.rows, w, anchor, NEVER, pool)
        )


def run_epoch(n_steps=23, rate=1.0, chunk=None, monkeypatch=None):
    if chunk is not None:
        monkeypatch.setattr(sampling, "_NUMBERS_AT_ONCE", chunk)
    problem = Problem(Logistic(), L2(0.3))
    X, y, _ = table()
    setting = Setting(problem.constants(P), 60, Adjacency.REPLACE_ONE)
    item = PlannedQuery(PrintedEpochQuery(setting, rate, n_steps, 0.5))
    calibrated = CalibratedPlan(Plan("test", (item,), {}), None)
    done = []
    with Oracle(
        ArraySource(X, y), problem, setting, calibrated, Randomness.from_random_state(0),
        lambda *pair: done.append(pair),
    ) as oracle:  # fmt: skip
        answer = oracle.ask(item, np.full(P, 0.2), np.full(P, -0.3), step_size=0.8)
    return SimpleNamespace(answer=answer, done=done)


@pytest.mark.parametrize("chunk", [1, 60, 240, 1000])
def test_an_epoch_longer_than_one_piece_is_the_same_epoch(chunk, monkeypatch):
    whole = run_epoch()
    pieces = run_epoch(chunk=chunk, monkeypatch=monkeypatch)
    np.testing.assert_allclose(pieces.answer, whole.answer, rtol=1e-12)
    assert whole.done == [(23, 23)]
    assert len(pieces.done) == -(-23 // max(1, chunk // 60))
    assert pieces.done[-1] == (23, 23)


def test_without_noise_at_rate_one_a_printed_epoch_is_gradient_descent():
    """The anchor's gradient and the differences cancel to the gradient itself, wherever the anchor is."""
    problem = Problem(Logistic(), L2(0.3))
    X, y, _ = table()
    rows = Block.from_table(X, y, problem)
    w, iterates, directions = np.full(P, 0.2), [], []
    with ThreadPoolExecutor(1) as pool:
        for _ in range(23):
            directions.append(objective_of(problem).gradient_sum(rows, w, None, pool) / 60)
            w = problem.prox(w - 0.8 * directions[-1], 0.8)
            iterates.append(w)
    expected = [w, np.mean(iterates, axis=0), np.mean(directions, axis=0)]
    np.testing.assert_allclose(run_epoch().answer, expected, rtol=1e-10)


def _only_one_output(margin, target, out):
    if target > 0.5:
        out[1] = np.tanh(margin[1])
    else:
        out[0] = np.tanh(margin[0])


class LeavesAnOutputOut(VectorLiar):
    """Its author believed that the output starts at zero."""

    n_outputs = 2
    derivative = staticmethod(_only_one_output)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_a_row_leaves_nothing_behind_for_the_next_one(storage):
    """A derivative that does not write every output must not see what an earlier row wrote."""
    problem = Problem(LeavesAnOutputOut())
    X, y = np.ones((50, 2)) / np.sqrt(2), np.ones(50)
    y[0] = -1.0
    other = X.copy()
    other[0] = -other[0]
    w, anchor, chosen = np.full(4, 3.0), np.zeros(4), np.arange(50)
    one, two = (Block.from_table(storage(table), y, problem) for table in (X, other))
    bound, objective = problem.slope_bound(2) * problem.slope_scale, objective_of(problem)
    with ThreadPoolExecutor(1) as pool:
        moved = objective.gradient_sum(one, w, None, pool) - objective.gradient_sum(two, w, None, pool)
        assert np.linalg.norm(moved) <= 2 * bound * (1 + 1e-9)
        differences = [objective.difference_sum(rows, chosen, w, anchor, 2 * bound, pool) for rows in (one, two)]
        assert np.linalg.norm(differences[0] - differences[1]) <= 4 * bound * (1 + 1e-9)
