"""Fits that are parts of a search or a pipeline: they cost what was planned, tell nothing, and fail without a sign."""

import logging

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.preprocessing import OneHotEncoder

from dperm import (
    Budget,
    Guarantee,
    InvalidParameterError,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearch,
    PrivateStandardScaler,
    make_private_pipeline,
)
from dperm.accounting.composition import epsilon_of
from dperm.accounting.events import Composed
from dperm.kernel.exact.words import fresh_key, stream_of
from dperm.models.apart import plain_labels, plain_numbers, rows_apart
from dperm.privacy.guarantee import Adjacency


def table(n=600, p=2, seed=0):
    X = np.random.default_rng(seed).uniform(-0.5, 0.5, size=(n, p))
    return X, X[:, 0] > 0


def search(**more):
    settings = {"epsilon": 4.0, "delta": 1e-6, "noisy_trials": True} | more
    return PrivateSearch(PrivateLogisticRegression(), {"penalty": [1.0, 1e-2]}, **settings)


def pipeline(model=None, **more):
    model = PrivateLogisticRegression(classes=[0, 1]) if model is None else model
    return make_private_pipeline(PrivateStandardScaler(bounds=(-1, 1)), model, epsilon=1.0, delta=1e-6, **more)


def test_what_ran_in_a_pipeline_costs_no_more_than_it_promises_whatever_the_class_weights():
    X, y = table(3000)
    pipe = pipeline(PrivateLogisticRegression(class_weight={False: 0.5, True: 0.5})).fit(X, y)
    ran = Composed((pipe[0].event_, pipe[-1].event_))
    assert epsilon_of(ran, 1e-6, Adjacency.REPLACE_ONE) <= 1.0
    assert pipe[-1].classes is None  # a parameter is what it was


@pytest.mark.parametrize("method", ["random-trials", "composition"])
def test_a_search_logs_no_trial_so_that_nobody_can_count_them(method, caplog):
    with caplog.at_level(logging.INFO, logger="dperm"):
        search(method=method, trials=8 if method == "random-trials" else None).fit(*table())
    assert sum("released coefficients" in line for line in caplog.messages) == 1
    assert sum("planned" in line for line in caplog.messages) == 1


@pytest.mark.parametrize("fitted", [lambda **more: search(**more), lambda **more: pipeline(**more)])
def test_an_n_that_nobody_declared_is_not_logged_by_what_has_parts(fitted, caplog):
    X, y = table(601)
    with caplog.at_level(logging.INFO, logger="dperm"):
        fitted(adjacency="add_remove").fit(X, y.astype(int) if "pipeline" in fitted.__code__.co_names else y)
    assert not any(str(number) in text for text in caplog.messages for number in (601, 450, 451))


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_a_part_without_rows_is_no_error(n_rows):
    X, y = table(n_rows)
    for seed in range(4):
        found = search(adjacency="add_remove", n=200, random_state=seed).fit(X, y)
        assert found.best_index_ in (0, 1)


def test_a_trial_that_fails_loses_all_and_shows_nowhere(monkeypatch):
    fit, calls = PrivateLogisticRegression.fit, []

    def failing(self, X, y, **more):
        calls.append(len(X))
        if self.penalty == 1e-2 and len(X) < 600:
            raise ValueError("a value of a row")
        return fit(self, X, y, **more)

    monkeypatch.setattr(PrivateLogisticRegression, "fit", failing)
    assert search(random_state=0).fit(*table()).best_params_ == {"penalty": 1.0}
    assert calls[-1] == 600


@pytest.mark.parametrize("missing", [199, 200])
def test_what_a_majority_decides_is_decided_by_the_whole_table(missing):
    X, _ = table(400)
    y = (X[:, 0] > 0).astype(object)
    y[:missing] = None
    found = PrivateSearch(
        PrivateLogisticRegression(classes=[0, 1]), {"penalty": [1.0, 1e-2]}, epsilon=4.0, noisy_trials=True
    ).fit(X, y.tolist())
    assert found.best_index_ in (0, 1)


def test_labels_and_numbers_mean_the_same_in_every_part():
    texts = plain_labels(["b", None, "a", 3, "?"], ("a", "b", "?"), majority=True)
    assert texts.tolist() == ["b", "??", "a", "??", "?"]
    np.testing.assert_array_equal(plain_labels([2, None, 1, "x"], (1, 2), majority=True), [2.0, np.nan, 1.0, np.nan])
    np.testing.assert_array_equal(plain_numbers([1, 2.5, None, "7"], majority=True), [1.0, 2.5, np.nan, 7.0])


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.coo_matrix, sparse.csc_array])
def test_sparse_rows_of_every_kind_are_put_apart(kind):
    numbers = np.arange(1.0, 11.0)[:, None]
    rows = rows_apart(kind(numbers), numbers[:, 0], 10, 7, stream_of(fresh_key()))
    for X, y in (rows.train, rows.held_out):
        np.testing.assert_array_equal(X.toarray()[:, 0], y)


BAD = {
    "sparse rows": (sparse.csr_matrix(table()[0]), table()[1].astype(int)),
    "rows of text": (np.full((600, 2), "a"), table()[1].astype(int)),
    "complex rows": (table()[0] * 1j, table()[1].astype(int)),
    "a column of text": (pd.DataFrame(table()[0]).assign(t="a"), table()[1].astype(int)),
    "labels of another kind": (table()[0], np.where(table()[1], "yes", "no")),
}


@pytest.mark.parametrize("name", BAD)
def test_a_pipeline_refuses_a_table_before_anything_is_spent(name, tmp_path):
    budget = Budget.create("people", Guarantee(3.0, 1e-5), ledger=str(tmp_path / "ledger.db"))
    with pytest.raises((InvalidParameterError, TypeError)):
        pipeline(budget=budget).fit(*BAD[name])
    assert budget.account().releases == ()


def test_a_sparse_step_before_a_private_one_is_refused_before_anything_is_spent(tmp_path):
    budget = Budget.create("people", Guarantee(3.0, 1e-5), ledger=str(tmp_path / "ledger.db"))
    encoder = OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore")
    pipe = make_private_pipeline(
        encoder, PrivateStandardScaler(bounds=(0, 1)), PrivateLinearRegression(row_norm=1.0), epsilon=1.0, budget=budget
    )
    with pytest.raises(InvalidParameterError, match="does not support sparse rows"):
        pipe.fit(np.full((50, 1), "a", dtype=object), np.zeros(50))
    assert budget.account().releases == ()


def test_plans_of_several_parts_show_themselves_in_a_notebook():
    for plan in (search().plan(600, 2), pipeline().plan(600, 2)):
        text = plan._repr_html_()
        assert "nothing was fitted" in text
        assert "With one person's row replaced" in text.replace("&#x27;", "'")
        assert "Verdict" in text
