"""What estimators leave to rules: the strength of the penalty and the size of the constant column."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from dperm import (  # fmt: skip
    FitOptions,
    Guarantee,
    InvalidParameterError,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    Problem,
)
from dperm.accounting.curve import gaussian_mu
from dperm.problem import L1, L2, ElasticNet, Logistic, NoRegularizer  # fmt: skip


def strength(n=10_000, p=20, epsilon=1.0, **parameters):
    regularizer = PrivateLogisticRegression(epsilon, 1e-6, **parameters).plan(n, p).problem.regularizer
    assert isinstance(regularizer, L1 | L2)
    return regularizer.strength


def test_the_rule_is_the_one_that_is_documented():
    n, p, guarantee = 5000, 30, Guarantee(0.5, 1e-6)
    plan = PrivateLogisticRegression(0.5, 1e-6).plan(n, p)
    curvature = 0.25 * (1.0 + 1.0 / math.sqrt(p))  # the constant column is 1/p^¼ long
    ratio = (p + 1) * (2.0 / (n * gaussian_mu(guarantee))) ** 2
    assert plan.problem.regularizer.strength == pytest.approx(curvature * (1.0 / n + 0.25 * ratio))


def test_more_rows_more_epsilon_and_fewer_columns_need_less_penalty():
    usual = strength()
    assert strength(n=100_000) < usual < strength(n=1000)
    assert strength(epsilon=4.0) < usual < strength(epsilon=0.1)
    assert strength(p=5, fit_intercept=False) < strength(fit_intercept=False) < strength(p=500, fit_intercept=False)
    assert strength(adjacency="add_remove", n=10_000) < usual
    assert strength(noise=None) == pytest.approx(0.25 * (1 + 1 / math.sqrt(20)) / 10_000)


def test_the_strength_scales_with_the_rows_so_that_units_do_not_matter():
    assert strength(row_norm=10.0) == pytest.approx(100.0 * strength())


@pytest.mark.parametrize(
    ("n", "p", "epsilon", "delta"), [(1, 1, 1e-3, 1e-9), (10, 10**6, 0.01, 0.0), (10**9, 3, 50.0, 1e-9)]
)
@pytest.mark.parametrize("penalty", ["auto", "l1"])
def test_there_is_a_strength_at_every_size(n, p, epsilon, delta, penalty):
    plan = PrivateLogisticRegression(epsilon, delta, penalty=penalty, solver="chaudhuri-objective").plan(n, p)
    assert 0.0 < plan.problem.regularizer.strength < math.inf


def test_words_numbers_and_objects_say_which_penalty():
    def regularizer(penalty):
        return PrivateLogisticRegression(1.0, 1e-6, penalty=penalty).plan(10_000, 20).problem.regularizer

    assert regularizer("l2") == regularizer("auto")
    assert isinstance(regularizer("l1"), L1)
    assert regularizer(0.1) == L2(0.1)
    assert regularizer(ElasticNet(0.1)) == ElasticNet(0.1)
    assert regularizer(None) == regularizer(0) == NoRegularizer()


@pytest.mark.parametrize("penalty", ["lasso", "", True, -0.1, float("nan"), [0.1], L2])
def test_any_other_penalty_is_one_sentence(penalty):
    with pytest.raises(InvalidParameterError, match="penalty must be"):
        PrivateLogisticRegression(penalty=penalty).plan(100, 2)


def test_there_is_no_rule_for_other_penalties():
    with pytest.raises(InvalidParameterError, match="no rule gives the strength of elastic"):
        FitOptions(Problem(Logistic(), ElasticNet(0.1)), guarantee=Guarantee(1.0, 1e-6), strength_by_rule=True)


def test_parameters_reach_the_strength():
    model = PrivateLogisticRegression(penalty=ElasticNet(0.1, 0.5))
    assert model.get_params()["penalty__strength"] == 0.1
    assert "penalty__strength" not in model.get_params(deep=False)
    assert clone(model).set_params(penalty__strength=0.2).penalty == ElasticNet(0.2, 0.5)
    assert clone(model).set_params(penalty=L2(1.0), penalty__strength=3.0).penalty == L2(3.0)
    for penalty in ("auto", L2(1.0)):
        with pytest.raises(InvalidParameterError, match="no parameter of the penalty"):
            PrivateLogisticRegression(penalty=penalty).set_params(penalty__ratio=1.0)
    assert model.penalty == ElasticNet(0.1, 0.5)


def test_a_search_sets_the_strength():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)) / 3, rng.integers(0, 2, size=300)
    search = GridSearchCV(
        PrivateLogisticRegression(8.0, 1e-6, classes=[0, 1], penalty=L2(1.0)), {"penalty__strength": [0.1, 1.0]}, cv=2
    )
    assert search.fit(X, y).best_params_["penalty__strength"] in (0.1, 1.0)


def test_the_constant_column_is_short_where_there_are_many_columns():
    for columns, length in ((1, 1.0), (16, 0.5), (10_000, 0.1)):
        problem = PrivateLinearSVC(1.0, 1e-6).plan(1000, columns).problem
        assert problem.intercept_value == pytest.approx(length)
        assert problem.full_row_norm == pytest.approx(math.hypot(1.0, length))
    assert PrivateLinearSVC(1.0, 1e-6, row_norm=3.0, entry_bound=0.5).plan(1000, 4).problem.intercept_value == 0.5
    assert PrivateLinearSVC(1.0, 1e-6, fit_intercept=False).plan(1000, 4).problem.full_row_norm == 1.0


def test_a_problem_may_name_the_constant_columns_value():
    assert Problem(Logistic(), intercept=0.3).full_row_norm == pytest.approx(math.hypot(1.0, 0.3))
    for value in (-1.0, 2.0, float("nan"), "yes"):
        with pytest.raises(InvalidParameterError, match="intercept must be"):
            Problem(Logistic(), intercept=value)
    plan = FitOptions(Problem(Logistic(), intercept=True), guarantee=Guarantee(1.0, 1e-6)).plan(1000, 16)
    assert plan.problem.intercept_value == 1.0  # what is stated is not changed


def test_a_heavily_shrunk_model_is_not_swamped_by_its_intercept():
    # Few rows, many columns, classes of slightly different size: with a constant column as long as a row all
    # predictions are that of the larger class.
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(4000, 400)))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    margin = X[:, :200].sum(axis=1) - X[:, 200:].sum(axis=1)
    y = (margin > np.quantile(margin, 0.54)).astype(int)
    model = PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], random_state=0).fit(X, y)
    assert 0.2 < model.predict(X).mean() < 0.8
    assert model.score(X, y) > 0.6
