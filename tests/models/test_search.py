"""Searches from a table to a file: one guarantee, charged once, and nothing but the winner comes out."""

import json
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from dperm import (
    Amount,
    Budget,
    BudgetExceededError,
    Classes,
    DivergedError,
    DpermError,
    Guarantee,
    InvalidParameterError,
    NoiseTooLargeError,
    Number,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearch,
    Schema,
    load_model,
    save_model,
)
from dperm.accounting.attack import true_positive_rates
from dperm.accounting.composition import epsilon_of
from dperm.accounting.events import event_to_list
from dperm.cli.main import run_with
from dperm.files.model_file import read_content
from dperm.models import trials as searching
from dperm.plan.fit_plan import FitPlan
from dperm.plan.options import FitOptions
from dperm.privacy.caveats import Caveat
from dperm.privacy.guarantee import Adjacency
from dperm.solvers import DPGD
from dperm.verify.release import verify
from report.html_page import Page

N = 600
SOLVER = DPGD(n_steps=2, accounting="composition")  # Gaussian, so that plans are found fast
METHODS = pytest.mark.parametrize("method", ["composition", "random-trials"])


def table(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2)) / 2.0
    return X, (X[:, 0] + 0.1 * rng.normal(size=N) > 0).astype(int)


def model(**more):
    return PrivateLogisticRegression(classes=[0, 1], solver=SOLVER, **more)


def search(**more):
    given = {"epsilon": 4.0, "delta": 1e-5, "noisy_trials": True, **more}
    if "candidates" not in given:
        given = {"estimator": model(), "param_grid": {"penalty": [0.01, 5.0]}} | given
    return PrivateSearch(**given)


def frame():
    X, y = table()
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y, "amount": 3.0 * X[:, 0] + 1.0})


SCHEMA = Schema({"a": Number((-2, 2)), "b": Number((-2, 2))}, Classes("y", [0, 1]))


@METHODS
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_the_whole_keeps_its_guarantee_and_the_winner_predicts(method, adjacency):
    X, y = table()
    found = search(method=method, adjacency=adjacency, n=N).fit(X, y)
    statement = found.privacy_
    assert epsilon_of(found.event_, 1e-5, Adjacency(adjacency)) == statement.certified_epsilon <= 4.0
    assert statement.certified_epsilon > 3.5  # and hardly less
    assert statement.for_release
    assert (statement.adjacency, statement.n) == (adjacency, N)
    assert found.best_estimator_.privacy_.epsilon < 4.0
    assert found.best_estimator_.search_.statement == statement
    assert found.best_params_ == {"penalty": [0.01, 5.0][found.best_index_]}
    assert found.classes_.tolist() == [0, 1]
    assert found.predict(X).shape == found.decision_function(X).shape == (N,)
    assert found.predict_proba(X).shape == (N, 2)
    assert found.score(X, y) == found.best_estimator_.score(X, y)


@METHODS
def test_the_better_candidate_nearly_always_wins(method):
    """A model that predicts 0 against one that fits: the noise on the score is a few rows of 150."""
    X, y = table()
    won = [search(method=method, trials=8, epsilon=20.0, random_state=seed).fit(X, y).best_index_ for seed in range(8)]
    assert sum(place == 0 for place in won) >= 7


@METHODS
@pytest.mark.parametrize("solver", ["auto", "dp-gd", SOLVER])
def test_a_search_over_two_candidates_makes_few_plans_and_none_twice(method, solver, monkeypatch):
    made, plan = [], FitOptions.plan
    monkeypatch.setattr(FitOptions, "plan", lambda self, *shape: made.append(self) or plan(self, *shape))
    candidates = {"penalty": [1.0, 1e-3]}  # "auto" takes a solver of pure ε for one of them, which composes otherwise
    given = PrivateLogisticRegression(classes=[0, 1], solver=solver)
    planned = search(estimator=given, param_grid=candidates, epsilon=1.0, delta=1e-6, method=method).plan(8000, 3)
    # Four will run; shares are found again for a fit that composes worse than a Gaussian, unless its ε is pure.
    assert 4 <= len(made) == len(set(made)) <= 6
    assert {one.options for one in (*planned.trials, *planned.refits)} <= set(made)
    assert 0.99 < planned.statement.certified_epsilon <= 1.0


def test_a_plan_says_what_it_takes_before_a_row_is_read():
    planned = search().plan(N, 2)
    text = str(planned)
    assert "adjacency replace_one" in text
    assert "NOT FOR RELEASE: this is a plan" in text
    assert "about 2 fits to 450 rows, and one to 600" in text
    assert planned.event == search().plan(N, 2).event
    with pytest.raises(InvalidParameterError, match="already declared"):
        search(n=N).plan(N + 1, 2)


def test_a_search_that_would_choose_by_the_noise_is_refused(tmp_path):
    X, y = table()
    budget = Budget.create("people", Guarantee(9.0, 1e-5), ledger=str(tmp_path / "ledger.db"))
    grid = {"penalty": ["auto", 0.001]}
    base = PrivateLogisticRegression(classes=[0, 1])
    vain = search(estimator=base, param_grid=grid, budget=budget, noisy_trials=False, epsilon=0.5)
    assert "doubtful: in the trials of" in str(vain.plan(N, 2))
    with pytest.raises(NoiseTooLargeError, match=r"candidate \d .* in its trial"):
        vain.fit(X, y)
    assert budget.account().releases == ()


@METHODS
def test_a_search_is_charged_once_and_confirmed_by_the_ledger(method, tmp_path):
    X, y = table()
    budget = Budget.create("people", Guarantee(9.0, 1e-5), ledger=str(tmp_path / "ledger.db"))
    found = search(method=method, budget=budget).fit(X, y)
    account = budget.account()
    assert len(account.releases) == 1
    assert event_to_list(account.releases[0].event) == event_to_list(found.event_)
    assert account.releases[0].is_settled
    assert found.ledger_entry_ == found.best_estimator_.ledger_entry_
    path = tmp_path / "model.json"
    save_model(found.best_estimator_, path)
    findings = verify(read_content(path), str(tmp_path / "ledger.db"))
    assert [finding.text for finding in findings if not finding.holds] == []
    assert any("the last fit is the winner's" in finding.text for finding in findings)
    again = load_model(path)
    assert again.search_.statement == found.privacy_
    assert again.coef_.tolist() == found.best_estimator_.coef_.tolist()


def test_a_search_that_dies_counts_as_spent_and_one_that_is_refused_does_not(tmp_path, monkeypatch):
    X, y = table()
    budget = Budget.create("people", Guarantee(9.0, 1e-5), ledger=str(tmp_path / "ledger.db"))
    with pytest.raises(InvalidParameterError):
        search(budget=budget, scoring="auc").fit(X, y)
    with pytest.raises(BudgetExceededError):
        search(budget=budget, epsilon=12.0).fit(X, y)
    assert budget.account().releases == ()
    monkeypatch.setattr(FitPlan, "answer", lambda *_: (_ for _ in ()).throw(MemoryError()))
    with pytest.raises(MemoryError) as raised:
        search(budget=budget).fit(X, y)
    assert "counts as spent" in " ".join(raised.value.__notes__)
    assert [release.is_settled for release in budget.account().releases] == [False]


def test_nothing_but_the_winner_is_kept_or_shown(capfd):
    """Every row holds a number that occurs nowhere else; no attribute, pickle or line has it, nor a score."""
    X, y = table()
    X[:, 1] = 0.123456789
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = search(method="random-trials").fit(X, y)
    kept = {name for name in vars(found) if name.endswith("_")}
    assert kept == {"best_index_", "best_params_", "best_estimator_", "privacy_", "event_", "ledger_entry_"}
    assert b"0.123456789" not in pickle.dumps(found)
    assert np.float64(0.123456789).tobytes() not in pickle.dumps(found)
    assert capfd.readouterr() == ("", "")
    told = json.dumps(found.best_estimator_.search_.to_dict())
    assert "0.123456789" not in told
    with pytest.raises(TypeError, match="trusted kernel"):
        pickle.dumps(searching.rows_apart(X, y, N, 450, searching.Randomness.from_random_state(0).noise))


def test_a_trial_without_a_model_scores_worst_and_nobody_is_told(monkeypatch, capfd):
    X, y = table()
    fit, failed = PrivateLogisticRegression.fit, []

    def failing(self, *arguments, **more):
        if self.penalty == 0.01 and self.n == 450:
            failed.append(self)
            raise DivergedError("an iterate left the range of numbers.")
        return fit(self, *arguments, **more)

    monkeypatch.setattr(PrivateLogisticRegression, "fit", failing)
    found = search(epsilon=40.0).fit(X, y)
    assert failed
    assert found.best_params_ == {"penalty": 5.0}
    assert capfd.readouterr() == ("", "")


def test_a_search_can_be_cloned_and_changes_none_of_its_parameters():
    X, y = table()
    given = search(random_state=3)
    before = {name: repr(value) for name, value in given.get_params().items()}
    given.fit(X, y)
    assert {name: repr(value) for name, value in given.get_params().items()} == before
    again = clone(given)
    with pytest.raises(NotFittedError):
        again.predict(X)
    assert again.fit(X, y).predict_proba(X).tolist() == given.predict_proba(X).tolist()
    assert Caveat.SEEDED in given.privacy_.caveats
    assert not given.privacy_.for_release
    assert is_classifier(given)
    assert given.set_params(estimator__penalty=2.0).estimator.penalty == 2.0
    assert make_pipeline(clone(given)).fit(X, y).predict(X).shape == (N,)


def test_models_of_different_losses_and_encodings_are_candidates():
    data = frame()
    binned = replace(SCHEMA, columns={"a": Number((-2, 2), encode="bins", bins="even", n_bins=4), "b": Number((-2, 2))})
    models = [
        PrivateLogisticRegression(schema=SCHEMA, solver=SOLVER),
        PrivateLinearSVC(schema=binned, solver=SOLVER),
    ]
    found = search(candidates=models, epsilon=20.0).fit(data)
    assert "wrong classes" in found.privacy_.parts[0]
    assert type(found.best_estimator_) is type(models[found.best_index_])
    assert found.score(data) > 0.6
    assert not hasattr(search(candidates=models[::-1]), "predict_proba")


def test_a_regression_is_scored_by_its_squared_error():
    data = frame()
    schema = replace(SCHEMA, target=Amount("amount", (-5, 5)))
    base = PrivateLinearRegression(schema=schema, solver=SOLVER)
    found = search(estimator=base, param_grid={"penalty": [0.1, 100.0]}, epsilon=20.0).fit(data)
    assert is_regressor(found)
    assert "squared error" in found.privacy_.parts[0]
    X, _ = table()
    bounded = search(
        estimator=PrivateLinearRegression(target_bound=2.0, solver=SOLVER, row_norm=1.0),
        param_grid={"penalty": [0.1]},
        epsilon=20.0,
    )
    assert bounded.fit(X, X[:, 0]).predict(X).shape == (N,)
    with pytest.raises(InvalidParameterError, match="scoring"):
        search(estimator=base, param_grid={"penalty": [0.1]}, scoring="accuracy").fit(data)


@METHODS
def test_a_part_without_a_class_takes_the_same_path(method):
    X, _ = table()
    only = search(method=method, random_state=1).fit(X, np.zeros(N, dtype=int))
    assert only.classes_.tolist() == [0, 1]
    one = np.zeros(N, dtype=int)
    one[0] = 1
    assert search(method=method, random_state=1).fit(X, one).event_ == only.event_


@METHODS
def test_a_pure_guarantee_is_kept(method):
    X, y = table()
    pure = search(estimator=PrivateLogisticRegression(classes=[0, 1]), delta=0.0, method=method, epsilon=8.0)
    found = pure.set_params(param_grid={"penalty": [0.1, 1.0]}).fit(X, y)
    assert epsilon_of(found.event_, 0.0, Adjacency.REPLACE_ONE) <= 8.0
    assert found.privacy_.delta == 0.0


def test_a_replacement_of_rows_by_strange_ones_changes_no_path():
    """NaN, infinite and huge rows, labels of no class: the same events, no exception, finite coefficients."""
    X, y = table()
    X[:4] = [[np.nan, 0.0], [np.inf, 0.0], [1e308, -1e308], [0.0, 0.0]]
    y[5] = 7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for who holds the rows
        found = search(random_state=0).fit(X, y)
    assert np.isfinite(found.best_estimator_.coef_).all()
    assert found.event_ == search().fit(*table()).event_


WRONG = {
    "an empty grid": ({"param_grid": {}}, "is empty"),
    "an empty list": ({"candidates": [], "estimator": None, "param_grid": None}, "is empty"),
    "a value that is no list": ({"param_grid": {"penalty": 0.1}}, "must be a list"),
    "an unknown parameter": ({"param_grid": {"penalties": [0.1]}}, "is no parameter"),
    "ε in the grid": ({"param_grid": {"epsilon": [1.0]}}, "belongs to the search"),
    "no grid": ({"param_grid": None}, "param_grid"),
    "a stranger": ({"estimator": None, "param_grid": None, "candidates": [3]}, "estimator of dperm"),
    "a seed of its own": ({"estimator": model(random_state=1)}, "belong to the search"),
    "noise that is not certified": ({"estimator": model(noise=None)}, "certified noise"),
    "another adjacency": ({"estimator": model(adjacency="add_remove")}, "adjacency"),
    "a candidate that refuses": ({"param_grid": {"solver": [SOLVER, "adassp"]}}, "candidate 1"),
    "a bad value": ({"param_grid": {"penalty": [0.1, -3.0]}}, "candidate 1"),
    "a share of nothing": ({"share": 0.0}, "share"),
    "all rows held out": ({"held_out": 1.0}, "held_out"),
    "half a trial": ({"trials": 0.5}, "trials"),
    "too many trials": ({"trials": 10**6}, "trials"),
    "an unknown method": ({"method": "bayes"}, "method"),
    "a budget too small": ({"epsilon": 1e-5}, "epsilon"),
    "another target": ({"candidates": [model(), model().set_params(classes=[0, 2])]}, "same target"),
    "classes and numbers": ({"candidates": [model(), PrivateLinearRegression(row_norm=1.0)]}, "classifiers"),
}  # fmt: skip


@pytest.mark.parametrize(("parameters", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_sentence_before_anything_is_read_or_spent(parameters, said, monkeypatch):
    X, y = table()
    monkeypatch.setattr(searching, "rows_apart", lambda *_: pytest.fail("rows were read"))
    with pytest.raises(DpermError, match=said) as raised:
        search(**parameters).fit(X, y)
    assert str(raised.value).endswith(".")


def test_tables_that_cannot_be_searched_are_refused(monkeypatch):
    X, y = table()
    monkeypatch.setattr(searching, "rows_apart", lambda *_: pytest.fail("rows were read"))
    with pytest.raises(InvalidParameterError, match="declared classes"):
        search(estimator=PrivateLogisticRegression(solver=SOLVER)).fit(X, y)
    with pytest.raises(InvalidParameterError, match="require a schema"):
        search().fit("people.csv")
    with pytest.raises(InvalidParameterError, match="rows"):
        search().fit(X, y[:-1])
    with pytest.raises(InvalidParameterError, match="replace_one"):
        search(n=N + 5).fit(X, y)
    with pytest.raises((InvalidParameterError, NoiseTooLargeError)):
        search().fit(X[:1], y[:1])
    with pytest.raises(InvalidParameterError, match="real numbers"):
        search().fit(np.full(X.shape, "a"), y)
    other = replace(SCHEMA, columns={"c": Number((-2, 2))})
    with pytest.raises(DpermError, match=r"candidate 1 .*'c'"):
        search(candidates=[PrivateLogisticRegression(schema=one, solver=SOLVER) for one in (SCHEMA, other)]).fit(
            frame()
        )
    with pytest.raises(InvalidParameterError, match="too small for this table"):
        search(adjacency="add_remove", n=500).fit(X, y)


# Files


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    save_model(search().fit(*table()).best_estimator_, folder / "model.json")
    return read_content(folder / "model.json")


def broken(content, change):
    changed = json.loads(json.dumps(content))
    change(changed)
    from dperm.files.model_file import fingerprint_of

    changed["fingerprint"] = fingerprint_of(changed)
    return [finding.text for finding in verify(changed) if not finding.holds]


def test_a_file_of_a_search_is_true(written):
    assert broken(written, lambda content: None) == []


def with_another_winner(content):
    content["search"]["winner"] = 1 - content["search"]["winner"]


def with_a_candidate_more(content):
    trials, _ = content["plan"]["sequence"][0]["one_of"]
    last = content["plan"]["sequence"][1]["one_of"]
    trials["sequence"].append(trials["sequence"][0])
    last.append(last[0])


def with_cheap_scores(content):
    scores = content["plan"]["sequence"][0]["one_of"][1]
    scores["noise_multiplier"] *= 2.0
    scores["queries"][0]["sigma"] *= 2.0


CHANGES = {
    "a smaller ε": lambda content: content["search"]["privacy"].update(epsilon=3.0),
    "another winner": with_another_winner,
    "a winner that there is not": lambda content: content["search"].update(winner=7),
    "another number of held-out rows": lambda content: content["search"].update(n_held_out=7),
    "more noise in the scores": with_cheap_scores,
    "no trials": lambda content: content["plan"]["sequence"].pop(0),
    "trials that are one of several": lambda content: content["plan"]["sequence"].__setitem__(
        0, {"one_of": [*content["plan"]["sequence"][0]["one_of"][0]["sequence"]]}
    ),
    "a last fit with other noise": lambda content: content["plan"]["sequence"][1]["one_of"][0].update(
        noise_multiplier=999.0
    ),
    "another caveat": lambda content: content["search"]["privacy"].update(caveats=["PLAN_ONLY"]),
    "a candidate more": with_a_candidate_more,
    "a key more": lambda content: content["search"].update(scores=[0.1]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_was_changed_is_not_verified(written, change):
    assert broken(written, change)


def test_a_file_whose_search_was_taken_out_does_not_fit_the_ledger(tmp_path):
    ledger = str(tmp_path / "ledger.db")
    budget = Budget.create("people", Guarantee(9.0, 1e-5), ledger=ledger)
    save_model(search(budget=budget).fit(*table()).best_estimator_, tmp_path / "model.json")
    content = read_content(tmp_path / "model.json")
    del content["search"]
    from dperm.files.model_file import fingerprint_of

    content["fingerprint"] = fingerprint_of(content)
    assert not verify(content, ledger)[-1].holds
    content["plan"] = content["plan"]["sequence"][1]["one_of"][0]
    content["fingerprint"] = fingerprint_of(content)
    assert not verify(content, ledger)[-1].holds


def test_pictures_summary_and_notebooks_state_what_is_promised_of_search_and_fit_together(tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    fitted = search(epsilon=4.0).fit(*table()).best_estimator_
    save_model(fitted, tmp_path / "model.json")
    alone = f"the last fit alone has ε = {fitted.privacy_.epsilon:.4g}"
    assert fitted.privacy_.epsilon < 3.9
    for one in (fitted, load_model(tmp_path / "model.json")):
        attack = one.plot_attack()
        title = one.plot_coefficients().get_title(loc="left")
        for text in (attack.get_title(loc="left"), title, str(one.summary()), one._html_repr()):
            assert "ε = 4, δ = 1e-05" in text
            assert alone in text
        assert any(text.get_text() == "promised: ε = 4, δ = 1e-05" for text in attack.get_legend().get_texts())
        drawn = attack.get_lines()[0]
        assert drawn.get_ydata().tolist() == true_positive_rates(
            one.search_.event, Adjacency.REPLACE_ONE, drawn.get_xdata().tolist()
        )
    plt.close("all")


def test_what_has_no_model_file_is_told_in_one_sentence(tmp_path):
    fitted = search().fit(*table())
    with pytest.raises(InvalidParameterError, match=r"save search\.best_estimator_"):
        save_model(fitted, tmp_path / "model.json")
    with pytest.raises(InvalidParameterError, match="a file stores a dperm release, got Pipeline"):
        save_model(make_pipeline(model()), tmp_path / "model.json")
    with pytest.raises(InvalidParameterError, match="got dict"):
        save_model({}, tmp_path / "model.json")
    assert not (tmp_path / "model.json").exists()


# The command line


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    frame()[["a", "b", "y"]].to_csv("people.csv", index=False)
    (tmp_path / "people.toml").write_text(
        '[target]\ncolumn = "y"\nclasses = ["0", "1"]\n[columns.a]\nrange = [-2, 2]\nencode = "linear"\n'
        '[columns.b]\nrange = [-2, 2]\nencode = "linear"\n'
    )
    (tmp_path / "empty.toml").write_text("")
    (tmp_path / "grid.toml").write_text('penalty = ["auto", 0.5]\nintercept = [true, false]\n')
    return tmp_path


FIT = ["people.csv", "--noisy-trials", "--epsilon", "4", "--delta", "1e-5", "--solver", "dp-gd"]
BY_SCHEMA = [*FIT, "--schema", "people.toml", "-o", "model.json"]


def test_tune_writes_a_model_that_is_verified_and_reported(files, capsys):
    assert run_with(["budget", "create", "people", "--epsilon", "9", "--delta", "1e-5", "--ledger", "l.db"]) == 0
    charged = ["--dataset", "people", "--ledger", "l.db"]
    assert run_with(["tune", *BY_SCHEMA, *charged, "--try", "penalty=auto,0.5", "--scoring", "accuracy"]) == 0
    out = capsys.readouterr().out
    assert "winner:     penalty = " in out
    assert "which of 2 candidates has the least wrong classes" in out
    assert run_with(["verify", "model.json", "--ledger", "l.db"]) == 0
    assert "search and last fit together" in capsys.readouterr().out
    assert run_with(["report", "model.json", "--ledger", "l.db"]) == 0
    page = (files / "model.html").read_text()
    assert "This model was chosen among 2 candidates" in page
    assert '<p class="promise">ε = 4, δ = ' in page
    content, found = Page(page).summary
    assert content["name"].endswith(", chosen among 2 candidates")
    assert (found["searched"], found["epsilon"]) == (True, 4.0)
    assert found["epsilon_of_last_fit"] < 4.0
    assert run_with(["predict", "model.json", "people.csv", "-o", "out.csv"]) == 0


def test_tune_takes_a_grid_from_a_file_and_a_table_without_a_schema(files, capsys):
    assert run_with(["tune", *BY_SCHEMA, "--grid", "grid.toml"]) == 0
    assert "which of 4 candidates" in capsys.readouterr().out
    plain = [*FIT, "--target", "y", "--classes", "0,1", "-o", "plain.json", "--try", "penalty=0.1,none"]
    assert run_with(["tune", *plain]) == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "pass the candidates"),
        (["--try", "penalty"], "OPTION=VALUE"),
        (["--try", "penalty=auto,0.1", "--grid", "grid.toml"], "pass the candidates"),
        (["--try", "epsilon=1,2"], "the same for all"),
        (["--try", "colour=red,blue"], "not an option of dperm fit"),
        (["--try", "penalty=auto", "--try", "penalty=0.1"], "two --try"),
        (["--try", "row-norm=big,1"], "must be a number"),
        (["--try", "penalty=l2:-1,auto"], "strength"),
        (["--try", "penalty=auto,-1"], "strength"),
        (["--try", "penalty=auto,nan"], "strength"),
        (["--try", "penalty=auto,inf"], "strength"),
        (["--try", "penalty=auto"], "a single candidate"),
        (["--grid", "empty.toml"], "a single candidate"),
        (["--grid", "people.csv"], "is not TOML"),
        (["--try", "penalty=auto,0.1", "--share", "2"], "share"),
        (["--try", "penalty=auto,0.1", "--target", "y"], "cannot be combined with --schema"),
        (["--try", "penalty=auto,0.1", "--ledger", "l.db"], "--ledger requires --dataset"),
    ],
)
def test_tune_says_what_is_wrong_in_one_line(files, capsys, more, said):
    assert run_with(["tune", *BY_SCHEMA, *more]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (files / "model.json").exists()


def test_a_plan_says_when_noise_hides_even_the_last_fit():
    model = PrivateLogisticRegression(classes=[0, 1])
    plan = PrivateSearch(model, {"penalty": [0.1, 1.0]}, epsilon=0.3, delta=1e-6).plan(n=20, n_features=20)
    assert plan.verdict.startswith("doubtful: even in the last fit")
    assert plan.verdict in str(plan)
