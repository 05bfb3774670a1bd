"""The unit is named wherever ε is: in statements, assumptions, reports, pictures and what `verify` says."""

import html
import json
import re
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from dperm import (
    Budget,
    Classes,
    Guarantee,
    InvalidParameterError,
    LargeDeltaWarning,
    Number,
    PrivacyUnit,
    PrivateLogisticRegression,
    Schema,
    load_model,
    private_evaluate,
    save_model,
)
from dperm.files.content import content_of
from dperm.files.model_file import read_content
from dperm.plan.large_delta import warn_of_large_delta
from dperm.plan.search import SearchOptions
from dperm.privacy.assumptions import assumptions
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.statement import FitStatement, PrivacyStatement
from dperm.report import render_report
from dperm.schema import schema_to_dict
from dperm.verify.release import verify
from verify.tampered import changed, complaints, resealed, retold

pytestmark = pytest.mark.usefixtures("own_folders")

PATIENT = PrivacyUnit("patient_id", 3)
N = 400
RNG = np.random.default_rng(0)
IDS = np.repeat(np.arange(N), RNG.integers(1, 6, N))
TABLE = pd.DataFrame({"age": RNG.uniform(18, 90, IDS.size), "dose": RNG.uniform(0, 5, IDS.size), "patient_id": IDS})
TABLE["ill"] = np.where(TABLE["age"] > 50, "yes", "no")
SCHEMA = Schema(
    {"age": Number((18, 90), encode="linear"), "dose": Number((0, 5), encode="linear")},
    Classes("ill", ["no", "yes"]), n=N, unit=PATIENT,
)  # fmt: skip
ASKED = {"epsilon": 2.0, "delta": 1e-6, "solver": "dp-gd", "row_warnings": False}


def with_schema():
    return PrivateLogisticRegression(**ASKED, schema=SCHEMA).fit(TABLE)


def without_schema():
    model = PrivateLogisticRegression(**ASKED, classes=["no", "yes"], unit="patient_id", max_rows_per_unit=3)
    return model.fit(TABLE[["age", "dose", "patient_id"]] / [90.0, 5.0, 1.0], TABLE["ill"])


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    folder, found = tmp_path_factory.mktemp("models"), {}
    for name, fit in (("schema", with_schema), ("no schema", without_schema)):
        save_model(fit(), folder / "model.json")
        found[name] = read_content(folder / "model.json")
    return found


def test_a_statement_says_who_is_protected_how_many_there_are_and_how_their_rows_are_used(contents):
    lines = str(FitStatement.from_dict(contents["no schema"]["privacy"])).splitlines()
    assert lines[0].endswith("adjacency replace_one, unit: one patient, with up to 3 rows")
    assert lines[3].startswith(f"public:     n = {N} units, 2 columns")
    assert lines[3].endswith("but not the number of rows")
    assert "at most 3 rows of one patient are used, chosen at random, each weighs 1/3" in lines[4]
    assert "rows without a usable patient_id count as one patient each" in lines[4]
    assert str(IDS.size) not in " ".join(lines)


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (PrivacyUnit("patient_id", 1), "at most one row of one patient is used, chosen at random"),
        (PrivacyUnit("day", contribution="average"), "all rows of one day are used, each weighs one over their number"),
        (
            PrivacyUnit("device", 5, "average"),
            "at most 5 rows of one device are used, chosen at random, each weighs one over",
        ),
        (PrivacyUnit("patient_id", 2, missing="ignore"), "rows without a usable patient_id are dropped"),
    ],
)
def test_every_policy_has_its_words(unit, words, contents):
    statement = replace(FitStatement.from_dict(contents["no schema"]["privacy"]), unit=unit)
    assert words in str(statement)
    assert FitStatement.from_dict(statement.to_dict()) == statement


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("country", "country"), ("class_id", "unit of class_id"), ("campus", "unit of campus"),
        ("patients", "unit of patients"), ("hospital visits", "unit of hospital visits"),
        ("nursing_home_id", "nursing home"), ("patient_id", "patient"), ("Patient Id", "patient"),
        ("PATIENT_ID", "patient"), ("patientID", "patient"), ("patient_nr", "patient"), ("customer no", "customer"),
        ("user_uuid", "user"), ("orderNumber", "order"), ("account-key", "account"), ("id_patient", "patient"),
        ("id", "id"), ("_", "_"), ("row_id", "unit of row_id"), ("rows", "unit of rows"),
    ],
)  # fmt: skip
def test_a_unit_is_called_as_its_column_is_without_what_says_that_it_is_an_id(name, word):
    assert PrivacyUnit(name, 1).word == word


def joint_statement(adjacency, n, unit):
    return PrivacyStatement(
        1.0, 1e-6, certified_epsilon=0.9, certified_delta=1e-7, adjacency=adjacency, n=n, parts=("a count",), unit=unit
    )


def test_one_unit_is_not_several(contents):
    statement = replace(FitStatement.from_dict(contents["no schema"]["privacy"]), n=1)
    assert "n = 1 unit, 2 columns" in str(statement)
    assert "That there is 1 unit is public" in " ".join(assumptions(statement, None, None))
    joint = joint_statement("replace_one", 1, PATIENT)
    assert "n = 1 unit, and every parameter" in str(joint)


def test_the_promise_in_words_is_about_a_unit_with_all_of_its_rows(contents):
    statement = FitStatement.from_dict(contents["no schema"]["privacy"])
    assert statement.promise_in_words.startswith("With one patient replaced by any other, with all of its rows, no ")
    joint = joint_statement("add_remove", 10, PATIENT)
    assert joint.promise_in_words.startswith("With one patient added or removed, with all of its rows, no ")
    assert "unit: one patient, with up to 3 rows" in str(joint)
    assert "n = 10 units, and every parameter, but not the number of rows" in str(joint)
    assert PrivacyStatement.from_dict(joint.to_dict()) == joint


def test_a_statement_of_several_parts_without_a_unit_is_about_rows():
    joint = joint_statement("add_remove", 10, None)
    assert joint.to_dict()["unit"] is None
    assert PrivacyStatement.from_dict(joint.to_dict()) == joint


def test_what_is_signed_speaks_of_the_column_of_the_ids_and_of_max_rows(contents):
    signed = " ".join(assumptions(FitStatement.from_dict(contents["no schema"]["privacy"]), None, None))
    assert "'patient_id' identifies the patient correctly" in signed
    assert "A patient with several of them is protected under each separately" in signed
    assert f"That there are {N} units is public, and how many rows they have is not" in signed
    assert "a patient with several such rows is protected row by row only" in signed
    assert "max_rows = 3 and contribution = 'limit' were chosen without looking at the rows" in signed
    assert "One person is one row" not in signed


def test_what_is_signed_of_other_policies(contents):
    statement = FitStatement.from_dict(contents["no schema"]["privacy"])
    ignoring = replace(statement, unit=replace(PATIENT, missing="ignore"))
    signed = " ".join(assumptions(ignoring, None, None))
    assert f"n = {N} units was declared without counting them" in signed
    assert "row by row" not in signed
    joining = replace(statement, adjacency="add_remove", unit=PrivacyUnit("patient_id", contribution="average"))
    signed = " ".join(assumptions(joining, None, None))
    assert f"differ by one patient more or less, with all rows. n = {N} units was declared" in signed
    assert "contribution = 'average' was chosen without looking" in signed


@pytest.mark.parametrize("name", ["schema", "no schema"])
def test_a_report_protects_a_patient_and_nowhere_a_row(name, contents):
    page = html.unescape(re.sub(r"<[^>]+>", " ", render_report(contents[name])))
    assert f"{N} units" in page
    assert "a second one with one patient replaced by any other, with all of its rows" in page
    assert "unit: one patient, with up to 3 rows" in page
    for about_a_row in ("person's row", "whose row is", "all other rows of the table", f"{N} rows", "the last row"):
        assert about_a_row not in page


def test_a_report_of_an_evaluation_speaks_of_units():
    model = with_schema()
    evaluation = private_evaluate(model, TABLE, epsilon=1.0).to_dict()
    page = " ".join(re.sub(r"<[^>]+>", " ", render_report(content_of(model), evaluation=evaluation)).split())
    assert f"Measured on {N} units with noise" in page
    assert "contains the population value for units" in page
    assert "it includes the noise and the sampling of the units." in page


def test_a_report_with_a_ledger_says_whom_the_budget_protects(tmp_path):
    ledger = str(tmp_path / "ledger.db")
    budget = Budget.create("visits", Guarantee(3.0, 1e-5), ledger=ledger, unit="patient_id")
    model = PrivateLogisticRegression(**ASKED, schema=SCHEMA, budget=budget).fit(TABLE)
    page = re.sub(r"<[^>]+>", "", render_report(content_of(model), ledger))
    together = "together may spend ε =\n3 at δ = 0.00001 for one patient replaced by any other, with all of its rows."
    assert together in page


def test_a_search_counts_units():
    options = SearchOptions(Guarantee(1.0, 1e-5), Adjacency.REPLACE_ONE, "losses", unit=PATIENT)
    assert options.rows == "units"


def test_the_axis_of_an_attack_and_the_title_of_a_picture_name_the_unit(contents, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    (tmp_path / "model.json").write_text(json.dumps(contents["schema"]))
    axes = load_model(tmp_path / "model.json").plot_attack()
    assert "one patient told from another" in axes.get_ylabel()
    assert "one patient, with up to 3 rows" in axes.get_title(loc="left")


def test_a_summary_and_a_diagram_name_the_unit():
    model = with_schema()
    assert f"units:      n = {N}" in str(model.summary())
    assert "unit: one patient, with up to 3 rows" in str(model.summary())
    assert "There are no intervals: rows of one patient are not independent." in str(model.summary())
    shown = PrivateLogisticRegression(1.0, 1e-6, unit="patient_id", max_rows_per_unit=3)._repr_html_()
    assert "With one patient replaced by any other, with all of its rows" in shown


def test_a_verdict_counts_units():
    plan = PrivateLogisticRegression(0.05, 1e-6, unit="patient_id", max_rows_per_unit=3).plan(200, 30)
    assert re.search(r"n = [\d ]+ units", str(plan.verdict))


def test_a_large_delta_would_allow_publishing_all_rows_of_one():
    with pytest.warns(LargeDeltaWarning, match="publishing all rows of one patient in the clear"):
        warn_of_large_delta(0.05, 100, unit=PATIENT)


def test_weights_of_rows_are_not_public_where_the_number_of_rows_is_not():
    X, y, weights = TABLE[["age", "dose", "patient_id"]] / [90.0, 5.0, 1.0], TABLE["ill"], np.full(len(TABLE), 0.5)
    asked = ASKED | {"classes": ["no", "yes"], "unit": "patient_id", "max_rows_per_unit": 3}
    with pytest.raises(InvalidParameterError, match="private_weights=True"):
        PrivateLogisticRegression(**asked).fit(X, y, sample_weight=weights)
    model = PrivateLogisticRegression(**asked, private_weights=True).fit(X, y, sample_weight=weights)
    assert model.privacy_.weights == "private"


# --- tampering ---


@pytest.mark.parametrize("name", ["schema", "no schema"])
def test_an_honest_file_is_verified_and_the_unit_is_named(name, contents):
    assert complaints(contents[name]) == []
    assert complaints(retold(contents[name])) == []
    derived = [finding.text for finding in verify(contents[name], None) if "interval arithmetic" in finding.text]
    assert all(text.endswith("adjacency replace_one, unit: one patient, with up to 3 rows") for text in derived)
    assert len(derived) == (find_spec("flint") is not None)


@pytest.mark.parametrize("name", ["schema", "no schema"])
@pytest.mark.parametrize(
    "unit", [None, PATIENT.to_dict() | {"name": "visit_id"}, PATIENT.to_dict() | {"max_rows": 1}, {"name": "x"}]
)
def test_another_unit_in_the_numbers_is_not_what_the_words_say(name, unit, contents):
    assert complaints(resealed(changed(contents[name], "privacy", "unit", to=unit)))


@pytest.mark.parametrize("unit", [None, replace(PATIENT, name="visit_id"), replace(PATIENT, max_rows=1)])
def test_another_unit_than_the_schemas_is_noticed_though_all_words_fit(unit, contents):
    told = retold(contents["schema"], unit=None if unit is None else unit.to_dict())
    assert complaints(told)


@pytest.mark.parametrize("unit", [None, replace(PATIENT, name="visit_id"), replace(PATIENT, max_rows=1)])
def test_another_unit_in_the_schema_alone_is_noticed(unit, contents):
    schema = schema_to_dict(replace(SCHEMA, unit=unit))
    assert complaints(retold(changed(contents["schema"], "schema", to=schema)))


def test_a_unit_that_was_taken_out_of_everything_shows_in_the_noise_which_was_padded_for_long_sums():
    many = 4000
    table = pd.DataFrame({"x": np.linspace(-1, 1, many), "patient_id": np.arange(many)})
    model = PrivateLogisticRegression(**ASKED, classes=["no", "yes"], unit="patient_id", max_rows_per_unit=3)
    model.fit(table, np.where(table["x"] > 0, "yes", "no"))
    told = retold(content_of(model), unit=None)
    assert any("sigma" in text for text in complaints(told))
