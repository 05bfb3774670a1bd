"""Rows in arrays: predicted as they were fitted, and in the target's range, however they are predicted."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dperm import (
    PrivateHuberRegression,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMLPRegressor,
    PrivatePoissonRegression,
    load_model,
    save_model,
)
from dperm.cli.main import run_with

RNG = np.random.default_rng(3)
N = 3000
# Columns as tables have them: of very different sizes, none near 1.
ROWS = RNG.normal(size=(N, 3)) * [1.0, 40.0, 3000.0] + [2.0, 100.0, 9000.0]
AMOUNTS = 20.0 + 0.3 * (ROWS[:, 1] - 100.0) + RNG.normal(size=N)
LABELS = (AMOUNTS > 20.0).astype(int)

MODELS = {
    "linear": lambda: PrivateLinearRegression(1.0, 1e-6, row_norm=1.0, target_bound=60.0),
    "huber": lambda: PrivateHuberRegression(1.0, 1e-6, row_norm=1.0, entry_bound=0.7, target_bound=60.0),
    "poisson": lambda: PrivatePoissonRegression(1.0, 1e-6, row_norm=2.0, target_bound=60.0),
    "logistic": lambda: PrivateLogisticRegression(1.0, 1e-6, classes=[0, 1]),
    "svc": lambda: PrivateLinearSVC(1.0, 1e-6, classes=[0, 1], row_norm=3.0),
}


@pytest.fixture(scope="module")
def fitted():
    targets = {"logistic": LABELS, "svc": LABELS}
    return {name: build().fit(ROWS, targets.get(name, AMOUNTS)) for name, build in MODELS.items()}


def clipped(model, rows):
    """Written here once more, so that it is not the fit's own function that is compared with itself."""
    norms, entries = np.linalg.norm(rows, axis=1), np.abs(rows).max(axis=1)
    largest = math.inf if model.entry_bound is None else model.entry_bound
    return rows * np.minimum(1.0, np.minimum((model.row_norm or 1.0) / norms, largest / entries))[:, None]


def scores_of(model, rows):
    return model.predict(rows) if hasattr(model, "target_bound") else model.decision_function(rows)


@pytest.mark.parametrize("name", MODELS)
def test_a_long_row_is_predicted_as_the_clipped_row_that_was_fitted(name, fitted):
    model = fitted[name]
    short = clipped(model, ROWS)
    margins = short @ np.ravel(model.coef_) + model.intercept_
    if hasattr(model, "target_bound"):
        low, high = model.privacy_.target_range
        expected = np.clip(np.exp(margins) if name == "poisson" else margins, low, high)
    else:
        expected = margins
    np.testing.assert_allclose(scores_of(model, ROWS), expected, rtol=1e-9)
    np.testing.assert_allclose(model.encode(ROWS), short, rtol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_every_way_to_predict_a_long_row_is_the_same(name, fitted, tmp_path, capsys):
    model, expected = fitted[name], fitted[name].predict(ROWS)
    np.testing.assert_allclose(model.to_sklearn().predict(ROWS), expected, rtol=1e-9)
    np.testing.assert_allclose(model.predict(sparse.csr_matrix(ROWS)), expected, rtol=1e-9)
    np.testing.assert_allclose(model.to_sklearn().predict(sparse.csr_matrix(ROWS)), expected, rtol=1e-9)
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    named, file = MODELS[name]().fit(frame, expected), tmp_path / "model.json"
    save_model(named, file)
    assert np.array_equal(load_model(file).predict(frame), named.predict(frame))
    frame[:50].to_csv(tmp_path / "rows.csv", index=False)
    assert run_with(["predict", str(file), str(tmp_path / "rows.csv")]) == 0
    lines = [float(line) for line in capsys.readouterr().out.splitlines()[1:]]
    np.testing.assert_allclose(lines, named.predict(frame[:50]), rtol=1e-9)


@pytest.mark.parametrize("name", ["linear", "huber", "poisson"])
def test_a_prediction_stays_in_the_range_that_was_declared(name, fitted):
    model = MODELS[name]().fit(ROWS, AMOUNTS)
    model.intercept_ = 500.0  # as noise may make it
    assert set(model.predict(ROWS)) == {60.0}
    assert set(model.to_sklearn().predict(ROWS)) == {60.0}


def test_a_networks_prediction_stays_in_the_range_that_was_declared():
    model = PrivateMLPRegressor(1.0, 1e-6, target_bound=60.0, hidden_layer_sizes=(4,)).fit(ROWS / 1e4, AMOUNTS)
    model.weights_["layer1/bias"][:] = -5.0
    assert set(model.predict(ROWS / 1e4)) == {-60.0}
    assert set(model.to_sklearn().predict(ROWS / 1e4)) == {-60.0}


def test_a_row_that_is_not_finite_is_predicted_as_nothing_finite(fitted):
    rows = ROWS[:3].copy()
    rows[1, 0] = np.nan
    assert np.isnan(fitted["linear"].predict(rows)).tolist() == [False, True, False]
    assert np.isnan(fitted["logistic"].decision_function(rows)).tolist() == [False, True, False]
