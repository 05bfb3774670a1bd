"""Evaluations from end to end: models of all kinds, tables and files, the command line, verification and the report."""

import json
import math

import numpy as np
import pytest
from scipy.special import expit
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dperm import (
    Guarantee,
    InvalidParameterError,
    InvalidTableError,
    NotSettledError,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearch,
    load_model,
    private_evaluate,
    save_model,
)
from dperm.cli.main import run_with
from dperm.disk import WholeFile
from dperm.evaluation import intervals
from dperm.evaluation.design import Design
from dperm.evaluation.metrics import Metrics
from dperm.files.content import content_of
from dperm.ledger import Budget, Reservation
from dperm.privacy.guarantee import Adjacency
from dperm.report import render_report
from dperm.schema import Amount, Category, Classes, Number, Schema
from dperm.verify.release import verify

pandas = pytest.importorskip("pandas")

N = 3000
COLUMNS = {"age": Number((20, 80)), "job": Category(("a", "b"))}


def people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    age, job = rng.uniform(20, 80, n), rng.choice(["a", "b"], n)
    bought = np.where(rng.random(n) < expit((age - 50) / 8 + (job == "a")), "yes", "no")
    spent = np.clip(10 * age + rng.normal(0, 80, n), 0, 1000)
    return pandas.DataFrame({"age": age, "job": job, "bought": bought, "spent": spent})


@pytest.fixture(scope="module")
def table():
    return people(seed=1)


@pytest.fixture(scope="module")
def classifier():
    schema = Schema(COLUMNS, Classes("bought", ("no", "yes")))
    return PrivateLogisticRegression(epsilon=2.0, delta=1e-6, schema=schema).fit(people())


@pytest.fixture(scope="module")
def regressor():
    schema = Schema(COLUMNS, Amount("spent", (0, 1000)))
    return PrivateLinearRegression(epsilon=2.0, delta=1e-6, schema=schema).fit(people())


@pytest.fixture
def model_file(classifier, tmp_path):
    save_model(classifier, tmp_path / "model.json")
    return tmp_path / "model.json"


def test_a_large_epsilon_gives_the_metrics_of_scikit_learn(classifier, table):
    found = private_evaluate(classifier, table, epsilon=1000.0)
    shown = classifier.predict_proba(table)
    truth = (table["bought"] == "yes").to_numpy()
    assert found.accuracy.value == pytest.approx(classifier.score(table), abs=1e-3)
    assert found.auc.value == pytest.approx(roc_auc_score(truth, shown[:, 1]), abs=2e-3)
    own = np.clip(shown[np.arange(N), truth.astype(int)], math.exp(-found.design.largest_loss), 1.0)
    assert found.log_loss.value == pytest.approx(-np.log(own).mean(), abs=1e-3)
    predicted = shown[:, 1] > 0.5
    for line, of_class in zip(found.confusion, (~truth, truth), strict=True):
        assert line[1].value == pytest.approx((of_class & predicted).sum(), abs=2.0)
    for point in found.calibration:
        inside = (shown[:, 1] > point.low) & (shown[:, 1] <= point.high)
        assert point.observed.value == pytest.approx(truth[inside].mean(), abs=0.02)
        assert point.low <= point.predicted <= point.high


def test_a_large_epsilon_gives_the_errors_of_a_regression(regressor, table):
    found = private_evaluate(regressor, table, epsilon=1000.0)
    errors = np.clip(np.abs(table["spent"] - np.clip(regressor.predict(table), 0, 1000)), 0, 500)
    assert found.mae.value == pytest.approx(errors.mean(), rel=2e-3)
    assert found.rmse.value == pytest.approx(math.sqrt((errors**2).mean()), rel=5e-3)
    assert found.r2.value == pytest.approx(1 - (errors**2).mean() / table["spent"].var(), abs=5e-3)


def test_several_classes_scores_and_labels_have_what_they_can_have(table):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)) / 3
    y = np.digitize(X[:, 0] + X[:, 1] / 2, [-0.2, 0.2])
    three = PrivateLogisticRegression(epsilon=2.0, delta=1e-6, classes=[0, 1, 2]).fit(X, y)
    found = private_evaluate(three, X, y, epsilon=1000.0)
    assert found.accuracy.value == pytest.approx(three.score(X, y), abs=1e-3)
    assert found.auc is None
    assert len(found.confusion) == len(found.recalls) == 3
    assert sum(cell.value for line in found.confusion for cell in line) == pytest.approx(N, abs=10)
    two = (y > 0).astype(int)
    svc = PrivateLinearSVC(epsilon=2.0, delta=1e-6, classes=[0, 1]).fit(X, two)
    found = private_evaluate(svc, X, two, epsilon=1000.0)
    assert found.log_loss is found.calibration is None
    assert found.auc.low <= roc_auc_score(two, svc.decision_function(X)) <= found.auc.high
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.svm import LinearSVC

    public = LogisticRegression().fit(X, two)
    assert private_evaluate(public, X, two, epsilon=1000.0).accuracy.value == pytest.approx(
        public.score(X, two), abs=1e-3
    )
    many = LinearSVC().fit(X, y)
    assert private_evaluate(many, X, y, epsilon=1000.0).accuracy.value == pytest.approx(many.score(X, y), abs=1e-3)
    line = Ridge().fit(X, X[:, 0])
    found = private_evaluate(line, X, X[:, 0], epsilon=1000.0, target_range=(-2.0, 2.0))
    assert found.r2.value > 0.95
    assert found.model_fingerprint is None


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_give_what_the_table_gives(classifier, regressor, table, tmp_path, ending):
    for part in range(3):
        rows = table[part * 1000 : (part + 1) * 1000]
        if ending == "csv":
            rows.to_csv(tmp_path / f"{part}.csv", index=False)
        else:
            rows.to_parquet(tmp_path / f"{part}.parquet")
    for model in (classifier, regressor):
        whole = private_evaluate(model, table, epsilon=1.0, random_state=5)
        streamed = private_evaluate(model, str(tmp_path / f"*.{ending}"), epsilon=1.0, random_state=5)
        for first, second in zip(whole.released, streamed.released, strict=True):
            np.testing.assert_allclose(first, second, atol=1e-6)


def test_a_model_without_a_schema_finds_its_columns_in_files(table, tmp_path):
    X = table[["age", "spent"]] / [80.0, 1000.0]
    model = PrivateLogisticRegression(epsilon=2.0, delta=1e-6, classes=["no", "yes"]).fit(X, table["bought"])
    X.assign(bought=table["bought"]).to_csv(tmp_path / "test.csv", index=False)
    save_model(model, tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    found = private_evaluate(loaded, tmp_path / "test.csv", epsilon=1000.0, target="bought")
    assert found.accuracy.value == pytest.approx(model.score(X, table["bought"]), abs=1e-3)
    with pytest.raises(InvalidParameterError, match="pass target: the model has no schema"):
        private_evaluate(loaded, tmp_path / "test.csv", epsilon=1.0)


def test_ninety_five_in_a_hundred_intervals_hold_the_truth():
    """Noise and sampling, at an ε where the noise is larger than the sampling."""
    rng, n = np.random.default_rng(0), 3000
    design = Design("probability", (0, 1))
    release = design.plan(n, Guarantee(0.2, 0.0), Adjacency.REPLACE_ONE)
    logits = rng.normal(0, 1.8, 400_000)
    truth, shown = (rng.random(logits.size) < expit(logits)).astype(float), expit(logits)
    both = np.column_stack([1.0 - shown, shown])
    cells, losses, squares = (term(truth, both)[:, 0] for term in design.terms(release))
    true = {"accuracy": ((shown > 0.5) == truth).mean(), "AUC": roc_auc_score(truth, shown), "log loss": losses.mean()}
    held = dict.fromkeys(true, 0)
    repetitions, size = 400, release.calibrated.plan.planned[0].query.size
    for _ in range(repetitions):
        rows = rng.integers(truth.size, size=n)
        exact = [np.bincount(cells[rows], minlength=size), [losses[rows].sum()], [squares[rows].sum()]]
        noisy = tuple(
            np.asarray(numbers) + rng.laplace(0, noise / math.sqrt(2), len(numbers))
            for numbers, noise in zip(exact, release.calibrated.deviations, strict=True)
        )
        found = Metrics(design, noisy, release.calibrated.deviations, release.statement).table
        for name in held:
            held[name] += found[name].low <= true[name] <= found[name].high
    # 95 % of 400 less four standard deviations: a false alarm in 30 000 per metric. AUC's interval may hold more.
    for name, count in held.items():
        assert count >= 0.95 * repetitions - 4 * math.sqrt(0.95 * 0.05 * repetitions), name
    assert held["accuracy"] <= 0.95 * repetitions + 4 * math.sqrt(0.95 * 0.05 * repetitions)


def test_without_noise_the_interval_of_a_share_is_wilsons():
    from scipy.stats import binomtest, norm

    for right, wrong in ((0, 10), (3, 7), (90, 10)):
        found = intervals.share(right, wrong, 0.0, 0.0, float(norm.ppf(0.975)))
        wilson = binomtest(right, right + wrong).proportion_ci(0.95, "wilson")
        assert (found.low, found.high) == pytest.approx((wilson.low, wilson.high), abs=1e-12)


def test_intervals_are_wider_with_noise_and_everything_where_nothing_is_known():
    assert intervals.share(50, 50, 100.0, 100.0, 1.96).low < intervals.share(50, 50, 0.0, 0.0, 1.96).low
    nothing = intervals.share(5, 5, 1e6, 1e6, 1.96)
    assert (nothing.low, nothing.high) == (0.0, 1.0)
    unknown = intervals.ratio(1.0, 0.1, 0.1, 1.0, 1.96)
    assert (unknown.low, unknown.high) == (-math.inf, math.inf)
    poor = intervals.auc(np.array([3.0, -1.0]), np.array([1.0, 2.0]), 25.0, np.array([0.5]), 1.96)
    assert (poor.low, poor.high) == (0.0, 1.0)


def test_the_command_writes_what_verifies_and_what_the_report_shows(model_file, table, tmp_path, capsys):
    table.to_csv(tmp_path / "test.csv", index=False)
    ledger, output = str(tmp_path / "ledger.db"), tmp_path / "evaluation.json"
    Budget.create("people", Guarantee(2.0, 1e-5), ledger=ledger)
    call = ["evaluate", str(model_file), str(tmp_path / "test.csv"), "--epsilon", "0.5", "--dataset", "people"]
    assert run_with([*call, "--ledger", ledger, "-o", str(output)]) == 0
    shown = capsys.readouterr().out
    for words in ("accuracy", "95 % interval", "adjacency replace_one", "verdict:", "budget:     people: ε = 0.5"):
        assert words in shown
    assert run_with([*call, "--ledger", ledger, "-o", str(output)]) == 2  # it is there
    assert run_with(["verify", str(output), "--ledger", ledger]) == 0
    assert "in the ledger was charged for this release" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert run_with(["report", str(model_file), "--evaluation", str(output), "-o", str(page)]) == 0
    text = page.read_text()
    found = load_model(output)
    assert f"{found.accuracy.low:.4g} to {found.accuracy.high:.4g}" in text
    assert text.count("<polyline") >= 2
    assert "How good the model is" in text
    assert "NOT VERIFIED" not in text


def test_an_evaluation_that_the_ledger_does_not_know_is_not_lost_and_settled_later(
    classifier, table, tmp_path, monkeypatch, capsys
):
    budget = Budget.create("people", Guarantee(2.0, 1e-5), ledger=str(tmp_path / "ledger.db"))

    def unreachable(self, fingerprint):
        raise NotSettledError("the ledger was not told what was released")

    with monkeypatch.context() as patched:
        patched.setattr(Reservation, "settle", unreachable)
        with pytest.raises(NotSettledError) as caught:
            private_evaluate(classifier, table[:500], epsilon=0.5, budget=budget)
    save_model(caught.value.release, tmp_path / "evaluation.json")
    settle = ["budget", "settle", str(tmp_path / "evaluation.json"), "--ledger", str(tmp_path / "ledger.db")]
    assert run_with(settle) == 0
    assert run_with(["verify", str(tmp_path / "evaluation.json"), "--ledger", str(tmp_path / "ledger.db")]) == 0
    assert "is settled with this release" in capsys.readouterr().out


def test_an_evaluation_that_cannot_be_written_is_printed(model_file, table, tmp_path, monkeypatch, capsys):
    table[:300].to_csv(tmp_path / "test.csv", index=False)

    def full(self, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(WholeFile, "write", full)
    output = tmp_path / "evaluation.json"
    call = ["evaluate", str(model_file), str(tmp_path / "test.csv"), "--epsilon", "1", "-o", str(output)]
    assert run_with(call) == 2
    shown = capsys.readouterr()
    assert "the evaluation was printed to standard output" in shown.err
    assert all(finding.holds for finding in verify(json.loads(shown.out)))
    assert not output.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content.update(metrics={"accuracy": 0.99}), "do not fit together"),
        (lambda content: content["privacy"].update(epsilon=0.1), "NOT within the promised"),
        (lambda content: content["plan"]["queries"][0].update(sigma=0.1), "scales of the noise do NOT follow"),
        (lambda content: content["plan"].update(noise_multiplier=99.0), "scales of the noise do NOT follow"),
        (lambda content: content["design"].update(largest_loss=1.0), "the plan is NOT that of the evaluation"),
        (lambda content: content["released"][0].pop(), "do not fit together"),
        (lambda content: content.update(more=1), "do not fit together"),
        (lambda content: content["design"].update(kind="number"), "do not fit together"),
    ],
)
def test_a_file_that_was_changed_does_not_verify(classifier, table, change, words):
    content = private_evaluate(classifier, table[:500], epsilon=1.0).to_dict()
    assert all(finding.holds for finding in verify(content))
    content = json.loads(json.dumps(content))
    change(content)
    texts = [finding.text for finding in verify(content) if not finding.holds]
    assert "the file was modified (fingerprint mismatch)" in texts
    assert any(words in text for text in texts)


def test_the_report_refuses_an_evaluation_of_another_model(classifier, regressor, table):
    other = private_evaluate(regressor, table, epsilon=1.0).to_dict()
    with pytest.raises(InvalidParameterError, match="of another model"):
        render_report(content_of(classifier), evaluation=other)
    page = render_report(content_of(regressor), evaluation=other)
    assert "RMSE" in page
    seeded = private_evaluate(regressor, table, epsilon=1.0, random_state=1).to_dict()
    assert "NOT VERIFIED: not for release" in render_report(content_of(regressor), evaluation=seeded)


def test_the_report_says_that_an_evaluation_was_changed(model_file, classifier, table, tmp_path, capsys):
    content = private_evaluate(classifier, table, epsilon=1.0).to_dict()
    for change in ({"model_fingerprint": "0"}, {"level": 0.5}, {"design": {}}):
        (tmp_path / "changed.json").write_text(json.dumps(content | change))
        assert run_with(["report", str(model_file), "--evaluation", str(tmp_path / "changed.json")]) == 2
        assert "was modified after it was written" in capsys.readouterr().err


def test_what_is_no_fitted_model_is_refused_before_anything_is_spent(table, tmp_path):
    budget = Budget.create("people", Guarantee(1.0, 0.0), ledger=str(tmp_path / "ledger.db"))
    rows, labels = table[["age"]].to_numpy(), table["bought"]
    search = PrivateSearch(PrivateLogisticRegression(), {"penalty": [0.1, 1.0]}, epsilon=1.0, delta=1e-6)
    for model in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression()), search):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            private_evaluate(model, rows, labels, epsilon=0.5, budget=budget)
    for path in ("model.json", tmp_path / "model.json"):
        with pytest.raises(InvalidParameterError, match=r"load it with dperm\.load_model"):
            private_evaluate(path, rows, labels, epsilon=0.5, budget=budget)
    assert budget.account().releases == ()


@pytest.mark.parametrize("shown", [np.ones((7, 2)), np.ones((N, 3)), np.ones(N), np.float64(1.0)])
def test_probabilities_of_another_shape_are_one_sentence_without_a_value(table, shown):
    class Public:
        classes_ = np.array(["no", "yes"])

        def predict(self, X):
            raise AssertionError

        def predict_proba(self, X):
            return shown

    with pytest.raises(InvalidTableError, match=r"^predict_proba must return one (line per row|column per class)\.$"):
        private_evaluate(Public(), table[["age"]].to_numpy(), table["bought"], epsilon=1.0)


@pytest.mark.parametrize("shown", [np.ones(7), np.ones((N, 2))])
def test_numbers_of_another_shape_are_one_sentence_without_a_value(table, shown):
    class Public:
        def predict(self, X):
            return shown

    with pytest.raises(InvalidTableError, match=r"^predict must return one (line|number) per row\.$"):
        private_evaluate(Public(), table[["age"]].to_numpy(), table["spent"], epsilon=1.0, target_range=(0, 1000))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epsilon", "1", "--adjacency", "add_remove"], "declare a public number with --n"),
        (["--epsilon", "0"], "epsilon must be above 0"),
        (["--epsilon", "1", "--ledger", "x.db"], "--ledger requires --dataset"),
        (["--epsilon", "1", "--target", "age"], "remove target"),
        (["--epsilon", "1", "--level", "2"], "level must lie strictly between 0 and 1"),
        (["--epsilon", "1", "--error-bound", "2"], "this one has classes"),
    ],
)
def test_mistakes_are_one_sentence(model_file, table, tmp_path, capsys, monkeypatch, arguments, words):
    monkeypatch.delenv("DPERM_LEDGER", raising=False)
    table[:300].to_csv(tmp_path / "test.csv", index=False)
    assert run_with(["evaluate", str(model_file), str(tmp_path / "test.csv"), *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_table_without_the_target_or_a_column_is_named_and_a_changed_model_refused(
    model_file, table, tmp_path, capsys
):
    for missing in ("bought", "job"):
        table[:300].drop(columns=missing).to_csv(tmp_path / "test.csv", index=False)
        assert run_with(["evaluate", str(model_file), str(tmp_path / "test.csv"), "--epsilon", "1"]) == 2
        assert f"has no column '{missing}'" in capsys.readouterr().err
    model_file.write_text(model_file.read_text().replace('"version": 2', '"version": 2 ').replace("yes", "maybe"))
    assert run_with(["evaluate", str(model_file), str(tmp_path / "test.csv"), "--epsilon", "1"]) == 2
    assert "was modified" in capsys.readouterr().err


def test_an_epsilon_that_says_nothing_is_named_from_public_numbers(classifier, table):
    words = [private_evaluate(classifier, table[:300], epsilon=0.01).verdict for _ in range(2)]
    assert words[0] == words[1]
    assert "too few rows for this ε" in words[0]
    assert "too few rows" not in private_evaluate(classifier, table, epsilon=1.0).verdict


def test_a_picture_has_a_panel_for_each_part(classifier, regressor, table):
    pytest.importorskip("matplotlib")
    assert len(private_evaluate(classifier, table, epsilon=1.0).plot().axes) == 3
    assert len(private_evaluate(regressor, table, epsilon=1.0).plot().axes) == 1
