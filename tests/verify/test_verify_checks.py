"""Every check of `verify` alone: files in which all but one thing fits, words and fingerprint included."""

import json
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from dperm import (
    Amount,
    Budget,
    Category,
    Classes,
    Guarantee,
    InvalidParameterError,
    Number,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Schema,
    load_model,
    save_model,
)
from dperm.accounting.composition import curve_of
from dperm.accounting.events import Gaussian, Pure, Repeated, event_to_list
from dperm.cli.main import run_with
from dperm.files.model_file import read_content
from dperm.files.plan_data import plan_from
from dperm.files.reading import promise_of
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.statement import FitStatement
from dperm.problem import L2
from dperm.verify.release import verify
from verify.tampered import changed, complaints, resealed, retold

pytestmark = pytest.mark.usefixtures("own_folders")

N = 500
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RNG.uniform(18, 90, N),
        "job": RNG.choice(["clerk", "smith"], N),
        "rich": RNG.choice(["no", "yes"], N),
        "pay": RNG.uniform(0, 2000, N),
    }
)
# Nothing is left to the fit, so that a file has its schema once.
COLUMNS = {"age": Number((18, 90), encode="linear"), "job": Category(["clerk", "smith"])}
RICH = Schema(COLUMNS, Classes("rich", ["no", "yes"]), n=N)
PAY = Schema(COLUMNS, Amount("pay", (0, 2000)))
BARE = TABLE[["age", "pay"]] / 2000.0

FITS = {
    "logistic": lambda: PrivateLogisticRegression(2.0, 1e-6, schema=RICH, penalty=L2(0.1), solver="dp-gd").fit(TABLE),
    "linear": lambda: PrivateLinearRegression(2.0, 1e-6, schema=PAY).fit(TABLE),
    "pure": lambda: PrivateLogisticRegression(2.0, 0.0, schema=RICH, penalty=L2(0.1)).fit(TABLE),
    "without a schema": lambda: PrivateLogisticRegression(
        2.0, 1e-6, classes=["no", "yes"], row_norm=3.0, entry_bound=0.5
    ).fit(BARE, TABLE["rich"]),
    "without an intercept": lambda: PrivateLogisticRegression(
        2.0, 1e-6, classes=["no", "yes"], row_norm=3.0, fit_intercept=False
    ).fit(BARE, TABLE["rich"]),
    "only a row norm": lambda: PrivateLogisticRegression(2.0, 1e-6, classes=["no", "yes"], row_norm=3.0).fit(
        BARE, TABLE["rich"]
    ),
}


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    folder, found = tmp_path_factory.mktemp("models"), {}
    for name, fit in FITS.items():
        save_model(fit(), folder / "model.json")
        found[name] = read_content(folder / "model.json")
    return found


@pytest.mark.parametrize("name", FITS)
def test_an_honest_file_is_verified_whatever_its_words(name, contents):
    assert complaints(contents[name]) == []
    again = retold(contents[name])
    assert complaints(again) == []
    for words in ("mechanism",):  # a later version may say it in other words
        assert complaints(resealed(changed(contents[name], "privacy", words, to="in other words"))) == []


def event_of(content):
    return plan_from(content["plan"], *promise_of(content)).event


DISAGREE = "the model, the schema, the statement and the plan are not about the same rows"


def disagrees(content):
    (complaint,) = complaints(content)
    return complaint == DISAGREE or complaint.startswith("the statement has another ")


@pytest.mark.parametrize(
    ("name", "privacy"),
    [
        ("logistic", {"classes": ["left", "right"]}),
        ("without a schema", {"classes": ["left", "right"]}),
        ("linear", {"classes": ["no", "yes"]}),
        ("logistic", {"n_features": 7}),
        ("without a schema", {"n_features": 1}),
        ("logistic", {"full_row_norm": 9.0}),
        ("without a schema", {"full_row_norm": math.hypot(3.0, 3.0)}),
        ("without an intercept", {"full_row_norm": 2.9}),
        ("logistic", {"private_ranges": ["age"]}),
        ("logistic", {"row_norm": 0.5, "full_row_norm": math.hypot(0.5, 0.5)}),
        ("logistic", {"entry_bound": None, "full_row_norm": None}),
        ("logistic", {"entry_bound": 0.5, "full_row_norm": None}),
        ("logistic", {"n": 10 * N}),
    ],
)
def test_a_statement_about_other_rows_columns_or_classes_is_found_out_whatever_its_words(name, privacy, contents):
    if "full_row_norm" in privacy and privacy["full_row_norm"] is None:
        norm = contents[name]["privacy"]["row_norm"]
        privacy = privacy | {"full_row_norm": math.hypot(norm, min(norm, privacy["entry_bound"] or math.inf))}
    assert disagrees(resealed(contents[name] | {"privacy": contents[name]["privacy"] | privacy}))


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("schema", "derived_from_data"), True),
        (("schema", "columns", "age", "range"), "private"),
        (("schema", "target", "classes"), ["yes", "no"]),
        (("schema", "table", "n"), 2 * N),
        (("schema", "table", "row_norm"), 0.25),
    ],
)
def test_a_schema_that_is_not_the_fit_s_is_found_out_whatever_the_words(path, to, contents):
    assert disagrees(resealed(changed(contents["logistic"], *path, to=to)))


def test_classes_that_are_not_the_schema_s_are_found_out_though_the_statement_has_them_too(contents):
    swapped = changed(contents["logistic"], "classes", to=["yes", "no"])
    assert disagrees(retold(swapped, classes=["yes", "no"]))


@pytest.mark.parametrize(
    "privacy", [{"noise": "paper"}, {"noise": "none"}, {"seeded": True}], ids=lambda privacy: str(privacy)
)
def test_noise_that_protects_nobody_is_found_out_though_the_caveats_are_silent(privacy, contents):
    assert "not for release, and the caveats leave out why" in complaints(retold(contents["logistic"], **privacy))


def test_a_caveat_keeps_a_file_from_release_whatever_else_it_says(contents):
    (complaint,) = complaints(retold(contents["logistic"], caveats=["SEEDED"]))
    assert complaint == "not for release: the noise came from a seed"


@pytest.mark.parametrize(("name", "field"), [("logistic", "epsilon"), ("pure", "epsilon"), ("logistic", "delta")])
def test_a_promise_a_millionth_smaller_than_what_the_events_give_is_found_out_twice(name, field, contents):
    content = contents[name]
    given = content["privacy"]["certified_epsilon" if field == "epsilon" else "certified_delta"]
    larger = complaints(retold(content, **{field: given * (1.0 + 1e-6)}))
    assert not any("NOT within" in complaint for complaint in larger)  # though it is not what was planned for
    smaller = FitStatement.from_dict(retold(content, **{field: given * (1.0 - 1e-6)})["privacy"])
    bounds = verify.__globals__["_bound"](event_of(content), smaller)
    first, second = (found.text for found in bounds if not found.holds)
    assert complaints(retold(content, **{field: given * (1.0 - 1e-6)}))
    assert "NOT within the promised" in first
    assert second.startswith("independent check (interval arithmetic): ε ≤ ")
    assert "NOT within the promised" in second


@pytest.mark.parametrize("field", ["certified_epsilon", "certified_delta"])
@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_other_certified_numbers_are_found_out_though_the_words_repeat_them(field, factor, contents):
    told = retold(contents["logistic"], **{field: factor * contents["logistic"]["privacy"][field]})
    assert complaints(told) == [
        "the certified ε or δ of the statement is below what the events give, or above the promise"
    ]


FORGED = {
    "sigma": 1.001,
    "noise_multiplier": 1.001,
    "n_steps": 2,
    "noise_levels": 2,
    "coefficient_noise": 0.9,
}


@pytest.mark.parametrize("name", ["logistic", "linear", "pure", "without a schema"])
@pytest.mark.parametrize("field", [*FORGED, "distribution", "target_range", "accountant"])
def test_what_the_statement_explains_must_follow_from_the_plan_in_the_file(name, field, contents):
    content = contents[name]
    told = content["privacy"][field]
    to = {
        "distribution": "Cauchy",
        "target_range": [-3.0, 3.0],
        "accountant": "advanced-composition",
    }.get(field, 0.25 if told is None else FORGED.get(field, 1) * told)
    (complaint,) = complaints(retold(content, **{field: to}))
    assert complaint == f"the statement has another {field.replace('_', ' ')} than the plan"


def test_a_file_without_a_plan_or_parameters_is_found_out(contents):
    for key in ("plan", "parameters"):
        for to in (None, [], {"solver": {"class": "no such solver"}}, "dp-gd", 7):
            assert len(complaints(resealed(changed(contents["logistic"], key, to=to)))) == 1


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("penalty", "strength"), 0.5),
        (("fit_intercept",), False),
        (("class_weight",), [["yes", 3.0]]),
        (("domain",), {"class": "L2Ball", "radius": 0.5}),
        (("intervals",), True),
        (("start",), [[[0.0, 0.0, 0.0]], [0.0]]),
    ],
)
def test_parameters_of_another_fit_are_found_out(path, to, contents):
    (complaint,) = complaints(resealed(changed(contents["logistic"], "parameters", *path, to=to)))
    assert complaint == "the parameters are those of another problem than the plan's"


FORGED_PLANS = {
    "less noise": (("noise_multiplier",), lambda told: 0.9 * told),
    "a smaller sensitivity": (("queries", 0, "sensitivity"), lambda told: 0.9 * told),
    "another scale": (("queries", 0, "sigma"), lambda told: 1.1 * told),
    "fewer steps": (("queries", 0, "query", "n_steps"), lambda told: told // 2),
    "more rows": (("n",), lambda told: 2 * told),
    "a cheaper event": (("queries", 0, "events", 0, "noise_multiplier"), lambda told: 1.1 * told),
    "a shorter row": (("problem", "row_norm"), lambda told: 0.5 * told),
    "another constant": (("constants", "lipschitz"), lambda told: 0.5 * told),
    "a stronger penalty": (("problem", "regularizer", "strength"), lambda told: 2.0 * told),
}


@pytest.mark.parametrize("name", FORGED_PLANS)
def test_a_plan_that_does_not_follow_from_its_problem_is_found_out(name, contents):
    path, forge = FORGED_PLANS[name]
    told = contents["logistic"]["plan"]
    for key in path:
        told = told[key]
    assert complaints(resealed(changed(contents["logistic"], "plan", *path, to=forge(told))))


def test_less_noise_is_found_out_though_sensitivities_scales_and_events_are_made_to_fit(contents):
    content = json.loads(json.dumps(contents["logistic"]))
    plan, privacy = content["plan"], content["privacy"]
    plan["noise_multiplier"] *= 0.9
    for told in plan["queries"]:
        told["sigma"] *= 0.9
        told["events"] = event_to_list(event_of(content))
    content = retold(content, sigma=0.9 * privacy["sigma"], noise_multiplier=0.9 * privacy["noise_multiplier"])
    first, second = complaints(content)
    assert "NOT within the promised" in first
    assert second.startswith("independent check (interval arithmetic): ε ≤ ")


@pytest.mark.parametrize(
    "event", [Repeated(Gaussian(1e-300), 10**9), Repeated(Gaussian(1e-100), 10**9), Pure(1e300)], ids=str
)
def test_events_that_have_no_privacy_cost_are_a_finding_and_not_an_error(event, contents):
    statement = FitStatement.from_dict(contents["logistic"]["privacy"])
    (found,) = verify.__globals__["_bound"](event, statement)
    assert (found.holds, found.text) == (False, "the accounting events have no privacy bound")


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("privacy", "n_features"), 10**9),
        (("plan", "n_features"), 10**9),
        (("plan", "n_features"), 2**53),
        (("plan", "noise_multiplier"), 1e9),
        (("plan", "queries", 0, "count"), 10**9),
        (("plan", "queries", 0, "query", "remainder"), 1e9),
        (("plan", "queries", 0, "query", "ridge"), 0.0),
        (("plan", "problem", "loss"), {"class": "Softmax", "n_classes": 10**9}),
    ],
)
def test_a_file_that_would_take_hours_to_account_for_is_refused_before_anything_is_accounted_for(
    path, to, contents, monkeypatch
):
    def accounting(*_):
        raise AssertionError("nothing is accounted for")

    monkeypatch.setitem(verify.__globals__, "_bound", accounting)
    assert len(complaints(resealed(changed(contents["linear"], *path, to=to)))) >= 1


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("plan", "solver"), 7),
        (("plan",), 7),
        (("plan",), []),
        (("plan", "solver"), {}),
        (("plan", "solver", "class"), "x"),
        (("plan", "solver", "class"), "os:system"),
        (("parameters",), 7),
    ],
)
def test_a_description_that_is_none_is_a_sentence_for_every_command(path, to, contents, tmp_path, capsys):
    model = tmp_path / "model.json"
    model.write_text(json.dumps(resealed(changed(contents["without a schema"], *path, to=to))))
    for command in (["summary"], ["verify"], ["audit", "--of"], ["predict"], ["report", "-o", str(tmp_path / "page")]):
        run_with([*command, str(model)])
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.long
def test_a_file_that_states_a_billion_columns_takes_no_memory(contents, tmp_path):
    bomb = tmp_path / "bomb.json"
    bomb.write_text(json.dumps(resealed(changed(contents["without a schema"], "plan", "n_features", to=10**9))))
    limited = (
        "import resource, sys; from dperm.cli.main import run_with; "
        "resource.setrlimit(resource.RLIMIT_AS, (2**32,) * 2); "
        "sys.exit(run_with(sys.argv[1:]))"
    )
    for command in (["verify"], ["report", "-o", str(tmp_path / "page.html")]):
        run = [sys.executable, "-c", limited, *command, str(bomb)]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert "internal error" not in done.stderr
        assert done.returncode in (1, 2), done.stderr


def test_two_accountants_that_disagree_are_a_finding(contents, monkeypatch):
    texts = [finding.text for finding in verify(contents["logistic"])]
    assert sum("(Rényi accounting)" in text for text in texts) == 1
    monkeypatch.setitem(verify.__globals__, "rdp_epsilon", lambda *_: 0.9)
    (complaint,) = complaints(contents["logistic"])
    assert complaint.startswith("independent check (Rényi accounting): ε ≤ 0.9")
    assert not any("Rényi" in finding.text for finding in verify(contents["pure"]))  # it speaks of δ > 0


@pytest.mark.parametrize(("direction", "says"), [("epsilon", 2.1), ("delta", 1.1e-6)])
def test_a_promise_must_hold_in_epsilon_and_in_delta(direction, says, contents, monkeypatch):
    """For a profile that falls they say the same, so that only a curve at fault can tell them apart."""
    curve = curve_of(event_of(contents["logistic"]), Adjacency.REPLACE_ONE)

    class AtFault:
        epsilon, delta = staticmethod(curve.epsilon), staticmethod(curve.delta)

    setattr(AtFault, direction, staticmethod(lambda *_: says))
    monkeypatch.setitem(verify.__globals__, "curve_of", lambda *_: AtFault)
    assert any("NOT within the promised" in text for text in complaints(contents["logistic"]))


def charged_to(budget, content, event=None, settled=None):
    """The contents as a release that the budget was charged for; `event` is what was charged instead of theirs."""
    account = budget.account()
    reservation = budget.reserve(event or event_of(content), Adjacency.parse(account.adjacency))
    content = retold(changed(content, "ledger", to=reservation.to_dict()))
    if settled is not False:
        reservation.settle(settled or content["fingerprint"])
    return content


def budget_for(tmp_path, adjacency="replace_one"):
    return Budget.create("people", Guarantee(50.0, 1e-4), adjacency, ledger=str(tmp_path / "ledger.db"))


def test_a_release_that_the_ledger_paid_for_is_confirmed(contents, tmp_path):
    budget = budget_for(tmp_path)
    assert complaints(charged_to(budget, contents["logistic"]), budget.ledger) == []
    assert complaints(charged_to(budget, contents["pure"]), budget.ledger) == []


def test_a_release_for_which_the_ledger_paid_less_is_found_out(contents, tmp_path):
    budget = budget_for(tmp_path)
    cheap = charged_to(budget, contents["logistic"], Gaussian(1000.0))
    assert complaints(cheap) == []  # only the ledger tells
    assert complaints(cheap, budget.ledger) == ["entry 1 of 'people' in the ledger has different events"]


def test_a_release_that_was_paid_for_under_the_other_adjacency_is_found_out(contents, tmp_path):
    budget = budget_for(tmp_path, "add_remove")
    other = charged_to(budget, contents["logistic"])
    assert event_to_list(budget.account().releases[0].event) == event_to_list(event_of(other))
    assert complaints(other, budget.ledger) == ["entry 1 of 'people' in the ledger has different events"]


def test_a_release_that_the_ledger_does_not_know_is_found_out(contents, tmp_path):
    budget = budget_for(tmp_path)
    assert complaints(contents["logistic"], budget.ledger) == ["budget: none was charged for this release"]
    for settled in (False, "another release"):
        assert len(complaints(charged_to(budget, contents["logistic"], settled=settled), budget.ledger)) == 1
    for key, value in (("digest", "0" * 64), ("number", 77), ("dataset", "others")):
        content = charged_to(budget, contents["logistic"])
        assert complaints(content, budget.ledger) == []
        assert len(complaints(retold(changed(content, "ledger", key, to=value)), budget.ledger)) == 1


@pytest.mark.parametrize(
    ("name", "path", "to"),
    [
        ("logistic", ("columns", 0), "income"),
        ("logistic", ("columns",), ["job = clerk", "age", "job = smith"]),
        ("logistic", ("intercept",), [math.inf]),
        ("logistic", ("intercept",), [0.0, 0.0]),
        ("logistic", ("intercept",), 0.0),
        ("logistic", ("coef",), [[0.0] * 3] * 2),
        ("logistic", ("coef",), [0.0] * 3),
        ("logistic", ("classes",), None),
        ("linear", ("coef",), [[0.0] * 3]),
        ("linear", ("intercept",), [0.0]),
        ("logistic", ("ledger",), {"dataset": "people", "number": "1", "digest": "0"}),
        ("logistic", ("ledger",), {"dataset": "people", "number": 1}),
        ("logistic", ("statement",), "promised: everything"),
        ("logistic", ("plan", "n"), "500"),
        ("logistic", ("plan", "queries"), []),
        ("without a schema", ("columns",), ["age", "pay", "more"]),
    ],
)
def test_contents_that_do_not_fit_together_are_no_model_whatever_their_fingerprint(name, path, to, contents, tmp_path):
    content = resealed(changed(contents[name], *path, to=to))
    assert complaints(content) == ["the contents do not fit together"]
    (tmp_path / "model.json").write_text(json.dumps(content))
    with pytest.raises(InvalidParameterError, match="is not a dperm model file"):
        load_model(tmp_path / "model.json")
