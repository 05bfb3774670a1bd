"""Pitfalls 1, 2, 4, 6, 15: nothing about the rows leaves beside the released coefficients."""

import math

import numpy as np
import pytest
from sklearn.base import clone

from dperm import (
    InvalidParameterError,
    NotForReleaseWarning,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
)
from dperm.models.base import PrivateEstimator
from dperm.models.linear import PrivateGLM

N, P = 400, 4
ESTIMATORS = [
    PrivateLogisticRegression(classes=["a", "b", "rare"], delta=1e-6),
    PrivateLinearSVC(classes=["a", "b"], delta=1e-6),
    PrivateLinearRegression(delta=1e-6, row_norm=1.0),
]
NAMES = [type(estimator).__name__ for estimator in ESTIMATORS]


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, P)) * 3.7
    return X, np.where(X[:, 0] > 0, "a", "b"), X[:, 0] / 20


def fit(estimator, X, labels, numbers, **changes):
    y = numbers if isinstance(estimator, PrivateLinearRegression) else labels
    return clone(estimator).set_params(**changes).fit(X, y)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=NAMES)
def test_no_attribute_is_a_statistic_of_the_rows(estimator):
    X, labels, numbers = rows()
    model = fit(estimator, X, labels, numbers)
    norms = np.linalg.norm(X, axis=1)
    statistics = [X.mean(), X.std(), X.min(), X.max(), norms.max(), norms.mean(), numbers.max(),
                  numbers.min(), *X.mean(axis=0), *X.min(axis=0), *X.max(axis=0), *X.std(axis=0)]  # fmt: skip
    arrays = [np.asarray(value) for value in vars(model).values() if isinstance(value, (int, float, np.ndarray))]
    kept = [float(v) for array in arrays if array.dtype.kind in "fi" for v in array.ravel()]
    kept += [v for v in model.privacy_.to_dict().values() if isinstance(v, float)]
    for statistic in statistics:
        assert not any(math.isclose(statistic, v, rel_tol=1e-9) for v in kept)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=NAMES)
def test_the_statement_is_the_same_for_every_table_of_that_shape(estimator):
    X, labels, numbers = rows()
    one = fit(estimator, X, labels, numbers)
    hostile = X.copy()
    hostile[0] = np.nan
    hostile[1] = 1e308
    two = fit(estimator, hostile, np.full(N, labels[0]), np.full(N, 1e9))
    assert one.privacy_ == two.privacy_
    assert str(one.privacy_) == str(two.privacy_)
    assert str(one.event_) == str(two.event_)


@pytest.mark.parametrize("estimator", ESTIMATORS[:2], ids=NAMES[:2])
def test_dropping_the_only_row_of_a_declared_class_changes_no_shape(estimator):
    X, labels, numbers = rows()
    labels = labels.astype("U4")
    labels[5] = "rare"
    with_rare = fit(estimator, X, labels, numbers)
    labels[5] = "a"
    without = fit(estimator, X, labels, numbers)
    single = fit(estimator, X, np.full(N, "a"), numbers)
    unknown = fit(estimator, X, np.full(N, "nobody declared this"), numbers)
    for model in (without, single, unknown):
        np.testing.assert_array_equal(model.classes_, with_rare.classes_)
        assert model.coef_.shape == with_rare.coef_.shape
        assert model.privacy_ == with_rare.privacy_


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=NAMES)
def test_adding_a_row_changes_neither_noise_nor_steps_nor_divisor(estimator):
    X, labels, numbers = rows()
    changes = {"adjacency": "add_remove", "n": N}
    one = fit(estimator, X, labels, numbers, **changes)
    two = fit(estimator, np.vstack([X, 9 * X[:1]]), np.append(labels, "b"), np.append(numbers, 3.0), **changes)
    assert one.privacy_ == two.privacy_
    assert one.privacy_.for_release


def test_under_add_remove_an_undeclared_n_is_not_for_release():
    X, labels, _ = rows()
    model = PrivateLinearSVC(classes=["a", "b"], adjacency="add_remove").fit(X, labels)
    assert not model.privacy_.for_release
    assert "n was read from the rows" in str(model.privacy_)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=NAMES)
def test_fitting_changes_no_parameter(estimator):
    X, labels, numbers = rows()
    model = clone(estimator)
    before = repr(model.get_params())
    model.fit(X, numbers if isinstance(model, PrivateLinearRegression) else labels)
    assert repr(model.get_params()) == before


def test_without_a_declared_bound_rows_are_clipped_to_the_default_one():
    X, labels, _ = rows()
    model = PrivateLogisticRegression(classes=["a", "b"]).fit(X, labels)
    assert model.privacy_.row_norm == 1.0


def test_classes_read_from_the_rows_are_marked():
    X, labels, _ = rows()
    with pytest.warns(NotForReleaseWarning, match="classes"):
        model = PrivateLogisticRegression().fit(X, labels)
    assert not model.privacy_.for_release
    assert "classes were read from the rows" in str(model.privacy_)


def test_classes_that_the_type_declares_need_not_be_repeated():
    pandas = pytest.importorskip("pandas")
    X, labels, _ = rows()
    truth = PrivateLogisticRegression().fit(X, labels == "a")
    assert truth.classes_.tolist() == [False, True]
    assert truth.privacy_.for_release
    # The categories of a column are mostly made from its rows, so they do not count as declared.
    with pytest.warns(NotForReleaseWarning):
        named = PrivateLogisticRegression().fit(X, pandas.Series(labels).astype("category"))
    assert not named.privacy_.for_release


def test_a_missing_label_makes_its_row_count_as_nothing():
    pandas = pytest.importorskip("pandas")
    X, labels, _ = rows()
    whole = PrivateLogisticRegression(classes=["a", "b"]).fit(X, labels)
    for kind in ("string", object):
        column = pandas.Series(labels, dtype=kind)
        column[3] = pandas.NA
        column[4] = None
        holed = PrivateLogisticRegression(classes=["a", "b"]).fit(X, column)
        assert holed.privacy_ == whole.privacy_


def test_labels_and_classes_of_different_kinds_are_refused():
    X, labels, _ = rows()
    for classes, y in ((["0", "1"], np.zeros(N)), ([0, 1], labels), (["a", 1], labels)):
        with pytest.raises(InvalidParameterError, match="text"):
            PrivateLogisticRegression(classes=classes).fit(X, y)


def test_a_plan_is_not_a_release():
    for model in (PrivateLogisticRegression(), PrivateLogisticRegression(class_weight={1: 0.5})):
        planned = model.plan(N, P).privacy
        assert not planned.for_release
        assert "nothing was fitted" in str(planned)
    X, labels, _ = rows()
    weighted = PrivateLogisticRegression(class_weight={True: 0.5})
    assert weighted.plan(N, P).privacy.sigma == pytest.approx(weighted.fit(X, labels == "a").privacy_.sigma)


def test_a_failed_fit_leaves_no_mixture_of_two():
    X, labels, _ = rows()
    model = PrivateLogisticRegression(classes=["a", "b"]).fit(X, labels)
    with pytest.raises(InvalidParameterError):
        model.fit(X[:, :2], labels[:-1])
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("estimator", ESTIMATORS[:2], ids=NAMES[:2])
def test_class_weights_must_be_public(estimator):
    X, labels, numbers = rows()
    for bad in ("balanced", [1, 2], {"nobody": 2.0}, {"a": -1.0}, {"a": math.nan}):
        with pytest.raises(InvalidParameterError, match="class_weight"):
            fit(estimator, X, labels, numbers, class_weight=bad)
    plain, heavy, light = (
        fit(estimator, X, labels, numbers, class_weight=weights, solver="dp-gd")
        for weights in (None, {"a": 3.0}, {"a": 0.5})
    )
    assert heavy.privacy_.sigma > plain.privacy_.sigma
    assert light.privacy_.sigma == pytest.approx(plain.privacy_.sigma)


def test_the_sub_budgets_of_a_fit_sum_to_the_whole():
    """One joint query for all classes: the ε accounted is the ε promised, whatever the number of classes."""
    X, labels, _ = rows()
    for classes in (["a", "b"], ["a", "b", "c"], list("abcdefghij")):
        model = PrivateLogisticRegression(epsilon=0.7, classes=classes).fit(X, labels)
        assert 0.69 < model.privacy_.certified_epsilon <= 0.7


def test_estimators_hold_their_budget_only_as_parameters():
    for base in (PrivateEstimator, PrivateGLM):
        assert not [name for name in vars(base) if name.endswith("_") and not name.startswith("_")]
