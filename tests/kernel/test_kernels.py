"""The compiled sums against plain numpy."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse

from contracts.discovered import LOSSES
from dperm import Problem
from dperm.kernel.block import Block
from dperm.kernel.native import clip_vector
from dperm.kernel.objectives import objective_of
from dperm.kernel.objectives.margin_sums import gradient_sum
from dperm.kernel.row_norms import row_norms
from dperm.problem import L2Ball, Logistic, Softmax


def plain_gradient(problem, X, y, w):
    """Row by row, in Python."""
    loss, width = problem.loss, X.shape[1]
    matrix = w.reshape(loss.n_outputs, -1)
    bound = problem.slope_bound(width)
    total = np.zeros_like(matrix)
    for x, target in zip(X, loss.encode(y), strict=True):
        if not (np.isfinite(x).all() and np.isfinite(target)):
            continue
        row = x * min(1.0, problem.row_norm / max(np.linalg.norm(x), 1e-300))
        row = np.append(row, problem.row_norm) if problem.intercept else row
        margin = matrix @ row
        if loss.n_outputs == 1:
            slope = np.clip(np.array([loss.derivative(margin[0], target, *loss.parameters)]), -bound, bound)
        else:
            slope = np.empty(loss.n_outputs)
            loss.derivative(margin, target, slope, *loss.parameters)
        total += np.outer(slope, row)
    return total.ravel()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_a_vector_without_a_finite_norm_is_clipped_to_zero(bad):
    values = np.array([0.5, bad, -0.5])
    clip_vector(values, 1.0)
    np.testing.assert_array_equal(values, 0.0)


def test_a_longer_vector_is_clipped_to_the_bound_and_a_shorter_one_is_left():
    for values, clipped in ([[3.0, -4.0], [0.3, -0.4]], [[0.3, -0.4], [0.3, -0.4]], [[0.1, 0.2], [0.1, 0.2]]):
        vector = np.array(values)
        clip_vector(vector, 0.5)
        np.testing.assert_allclose(vector, clipped, rtol=1e-15)


@pytest.mark.one_case_in(7)
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix, lambda X: X.astype(np.float32), np.asfortranarray])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_gradient_is_the_sum_over_clipped_rows(loss, intercept, storage):
    rng = np.random.default_rng(0)
    domain = {"domain": L2Ball(2.0)} if loss.name == "squared" else {}
    problem = Problem(loss, row_norm=0.8, intercept=intercept, **domain)
    X = rng.normal(size=(60, 4)) * rng.uniform(0, 2, size=(60, 1))
    X[np.abs(X) < 0.2] = 0.0
    y = rng.integers(0, 3, 60).astype(float)
    w = rng.normal(size=problem.dimension(4))
    with ThreadPoolExecutor(2) as pool:
        computed = objective_of(problem).gradient_sum(Block.from_table(storage(X), y, problem), w, None, pool)
    exact = plain_gradient(problem, np.asarray(X, dtype=np.float32 if "astype" in repr(storage) else np.float64), y, w)
    np.testing.assert_allclose(computed, exact, rtol=2e-5, atol=1e-5)


def test_pieces_and_blocks_add_up_to_the_whole():
    rng = np.random.default_rng(1)
    n, p = 120_000, 7  # several pieces, several blocks
    X, y, w = rng.normal(size=(n, p)) / 5, np.sign(rng.normal(size=n)), rng.normal(size=p)
    ones = np.ones(n)
    with ThreadPoolExecutor(2) as pool:
        computed = gradient_sum(Logistic(), 1.0, Block(X, y, ones, ones), w, 0.0, pool)
        thin = gradient_sum(Logistic(), 1.0, Block(sparse.csr_matrix(X), y, ones, ones), w, 0.0, pool)
    exact = (-y / (1 + np.exp(y * (X @ w)))) @ X
    np.testing.assert_allclose(computed, exact, rtol=1e-10)
    np.testing.assert_allclose(thin, exact, rtol=1e-10)


def test_the_result_does_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(2)
    n = 200_000
    X, y, w = rng.normal(size=(n, 3)), np.sign(rng.normal(size=n)), rng.normal(size=3)
    ones = np.ones(n)
    results = []
    for threads in (1, 2, 5):
        with ThreadPoolExecutor(threads) as pool:
            results.append(gradient_sum(Logistic(), 1.0, Block(X, y, ones, ones), w, 0.0, pool))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e151, -1e308])
def test_norms_mark_rows_that_are_ignored(bad):
    X = np.ones((3, 2))
    X[1, 1] = bad
    for table in (X, sparse.csr_matrix(X)):
        norms, entries = row_norms(table)
        assert np.isnan(norms[1])
        assert np.isnan(entries[1])
        np.testing.assert_allclose(norms[[0, 2]], np.sqrt(2))
        np.testing.assert_array_equal(entries[[0, 2]], 1.0)


@pytest.mark.long
def test_whole_numbers_and_truth_values_need_no_copy():
    X = np.array([[1, 0], [0, 1], [1, 1]])
    for kind in (np.int64, np.int8, bool):
        rows = Block.from_table(X.astype(kind), np.ones(3), Problem(Logistic()))
        assert rows.table.dtype == kind
        with ThreadPoolExecutor(1) as pool:
            computed = objective_of(Problem(Logistic())).gradient_sum(rows, np.zeros(2), None, pool)
        np.testing.assert_allclose(computed, -0.5 * np.array([1 + np.sqrt(0.5)] * 2))


def test_dense_rows_are_not_copied_and_sparse_ones_not_densified():
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert Block.from_table(X, np.ones(50), Problem(Logistic())).table is X
    columns = np.arange(1000, dtype=np.int32)[:, None] * 7 + np.arange(3, dtype=np.int32)
    thin = sparse.csr_matrix((np.ones(3000), columns.ravel(), np.arange(0, 3001, 3)), shape=(1000, 10**7))
    assert Block.from_table(thin, np.ones(1000), Problem(Logistic())).table is thin


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("intercept", [False, True])
def test_sparse_sums_with_many_more_columns_than_entries_are_those_of_dense_rows(n_outputs, intercept):
    rng = np.random.default_rng(0)
    n, p = 3000, 40_000  # three blocks, each of which names a small part of the columns
    columns = rng.integers(0, 60, size=(n, 2)) * 600 + 599  # few distinct ones, the last among them
    X = sparse.csr_matrix((rng.normal(size=2 * n), columns.ravel(), np.arange(0, 2 * n + 1, 2)), shape=(n, p))
    X.sum_duplicates()
    problem = Problem(Logistic() if n_outputs == 1 else Softmax(n_outputs), intercept=intercept)
    y = rng.integers(0, n_outputs, n).astype(float) if n_outputs > 1 else np.sign(rng.normal(size=n))
    w = rng.normal(size=problem.dimension(p))
    named = np.unique(X.indices)
    dense = Block.from_table(X[:, named].toarray(), y, problem)
    width = p + int(intercept)
    kept = [*named, *([p] if intercept else [])]
    with ThreadPoolExecutor(2) as pool:
        computed = (
            objective_of(problem).gradient_sum(Block.from_table(X, y, problem), w, None, pool).reshape(n_outputs, width)
        )
        small = w.reshape(n_outputs, width)[:, kept].ravel()
        expected = objective_of(problem).gradient_sum(dense, small, None, pool).reshape(n_outputs, -1)
    # The room that is left below the row norm for rounding grows with the number of columns.
    np.testing.assert_allclose(computed[:, kept], expected, rtol=1e-8, atol=1e-8)
    assert np.count_nonzero(computed) == np.count_nonzero(expected)
