"""Rows in arrays: predicted as they were fitted, and in the target's range, however they are predicted."""

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from dperm import (
    Amount,
    Classes,
    DroppedRowsWarning,
    Guarantee,
    InvalidParameterError,
    InvalidTableError,
    Number,
    PrivateHuberRegression,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMLPRegressor,
    PrivatePoissonRegression,
    PrivateSearch,
    Schema,
    load_model,
    private_evaluate,
    save_model,
)
from dperm.cli.main import run_with
from dperm.files.model_file import read_content
from dperm.ledger import Budget
from dperm.verify.release import verify

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
    return model.decision_function(rows) if hasattr(model, "decision_function") else model.predict(rows)


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
    np.testing.assert_allclose(scores_of(model, ROWS), expected, rtol=1e-9, atol=1e-9)
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


# --- Bounds of columns ---

LOWER, UPPER = np.array([-2.0, 0.0, 0.0]), np.array([6.0, 250.0, 20_000.0])


def scaled(rows):
    """What a schema of linear numbers makes of rows."""
    return np.clip((rows - LOWER) / (UPPER - LOWER) * 2.0 - 1.0, -1.0, 1.0)


BOUNDED = {
    "linear": lambda **more: PrivateLinearRegression(1.0, 1e-6, target_bound=60.0, **more),
    "huber": lambda **more: PrivateHuberRegression(1.0, 1e-6, target_bound=60.0, **more),
    "poisson": lambda **more: PrivatePoissonRegression(1.0, 1e-6, target_bound=60.0, **more),
    "logistic": lambda **more: PrivateLogisticRegression(1.0, 1e-6, classes=[0, 1], **more),
    "svc": lambda **more: PrivateLinearSVC(1.0, 1e-6, classes=[0, 1], **more),
    "mlp": lambda **more: PrivateMLPRegressor(1.0, 1e-6, target_bound=60.0, hidden_layer_sizes=(4,), **more),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_are_the_schema_that_they_stand_for(name, tmp_path):
    y = LABELS if name in ("logistic", "svc") else AMOUNTS
    model = BOUNDED[name](bounds=(LOWER, UPPER), random_state=1).fit(ROWS, y)
    np.testing.assert_allclose(model.encode(ROWS), scaled(ROWS), atol=1e-12)
    assert model.privacy_.row_norm == (math.inf if name == "mlp" else math.sqrt(3.0))
    declared = Classes("target", [0, 1]) if name in ("logistic", "svc") else Amount("target", (-60.0, 60.0))
    if name == "poisson":
        declared = Amount("target", (0.0, 60.0))
    columns = {f"x{place}": Number((LOWER[place], UPPER[place]), encode="linear") for place in range(3)}
    by_hand = BOUNDED[name](random_state=1)
    by_hand.set_params(schema=Schema(columns, declared))
    by_hand.set_params(**({"classes": None} if hasattr(by_hand, "classes") else {}))
    if hasattr(by_hand, "target_bound"):
        by_hand.target_bound = type(by_hand).target_bound
    by_hand.fit(pd.DataFrame(ROWS, columns=list(columns)), y)
    assert np.array_equal(model.predict(ROWS), by_hand.predict(ROWS))
    assert model.schema_ == by_hand.schema_
    assert model.privacy_ == by_hand.privacy_
    assert model.score(ROWS, y) == by_hand.score(ROWS, y)
    assert model.score(ROWS, y) > 0.5
    private_evaluate(model, ROWS, y, epsilon=1.0)


def test_a_model_with_bounds_is_saved_verified_diagnosed_and_planned_like_any_other(tmp_path):
    model = BOUNDED["linear"](bounds=(LOWER, UPPER))
    plan = model.plan(N, 3)
    seen = []
    model.fit(ROWS, AMOUNTS, plan=plan, save=lambda one: seen.append(one.coef_.copy()))
    assert np.array_equal(seen, [model.coef_])
    assert model.event_ == plan.event
    save_model(model, tmp_path / "model.json")
    assert all(finding.holds for finding in verify(read_content(tmp_path / "model.json")))
    assert np.array_equal(load_model(tmp_path / "model.json").predict(ROWS), model.predict(ROWS))
    assert model.diagnose(ROWS, AMOUNTS).score == pytest.approx(model.score(ROWS, AMOUNTS))
    assert model.schema is None
    assert np.array_equal(clone(model).bounds, model.bounds)
    assert len(cross_val_score(BOUNDED["linear"](bounds=(LOWER, UPPER)), ROWS, AMOUNTS, cv=2)) == 2


@pytest.mark.parametrize(
    ("name", "more"),
    [(name, {}) for name in BOUNDED] + [(name, {"row_norm": 0.5}) for name in BOUNDED if name != "mlp"],  # it has none
)
def test_with_bounds_the_plain_estimator_predicts_the_same_of_the_arrays_that_were_fitted(name, more, tmp_path):
    model = BOUNDED[name](bounds=(LOWER, UPPER), **more)
    model.fit(ROWS, LABELS if name in ("logistic", "svc") else AMOUNTS)
    rows = ROWS * [[-3.0, 1.0, 1.0]]  # some beyond the bounds
    rows[0, 1] = np.nan
    save_model(model, tmp_path / "model.json")
    for released in (model, load_model(tmp_path / "model.json"), pickle.loads(pickle.dumps(model))):
        plain = pickle.loads(pickle.dumps(released.to_sklearn()))
        np.testing.assert_allclose(scores_of(plain, rows), scores_of(model, rows), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(plain.predict(rows), model.predict(rows), rtol=1e-9)


def test_with_bounds_the_plain_estimator_takes_the_frame_that_was_fitted():
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    model = BOUNDED["linear"](bounds="private").set_params(epsilon=8.0).fit(frame, AMOUNTS)
    np.testing.assert_allclose(model.to_sklearn().predict(frame), model.predict(frame), rtol=1e-9)


def test_private_bounds_are_found_and_released_with_the_model():
    model = BOUNDED["linear"](bounds="private").set_params(epsilon=8.0).fit(ROWS, AMOUNTS)
    assert model.privacy_.private_ranges
    assert model.schema_.released_ranges == ("x0", "x1", "x2")
    low, high = model.schema_.numbers["x2"].bounds
    assert 0.0 <= low < 9000.0 < high < 50_000.0
    assert model.score(ROWS, AMOUNTS) > 0.5


def test_bounds_of_a_frame_keep_its_names_and_ids_stand_beside_or_in_it():
    frame = pd.DataFrame(ROWS, columns=["a", "target", "c"])
    ids = np.repeat(np.arange(N // 2), 2)
    unit = {"unit": "who", "max_rows_per_unit": 2, "bounds": (LOWER, UPPER)}
    beside = BOUNDED["linear"](**unit).fit(frame, AMOUNTS, groups=ids)
    assert list(beside.feature_names_in_) == ["a", "target", "c"]
    within = BOUNDED["linear"](**unit).fit(frame.assign(who=ids), AMOUNTS)
    assert beside.privacy_.unit == within.privacy_.unit
    assert beside.privacy_.n == within.privacy_.n == N // 2
    assert within.predict(frame).shape == (N,)
    array = BOUNDED["linear"](**unit).fit(ROWS, AMOUNTS, groups=ids)
    assert array.predict(ROWS).shape == (N,)


def test_the_range_of_the_target_beside_bounds_may_have_two_ends():
    model = BOUNDED["linear"](bounds=(LOWER, UPPER)).set_params(target_bound=(-20.0, 60.0)).fit(ROWS, AMOUNTS)
    assert model.schema_.target.range == (-20.0, 60.0)
    assert model.predict(ROWS).min() >= -20.0


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"bounds": (LOWER[:2], UPPER)}, "each a number or one for each of the 3 columns"),
        ({"bounds": (0, 1), "target_bound": "x"}, r"target_bound must be a number or \(lower, upper\), got 'x'"),
        ({"bounds": 3.0}, "'private' or \\(lower, upper\\)"),
        ({"bounds": "secret"}, "'private' or \\(lower, upper\\)"),
        ({"bounds": (0.0, 0.0)}, "bounds of column 'x0': range must be \\(low, high\\) with low < high"),
        ({"bounds": (0.0, 1.0), "entry_bound": 1.0}, "entry_bound cannot be combined with bounds"),
        (
            {"bounds": (0.0, 1.0), "schema": Schema({"a": Number((0, 1))}, Amount("b", (0, 1)))},
            "bounds cannot be combined with a schema",
        ),
    ],
)
def test_bounds_that_make_no_sense_are_refused_in_a_sentence(parameters, words):
    with pytest.raises(InvalidParameterError, match=words):
        PrivateLinearRegression(1.0, 1e-6, **parameters).fit(ROWS, AMOUNTS)


def test_pairs_per_column_are_not_taken_for_lower_and_upper_ends_of_two_columns():
    pairs, rows = [(0, 250), (5, 20_000)], ROWS[:, 1:]
    with pytest.raises(
        InvalidParameterError, match=r"one pair per column: write bounds=\(\(0, 5\), \(250, 20000\)\) if it"
    ):
        BOUNDED["linear"](bounds=pairs).fit(rows, AMOUNTS)
    model = BOUNDED["linear"](bounds=tuple(zip(*pairs, strict=True))).fit(rows, AMOUNTS)
    assert [column.range for column in model.schema_.columns.values()] == pairs
    assert BOUNDED["linear"](bounds=([0, 5], [250, 20_000])).plan(N, 2) is not None


def test_private_bounds_of_too_few_rows_name_a_remedy_that_the_estimator_has():
    words = r"rows with this budget, and there are 300: pass bounds=\(lower, upper\) instead, or a larger epsilon\.$"
    model = BOUNDED["linear"](bounds="private")
    with pytest.raises(InvalidParameterError, match=words):
        model.fit(ROWS[:300], AMOUNTS[:300])
    with pytest.raises(InvalidParameterError, match=words):
        model.plan(300, 3)
    declared = Schema({"x0": Number("private")}, Amount("y", (0, 1)))
    with pytest.raises(InvalidParameterError, match=r"there are 300: declare the range, or .* larger range_share\.$"):
        PrivateLinearRegression(1.0, 1e-6, schema=declared).plan(300)


def test_what_is_no_table_of_the_declared_columns_is_refused():
    model = BOUNDED["linear"](bounds=(LOWER, UPPER)).fit(ROWS, AMOUNTS)
    with pytest.raises(InvalidTableError, match="the array has 2 columns, and 3 are declared"):
        model.predict(ROWS[:, :2])
    with pytest.raises(InvalidTableError, match="dense array"):
        model.predict(sparse.csr_matrix(ROWS))
    with pytest.raises(InvalidTableError, match="columns of an array are called x0"):
        PrivateLinearRegression(schema=Schema({"a": Number((0, 1))}, Amount("b", (0, 1)))).fit(ROWS[:, :1], AMOUNTS)
    with pytest.raises(InvalidParameterError, match="bounds requires declared classes"):
        PrivateLogisticRegression(bounds=(LOWER, UPPER)).fit(ROWS, LABELS)
    with pytest.raises(InvalidParameterError, match=r"^PrivateSearch does not support bounds: pass a schema"):
        PrivateSearch(BOUNDED["linear"](bounds=(0, 1)), {"penalty": [0.1]}).fit(ROWS, AMOUNTS)


# --- No scale at all ---


@pytest.mark.parametrize("model", [PrivateLinearRegression, PrivateHuberRegression, PrivatePoissonRegression])
def test_regression_on_an_array_of_no_declared_scale_is_refused_before_a_row_is_read(model, own_folders):
    budget = Budget.create("rows", Guarantee(1.0, 1e-5))
    with pytest.raises(
        InvalidParameterError, match=r"^the scale of the columns is unknown: pass bounds=\(lower, upper\)"
    ):
        model(1.0, 1e-6, budget=budget).fit(ROWS, AMOUNTS)
    assert budget.account().releases == ()


def test_the_command_line_names_its_own_ways_to_give_a_scale(tmp_path, capsys):
    table = tmp_path / "rows.csv"
    pd.DataFrame(ROWS, columns=["a", "b", "c"]).assign(y=AMOUNTS).to_csv(table, index=False)
    asked = [str(table), "--target", "y", "--model", "linear", "--epsilon", "1", "--delta", "1e-6"]
    assert run_with(["fit", *asked, "-o", str(tmp_path / "model.json")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "pass a --schema with their ranges (dperm schema draft TABLE), or --row-norm." in said
    assert "bounds=" not in said


def test_the_notice_about_clipped_targets_says_which_range_is_taken_if_none_is_given():
    with pytest.warns(DroppedRowsWarning, match=r"declared by target_bound or a schema, or \[-1, 1\] by default"):
        PrivateLinearRegression(1.0, 1e-6, bounds=(LOWER, UPPER)).fit(ROWS, AMOUNTS)


def test_the_notice_about_clipped_rows_names_the_remedy_in_its_first_sentence():
    with pytest.warns(DroppedRowsWarning) as caught:
        PrivateLogisticRegression(1.0, 1e-6, classes=[0, 1]).fit(ROWS, LABELS)
    first = str(caught[0].message).split(". ")[0]
    assert "100 % of the rows are more than 3 times as long as the row_norm they are clipped to" in first
    assert "bounds=(lower, upper)" in first
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateLogisticRegression(1.0, 1e-6, classes=[0, 1], bounds=(LOWER, UPPER)).fit(ROWS, LABELS)
