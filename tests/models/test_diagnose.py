"""`model.diagnose` and `dperm diagnose`: exact facts about rows, for the person who holds them."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss

from dperm import (
    InvalidParameterError,
    Number,
    PrivateHuberRegression,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegression,
    Schema,
    load_model,
    save_model,
)
from dperm.cli.main import run_with
from dperm.problem import L2, NoRegularizer
from dperm.schema import Amount, Category
from dperm.unsafe import empirical_risk

pandas = pytest.importorskip("pandas")

N = 1000
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, 3)) / 4.0
Y = (X[:, 0] + 0.1 * X[:, 1] > 0).astype(int)


def two_classes(epsilon=1.0, **more):
    return PrivateLogisticRegression(epsilon, 1e-6, classes=[0, 1], row_warnings=False, random_state=1, **more)


def test_rows_that_are_ignored_and_clipped_are_counted():
    rows, labels = X / np.linalg.norm(X, axis=1, keepdims=True), Y.copy()
    rows[:100, 1] = np.nan
    labels[50:250] = 9  # fifty of them are ignored already
    rows[300:400] *= 4.0
    rows[400:600] *= 10.0
    found = two_classes().fit(rows, labels).diagnose(rows, labels)
    assert (found.ignored_values, found.ignored_targets, found.clipped) == (0.1, 0.15, 0.3)
    assert found.median_factor == pytest.approx(10.0)
    assert found.largest_factor == pytest.approx(10.0)
    assert found.outside is None
    assert str(found).splitlines()[:3] == [
        "NOT FOR RELEASE: exact facts about these rows, without noise, for the data holder",
        "rows:       1000; dropped: 10 % with NaN/inf, 15 % with an undeclared label",
        "clipped:    30 % of the rows, in the median 10 times as long as the bound, at most 10 times",
    ]


def test_what_the_noise_did_is_the_gap_to_the_fit_without_noise():
    model = two_classes(0.05).fit(X, Y)
    exact = two_classes(noise=None).fit(X, Y)
    found = model.diagnose(X, Y)

    def risk(one):
        problem = replace(two_classes(noise=None).plan(*X.shape).problem, regularizer=NoRegularizer())
        return empirical_risk(problem, X, Y, np.append(one.coef_, one.intercept_ / problem.intercept_value))

    assert found.risk == pytest.approx(risk(model))
    assert found.exact_risk == pytest.approx(risk(exact))
    assert found.excess_risk == pytest.approx(risk(model) - risk(exact))
    assert found.constant_risk == pytest.approx(log_loss(Y, np.full(len(Y), Y.mean())))
    assert (found.score, found.exact_score) == (model.score(X, Y), exact.score(X, Y))
    assert found.majority == max(Y.mean(), 1.0 - Y.mean())


def test_no_loss_has_the_penalty_in_it():
    model = two_classes(penalty=L2(0.5)).fit(X, Y)
    found = model.diagnose(X, Y)
    assert found.risk == pytest.approx(log_loss(Y, model.predict_proba(X)))
    # Its minimum under so strong a penalty is close to a constant predictor, and still no worse.
    assert found.exact_risk < found.constant_risk
    shown = replace(found, risk=0.25, exact_risk=0.5, constant_risk=0.75)
    assert "noise:      lowered the loss by 0.25: 0.25 instead of 0.5; a constant predictor has 0.75" in str(shown)


def table(target):
    return pandas.DataFrame(
        {"a": X[:, 0], "b": ["z"] * N, "c": np.where(X[:, 1] > 0.3, np.nan, X[:, 1]), "d": 100.0 + X[:, 2], "t": target}
    )


SCHEMA = Schema(
    {
        "a": Number((-1, 1)),
        "b": Category(["x", "y"]),
        "c": Number((-1, 1), missing="row"),
        "d": Number((0, 1)),
    },
    Amount("t", (0, 10)),
    encode="linear",
)


@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateHuberRegression, PrivatePoissonRegression])
def test_regression_is_diagnosed_in_the_units_of_the_loss(kind):
    rows = table(np.where(np.arange(N) < 200, 30.0, 5.0 + 4.0 * X[:, 0]))
    model = kind(4.0, 1e-6, schema=SCHEMA, row_warnings=False, random_state=1).fit(rows)
    found = model.diagnose(rows)
    assert found.outside == 0.2
    assert found.farthest == 2.0
    assert found.ignored_values == np.mean(X[:, 1] > 0.3)
    assert found.columns == {"always missing or unseen": ("b",), "mostly outside the declared range": ("d",)}
    assert found.score == model.score(rows)
    # At the minimiser nothing is below; were the units wrong, the released model would be far away.
    assert 0.0 <= found.excess_risk < 0.1 * found.constant_risk
    without = kind(noise=None, schema=SCHEMA, row_warnings=False).fit(rows).diagnose(rows)
    assert without.risk == pytest.approx(without.exact_risk, rel=1e-9)


def test_columns_that_tell_nothing_are_named():
    frame = pandas.DataFrame(X, columns=list("abc"))
    frame["b"], frame["e"] = 1.0, 0.5
    found = two_classes(row_norm=2.0).fit(frame, Y).diagnose(frame, Y)
    assert found.columns == {"always the same": ("b", "e")}
    assert "columns:    b, e: always the same" in str(found)
    many = np.ones((N, 12))
    assert "0, 1, 2, 3, 4, 5, 6, 7 and 4 more: always the same" in str(two_classes().fit(many, Y).diagnose(many, Y))


def test_an_intercept_that_decides_alone_is_noticed():
    model = two_classes().fit(X, Y)
    assert not model.diagnose(X, Y).intercept_decides
    model.intercept_ = model.intercept_ + 100.0
    found = model.diagnose(X, Y)
    assert found.intercept_decides
    assert "intercept:  decides almost alone: 100 % of the rows" in str(found)


def test_a_loaded_model_is_diagnosed_like_the_one_that_was_saved(tmp_path):
    frame = pandas.DataFrame(X, columns=list("abc"))
    model = two_classes(penalty=L2(0.3), row_norm=0.5, fit_intercept=False, class_weight={1: 2.0}).fit(frame, Y)
    save_model(model, tmp_path / "m.json")
    assert load_model(tmp_path / "m.json").diagnose(frame, Y) == model.diagnose(frame, Y)


def test_more_classes_other_adjacencies_and_no_usable_row_are_diagnosed():
    labels = Y + (X[:, 1] > 0)
    model = PrivateLogisticRegression(classes=[0, 1, 2], adjacency="add_remove", n=1050, random_state=1).fit(X, labels)
    found = model.diagnose(X, labels)
    assert found.score == model.score(X, labels)
    assert 0.0 <= found.excess_risk < found.constant_risk
    shares = np.bincount(labels) / len(labels)
    assert found.constant_risk == pytest.approx(-(shares * np.log(shares)).sum())
    nothing = two_classes().fit(X, Y + 5).diagnose(X, Y + 5)
    assert nothing.ignored_targets == 1.0
    assert np.isnan(nothing.score)
    assert "100 % with an undeclared label" in str(nothing)


def test_another_table_is_refused_in_one_sentence():
    model = two_classes().fit(X, Y)
    with pytest.raises(InvalidParameterError, match="the model has 3 columns, and the table has 2"):
        model.diagnose(X[:, :2], Y)


def test_a_diagnosis_leaves_the_model_and_the_budget_alone(tmp_path):
    from dperm import Budget, Guarantee

    budget = Budget.create("people", Guarantee(3.0, 1e-4), ledger=str(tmp_path / "ledger.db"))
    model = PrivateLogisticRegression(classes=[0, 1], budget=budget).fit(X, Y)
    before, spent = str(vars(model)), budget.account().summary
    model.diagnose(X, Y)
    assert str(vars(model)) == before
    assert budget.account().summary == spent


@pytest.fixture
def files(tmp_path):
    path = tmp_path / "table.csv"
    words = np.where(Y == 1, "high", "low")
    path.write_text("a,b,c,kind\n" + "".join(f"{a},{b},{c},{w}\n" for (a, b, c), w in zip(X, words, strict=True)))
    model = tmp_path / "m.json"
    options = ["--target", "kind", "--classes", "low,high", "--epsilon", "1", "--delta", "1e-6", "-o", str(model)]
    assert run_with(["fit", str(path), *options]) == 0
    return str(model), str(path)


def test_the_command_line_prints_the_same_block(files, capsys):
    capsys.readouterr()
    assert run_with(["diagnose", *files, "--target", "kind"]) == 0
    out = capsys.readouterr().out
    frame = pandas.DataFrame(X, columns=list("abc"))
    expected = str(load_model(files[0]).diagnose(frame, np.where(Y == 1, "high", "low")))
    assert out == expected + "\n"
    assert out.startswith("NOT FOR RELEASE")


def test_the_command_line_knows_the_target_of_a_schema_and_asks_for_it_without_one(files, tmp_path, capsys):
    assert run_with(["diagnose", *files]) == 2
    assert "--target" in capsys.readouterr().err
    toml, model = tmp_path / "t.toml", str(tmp_path / "s.json")
    toml.write_text('[target]\ncolumn = "kind"\nclasses = ["low", "high"]\n[columns.a]\nrange = [-1, 1]\n')
    assert run_with(["fit", files[1], "--schema", str(toml), "--epsilon", "1", "--delta", "1e-6", "-o", model]) == 0
    capsys.readouterr()
    assert run_with(["diagnose", model, files[1]]) == 0
    assert "accuracy:" in capsys.readouterr().out
    assert run_with(["diagnose", model, files[1], "--target", "kind"]) == 2
    assert "--target cannot be combined with a schema" in capsys.readouterr().err
