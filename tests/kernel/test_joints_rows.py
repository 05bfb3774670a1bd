"""From a table to bounded rows and back to coefficients: norms, weights, the constant column, private ranges."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dperm import (
    Amount,
    Classes,
    Guarantee,
    Number,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    Problem,
    Schema,
    minimize,
)
from dperm.kernel.oracle import Oracle
from dperm.mechanisms import GradientQuery, HessianQuery
from dperm.privacy.guarantee import Adjacency
from dperm.problem import Logistic, Squared
from dperm.problem.domains import L2Ball
from dperm.solvers import DPGD
from kernel.harness import N, P, Table, base_table, replay, setting_of

SINGLE = {"dense": lambda X: X.astype(np.float32), "sparse": lambda X: sparse.csr_array(X.astype(np.float32))}


def gradient_of(problem, table, w=None, **more):
    """The mean gradient without noise, and its sensitivity."""
    query = GradientQuery(setting_of(problem, Adjacency.ADD_REMOVE))
    point = np.zeros(problem.dimension(P)) if w is None else w
    oracle = replay(
        problem, table, Adjacency.ADD_REMOVE, query, [(point,)], noise=None, oracle_type=Oracle, **more
    )  # fmt: skip
    return oracle.answers[0], query.sensitivity_at(point)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("storage", SINGLE)
@pytest.mark.parametrize("size", [1e-30, 1e-22, 1e-3, 1.0, 1e3, 1e22, 1e38])
@pytest.mark.parametrize("row_norm", [1e-32, 1e-24, 1.0, 1e20])
def test_a_row_in_single_precision_is_clipped_as_it_is_in_double_precision(storage, size, row_norm):
    """Squares of single-precision entries overflow from 2e19 on and vanish below 1e-23; norms must not."""
    problem = Problem(Logistic(), row_norm=row_norm)
    X = np.full((N, P), np.nan)
    X[0] = size * np.linspace(0.2, 1.0, P)
    table = Table(X.astype(np.float32).astype(np.float64), np.ones(N))
    wanted, sensitivity = gradient_of(problem, table)
    found, _ = gradient_of(problem, table, as_rows=SINGLE[storage])
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert 0.0 < np.linalg.norm(found) <= sensitivity
    length = float(np.linalg.norm(X[0] / size)) * size
    np.testing.assert_allclose(np.linalg.norm(found), 0.5 * min(length, row_norm) / N, rtol=1e-6)


@pytest.mark.parametrize("storage", SINGLE)
def test_norms_of_rows_in_single_precision_have_the_digits_of_double_precision(storage):
    """So many entries that sums of single-precision squares would be off by more than the bound has room for."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3000)).astype(np.float32)
    problem = Problem(Logistic())
    query = GradientQuery(setting_of(problem, Adjacency.ADD_REMOVE, n=1, n_features=3000))
    for row in X:
        table = Table(row[None, :].astype(np.float64), np.ones(1))
        oracle = replay(
            problem, table, Adjacency.ADD_REMOVE, query, [(np.zeros(3000),)], noise=None, oracle_type=Oracle,
            as_rows=SINGLE[storage],
        )  # fmt: skip
        assert np.linalg.norm(oracle.answers[0]) == pytest.approx(0.5, rel=1e-11)  # the bound has room for 3e-12


@pytest.mark.parametrize("weight", [-1.0, -1e9, -math.inf, math.nan, -1e-300])
def test_a_weight_below_zero_counts_as_nothing(weight):
    problem, table = Problem(Logistic(), row_norm=2.0, weight_bound=3.0), base_table()
    weights = np.ones(N)
    weights[:5] = weight
    found = minimize(problem, table.X, table.y, guarantee=None, noise=None, weights=weights, solver="dp-newton").w
    weights[:5] = 0.0
    wanted = minimize(problem, table.X, table.y, guarantee=None, noise=None, weights=weights, solver="dp-newton").w
    np.testing.assert_array_equal(found, wanted)
    # Alone it has no part in a sum or in a Hessian, whose curvatures must not become negative.
    table.weights = np.where(np.arange(N) < 5, weight, 0.0)
    assert not gradient_of(problem, table)[0].any()
    query = HessianQuery(setting_of(problem, Adjacency.ADD_REMOVE))
    oracle = replay(problem, table, None, query, [(np.zeros(P),)], noise=None, oracle_type=Oracle)
    assert not oracle.answers[0].any()


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize(("row_norm", "entry_bound"), [(1.0, None), (3.0, None), (0.2, None), (3.0, 0.5), (0.2, 7.0)])
def test_the_intercept_is_in_the_units_of_the_margin_whatever_the_row_norm(row_norm, entry_bound):
    """Of rows that are all 0 the model can only learn the share of a class, or the mean: that is its intercept."""
    X, positive = np.zeros((N, 2)), np.arange(N) % 4 < 3
    more = {"row_norm": row_norm, "entry_bound": entry_bound, "noise": None, "penalty": None}
    logistic = PrivateLogisticRegression(classes=[0, 1], solver="dp-newton", **more).fit(X, positive.astype(int))
    np.testing.assert_allclose(logistic.intercept_, [math.log(3.0)], rtol=1e-6)
    np.testing.assert_allclose(logistic.predict_proba(np.zeros((1, 2)))[0], [0.25, 0.75], rtol=1e-6)
    linear = PrivateLinearRegression(
        domain=L2Ball(50.0), target_bound=2.0, solver="dp-newton", **more
    ).fit(X, np.where(positive, 1.5, -0.5))  # fmt: skip
    np.testing.assert_allclose(linear.intercept_, 1.0, rtol=1e-6)
    np.testing.assert_allclose(linear.predict(np.zeros((1, 2))), [1.0], rtol=1e-6)
    classes = np.repeat([0, 1, 2], [N // 2, N // 4, N - N // 2 - N // 4])
    softmax = PrivateLogisticRegression(
        classes=[0, 1, 2], domain=L2Ball(50.0), solver=DPGD(n_steps=1000), **more
    ).fit(X, classes)  # fmt: skip
    np.testing.assert_allclose(softmax.predict_proba(np.zeros((1, 2)))[0], [0.5, 0.25, 0.25], rtol=1e-3)


@pytest.mark.parametrize(("row_norm", "entry_bound"), [(3.0, None), (3.0, 0.5)])
@pytest.mark.parametrize("build", [PrivateLogisticRegression, PrivateLinearSVC, PrivateLinearRegression])
def test_an_estimator_predicts_with_the_margins_that_were_minimised(build, row_norm, entry_bound):
    """A row's margin under the released coefficients of `minimize` is the one that the estimator predicts with."""
    table = base_table()
    X = table.X / 50.0  # within every bound, so that no row is clipped
    more = {"classes": [-1.0, 1.0]} if build is not PrivateLinearRegression else {"target_bound": 1.0}
    model = build(row_norm=row_norm, entry_bound=entry_bound, noise=None, **more)
    problem = model.plan(N, P).problem
    model.fit(X, table.y)
    released = minimize(problem, X, table.y, guarantee=None, noise=None).w
    constant = min(row_norm / P**0.25, entry_bound or math.inf)
    margins = np.column_stack([X, np.full(N, constant)]) @ released
    given = model.predict(X) if build is PrivateLinearRegression else model.decision_function(X)
    assert np.ptp(margins) > 1e-3
    np.testing.assert_allclose(given, margins, atol=1e-8)
    assert abs(float(np.ravel(model.intercept_)[0])) > 1e-6


CODES = ["-999", "?", "777"]


@pytest.mark.parametrize("share", [0.05, 0.4])
def test_codes_of_missing_values_are_not_counted_in_private_ranges(share):
    """Under a search without noise the ends are those of the numbers that are there, of columns and target alike."""
    rng, n = np.random.default_rng(0), 5000
    age, pay = rng.uniform(20, 60, n), rng.uniform(100, 400, n)
    gone = rng.random(n) < share
    ranges = []
    for low, high in ((-999.0, 777.0), (np.nan, np.nan)):
        code = np.where(rng.random(n) < 0.5, low, high)
        frame = pd.DataFrame({"age": np.where(gone, code, age), "pay": np.where(gone, code, pay)})
        schema = Schema(
            {"age": Number("private", within=(-1000, 1000))},
            Amount("pay", "private", within=(-1000, 1000)),
            missing=tuple(CODES),
        )
        model = PrivateLinearRegression(2.0, 1e-6, schema=schema, noise=None).fit(frame)
        ranges.append((model.schema_.columns["age"].bounds, model.schema_.target.number.bounds))
    assert ranges[0] == ranges[1]
    (low, high), (least, most) = ranges[0]
    assert 0 <= low <= 30
    assert 50 <= high <= 80
    assert 0 <= least <= 130
    assert 370 <= most <= 500


def test_codes_in_columns_of_text_are_not_counted_in_private_ranges_either():
    rng, n = np.random.default_rng(1), 5000
    age = np.array([f"{value:.3f}" for value in rng.uniform(20, 60, n)], dtype=object)
    age[::3] = np.array(CODES)[np.arange(len(age[::3])) % 3]
    frame = pd.DataFrame({"age": age, "rich": rng.choice(["no", "yes"], n)})
    schema = Schema(
        {"age": Number("private", within=(-1000, 1000))}, Classes("rich", ["no", "yes"]), missing=tuple(CODES)
    )
    model = PrivateLogisticRegression(2.0, 1e-6, schema=schema, noise=None).fit(frame)
    low, high = model.schema_.columns["age"].bounds
    assert 0 <= low <= 30
    assert 50 <= high <= 80


def test_a_seeded_release_does_not_depend_on_rows_of_negative_weight():
    problem, table = Problem(Squared(1.0), domain=L2Ball(1.0)), base_table()
    weights = np.where(np.arange(N) < 20, -5.0, 1.0)
    one, two = (
        minimize(problem, X, table.y, guarantee=Guarantee(1.0, 1e-6), weights=weights, random_state=1, solver="dp-gd").w
        for X in (table.X, np.where(np.arange(N)[:, None] < 20, -table.X, table.X))
    )
    np.testing.assert_array_equal(one, two)
