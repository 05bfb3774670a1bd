"""From a table to a release: fit with a schema, save, load, verify, predict, and what the ledger knows of it."""

import copy
import json
import pickle
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import LinearSVC

from dperm import (
    Amount,
    Budget,
    BudgetExceededError,
    Category,
    Classes,
    Guarantee,
    InvalidParameterError,
    InvalidTableError,
    Number,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    Problem,
    Schema,
    load_model,
    minimize,
    save_model,
)
from dperm.accounting.composition import epsilon_of
from dperm.disk import fingerprint
from dperm.files.model_file import read_content
from dperm.privacy.assumptions import assumptions
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Logistic
from dperm.verify.release import verify

pytestmark = pytest.mark.usefixtures("own_folders")

N = 4000
RNG = np.random.default_rng(0)
AGE, JOB = RNG.uniform(18, 90, N), RNG.choice(["clerk", "smith", "farmer"], N)
SCORE = (AGE - 50) / 20 + (JOB == "smith")
TABLE = pd.DataFrame(
    {
        "age": np.where(RNG.random(N) < 0.1, np.nan, AGE),
        "job": np.where(RNG.random(N) < 0.1, "?", JOB),
        "note": "not in the schema",
        "rich": np.where(SCORE > 0, "yes", "no"),
        "grade": np.select([SCORE > 0.5, SCORE > -0.5], ["a", "b"], "c"),
        "pay": 1000 + 300 * SCORE,
    }
)
COLUMNS = {"age": Number((18, 90)), "job": Category(["clerk", "smith", "farmer"], missing="column")}
RICH = Schema(COLUMNS, Classes("rich", ["no", "yes"]), n=N, missing=("?",))
GRADE = Schema(COLUMNS, Classes("grade", ["a", "b", "c"]), missing=("?",))
PAY = Schema(COLUMNS, Amount("pay", (0, 2000)), missing=("?",))

FITS = {
    "logistic": (lambda **more: PrivateLogisticRegression(2.0, 1e-6, schema=RICH, **more), LogisticRegression),
    "softmax": (lambda **more: PrivateLogisticRegression(2.0, 1e-6, schema=GRADE, **more), LogisticRegression),
    "svc": (lambda **more: PrivateLinearSVC(2.0, 1e-6, schema=RICH, **more), LinearSVC),
    "linear": (lambda **more: PrivateLinearRegression(2.0, 1e-6, schema=PAY, **more), LinearRegression),
}


@pytest.fixture(scope="module")
def fitted():
    return {name: build().fit(TABLE) for name, (build, _) in FITS.items()}


@pytest.mark.parametrize("name", FITS)
def test_a_model_comes_back_from_its_file_and_its_statement_is_true(name, fitted, tmp_path):
    model, path = fitted[name], tmp_path / "model.json"
    save_model(model, path)
    loaded = load_model(path)
    np.testing.assert_array_equal(loaded.predict(TABLE), model.predict(TABLE))
    assert loaded.privacy_ == model.privacy_
    assert loaded.schema_ == replace(model.schema_, n=model.privacy_.n)
    assert loaded.score(TABLE) > 0.6
    assert loaded.score(TABLE, TABLE[model.schema_.target.column]) == loaded.score(TABLE)
    findings = verify(read_content(path))
    assert [finding.text for finding in findings if not finding.holds] == []
    assert any("the recorded events give ε = " in finding.text for finding in findings)
    save_model(loaded, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == path.read_text()


@pytest.mark.parametrize("name", FITS)
def test_the_plain_scikit_learn_estimator_predicts_the_same(name, fitted):
    model, plain = fitted[name], fitted[name].to_sklearn()
    assert type(getattr(plain, "regressor_", plain)) is FITS[name][1]
    ours, theirs = model.predict(TABLE), plain.predict(model.encode(TABLE))
    if name == "linear":
        np.testing.assert_allclose(ours, theirs)
        assert 900 < ours.mean() < 1200  # in the target's own units
    else:
        np.testing.assert_array_equal(ours, theirs)
    if name in ("logistic", "softmax"):
        np.testing.assert_allclose(model.predict_proba(TABLE), plain.predict_proba(model.encode(TABLE)))
    pickle.loads(pickle.dumps(plain))


def test_a_file_holds_what_it_should_and_nothing_else(fitted, tmp_path):
    save_model(fitted["logistic"], tmp_path / "model.json")
    content = json.loads((tmp_path / "model.json").read_text())
    assert set(content) == {
        "format", "version", "library", "kind", "columns", "coef", "intercept", "classes", "schema", "privacy",
        "parameters", "plan", "ledger", "fingerprint",
    }  # fmt: skip
    assert content["columns"][-4:] == ["job = clerk", "job = smith", "job = farmer", "job: missing"]
    assert all(name.startswith("age at ") for name in content["columns"][:-4])
    assert content["ledger"] is None
    assert "not in the schema" not in (tmp_path / "model.json").read_text()


def resealed(content):
    rest = {key: value for key, value in content.items() if key != "fingerprint"}
    return rest | {"fingerprint": fingerprint(rest)}


def changed(content, *path, to):
    content = copy.deepcopy(content)
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return content


@pytest.mark.parametrize(
    ("path", "to", "complaint"),
    [
        (("coef", 0, 0), 7.0, "the file was modified"),
        (("privacy", "epsilon"), 0.5, "NOT within the promised"),
        (("privacy", "delta"), 1e-12, "NOT within the promised"),
        (("privacy", "adjacency"), "add_remove", "do not fit together"),
        (("plan", "queries", 0, "events", 0, "count"), 3, "the recorded accounting events do NOT follow"),
        (("plan", "queries", 0, "count"), 3, "the recorded numbers of steps do NOT follow"),
        (("plan", "queries", 0, "relative_noise"), 0.5, "the recorded scales of the noise do NOT follow"),
        (("plan", "queries", 0, "query", "class"), "Magic", "do not fit together"),
        (("plan", "queries"), [], "do not fit together"),
        (("plan", "noise_multiplier"), None, "the recorded scales of the noise do NOT follow"),
        (("privacy", "caveats"), ["SEEDED"], "do not fit together"),  # for_release says otherwise
        (("privacy", "row_norm"), 0.5, "are not about the same rows|the statement has another"),
        (("privacy", "n"), 5_000_000, "are not about the same rows|the statement has another"),
        (("privacy", "full_row_norm"), 9.0, "are not about the same rows|the statement has another"),
        (("privacy", "entry_bound"), None, "are not about the same rows|the statement has another"),
        (("privacy", "classes"), ["left", "right"], "are not about the same rows|the statement has another"),
        (("privacy", "coefficient_noise"), -5.0, "do not fit together"),
        (("privacy", "certified_epsilon"), 0.001, "the certified ε or δ of the statement"),
        (("privacy", "certified_delta"), 0.0, "the certified ε or δ of the statement"),
        (("privacy", "seeded"), True, "the caveats leave out why"),
        (("privacy", "n"), -1, "do not fit together"),
        (("privacy", "n"), None, "do not fit together"),
        (("privacy", "sigma"), "x", "do not fit together"),
        (("privacy", "adjacency"), "zz", "do not fit together"),
        (("privacy", "row_norm"), -1.0, "do not fit together"),
        (("privacy", "more"), 1, "do not fit together"),
        (("kind",), "\ud800", "do not fit together"),
        (("classes",), ["yes", "no"], "are not about the same rows|the statement has another"),
        (("rows",), [[1, 2, 3]], "do not fit together"),
        (("schema", "columns", "age", "range"), "private", "do not fit together"),  # its edges are there
        (("schema", "columns", "age", "edges"), [30.0], "do not fit together"),
        (("schema", "columns", "age", "bins"), "even", "do not fit together"),
        (("privacy", "private_edges"), [], "the schema that was fitted with is not the one"),
        (("privacy", "private_edges"), ["job"], "are not about the same rows|the statement has another"),
        (("privacy", "private_edges"), "age", "do not fit together"),
        (("schema", "columns", "age", "range"), [5], "do not fit together"),
        (("assumptions",), [], "do not fit together"),
        (("statement",), "promised: everything", "do not fit together"),
        (("columns",), ["age"], "do not fit together"),
        (("classes",), ["no", "yes", "maybe"], "do not fit together"),
        (("coef",), [[float("nan")] * 5], "do not fit together"),
        (("privacy", "epsilon"), "inf", "the run had no noise"),
        (("kind",), "forest", "do not fit together"),
    ],
)
def test_a_statement_that_is_not_true_is_found_out(path, to, complaint, fitted, tmp_path):
    save_model(fitted["logistic"], tmp_path / "model.json")
    content = changed(read_content(tmp_path / "model.json"), *path, to=to)
    assert not all(finding.holds for finding in verify(content))
    if complaint != "the file was modified":  # even if somebody computes the fingerprint again
        complaints = "; ".join(finding.text for finding in verify(resealed(content)) if not finding.holds)
        assert re.search(complaint, complaints)
    (tmp_path / "model.json").write_text(json.dumps(content))
    # NaN and half of a pair are no JSON in the first place; words may speak of NaN.
    is_json = not any(odd in json.dumps(content) for odd in ("[NaN", ": NaN", "\\ud800"))
    with pytest.raises(
        InvalidParameterError, match="was modified after it was written" if is_json else "is not a dperm model"
    ):
        load_model(tmp_path / "model.json")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "nonsense", '{"format": "dperm-release", "version": 0}', "[" * 100_000]
)
def test_what_is_not_a_model_file_is_refused_in_one_sentence(text, tmp_path):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(InvalidParameterError, match="is not a dperm model file of version 1"):
        load_model(tmp_path / "model.json")
    with pytest.raises(InvalidParameterError, match="cannot be read"):
        load_model(tmp_path / "none.json")


def test_a_fit_that_fails_leaves_no_half_of_a_model():
    model = PrivateLogisticRegression(classes=[0, 1])
    with pytest.raises(InvalidParameterError):
        model.fit(np.zeros((5, 2)), np.zeros(4))
    with pytest.raises(NotFittedError):
        model.predict(np.zeros((5, 2)))
    with pytest.raises(NotFittedError):
        save_model(model, "nowhere.json")


def test_a_score_needs_a_target_of_the_table_s_length(fitted):
    for name in ("logistic", "linear"):
        with pytest.raises(InvalidParameterError, match="rows and the target"):
            fitted[name].score(TABLE, TABLE["pay"][:-1])
        with pytest.raises(InvalidParameterError, match="nothing to score"):
            fitted[name].score(TABLE, [None] * N)


def test_pandas_polars_and_arrow_tables_are_fitted_alike():
    models = [
        PrivateLogisticRegression(2.0, 1e-6, schema=RICH, random_state=1).fit(table)
        for table in (TABLE, pl.from_pandas(TABLE), pa.Table.from_pandas(TABLE))
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
    by_hand = PrivateLogisticRegression(2.0, 1e-6, schema=RICH, random_state=1).fit(
        TABLE.drop(columns="rich"), TABLE["rich"]
    )
    np.testing.assert_array_equal(by_hand.coef_, models[0].coef_)


def test_the_bounds_of_the_schema_are_those_of_the_statement(fitted):
    statement = fitted["logistic"].privacy_
    assert (statement.row_norm, statement.entry_bound) == (RICH.largest_norm, 1.0)
    constant = np.sqrt(2) / statement.n_features**0.25
    assert statement.full_row_norm == pytest.approx(np.hypot(np.sqrt(2), constant))  # not √2 times √2
    assert statement.classes == ("no", "yes")
    clipped = PrivateLogisticRegression(2.0, 1e-6, schema=replace(RICH, row_norm=0.5)).plan()
    assert clipped.statement.row_norm == 0.5


def test_a_private_range_is_part_of_the_plan_the_statement_and_the_file(tmp_path):
    schema = replace(RICH, columns={**COLUMNS, "age": Number("private", within=(0, 150))})
    build = PrivateLogisticRegression(2.0, 1e-6, schema=schema, penalty=L2(0.1))
    plan = build.plan()
    assert plan.statement.mechanism.startswith("the range of age by 20 noisy counts (Gaussian, scale ")
    alone = PrivateLogisticRegression(2.0, 1e-6, schema=RICH, penalty=L2(0.1)).plan()
    assert plan.calibrated.noise_multiplier > alone.calibrated.noise_multiplier
    assert epsilon_of(plan.event, 1e-6, Adjacency.REPLACE_ONE) <= 2.0
    model = build.fit(TABLE)
    assert build.schema.columns["age"].private  # what was learned is not in a parameter
    low, high = model.schema_.columns["age"].bounds
    assert 10 < low < 30
    assert 80 < high < 100
    assert model.privacy_.for_release
    save_model(model, tmp_path / "model.json")
    assert all(finding.holds for finding in verify(read_content(tmp_path / "model.json")))
    assert any("came out of this fit" in text for text in assumptions(model.privacy_, model.schema_, None))
    np.testing.assert_array_equal(load_model(tmp_path / "model.json").predict(TABLE), model.predict(TABLE))


@pytest.mark.parametrize(
    ("model", "guarantee"),
    [
        (PrivateLinearRegression(epsilon=2.0, delta=1e-6), (2.0, 1e-6)),
        (PrivateLinearRegression(epsilon=20.0, delta=0.0), (20.0, 0.0)),
        (
            PrivateLinearRegression(epsilon=2.0, delta=1e-6, solver="dp-gd", adjacency="add_remove", n=N),
            (2.0, 1e-6),
        ),
        (PrivateLinearRegression(epsilon=2.0, delta=1e-6, solver="dp-sgd"), (2.0, 1e-6)),
    ],
)
def test_every_solver_can_follow_a_private_target_range(model, guarantee):
    schema = replace(PAY, target=Amount("pay", "private", within=(0, 10_000)), n=None)
    model = clone(model).set_params(schema=schema).fit(TABLE)
    adjacency = Adjacency.parse(model.adjacency)
    assert 0.9 * guarantee[0] <= epsilon_of(model.event_, guarantee[1], adjacency) <= guarantee[0]
    low, high = model.schema_.target.number.bounds
    assert low < 700 < 1300 < high
    assert model.privacy_.for_release


@pytest.mark.long
def test_a_solver_whose_fixed_cost_is_too_large_beside_the_ranges_plans_again():
    schema = replace(RICH, columns={**COLUMNS, "age": Number("private")}, n=2 * 10**6, range_share=0.9)
    model = PrivateLogisticRegression(
        5.0, 1e-9, schema=schema, solver="dp-objective", penalty=None, adjacency="add_remove"
    )
    assert epsilon_of(model.plan().event, 1e-9, Adjacency.ADD_REMOVE) <= 5.0


@pytest.mark.parametrize("solver", ["dp-gd", "dp-objective", "dp-sgd", "dp-newton"])
@pytest.mark.parametrize("share", [0.05, 0.25, 0.9])
def test_whatever_the_ranges_take_the_rest_is_spent_and_no_more(solver, share):
    schema = replace(RICH, columns={**COLUMNS, "age": Number("private")}, n=10**6, range_share=share)
    plan = PrivateLogisticRegression(1.0, 1e-6, schema=schema, solver=solver).plan()
    assert 0.99 < epsilon_of(plan.event, 1e-6, Adjacency.REPLACE_ONE) <= 1.0


def test_a_range_that_came_out_of_an_earlier_fit_is_not_said_to_be_part_of_this_one(tmp_path):
    schema = replace(RICH, columns={**COLUMNS, "age": Number("private", within=(0, 150))})
    first = PrivateLogisticRegression(2.0, 1e-6, schema=schema).fit(TABLE)
    second = PrivateLogisticRegression(2.0, 1e-6, schema=first.schema_).fit(TABLE)
    for model, words in ((first, "came out of this fit"), (second, "came out of an earlier release")):
        save_model(model, tmp_path / "model.json")
        content = read_content(tmp_path / "model.json")
        assert all(finding.holds for finding in verify(content))
        signed = assumptions(model.privacy_, model.schema_, None)
        assert sum("The ranges of age came out" in text for text in signed) == 1
        assert any(words in text for text in signed)
        assert any("public knowledge, but for the ranges of age" in text for text in signed)
    claimed = changed(content, "privacy", "private_ranges", to=["job"])
    assert not all(finding.holds for finding in verify(resealed(claimed)))


def test_a_run_without_noise_has_no_noise_in_its_ranges_and_says_so():
    schema = replace(RICH, columns={**COLUMNS, "age": Number("private", within=(0, 150))})
    models = [PrivateLogisticRegression(2.0, 1e-6, schema=schema, noise=None).fit(TABLE) for _ in range(2)]
    assert models[0].schema_ == models[1].schema_
    assert not models[0].privacy_.for_release


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": replace(RICH, derived_from_data=True)}, "derived from the data"),
        ({"schema": {"age": [0, 1]}}, "must be a dperm Schema"),
        ({"schema": PAY}, "whose target has classes"),
        ({"classes": ["no", "yes"]}, "classes cannot be combined with a schema"),
        ({"row_norm": 2.0}, "row_norm and entry_bound cannot be combined with a schema"),
        ({"entry_bound": 2.0}, "row_norm and entry_bound cannot be combined with a schema"),
        ({"budget": "ledger.db"}, "budget must be a dperm Budget"),
        ({"n": N + 1}, "under replace_one the public n is the number of rows"),
        ({"noise": "paper", "schema": replace(RICH, columns={"age": Number("private")})}, "certified noise"),
    ],
)
def test_what_does_not_go_with_a_schema_is_refused_in_one_sentence(change, message, tmp_path):
    budget = Budget.create("people", Guarantee(10.0, 1e-5), ledger=str(tmp_path / "ledger.db"))
    parameters = {"schema": RICH, "budget": budget} | change
    with pytest.raises(InvalidParameterError, match=message):
        PrivateLogisticRegression(1.0, 1e-6, **parameters).fit(TABLE)
    assert budget.account().releases == ()
    with pytest.raises(InvalidTableError, match="no column 'job'"):
        PrivateLogisticRegression(1.0, 1e-6, schema=RICH, budget=budget).fit(TABLE.drop(columns="job"))
    with pytest.raises(InvalidParameterError, match="target_bound cannot be combined with a schema"):
        PrivateLinearRegression(1.0, 1e-6, schema=PAY, target_bound=3.0).fit(TABLE)
    assert budget.account().releases == ()


@pytest.mark.parametrize(
    "y",
    [
        TABLE[["pay"]],
        TABLE[["pay"]].to_numpy(),
        [[pay] for pay in TABLE["pay"]],
        dict.fromkeys(range(N), 1.0),
        "y" * N,
        TABLE["pay"].to_numpy()[:-1],
        3.0,
    ],
)
def test_a_target_of_another_shape_is_refused_and_nothing_is_spent(y, tmp_path):
    budget = Budget.create("people", Guarantee(10.0, 1e-5), ledger=str(tmp_path / "ledger.db"))
    with pytest.raises(InvalidParameterError, match="the target"):
        PrivateLinearRegression(1.0, 1e-6, schema=PAY, budget=budget).fit(TABLE, y)
    assert budget.account().releases == ()


class Unreadable:
    """A table whose values must not be asked for."""

    shape = (N, 2)

    def __array__(self, *_arguments, **_more):
        raise AssertionError("a row was read")

    def __len__(self):
        return N


def test_a_fit_that_exceeds_the_budget_is_refused_before_a_row_is_read(tmp_path):
    budget = Budget.create("people", Guarantee(1.0, 1e-5), ledger=str(tmp_path / "ledger.db"))
    problem = Problem(Logistic(), L2(0.1))
    with pytest.raises(BudgetExceededError, match="people"):
        minimize(problem, Unreadable(), np.zeros(N), guarantee=Guarantee(2.0, 1e-6), budget=budget)
    for model in (
        PrivateLogisticRegression(2.0, 1e-6, classes=[0, 1], class_weight={1: 2.0}, budget=budget),
        PrivateLinearSVC(2.0, 1e-6, budget=budget),
        PrivateLinearRegression(2.0, 1e-6, budget=budget, row_norm=1.0),
        PrivateLogisticRegression(2.0, 1e-6, schema=RICH, class_weight={"yes": 2.0}, budget=budget),
    ):
        with pytest.raises(BudgetExceededError, match="people"):
            model.fit(Unreadable(), Unreadable())
    assert budget.account().spent == 0.0
    release = minimize(problem, np.zeros((N, 2)), np.ones(N), guarantee=Guarantee(0.5, 1e-6), budget=budget)
    (entry,) = budget.account().releases
    assert (entry.number, entry.digest) == (release.ledger_entry["number"], release.ledger_entry["digest"])
    assert entry.fingerprint is not None


def test_a_fit_at_the_whole_budget_fits_and_leaves_nothing(tmp_path):
    budget = Budget.create("people", Guarantee(1.0, 1e-6), ledger=str(tmp_path / "ledger.db"))
    model = PrivateLogisticRegression(1.0, 1e-6, schema=RICH, budget=budget).fit(TABLE)
    account = budget.account()
    assert 0.99 < account.spent <= 1.0
    save_model(model, tmp_path / "model.json")
    content = read_content(tmp_path / "model.json")
    digest = account.releases[0].digest
    assert content["ledger"] == {"dataset": "people", "number": 1, "digest": digest, "fixed_in_advance": False}
    assert account.releases[0].fingerprint == content["fingerprint"]
    assert all(finding.holds for finding in verify(content, budget.ledger))
    assert str(tmp_path) not in (tmp_path / "model.json").read_text()  # where the ledger is stays at home
    with pytest.raises(BudgetExceededError):
        PrivateLogisticRegression(0.5, 1e-6, schema=RICH, budget=budget).fit(TABLE)
    other = Budget.create("others", Guarantee(1.0, 1e-6), ledger=str(tmp_path / "other.db"))
    assert not all(finding.holds for finding in verify(content, other.ledger))
    cheaper = resealed(changed(content, "plan", "queries", 0, "count", to=2))
    assert not verify(cheaper, budget.ledger)[-1].holds


def test_a_ledger_that_is_set_back_does_not_confirm_a_release(tmp_path):
    ledger = tmp_path / "ledger.db"
    budget = Budget.create("people", Guarantee(9.0, 1e-5), ledger=str(ledger))
    old = ledger.read_bytes()
    model = PrivateLogisticRegression(1.0, 1e-6, schema=RICH, budget=budget).fit(TABLE)
    save_model(model, tmp_path / "model.json")
    ledger.write_bytes(old)
    findings = verify(read_content(tmp_path / "model.json"), str(ledger))
    assert not findings[-1].holds


def test_every_fit_of_a_search_is_in_the_ledger(tmp_path):
    budget = Budget.create("people", Guarantee(100.0, 1e-4), ledger=str(tmp_path / "ledger.db"))
    model = PrivateLogisticRegression(0.5, 1e-6, schema=replace(RICH, n=None), budget=budget)
    search = GridSearchCV(model, {"penalty": [L2(0.1), L2(0.01)]}, cv=3, n_jobs=2)
    search.fit(TABLE, TABLE["rich"])
    assert len(budget.account().releases) == 2 * 3 + 1
    cross_val_score(clone(model), TABLE, TABLE["rich"], cv=2)
    copied = pickle.loads(pickle.dumps(copy.deepcopy(search.best_estimator_)))
    copied.fit(TABLE)
    assert len(budget.account().releases) == 7 + 2 + 1
    fingerprints = [release.fingerprint for release in budget.account().releases]
    assert len(set(fingerprints)) == 10
    assert None not in fingerprints
    assert model.get_params()["budget"] is budget


def test_ten_fits_cost_less_than_ten_times_one(tmp_path):
    budget = Budget.create("people", Guarantee(10.0, 1e-5), ledger=str(tmp_path / "ledger.db"))
    accounts = []
    for _ in range(10):
        PrivateLogisticRegression(0.5, 1e-6, schema=RICH, budget=budget).fit(TABLE)
        accounts.append(budget.account())
    composed = [account.composed for account in accounts]  # if all ten were fixed in advance
    assert composed == sorted(composed)
    assert 2 * composed[0] < composed[-1] < 5 * composed[0]
    spent = [account.spent for account in accounts]  # if each was chosen in view of the ones before
    assert spent == sorted(spent)
    assert composed[-1] < spent[-1] < 10.0


@pytest.mark.parametrize("place", [0, 17])
def test_a_neighbour_s_strange_row_changes_no_other_row_and_no_step(place):
    # Record and replay: without noise, what one row can change is bounded by what is accounted for.
    from dperm.kernel.coded import plain
    from dperm.rows.encoding import encode_rows, encode_target

    strange = TABLE.astype(object)
    strange.loc[place] = [float("inf"), b"\xff", None, "SENTINEL", None, "=1+1"]
    before, after = (encode_rows(table, RICH, fitting=True) for table in (TABLE, strange))
    others = np.arange(N) != place
    np.testing.assert_array_equal(plain(before[others]), plain(after[others]))
    labels = [encode_target(table, None, RICH)[others] for table in (TABLE, strange)]
    np.testing.assert_array_equal(*labels)
    models = [PrivateLogisticRegression(2.0, 1e-6, schema=RICH).fit(table) for table in (TABLE, strange)]
    assert models[0].privacy_ == models[1].privacy_
    assert models[0].event_ == models[1].event_


def test_only_a_budget_for_releases_fixed_in_advance_has_a_sentence_about_looking_to_sign():
    statement = PrivateLogisticRegression(1.0, 1e-6).plan(1000, 5).privacy
    entry = {"dataset": "adult", "number": 1, "digest": "0" * 64}
    said = {
        key: assumptions(statement, None, entry | more)[-1]
        for key, more in (
            ("fixed", {"fixed_in_advance": True}),
            ("looks", {"fixed_in_advance": False}),
        )
    }
    assert said["fixed"] == said["looks"] + (" No release depended on the results of earlier ones.")
