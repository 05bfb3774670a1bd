"""Minimisers and Hessians: what is solved for is what the noise is for, down to the public n and the clipped slopes."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from dperm import PrivateLogisticRegression, Problem
from dperm.kernel.oracle import Oracle
from dperm.mechanisms import (
    HessianQuery,
    ObjectivePerturbationQuery,
    OutputPerturbationQuery,
    SmallestEigenvalueQuery,
)
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Logistic, Squared
from kernel.harness import P, Table, replay, setting_of
from kernel.joints import DECLARED, ROWS, STORAGE

ADJACENCIES = list(Adjacency)


def ask(problem, table, query, w, **more):
    """The answer without noise."""
    return replay(problem, table, None, query, [(w,)], noise=None, oracle_type=Oracle, **more).answers[0]


def random_table(n=ROWS, p=P, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X /= 1.01 * np.linalg.norm(X, axis=1)[:, None]
    return Table(X, np.sign(X[:, 0] + 0.5 * rng.normal(size=n)))


def cut_risk(table, n, share, ridge, centre, w):
    """(1/n) Σ ℓ_c(⟨w, x⟩) + (ridge/2)‖w − centre‖² in plain numpy: ℓ_c continues ℓ by a line of slope −share."""
    m = table.y * (table.X @ w)
    edge = math.log((1.0 - share) / share) if share < 1.0 else -math.inf  # below it a row is steeper than `share`
    inside = np.logaddexp(0.0, -np.maximum(m, edge))
    values = inside + (share * np.maximum(edge - m, 0.0) if share < 1.0 else 0.0)
    slopes = -table.y * np.minimum(1.0 / (1.0 + np.exp(m)), share)
    value = values.sum() / n + 0.5 * ridge * ((w - centre) ** 2).sum()
    return value, slopes @ table.X / n + ridge * (w - centre)


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("n", [ROWS, DECLARED])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.7, 1.0])
def test_objective_perturbation_minimises_the_loss_whose_slopes_are_clipped(share, n, storage):
    problem, table = Problem(Logistic()), random_table()
    query = ObjectivePerturbationQuery(
        setting_of(problem, Adjacency.ADD_REMOVE, n=n), 0.02, 1e-9, 0.1, "Gaussian", share
    )  # fmt: skip
    centre = np.linspace(-2.0, 1.0, P)
    found = ask(problem, table, query, centre, as_rows=STORAGE[storage])
    wanted = scipy_minimize(
        lambda w: cut_risk(table, n, share, 0.02, centre, w), centre, jac=True, method="BFGS", options={"gtol": 1e-10}
    ).x
    np.testing.assert_allclose(found, wanted, atol=1e-6 if storage == "float32" else 1e-7)
    # Without the noise for the remainder the answer is as exact as was declared.
    _, slope = cut_risk(table, n, share, 0.02, centre, found)
    if storage == "float64":
        assert np.linalg.norm(slope) <= query.tolerance


@pytest.mark.parametrize("storage", STORAGE)
def test_output_perturbation_minimises_the_risk_over_the_public_number_of_rows(storage):
    problem, table = Problem(Logistic(), L2(0.05)), random_table()
    query = OutputPerturbationQuery(setting_of(problem, Adjacency.ADD_REMOVE, n=DECLARED), 1e-9)
    found = ask(problem, table, query, np.zeros(P), as_rows=STORAGE[storage])
    wanted = scipy_minimize(
        lambda w: cut_risk(table, DECLARED, 1.0, 0.05, np.zeros(P), w), np.zeros(P), jac=True, options={"gtol": 1e-10}
    ).x
    np.testing.assert_allclose(found, wanted, atol=1e-6 if storage == "float32" else 1e-7)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_row_with_the_largest_slope_moves_the_minimiser_by_the_share_that_the_noise_is_for(share, adjacency):
    """A row predicted badly has slope 1; clipped, it moves the minimiser by its share of that, and no further."""
    problem, centre = Problem(Logistic()), 25.0 * np.eye(P)[0]
    query = ObjectivePerturbationQuery(setting_of(problem, adjacency, n=ROWS), 0.5, 1e-9, 0.1, "Gaussian", share)
    tables = [Table(np.full((ROWS, P), np.nan), -np.ones(ROWS)) for _ in range(2)]
    tables[1].X[0] = np.eye(P)[0]
    if adjacency is Adjacency.REPLACE_ONE:
        # One row cannot be steep in two ways at one point, so that it moves half as far as two rows might.
        tables[0].X[0], tables[0].y[0] = np.eye(P)[0], 1.0
    one, two = (ask(problem, table, query, centre) for table in tables)
    bound = (query.sensitivity / ROWS + 2.0 * query.tolerance) / query.strong_convexity
    assert np.linalg.norm(one - two) <= bound
    assert np.linalg.norm(one - two) >= 0.999 * bound / adjacency.records_moved


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_auto_cuts_slopes_and_the_minimiser_that_it_asks_for_has_them_cut(adjacency):
    n = 1000
    model = PrivateLogisticRegression(1.0, 1e-6, penalty=None, adjacency=adjacency.value, fit_intercept=False)
    fit = model.plan(n, P)
    (item,) = fit.calibrated.plan.planned
    query = item.query
    assert isinstance(query, ObjectivePerturbationQuery)
    assert query.slope_share < 0.9
    centre, tables = 25.0 * np.eye(P)[0], []
    for y in (np.nan, -1.0):  # a row that is ignored, and one with the largest slope
        X, target = np.full((n, P), np.nan), np.ones(n)
        X[0], target[0] = np.eye(P)[0], y
        tables.append(Table(X, target))
    one, two = (ask(fit.problem, table, query, centre) for table in tables)
    moved = np.linalg.norm(one - two) * n * query.strong_convexity
    one_row = fit.problem.constants(P).lipschitz * query.slope_share
    assert query.sensitivity == pytest.approx(adjacency.records_moved * one_row, rel=1e-12)
    assert moved == pytest.approx(one_row, rel=1e-4)


@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("n_rows", [1, ROWS, DECLARED])
def test_the_random_linear_term_is_divided_by_the_public_n_and_has_the_scale_that_was_accounted_for(n_rows, share):
    """Of ignored rows the minimiser is the centre, moved by b/(n(μ + ridge)): b can be read off.

    ‖b‖²/σ² has a χ² distribution with 400 degrees of freedom: 400 ± 170 is left once in 1e7 seeds.
    """
    p, multiplier, problem = 400, 3.0, Problem(Logistic())
    setting = setting_of(problem, Adjacency.ADD_REMOVE, n=DECLARED, n_features=p)
    query = ObjectivePerturbationQuery(setting, 0.5, 1e-9, 0.1, "Gaussian", share)
    table = Table(np.full((n_rows, p), np.nan), np.ones(n_rows))
    oracle = replay(problem, table, None, query, [(np.zeros(p),)], noise=multiplier, oracle_type=Oracle)
    linear = -DECLARED * query.strong_convexity * oracle.answers[0]
    assert 230.0 < ((linear / (multiplier * query.sensitivity)) ** 2).sum() < 570.0


@dataclass(frozen=True)
class Counted(Logistic):
    """Logistic loss that counts how often its parameters are handed to a kernel: once a pass over the rows."""

    passes = [0]  # noqa: RUF012

    @property
    def parameters(self):
        self.passes[0] += 1
        return ()


@pytest.mark.parametrize(("share", "n"), [(0.2, ROWS), (0.2, 25 * ROWS), (1.0, 25 * ROWS)])
def test_rows_whose_slope_is_cut_have_no_curvature_so_that_few_passes_suffice(share, n):
    """With the wrong Hessian Newton steps are far too short, and hundreds of passes follow."""
    problem, table = Problem(Counted()), random_table(seed=2)
    table.y = -np.sign(table.X[:, 0])  # and the start is where most of them are steep
    query = ObjectivePerturbationQuery(
        setting_of(problem, Adjacency.ADD_REMOVE, n=n), 1e-4, 1e-9, 0.1, "Gaussian", share
    )  # fmt: skip
    Counted.passes[0] = 0
    ask(problem, table, query, 0.5 * np.eye(P)[0])
    assert Counted.passes[0] <= 100


def mean_hessian(table, n, w, loss):
    m = table.X @ w
    curvature = np.ones(m.size) if isinstance(loss, Squared) else 0.25 / np.cosh(0.5 * m) ** 2
    return (table.X * curvature[:, None]).T @ table.X / n


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("n", [ROWS, DECLARED])
def test_hessians_and_their_eigenvalues_are_means_over_the_public_number_of_rows(n, storage):
    problem, table, w = Problem(Logistic()), random_table(), np.linspace(-1.0, 1.0, P)
    setting = setting_of(problem, Adjacency.ADD_REMOVE, n=n)
    wanted = mean_hessian(table, n, w, problem.loss)
    more, exactness = {"as_rows": STORAGE[storage]}, 1e-7 if storage == "float32" else 1e-10
    np.testing.assert_allclose(ask(problem, table, HessianQuery(setting), w, **more), wanted, atol=exactness)
    smallest = ask(problem, table, SmallestEigenvalueQuery(setting), w, **more)
    np.testing.assert_allclose(smallest, np.linalg.eigvalsh(wanted)[:1], atol=exactness)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_one_row_among_fewer_than_declared_moves_hessian_and_eigenvalue_as_far_as_declared_and_no_further(adjacency):
    n = DECLARED if adjacency is Adjacency.ADD_REMOVE else ROWS
    problem = Problem(Logistic())
    setting = setting_of(problem, adjacency, n=n, n_features=1)
    one, two = (Table(np.zeros((ROWS, 1)), np.ones(ROWS)) for _ in range(2))
    two.X[0] = 1e9
    for query, reach in ((HessianQuery(setting), adjacency.records_moved**0.5), (SmallestEigenvalueQuery(setting), 1)):
        answers = [np.ravel(ask(problem, table, query, np.zeros(1))) for table in (one, two)]
        moved = float(np.linalg.norm(answers[0] - answers[1]))
        assert moved <= query.sensitivity
        assert moved >= 0.999 * query.sensitivity / reach
