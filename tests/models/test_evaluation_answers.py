"""A private evaluation: one row moves what is counted by no more than is declared, and nothing else comes out."""

import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from dperm import (
    Budget,
    BudgetExceededError,
    Guarantee,
    InvalidParameterError,
    InvalidTableError,
    LargeDeltaWarning,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    private_evaluate,
)
from dperm.accounting.composition import epsilon_of
from dperm.evaluation import scores
from dperm.evaluation.design import Design, score_edges
from dperm.evaluation.held_out import held_out
from dperm.evaluation.result import PrivateEvaluation
from dperm.evaluation.scores import parts_of
from dperm.files.model_file import release_text
from dperm.kernel.answers import answer_to
from dperm.kernel.noise import Noise
from dperm.mechanisms.cell_counts import CellCounts
from dperm.privacy.guarantee import Adjacency

N, SENTINEL, SENTINEL_TEXT = 400, 0.7182736455, "SENTINELvalue"
DESIGNS = {
    "two classes": Design("probability", (0, 1)),
    "three classes": Design("probability", (0, 1, 2)),
    "scores": Design("score", (0, 1)),
    "labels": Design("label", (0, 1, 2)),
    "numbers": Design("number", None, (-1.0, 1.0), 1.0),
}


class Public:
    """A public model: what it says of a row is in the row's first columns."""

    def __init__(self, design):
        self.k = design.n_classes
        if design.classes is not None:
            self.classes_ = np.asarray(design.classes)

    def predict_proba(self, X):
        odds = np.exp(X[:, : self.k])
        return odds / odds.sum(axis=1, keepdims=True)

    def decision_function(self, X):
        return X[:, 0] if self.k == 2 else X[:, : self.k]

    def predict(self, X):
        return X[:, 0] if self.k == 0 else self.classes_[X[:, : self.k].argmax(axis=1)]


def a_table(design, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    return X, rng.uniform(-1, 1, N) if design.kind == "number" else rng.integers(0, design.n_classes, N)


def exact_sums(design, X, y, release, model=None):
    """What would leave without noise, through the code that runs."""
    own = model is not None
    model = model if own else Public(design)
    rows = held_out(model, X, y, schema=None, classes=design.classes, target=None, takes_anything=own)
    parts = parts_of(lambda: rows.predicted(model, design.kind, design.classes), design.terms(release))
    planned = release.calibrated.plan.planned
    return [
        sum(answer_to(item.query)(item.query, block) for block in part())
        for item, part in zip(planned, parts, strict=True)
    ]


def adversarial_rows(design):
    """A NaN, an infinite value, an outlier, a label that is not declared, a rare class, a duplicate."""
    rare = -1.0 if design.kind == "number" else design.n_classes - 1
    return [
        ([np.nan, 0.0, 0.0], 0), ([np.inf, 0.0, -np.inf], 0), ([1e308, -1e308, 0.0], rare), ([-700.0, 700.0, 0.0], 0),
        ([0.0, 0.0, 0.0], np.nan), ([0.0, 0.0, 0.0], 17), ([50.0, -50.0, -50.0], rare), ([-50.0, 50.0, 0.0], 1),
    ]  # fmt: skip


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", DESIGNS)
def test_one_row_moves_what_is_released_by_no_more_than_is_declared(name, delta, adjacency):
    design = DESIGNS[name]
    release = design.plan(N, Guarantee(1.0, delta), adjacency)
    X, y = a_table(design)
    y = y.astype(float)
    for row, label in [*adversarial_rows(design), (X[1], y[1])]:
        changed, labels = X.copy(), y.copy()
        changed[0], labels[0] = row, label
        if adjacency is Adjacency.ADD_REMOVE:
            before = exact_sums(design, X[1:], y[1:], release)
        else:
            before = exact_sums(design, X, y, release)
        after = exact_sums(design, changed, labels, release)
        for item, first, second in zip(release.calibrated.plan.planned, before, after, strict=True):
            order = 1 if item.query.distribution == "Laplace" else 2
            assert np.linalg.norm(first - second, ord=order) <= item.query.sensitivity


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("stored", ["rows", "columns", "sparse"])
@pytest.mark.parametrize(("name", "k"), [("two classes", 2), ("three classes", 3), ("scores", 2)])
def test_a_row_less_moves_no_other_row_of_a_linear_model_across_the_edge_of_a_bin(name, k, stored):
    """Copies of a row whose score lies at an edge, up to the last bit: a product by BLAS puts them on both sides."""
    design, rng = DESIGNS[name], np.random.default_rng(0)
    release = design.plan(1000, Guarantee(1.0, 1e-6), Adjacency.ADD_REMOVE)
    kind = PrivateLinearSVC if name == "scores" else PrivateLogisticRegression
    model = kind(epsilon=1.0, delta=1e-6, classes=list(range(k))).fit(rng.normal(size=(300, 101)), np.arange(300) % k)
    put = {"rows": np.ascontiguousarray, "columns": np.asfortranarray, "sparse": sparse.csr_matrix}[stored]
    for _ in range(10):
        row = rng.normal(size=(1, 101))
        model.coef_ = rng.normal(size=model.coef_.shape)
        model.intercept_ = -(row @ model.coef_.T)[0]
        tables = [put(np.repeat(row, rows, axis=0)) for rows in (1000, 999, 1)]
        sums = [exact_sums(design, table, np.zeros(table.shape[0]), release, model) for table in tables]
        counted = [found[0] for found in sums]
        np.testing.assert_array_equal(counted[0] - counted[1], counted[2])
        for place, item in enumerate(release.calibrated.plan.planned):
            assert np.linalg.norm(sums[0][place] - sums[1][place]) <= item.query.sensitivity


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", DESIGNS)
def test_a_sensitivity_five_per_cent_smaller_would_be_wrong(name, delta):
    """Every released sum reaches its bound between some two tables."""
    design = DESIGNS[name]
    release = design.plan(N, Guarantee(1.0, delta), Adjacency.REPLACE_ONE)
    ends = {
        "number": [([1.0] * 3, -1.0), ([-1.0] * 3, -1.0), ([1.0] * 3, 1.0), ([0.0] * 3, 0.0), ([0.0] * 3, np.nan)],
    }.get(design.kind, [([50.0, -50.0, -50.0], design.n_classes - 1), ([50.0, -50.0, -50.0], 0), ([0.0] * 3, 1)])
    sums = [exact_sums(design, np.array([row]), np.array([float(label)]), release) for row, label in ends]
    for place, item in enumerate(release.calibrated.plan.planned):
        order = 1 if item.query.distribution == "Laplace" else 2
        moved = max(np.linalg.norm(a[place] - b[place], ord=order) for a in sums for b in sums)
        assert 0.95 * item.query.sensitivity < moved <= item.query.sensitivity


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", DESIGNS)
def test_all_sums_together_keep_the_guarantee_and_waste_little(name, delta, adjacency):
    release = DESIGNS[name].plan(N, Guarantee(1.0, delta), adjacency)
    assert 0.995 < epsilon_of(release.event, delta, adjacency) <= 1.0


def test_the_design_follows_from_public_numbers_alone():
    first = DESIGNS["two classes"].plan(N, Guarantee(0.3, 0.0), Adjacency.REPLACE_ONE)
    again = DESIGNS["two classes"].plan(N, Guarantee(0.3, 0.0), Adjacency.REPLACE_ONE)
    assert first == again
    sizes = [
        DESIGNS["two classes"].plan(n, Guarantee(0.3, 0.0), Adjacency.REPLACE_ONE).calibrated.plan.planned[0].query.size
        for n in (100, 10_000, 10**7)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_a_row_is_in_the_bin_of_its_score_and_ties_are_predicted_as_the_first_class():
    edges = score_edges(4)
    shown = np.array([0.0, 0.1, 0.5, np.nextafter(0.5, 1.0), 1.0, np.nan])
    cells = scores.binned_by_class(np.ones(6), np.column_stack([1.0 - shown, shown]), edges)
    assert cells[:, 0].tolist() == [4, 4, 5, 6, 7, -1]
    tied = np.array([[0.5, 0.5]])
    assert scores.confusion_cells(np.zeros(1), tied)[0, 0] == 0
    assert scores.binned_by_class(np.zeros(1), tied, edges)[0, 0] < 2


def test_rows_that_do_not_count_change_nothing():
    design = DESIGNS["two classes"]
    release = design.plan(N, Guarantee(1.0, 0.0), Adjacency.REPLACE_ONE)
    X, y = a_table(design)
    counted = exact_sums(design, X[:-4], y[:-4], release)
    X[-4:] = [[np.nan] * 3, [np.inf] * 3, [0.0] * 3, [0.0] * 3]
    y = y.astype(float)
    y[-2:] = [np.nan, 5.0]
    for first, second in zip(counted, exact_sums(design, X, y, release), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-12)


def test_what_leaves_went_through_the_gate(monkeypatch):
    monkeypatch.setattr(Noise, "release", lambda self, exact, sensitivity: np.zeros_like(exact))
    for design in DESIGNS.values():
        X, y = a_table(design)
        target_range = design.target_range
        found = private_evaluate(Public(design), X, y, epsilon=1.0, target_range=target_range)
        assert not any(numbers.any() for numbers in found.released)


def marked():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)) / 3
    X[7, 1] = SENTINEL
    return X, (X[:, 0] > 0).astype(int)


def every_text_of(error):
    seen = []
    while error is not None:
        seen += [str(error), *map(str, getattr(error, "__notes__", ()))]
        error = error.__cause__ or error.__context__
    return " ".join(seen)


def test_no_text_or_byte_of_a_result_holds_a_value_of_the_rows():
    X, y = marked()
    for model, target in (
        (PrivateLogisticRegression(classes=[0, 1]).fit(X, y), y),
        (PrivateLinearSVC(classes=[0, 1]).fit(X, y), y),
        (PrivateLinearRegression(row_norm=1.0).fit(X, X[:, 1]), X[:, 1]),
    ):
        found = private_evaluate(model, X, target, epsilon=1.0)
        for text in (
            str(found),
            repr(found),
            release_text(found),
            found._repr_html_(),
            repr(found.design),
            str(found.verdict),
        ):
            assert "718273" not in text
        assert np.float64(SENTINEL).tobytes() not in pickle.dumps(found)


class Talkative(Public):
    """A model whose errors and warnings show rows."""

    def predict_proba(self, X):
        raise ValueError(f"Input contains {X[7]} {SENTINEL} {SENTINEL_TEXT}")


def test_an_error_of_the_model_shows_no_value_and_counts_as_spent(tmp_path):
    X, y = marked()
    budget = Budget.create("tests", Guarantee(1.0, 1e-6), ledger=str(tmp_path / "ledger.db"))
    with pytest.raises(InvalidTableError) as caught:
        private_evaluate(Talkative(DESIGNS["two classes"]), X, y, epsilon=0.5, budget=budget)
    text = every_text_of(caught.value)
    assert "718273" not in text
    assert SENTINEL_TEXT not in text
    assert "counts as spent" in text
    assert budget.account().spent == pytest.approx(0.5, rel=1e-3)


def test_no_exception_tells_that_one_row_is_bad():
    X, y = marked()
    model = PrivateLogisticRegression(classes=[0, 1]).fit(X, y)
    from sklearn.linear_model import LogisticRegression

    for bad in (np.nan, np.inf, -np.inf, 1e308):
        for evaluated in (model, LogisticRegression().fit(X, y)):
            changed = X.copy()
            changed[3] = bad
            private_evaluate(evaluated, changed, y, epsilon=1.0)
        labels = np.array([*y[:-1].tolist(), SENTINEL_TEXT], dtype=object)
        private_evaluate(model, X, labels, epsilon=1.0)


def test_a_file_without_a_row_among_others_is_read_like_them(tmp_path):
    X, y = a_table(DESIGNS["two classes"])
    named = pd.DataFrame(X / 5.0, columns=["a", "b", "c"])
    named.assign(y=y).to_csv(tmp_path / "all.csv", index=False)
    (tmp_path / "empty.csv").write_text("a,b,c,y\n")
    own = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1]).fit(named, y)
    for model in (own, LogisticRegression().fit(named, y)):
        one, both = (
            private_evaluate(model, files, epsilon=1.0, target="y", random_state=0)
            for files in (tmp_path / "all.csv", str(tmp_path / "*.csv"))
        )
        for first, second in zip(one.released, both.released, strict=True):
            np.testing.assert_array_equal(first, second)


def test_the_budget_is_charged_before_a_row_is_read_and_settled_with_the_file(tmp_path):
    X, y = marked()
    budget = Budget.create("tests", Guarantee(1.0, 1e-6), ledger=str(tmp_path / "ledger.db"))
    model, seen = PrivateLogisticRegression(classes=[0, 1]).fit(X, y), []

    class Watching(Public):
        def predict_proba(self, X):
            seen.append(budget.account().releases[-1].fingerprint)
            return super().predict_proba(X)

    private_evaluate(Watching(DESIGNS["two classes"]), X, y, epsilon=0.25, budget=budget)
    assert seen == [None]
    found = private_evaluate(
        model, X, y, epsilon=0.25, budget=budget,
        save=lambda evaluation: seen.append(budget.account().releases[-1].fingerprint),
    )  # fmt: skip
    assert seen == [None, None]
    entry = found.ledger_entry_
    budget.confirm(entry["number"], entry["digest"], found.to_dict()["fingerprint"])
    with pytest.raises(BudgetExceededError):
        private_evaluate(model, X, y, epsilon=0.75, budget=budget)
    assert len(budget.account().releases) == 2


def test_a_seed_or_a_model_that_is_not_for_release_marks_the_result():
    X, y = marked()
    model = PrivateLogisticRegression(classes=[0, 1]).fit(X, y)
    assert private_evaluate(model, X, y, epsilon=1.0).privacy_.for_release
    seeded = [private_evaluate(model, X, y, epsilon=1.0, random_state=3) for _ in range(2)]
    assert not seeded[0].privacy_.for_release
    np.testing.assert_array_equal(seeded[0].released[0], seeded[1].released[0])
    open_model = PrivateLogisticRegression(classes=[0, 1], random_state=0).fit(X, y)
    assert "the model itself is not for release" in str(private_evaluate(open_model, X, y, epsilon=1.0))


def test_released_noise_has_the_planned_deviation():
    design = Design("label", tuple(range(60)))
    X, y = np.zeros((10, 60)), np.full(10, 0)
    found = private_evaluate(Public(design), X, y, epsilon=1.0)
    noise = found.released[0][1:]  # all rows are in the first cell
    # Of 3599 Laplace numbers; kurtosis 6 makes the variance's deviation √5/√n. Five of them: one false alarm in 10⁶.
    assert abs(noise.var() / found.deviations[0] ** 2 - 1.0) < 5 * math.sqrt(5.0 / noise.size)


def test_a_large_delta_warns_and_intervals_do_not_depend_on_the_rows_once_numbers_are_released():
    X, y = marked()
    model = PrivateLogisticRegression(classes=[0, 1]).fit(X, y)
    with pytest.warns(LargeDeltaWarning):
        found = private_evaluate(model, X, y, epsilon=1.0, delta=0.01)
    again = PrivateEvaluation.from_dict(json.loads(release_text(found)))
    assert str(again) == str(found)
    assert again.to_dict() == found.to_dict()


def wrong_calls(X, y):
    model = PrivateLogisticRegression(classes=[0, 1]).fit(X, y)
    line = PrivateLinearRegression(row_norm=1.0).fit(X, X[:, 1])
    return [
        lambda **more: private_evaluate(model, X, y, epsilon=0.0, **more),
        lambda **more: private_evaluate(model, X, y, epsilon=1.0, adjacency="add_remove", **more),
        lambda **more: private_evaluate(model, X, y, epsilon=1.0, n=N + 1, **more),
        lambda **more: private_evaluate(model, X, y, epsilon=1.0, level=1.0, **more),
        lambda **more: private_evaluate(model, X, y, epsilon=1.0, target_range=(0, 1), **more),
        lambda **more: private_evaluate(model, X[:, :2], y, epsilon=1.0, **more),
        lambda **more: private_evaluate(model, X, y[:-1], epsilon=1.0, **more),
        lambda **more: private_evaluate(model, X, epsilon=1.0, **more),
        lambda **more: private_evaluate(model, X, y.astype(str), epsilon=1.0, **more),
        lambda **more: private_evaluate(model, np.full(X.shape, "718273 a"), y, epsilon=1.0, **more),
        lambda **more: private_evaluate(object(), X, y, epsilon=1.0, **more),
        lambda **more: private_evaluate(line, X, X[:, 1], epsilon=1.0, target_range=(-1, 1), **more),
        lambda **more: private_evaluate(line, X, X[:, 1], epsilon=1.0, error_bound=5.0, **more),
        lambda **more: private_evaluate(Public(DESIGNS["numbers"]), X, y, epsilon=1.0, **more),
        lambda **more: private_evaluate(Public(DESIGNS["numbers"]), X, y, epsilon=1.0, target_range=(1, 0), **more),
        lambda **more: private_evaluate(model, X, y, epsilon=1.0, target="y", **more),
    ]


def test_wrong_public_parameters_are_refused_before_anything_is_spent(tmp_path):
    X, y = marked()
    budget = Budget.create("tests", Guarantee(9.0, 1e-6), ledger=str(tmp_path / "ledger.db"))
    for call in wrong_calls(X, y):
        with pytest.raises(InvalidParameterError) as caught:
            call(budget=budget)
        assert "718273" not in every_text_of(caught.value)
    assert not budget.account().releases


def test_counts_are_declared_as_counts():
    for design in DESIGNS.values():
        first = design.plan(N, Guarantee(1.0, 0.0), Adjacency.REPLACE_ONE).calibrated.plan.planned[0].query
        assert isinstance(first, CellCounts) == (design.kind != "number")
