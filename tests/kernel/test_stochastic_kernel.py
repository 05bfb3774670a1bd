"""The compiled stochastic steps against a loop in plain numpy that shares no code with them."""

import math

import numpy as np
import pytest
from scipy import sparse

from dperm import Problem
from dperm.kernel.block import Block
from dperm.kernel.objectives import Steps, objective_of
from dperm.kernel.sampling import Batches
from dperm.problem import L1, L2, Box, ElasticNet, L1Ball, L2Ball, Logistic, NoRegularizer, Softmax, WholeSpace
from dperm.problem.prox import coordinate_prox
from kernel.harness import gate_with

N, P, STEPS, DIVISOR = 60, 4, 12, 6.0
ROW_NORM = 0.8
STORAGE = {
    "dense": np.asarray,
    "sparse": sparse.csr_matrix,
    "float32": lambda X: X.astype(np.float32),
    "column order": np.asfortranarray,
}


def table(seed=0):
    """Block long and short, a few entries zero, one row that is ignored."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, P)) * rng.uniform(0, 2, size=(N, 1))
    X[np.abs(X) < 0.2] = 0.0
    X[5, 1] = np.nan
    return X, rng.integers(0, 3, N).astype(float), rng.uniform(0, 2.5, N)


def batches_for(rng):
    """Row 5, which is ignored, is in most of them; step 4 has none."""
    chosen = [np.flatnonzero((rng.random(N) < 0.1) | (np.arange(N) == 5)) for _ in range(STEPS)]
    chosen[3] = chosen[3][:0]
    return Batches(np.concatenate(chosen), np.cumsum([0, *map(len, chosen)])), chosen


def plain_gradient(loss, x, target, weight, w, intercept):
    """One row's bounded gradient, written out."""
    if not np.isfinite(x).all():
        return np.zeros(w.size)
    x = x * min(1.0, ROW_NORM / np.linalg.norm(x)) if np.linalg.norm(x) > 0 else x
    if intercept:
        x = np.append(x, ROW_NORM)
    margins = w.reshape(-1, x.size) @ x
    if loss.n_outputs == 1:
        sign = 1.0 if target > 0 else -1.0
        slope = np.array([-sign / (1.0 + np.exp(sign * margins[0]))])
    else:
        shifted = np.exp(margins - margins.max())
        slope = shifted / shifted.sum() - np.eye(loss.n_outputs)[int(target)]
    return min(weight, 2.0) * np.outer(slope, x).ravel()


def plain_steps(problem, X, y, weights, chosen, start, noise, step_sizes):
    w, iterates = start, []
    for rows, u, step in zip(chosen, noise, step_sizes, strict=True):
        total = np.zeros(w.size)
        for i in rows:
            total += plain_gradient(problem.loss, X[i], y[i], weights[i], w, problem.intercept)
        w = problem.prox(w - step * (total / DIVISOR + u), step)
        iterates.append(w)
    return np.array(iterates)


def stochastic_steps(problem, rows, divisor, batches, start, noise, step_sizes, prox):
    """The compiled loop, with given noise."""
    steps = Steps(start, step_sizes, divisor, None, None, np.zeros(start.size), prox)
    return objective_of(problem).steps(rows, batches, steps, *gate_with(noise))


def check(problem, storage, tolerance, prox):
    X, y, weights = table()
    rng = np.random.default_rng(2)
    batches, chosen = batches_for(rng)
    dimension = problem.dimension(P)
    start, noise = 0.4 * rng.normal(size=dimension), 0.1 * rng.normal(size=(STEPS, dimension))
    step_sizes = rng.uniform(0.1, 2.0, STEPS)
    rows = Block.from_table(STORAGE[storage](X), y, problem, weights)
    iterates, directions = stochastic_steps(problem, rows, DIVISOR, batches, start, noise, step_sizes, prox)
    expected = plain_steps(problem, X, y, weights, chosen, start, noise, step_sizes)
    np.testing.assert_allclose(iterates, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(directions[3], noise[3])  # the empty batch


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("domain", [WholeSpace(), L2Ball(0.4), Box(-0.3, 0.2)], ids=repr)
@pytest.mark.parametrize("regularizer", [NoRegularizer(), L2(0.7), L1(0.2), ElasticNet(0.6, 0.4)], ids=repr)
def test_compiled_steps_are_proximal_sgd(regularizer, domain):
    problem = Problem(Logistic(), regularizer, domain, row_norm=ROW_NORM, weight_bound=2.0, intercept=True)
    form = coordinate_prox(regularizer, domain)
    assert form is not None
    for prox in (form, problem.prox):
        check(problem, "dense", 1e-11, prox)


@pytest.mark.one_case_in(5)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_steps_in_every_storage_are_proximal_sgd(loss, storage, intercept):
    problem = Problem(loss, L2(0.3), row_norm=ROW_NORM, weight_bound=2.0, intercept=intercept)
    form = coordinate_prox(problem.regularizer, problem.domain)
    check(problem, storage, 1e-5 if storage == "float32" else 1e-11, form)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_a_prox_that_ties_coordinates_together_is_taken_as_it_is(loss):
    problem = Problem(loss, L1(0.05), L1Ball(0.5), row_norm=ROW_NORM, weight_bound=2.0, intercept=True)
    assert coordinate_prox(problem.regularizer, problem.domain) is None
    check(problem, "dense", 1e-9, problem.prox)


@pytest.mark.parametrize("n", [5000, 2_000_000])
def test_a_step_adds_its_batch_up_in_blocks(n):
    """The sensitivity is padded for the rounding of blocks; one long chain of additions could exceed that."""
    rng = np.random.default_rng(4)
    problem = Problem(Logistic())
    X, y, w = rng.normal(size=(n, 3)), np.sign(rng.normal(size=n)), rng.normal(size=3)
    rows = Block.from_table(X, y, problem)
    block = max(1024, math.isqrt(n))
    form = coordinate_prox(NoRegularizer(), WholeSpace())

    def total(first, last):
        batch = Batches(np.arange(first, last), np.array([0, last - first]))
        _, (direction,) = stochastic_steps(problem, rows, 1.0, batch, w, np.zeros((1, 3)), np.ones(1), form)
        return direction

    expected = np.zeros(3)
    for first in range(0, n, block):
        expected += total(first, min(first + block, n))
    np.testing.assert_array_equal(total(0, n), expected)
