"""Intervals: what they cover, how they are shown, what they are refused for."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

from dperm import (
    Amount,
    Category,
    Classes,
    InvalidParameterError,
    Number,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMLPClassifier,
    PrivatePoissonRegression,
    Schema,
    load_model,
    save_model,
)
from dperm.cli.main import run_with
from dperm.files.content import content_of
from dperm.files.model_file import fingerprint_of
from dperm.files.reading import release_from
from dperm.plan.uncertainty import Uncertainty
from dperm.report.page import render_report
from dperm.verify.release import verify


def unit_rows(rng, n, p):
    X = rng.normal(size=(n, p)) * 0.8 / np.sqrt(p)
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]


def symmetric(rng, size, deviation):
    upper = np.triu(rng.normal(size=(size, size)) * deviation / np.sqrt(2.0), 1)
    return upper + upper.T + np.diag(deviation * rng.normal(size=size))


# --- What they cover ---

# A test fails by chance once in a million.
ALARM = 1e-6


def misses_allowed(fits, level=0.95):
    """The most misses that a coverage of `level` makes likely, but for one time in a million."""
    return int(binom.isf(ALARM, fits, 1.0 - level))


@pytest.mark.parametrize("hessian_noise", [0.0, 0.002, 0.008])
def test_intervals_hold_the_truth_as_often_as_they_say_whatever_the_share_of_the_noise(hessian_noise):
    """Least squares by moments, with curvatures from 0.03 on: the largest noise is a quarter of the least of them."""
    rng, fits, n = np.random.default_rng(3), 300, 5000
    curvatures, true, noise = np.array([0.03, 0.05, 0.1, 0.5]), np.array([1.0, -0.5, 0.3, 0.0]), 0.003
    missed = np.zeros(4, dtype=int)
    naive = 0
    for _ in range(fits):
        sampled = np.sqrt(0.04 * curvatures / n) * rng.normal(size=4)
        hessian = np.diag(curvatures) + symmetric(rng, 4, hessian_noise)
        gradient = -(curvatures * true + sampled) + noise * rng.normal(size=4)
        known = Uncertainty(np.zeros(4), gradient, hessian, noise, hessian_noise, 0.04, 0.0, 0.0, 0.0, n)
        low, high = known.intervals(0.95)
        missed += (true < low) | (true > high)
        errors = np.sqrt(0.04 * np.diag(np.linalg.inv(hessian)).clip(0.0) / n)
        naive += int(abs(known.estimates()[0][0] - true[0]) > norm.ppf(0.975) * errors[0])
    assert (missed <= misses_allowed(fits)).all()
    assert missed.sum() >= 1  # they are not just wide
    assert naive > 2 * misses_allowed(fits)


def linear_target(rng, X):
    return X @ [0.5, -0.2] + 0.1 + 0.15 * rng.normal(size=len(X))


def logistic_target(rng, X):
    return (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-X @ [0.5, -0.2] - 0.1))).astype(int)


def poisson_target(rng, X):
    return rng.poisson(np.exp(X @ [0.5, -0.2] + 0.1))


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (PrivateLinearRegression(1.0, 1e-5, row_norm=1.0), linear_target),
        (PrivateLogisticRegression(2.0, 1e-5, classes=(0, 1)), logistic_target),
        (PrivatePoissonRegression(4.0, 1e-5, target_bound=8.0, row_norm=1.0), poisson_target),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_intervals_of_whole_fits_hold_the_truth(model, target):
    true, fits, missed, finite = np.array([0.5, -0.2, 0.1]), 30, np.zeros(3, dtype=int), 0
    for seed in range(fits):
        rng = np.random.default_rng(seed)
        X = unit_rows(rng, 4000, 2)
        found = model.set_params(intervals=True, random_state=seed).fit(X, target(rng, X)).confidence_intervals()
        missed += (true < found.lower) | (true > found.upper)
        finite += int(np.isfinite(found.upper - found.lower).all())
    assert (missed <= misses_allowed(fits)).all()
    assert finite > 0.9 * fits


def test_without_noise_they_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    X = unit_rows(rng, 2000, 3)
    y = X @ [0.5, -0.2, 0.0] + 0.1 + 0.15 * rng.normal(size=2000)
    found = PrivateLinearRegression(noise=None, intervals=True, row_norm=1.0).fit(X, y).confidence_intervals(0.9)
    Z = np.column_stack([X, np.ones(2000)])
    w, (rest,), _, _ = np.linalg.lstsq(Z, y, rcond=None)
    errors = np.sqrt(rest / 2000 * np.diag(np.linalg.inv(Z.T @ Z)))
    np.testing.assert_allclose(found.estimate, w, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.standard_error, errors, rtol=1e-3)
    np.testing.assert_allclose(found.upper - found.lower, 2.0 * norm.ppf(0.95) * errors, rtol=1e-3)
    assert found.names == ("x0", "x1", "x2", "intercept")


def test_without_noise_a_penalty_does_not_pull_the_estimate():
    rng = np.random.default_rng(0)
    X = unit_rows(rng, 20_000, 2)
    y = rng.random(20_000) < 1.0 / (1.0 + np.exp(-X @ [2.0, -1.0] - 0.3))
    pulled = PrivateLogisticRegression(noise=None, intervals=True, penalty=0.02).fit(X, y)
    free = PrivateLogisticRegression(noise=None, penalty=1e-6).fit(X, y)
    assert abs(pulled.coef_[0, 0] - free.coef_[0, 0]) > 0.2
    np.testing.assert_allclose(pulled.confidence_intervals().estimate[:2], free.coef_[0], atol=0.02)


def test_two_columns_that_are_the_same_are_not_told_apart_and_the_others_are():
    rng = np.random.default_rng(1)
    X = unit_rows(rng, 20_000, 3)
    X[:, 1] = X[:, 0]
    y = X @ [0.3, 0.3, 0.2] + 0.1 * rng.normal(size=20_000)
    model = PrivateLinearRegression(4.0, 1e-6, row_norm=1.5, intervals=True, random_state=1).fit(X, y)
    found = model.confidence_intervals()
    assert np.isinf(found.upper[:2]).all()
    assert np.isinf(found.standard_error[:2]).all()
    assert np.isfinite(found.upper[2:]).all()
    assert found.lower[2] < 0.2 < found.upper[2]
    assert "Noise hides" in str(model.summary())


def people(n=30_000, seed=0):
    rng = np.random.default_rng(seed)
    job, age = rng.choice(list("abc"), n, p=[0.5, 0.3, 0.2]), rng.uniform(20, 60, n)
    effects = pd.Series(job).map({"a": 5.0, "b": -5.0, "c": 0.0}).to_numpy()
    income = 30.0 + effects + 0.3 * (age - 40.0) + 3.0 * rng.normal(size=n)
    frame = pd.DataFrame(
        {"job": job, "age": age, "income": income, "visits": rng.poisson(np.exp(0.5 + effects / 10.0))}
    )
    columns = {"job": Category(["a", "b", "c"]), "age": Number((20, 60), encode="linear")}
    return frame, columns


def test_levels_are_relative_to_their_mean_in_the_targets_own_units():
    frame, columns = people()
    schema = Schema(columns, Amount("income", (0, 60)), n=len(frame))
    found = PrivateLinearRegression(2.0, 1e-6, schema=schema, intervals=True, random_state=0).fit(frame)
    found = found.confidence_intervals(0.9999)
    truth = np.array([5.0, -5.0, 0.0, 6.0, 30.0])  # age is from −1 to 1
    assert ((found.lower < truth) & (truth < found.upper)).all()
    assert found.estimate[:3].sum() == pytest.approx(0.0, abs=1e-3)
    assert (found.upper - found.lower < 2.0).all()


def test_counts_with_a_schema_have_their_intercept_on_the_scale_of_counts():
    frame, columns = people()
    schema = Schema({"job": columns["job"]}, Amount("visits", (0, 10)), n=len(frame))
    model = PrivatePoissonRegression(8.0, 1e-6, schema=schema, intervals=True, random_state=0).fit(frame)
    found = model.confidence_intervals(0.9999)
    truth = np.array([0.5, -0.5, 0.0, 0.5])
    assert ((found.lower < truth) & (truth < found.upper)).all()
    assert (found.upper - found.lower < 1.0).all()


def test_a_number_that_is_left_to_auto_has_one_slope():
    frame, _ = people()
    schema = Schema({"age": Number((20, 60))}, Amount("income", (0, 60)), n=len(frame))
    names = {}
    for intervals in (False, True):
        plan = PrivateLinearRegression(8.0, 1e-6, schema=schema, intervals=intervals).plan()
        names[intervals] = plan.schema.feature_names
    assert len(names[False]) > 1
    assert list(names[True]) == ["age"]


def test_without_an_intercept_the_first_category_keeps_its_level():
    frame, columns = people()
    schema = Schema(columns, Amount("income", (0, 60)), n=len(frame))
    model = PrivateLinearRegression(2.0, 1e-6, schema=schema, fit_intercept=False, intervals=True, random_state=0)
    found = model.fit(frame).confidence_intervals()
    assert found.names == ("job = a", "job = b", "job = c", "age")
    assert np.isfinite(found.upper).all()


# --- What is kept and shown ---


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(5)
    X = unit_rows(rng, 3000, 2)
    y = logistic_target(rng, X)
    return PrivateLogisticRegression(2.0, 1e-5, classes=(0, 1), n=3000, intervals=True).fit(X, y)


def test_a_model_file_gives_the_same_summary_and_verifies(fitted, tmp_path):
    save_model(fitted, tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    assert str(loaded.summary()) == str(fitted.summary())
    findings = verify(content_of(fitted))
    assert [finding.text for finding in findings if not finding.holds] == []


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("hessian_noise", lambda value: 0.95 * value),
        ("gradient_noise", lambda value: 0.95 * value),
        ("n", lambda value: value + 1),
        ("dispersion", lambda value: 0.5 * value),
        ("constant", lambda value: 2.0 * value),
        ("groups", lambda value: [[0, 2]]),
    ],
)
def test_a_file_with_other_noise_than_its_plan_does_not_verify(fitted, key, change):
    content = json.loads(json.dumps(content_of(fitted)))
    content["uncertainty"][key] = change(content["uncertainty"][key])
    content["fingerprint"] = fingerprint_of(content)
    assert not all(finding.holds for finding in verify(content))


def test_a_file_from_which_intervals_were_taken_does_not_verify(fitted):
    content = json.loads(json.dumps(content_of(fitted)))
    del content["uncertainty"]
    content["fingerprint"] = fingerprint_of(content)
    assert any("intervals" in finding.text for finding in verify(content) if not finding.holds)


@pytest.mark.parametrize(
    "change",
    [
        {"hessian": [1.0]}, {"gradient": ["1", "2", "3"]}, {"point": [0.0, float("nan"), 0.0]}, {"n": 0}, {"n": 1.5},
        {"gradient_noise": -1.0}, {"gradient": [1e300, 0.0, 0.0]}, {"groups": [[1, 0]]}, {"groups": [[0, 9]]},
        {"groups": 3}, {"more": 1},
    ],
)  # fmt: skip
def test_a_file_whose_intervals_make_no_sense_is_no_model(fitted, change):
    content = json.loads(json.dumps(content_of(fitted)))
    content["uncertainty"] |= change
    assert release_from(content) is None


def test_the_summary_is_a_table_in_text_in_html_and_as_a_frame(fitted):
    summary = fitted.summary(0.9)
    text, page, frame = str(summary), summary._repr_html_(), summary.to_frame()
    for word in ("ε = 2", "δ = 1e-05", "replace_one", "n = 3000", "intercept", "std err", "[0.05", "90 %"):
        assert word in text
    assert page.count("<tr>") == 3 + 1 + 3
    assert list(frame.index) == ["x0", "x1", "intercept"]
    assert frame.loc["x0", "coef"] == pytest.approx(fitted.coef_[0, 0])


def test_a_name_with_markup_is_shown_as_text(fitted):
    model = release_from(content_of(fitted))
    model.feature_names_in_ = np.array(["<script>", "b"], dtype=object)
    assert "<script>" not in model.summary()._repr_html_()


def test_the_report_shows_intervals_where_there_are_some(fitted):
    assert "<h3>Intervals</h3>" in render_report(content_of(fitted))
    plain = PrivateLogisticRegression(2.0, 1e-5, classes=(0, 1)).fit(np.eye(2)[[0, 1] * 50], [0, 1] * 50)
    assert "<h3>Intervals</h3>" not in render_report(content_of(plain))


def test_a_fit_without_intervals_says_how_to_get_them():
    rng = np.random.default_rng(5)
    X = unit_rows(rng, 3000, 2)
    model = PrivateLogisticRegression(2.0, 1e-5, solver="dp-objective", classes=(0, 1)).fit(X, logistic_target(rng, X))
    assert "refit with intervals=True" in str(model.summary())
    with pytest.raises(InvalidParameterError, match="intervals=True"):
        model.confidence_intervals()
    several = PrivateLogisticRegression(2.0, 1e-5, classes=(0, 1, 2)).fit(X, rng.integers(0, 3, 3000))
    assert several.summary().names[:3] == ("0: x0", "0: x1", "0: intercept")


# --- What is refused ---


@pytest.mark.parametrize("share", [1, 1.0, 0.0, -0.1, 2, float("nan"), "half", None])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(InvalidParameterError, match="intervals must be"):
        PrivateLinearRegression(1.0, 1e-6, intervals=share, row_norm=1.0).plan(1000, 3)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (PrivateLogisticRegression(1.0, 1e-6, classes=(0, 1, 2), intervals=True), "two classes"),
        (PrivateLogisticRegression(1.0, 1e-6, classes=(0, 1), class_weight={0: 2.0}, intervals=True), "class_weight"),
        (PrivateLogisticRegression(1.0, 1e-6, classes=(0, 1), class_weight={0: 0.5}, intervals=True), "class_weight"),
        (PrivateLogisticRegression(1.0, 0.0, classes=(0, 1), intervals=True), "delta > 0"),
        (PrivateLinearRegression(1.0, 1e-6, noise="paper", intervals=True, row_norm=1.0), "certified noise"),
        (
            PrivateLinearRegression(1.0, 1e-6, accountant="advanced-composition", intervals=True, row_norm=1.0),
            "certified noise",
        ),
    ],
)
def test_what_has_no_intervals_is_refused_in_one_sentence(model, why):
    with pytest.raises(InvalidParameterError, match=why) as caught:
        model.plan(1000, 3)
    assert str(caught.value).count(".") == 1


def test_weights_of_rows_are_refused_with_intervals_before_anything_is_read():
    model = PrivateLinearRegression(1.0, 1e-6, intervals=True, row_norm=1.0)
    with pytest.raises(InvalidParameterError, match="intervals cannot be combined with sample_weight"):
        model.fit(np.zeros((1000, 3)), np.zeros(1000), sample_weight=np.ones(1000))
    with pytest.raises(InvalidParameterError, match="intervals cannot be combined"):
        model.set_params(weight_bound=2.0).plan(1000, 3)
    assert not hasattr(model, "privacy_")


def test_more_coefficients_than_a_file_can_hold_are_refused():
    with pytest.raises(InvalidParameterError, match="at most 1000 coefficients"):
        PrivateLinearRegression(1.0, 1e-6, intervals=True, row_norm=1.0).plan(10_000, 1000)


def test_networks_have_no_summary():
    with pytest.raises(InvalidParameterError, match="no summary"):
        PrivateMLPClassifier(1.0, 1e-6).summary()


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, float("nan"), "0.95"])
def test_a_level_that_is_none_is_refused(fitted, level):
    with pytest.raises(InvalidParameterError, match="level"):
        fitted.confidence_intervals(level)


def test_the_share_is_of_what_private_ranges_leave():
    frame, _ = people(4000)
    schema = Schema({"age": Number("private")}, Classes("job", ["a", "b"]), n=4000)
    model = PrivateLogisticRegression(4.0, 1e-6, schema=schema, intervals=0.9).fit(frame)
    assert model.privacy_.certified_epsilon <= 4.0
    assert model.privacy_.private_ranges == ("age",)
    assert all(finding.holds for finding in verify(content_of(model)))


# --- The command line ---


def test_the_command_line_fits_with_intervals_sums_up_and_verifies(tmp_path, capsys):
    rng = np.random.default_rng(2)
    X = unit_rows(rng, 2000, 2)
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": linear_target(rng, X)}).to_csv(tmp_path / "t.csv", index=False)
    table, model = str(tmp_path / "t.csv"), str(tmp_path / "m.json")
    fit = [
        "fit",
        table,
        "--target",
        "y",
        "--model",
        "linear",
        "--row-norm",
        "1",
        "--epsilon",
        "4",
        "--delta",
        "1e-6",
        "-o",
        model,
    ]
    assert run_with([*fit, "--intervals", "0.5"]) == 0
    assert run_with(["verify", model]) == 0
    capsys.readouterr()
    assert run_with(["summary", model, "--level", "0.9"]) == 0
    shown = capsys.readouterr().out
    assert "adjacency replace_one" in shown
    assert "0.95]" in shown
    for wrong, why in ((["summary", model, "--level", "1"], "level"), (["summary", table], "not a dperm model file")):
        assert run_with(wrong) == 2
        assert why in capsys.readouterr().err


def test_the_command_line_refuses_intervals_of_a_network(capsys):
    plan = ["plan", "--n", "1000", "--p", "3", "--epsilon", "1", "--delta", "1e-6", "--model", "mlp-classifier"]
    assert run_with([*plan, "--intervals", "0.5"]) == 2
    assert "--intervals is for linear models" in capsys.readouterr().err
