"""Units on the command line: fits, plans, drafts, budgets and the private count of rows."""

import json
import math
import re
from pathlib import Path
from textwrap import dedent

import numpy as np
import pandas as pd
import pytest

from dperm import (
    Classes,
    DroppedRowsWarning,
    InvalidParameterError,
    Number,
    PrivacyUnit,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Schema,
    load_model,
    load_schema,
)
from dperm.cli.main import run_with
from dperm.plan.rows_per_unit import RowsPerUnit
from dperm.schema import schema_from_dict, schema_to_dict
from dperm.schema.plain import schema_to_toml

pytestmark = pytest.mark.usefixtures("own_folders")

N = 300
GUARANTEE = ["--epsilon", "1", "--delta", "1e-6"]
UNIT = ["--unit", "patient_id", "--max-rows-per-unit", "2"]


def visits():
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(N), rng.integers(1, 6, N))
    table = pd.DataFrame({"age": rng.uniform(-0.5, 0.5, ids.size), "dose": rng.uniform(-0.5, 0.5, ids.size)})
    table["patient_id"] = [f"p{number}" for number in ids]
    table["ill"] = np.where(table["age"] > 0, "yes", "no")
    return table


@pytest.fixture
def csv(tmp_path):
    visits().to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv"


@pytest.fixture
def parquet(tmp_path):
    visits().to_parquet(tmp_path / "visits.parquet")
    return tmp_path / "visits.parquet"


def refused(capsys, *arguments):
    """The one line of an error."""
    assert run_with([str(argument) for argument in arguments]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    return said[0]


def shown(capsys, *arguments):
    code = run_with([str(argument) for argument in arguments])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out


def fit(table, output, *more):
    return [
        "fit",
        table,
        "--target",
        "ill",
        "--classes",
        "no,yes",
        "--solver",
        "dp-gd",
        *GUARANTEE,
        *more,
        "-o",
        output,
    ]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_fit_names_the_unit_and_counts_units(kind, request, tmp_path, capsys):
    table = request.getfixturevalue(kind)
    said = shown(capsys, *fit(table, tmp_path / "m.json", *UNIT))
    assert "unit: one patient, with up to 2 rows" in said
    assert f"n = {N} units" in said
    assert load_model(tmp_path / "m.json").privacy_.unit == PrivacyUnit("patient_id", 2)
    assert list(load_model(tmp_path / "m.json").feature_names_in_) == ["age", "dose"]
    verified = shown(capsys, "verify", tmp_path / "m.json")
    assert "adjacency replace_one, unit: one patient, with up to 2 rows" in verified
    shown(capsys, "predict", tmp_path / "m.json", table)


def test_a_declared_n_is_that_of_units(csv, tmp_path, capsys):
    assert f"n = {N} units" in shown(capsys, *fit(csv, tmp_path / "m.json", *UNIT, "--n", N))
    said = refused(capsys, *fit(csv, tmp_path / "other.json", *UNIT, "--n", 17))
    assert "number of units (patient_id)" in said


def test_rows_without_an_id_are_units_of_their_own_in_a_file(tmp_path, capsys):
    table = visits()
    whole = table["patient_id"].nunique()
    table = pd.concat([table, table.head(7).assign(patient_id=["", None, "nan", None, "", None, None])])
    table.to_csv(tmp_path / "holes.csv", index=False)
    assert f"n = {whole + 7} units" in shown(capsys, *fit(tmp_path / "holes.csv", tmp_path / "m.json", *UNIT))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--unit", "patient_id"], "pass max_rows_per_unit"),
        (["--max-rows-per-unit", "2"], "require unit"),
        (["--unit", "nobody", "--max-rows-per-unit", "2"], "has no column 'nobody'"),
        (["--unit", "patient_id", "--max-rows-per-unit", "0"], "positive integer"),
        (["--unit", "patient_id", "--contribution", "sum"], "'sum' is not one of"),
        ([*UNIT, "--features", "age,patient_id"], "cannot also be a feature"),
        ([*UNIT, "--missing-units", "ignore", "--adjacency", "sideways"], "is not one of"),
        ([*UNIT, "--intervals", "0.5", "--n", "300"], "intervals cannot be combined with a privacy unit"),
    ],
)
def test_a_wrong_unit_is_refused_in_a_line_before_anything_is_written(more, words, csv, tmp_path, capsys):
    assert words in refused(capsys, *fit(csv, tmp_path / "m.json", *more))
    assert not (tmp_path / "m.json").exists()


def test_a_mean_of_rows_needs_no_limit(csv, tmp_path, capsys):
    more = ["--unit", "patient_id", "--contribution", "average", "--missing-units", "ignore", "--n", N + 1]
    said = shown(capsys, *fit(csv, tmp_path / "m.json", *more))
    assert "all rows of one patient are used, each weighs one over their number" in said
    assert "rows without a usable patient_id are dropped" in said


def test_a_fit_is_charged_to_the_budget_of_its_unit_and_to_no_other(csv, tmp_path, capsys):
    ledger = ["--ledger", tmp_path / "ledger.db"]
    said = shown(capsys, "budget", "create", "visits", "--epsilon", 3, "--delta", 1e-5, "--unit", "patient_id", *ledger)
    assert "unit patient_id" in said
    charged = ["--dataset", "visits", *ledger]
    assert "protects unit 'patient_id' and this release single rows" in refused(
        capsys, *fit(csv, tmp_path / "rows.json", "--features", "age,dose", *charged)
    )
    shown(capsys, "budget", "create", "single", "--epsilon", 3, "--delta", 1e-5, *ledger)
    said = refused(capsys, *fit(csv, tmp_path / "m.json", *UNIT, "--dataset", "single", *ledger))
    assert "create a budget for unit 'patient_id' (`dperm budget create NAME --unit patient_id`)" in said
    assert "declare" not in said  # whatever protects less
    shown(capsys, *fit(csv, tmp_path / "m.json", *UNIT, *charged))
    shown(capsys, "rows-per-unit", csv, "--unit", "patient_id", "--epsilon", 0.1, *charged)
    said = shown(capsys, "budget", "show", "visits", *ledger)
    assert "it protects one patient, with all of its rows, however many there are" in said
    assert said.count("released") == 2
    assert "ok  entry 1 of 'visits'" in shown(capsys, "verify", tmp_path / "m.json", *ledger)
    assert f"n = {N} units" in str(load_model(tmp_path / "m.json").privacy_)
    stated = json.loads((tmp_path / "m.json").read_text())["privacy"]
    assert (stated["n"], stated["unit"]["name"]) == (N, "patient_id")


def test_a_diagnosis_repeats_the_fit_with_the_units_of_its_file(csv, tmp_path, capsys):
    shown(capsys, *fit(csv, tmp_path / "m.json", *UNIT))
    said = shown(capsys, "diagnose", tmp_path / "m.json", csv, "--target", "ill")
    assert f"rows:       {len(visits())}" in said
    rows = visits()["patient_id"].value_counts()
    beyond, weight = int((rows - 2).clip(lower=0).sum()), float(rows.clip(upper=2).mean() / 2)
    assert f"units:      {N} units; every row has an id; rows beyond max_rows, not used: {beyond}; " in said
    assert f"one patient weighs {weight:.3g} in the mean" in said
    constant = float(re.search(r"a constant predictor has (\S+)", said)[1])
    assert 0.5 < constant <= 0.6932  # whatever weight is not used
    visits().drop(columns="patient_id").to_csv(tmp_path / "bare.csv", index=False)
    said = refused(capsys, "diagnose", tmp_path / "m.json", tmp_path / "bare.csv", "--target", "ill")
    assert "has no column 'patient_id'" in said


# --- schemas ---


def test_a_draft_leaves_the_ids_out_and_declares_the_unit_with_the_usual_number_of_rows(csv, tmp_path, capsys):
    shown(capsys, "schema", "draft", csv, "--target", "ill", "--unit", "patient_id", "-o", tmp_path / "draft.toml")
    draft = load_schema(tmp_path / "draft.toml")
    assert draft.derived_from_data
    assert draft.n == N
    assert set(draft.columns) == {"age", "dose"}
    assert draft.unit == PrivacyUnit("patient_id", int(visits()["patient_id"].value_counts().median()))
    assert "and so would max_rows" in (tmp_path / "draft.toml").read_text()
    said = refused(capsys, "fit", csv, "--schema", tmp_path / "draft.toml", *GUARANTEE, "-o", tmp_path / "m.json")
    assert "derived from the data" in said


def test_a_draft_says_so_where_a_unit_is_no_more_than_a_row(tmp_path, capsys):
    visits().assign(patient_id=range(len(visits()))).to_csv(tmp_path / "t.csv", index=False)
    said = shown(capsys, "schema", "draft", tmp_path / "t.csv", "--target", "ill", "--unit", "patient_id")
    assert (
        "# patient_id: hardly any is in more than one row, so the unit protects little more than single rows." in said
    )


@pytest.mark.parametrize("wrong", [["--unit", "ill"], ["--unit", "nobody"]])
def test_a_draft_by_a_column_that_cannot_say_whose_a_row_is_is_refused(wrong, csv, capsys):
    assert re.search(
        "cannot be the privacy unit|no column", refused(capsys, "schema", "draft", csv, "--target", "ill", *wrong)
    )


@pytest.mark.parametrize(
    "unit",
    [
        PrivacyUnit("patient_id", 5),
        PrivacyUnit("patient_id", contribution="average"),
        PrivacyUnit("a b", 7, "average", "ignore"),
    ],
)
def test_a_unit_goes_through_toml_and_plain_data_unchanged(unit, tmp_path):
    schema = Schema({"age": Number((0, 1))}, Classes("ill", ["no", "yes"]), unit=unit)
    (tmp_path / "schema.toml").write_text(schema_to_toml(schema))
    assert load_schema(tmp_path / "schema.toml") == schema == schema_from_dict(schema_to_dict(schema))


def test_a_schema_with_a_unit_plans_and_fits_a_table_in_memory(csv, tmp_path, capsys):
    shown(capsys, "schema", "draft", csv, "--target", "ill", "--unit", "patient_id", "-o", tmp_path / "visits.toml")
    text = (tmp_path / "visits.toml").read_text().replace("derived_from_data = true\n", "")
    (tmp_path / "visits.toml").write_text(text)
    said = shown(capsys, "plan", "--schema", tmp_path / "visits.toml", *GUARANTEE, "--solver", "dp-gd")
    assert "unit: one patient, with up to 3 rows" in said
    schema = load_schema(tmp_path / "visits.toml")
    model = PrivateLogisticRegression(1.0, 1e-6, schema=schema, solver="dp-gd", row_warnings=False).fit(visits())
    assert model.privacy_.unit == schema.unit
    assert model.privacy_.n == N


# --- choosing max_rows ---


def lines_of(said):
    """The table of choices: max_rows, rows used, weight, noise, sampling."""
    table = re.findall(r"^ +(\d+|average) +(\S+) +(\S+) +(\S+) % +(\S+) %$", said, re.M)
    return {name: tuple(map(float, numbers)) for name, *numbers in table}


def test_a_plan_compares_choices_of_max_rows(capsys):
    said = shown(capsys, "plan", "--n", 20000, "--p", 20, *GUARANTEE, *UNIT, "--rows-per-unit", 8)
    found = lines_of(said)
    assert list(found) == ["1", "2", "5", "10", "20", "50", "average"]
    assert "every patient has 8 rows" in said
    # Up to 8 rows nothing is lost in noise, and more rows are used; beyond, units weigh 8/k.
    assert [found[k][:2] for k in ("1", "5", "10", "50", "average")] == [(1, 1), (5, 1), (8, 0.8), (8, 0.16), (8, 1)]
    noise, sampling = ({k: line[place] for k, line in found.items()} for place in (2, 3))
    assert noise["1"] == noise["2"] == noise["5"] == noise["average"] < noise["10"] < noise["20"] < noise["50"]
    assert sampling["1"] > sampling["2"] > sampling["5"] > sampling["10"] == sampling["50"]


def test_without_a_number_of_rows_a_plan_says_what_every_line_assumes(capsys):
    said = shown(capsys, "plan", "--n", 20000, "--p", 20, *GUARANTEE, *UNIT)
    assert "every patient has at least so many rows" in said
    assert "average" not in lines_of(said)
    assert "The least" not in said
    assert "max_rows, if" not in shown(capsys, "plan", "--n", 20000, "--p", 20, *GUARANTEE)
    assert "--rows-per-unit requires --unit" in refused(
        capsys, "plan", "--n", 20000, "--p", 20, *GUARANTEE, "--rows-per-unit", 8
    )


def test_units_that_weigh_a_quarter_are_predicted_as_a_quarter_of_the_units():
    plan = PrivateLogisticRegression(1.0, 1e-6, max_rows_per_unit=4, unit="u").plan(40000, 10)
    few = PrivateLogisticRegression(1.0, 1e-6, max_rows_per_unit=16, unit="u").plan(10000, 10)
    choices = {choice.max_rows: choice for choice in plan.risk_of_max_rows(4.0, [4, 16]).choices}
    assert choices[4].cost.most == pytest.approx(plan.verdict.most)
    assert choices[16].weight == 0.25
    assert choices[16].cost.most == pytest.approx(few.verdict.most)


def test_sampling_is_not_predicted_where_the_loss_is_no_likelihood():
    model = PrivateLinearRegression(1.0, 1e-6, target_bound=1.0, unit="u", max_rows_per_unit=3, row_norm=1.0)
    found = model.plan(5000, 4).risk_of_max_rows(2)
    assert all(math.isnan(choice.sampling) for choice in found.choices)
    assert found.best.together == found.best.cost.share


def test_a_private_count_says_how_many_rows_a_choice_keeps():
    counts = (100.0, 100.0, 0.0, 0.0, 200.0, -3.0, 1.0, 2.0)
    found = RowsPerUnit(counts, 1.0, privacy_=None, event_=None)
    assert found.shares == (0.25, 0.25, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0)
    assert found.rows_used(1) == 1.0
    assert found.rows_used(5) == pytest.approx(0.25 + 0.5 + 2.5)
    assert found.rows_used() == pytest.approx(0.25 + 0.5 + 14.5 / 2)
    plan = PrivateLogisticRegression(1.0, 1e-6, unit="u", max_rows_per_unit=4).plan(4000, 3)
    mean = plan.risk_of_max_rows(found, [5]).choices[-1]
    # Means of one, two and of fourteen rows or so vary as much as means of this many each.
    assert mean.sampling == pytest.approx(4 / (2 * 4000 / (0.25 + 0.125 + 0.5 / 14.5)) / math.log(2))


def test_max_rows_is_compared_for_units_only():
    plan = PrivateLogisticRegression(1.0, 1e-6, solver="dp-gd").plan(4000, 3)
    with pytest.raises(InvalidParameterError, match="max_rows requires a unit"):
        plan.risk_of_max_rows()


# --- the private count ---


def test_rows_per_unit_prints_a_histogram_and_writes_it(csv, tmp_path, capsys):
    output = tmp_path / "counts.json"
    arguments = ["rows-per-unit", csv, "--unit", "patient_id", "--epsilon", 5, "--seed", 1, "-o", output]
    said = shown(capsys, *arguments)
    assert "units by their number of rows (each ± 0.57 for the noise; counts below 1.7 are taken for noise)" in said
    assert "NOT FOR RELEASE: the noise came from a seed" in said
    content = json.loads(output.read_text())
    found = visits()["patient_id"].value_counts()
    # Laplace noise of scale 2/5: one beyond 12 in 10¹³.
    assert content["counts"][0] == pytest.approx(int((found == 1).sum()), abs=12)
    assert content["privacy"]["unit"]["name"] == "patient_id"
    assert "already exists" in refused(capsys, *arguments)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--unit", "nobody"], "has no column 'nobody'"),
        (["--unit", "patient_id", "--adjacency", "add_remove"], "declare n"),
        (["--unit", "patient_id", "--n", "7"], "number of units (patient_id)"),
        (["--unit", "patient_id", "--delta", "2"], "delta"),
        (["--unit", "patient_id", "--ledger", "x.db"], "--ledger requires --dataset"),
    ],
)
def test_a_wrong_count_is_refused_in_a_line(more, words, csv, capsys):
    assert words in refused(capsys, "rows-per-unit", csv, "--epsilon", 1, *more)


def test_counts_that_are_all_noise_say_nothing(csv, capsys):
    said = shown(capsys, "rows-per-unit", csv, "--unit", "patient_id", "--epsilon", 1e-4, "--seed", 1)
    assert said.startswith("no count exceeds the noise threshold ")
    assert "%" not in said
    found = RowsPerUnit((3.0, -1.0), 1.0, privacy_=None, event_=None)
    with pytest.raises(InvalidParameterError, match="no count exceeds the noise threshold"):
        found.rows_used()


@pytest.mark.parametrize("wrong", ["0", "-3", "nan", "inf"])
def test_a_wrong_number_of_rows_is_refused_before_a_plan_is_printed(wrong, capsys):
    said = refused(
        capsys, "plan", "--n", 4000, "--p", 3, "--epsilon", 1, "--delta", 1e-6, *UNIT, f"--rows-per-unit={wrong}"
    )
    assert "--rows-per-unit must be" in said


# --- the page about units ---

PAGE = (Path(__file__).parents[2] / "docs" / "units.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_prints_the_statement_that_is_shown(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    with pytest.warns(DroppedRowsWarning):
        exec(code, {})
    printed = capsys.readouterr().out
    shown_lines = re.search(r"```\n\n((?:    .+\n)+)", PAGE)[1]
    assert " ".join(printed.split()) == " ".join(shown_lines.split())


def test_the_table_of_the_page_is_what_a_plan_prints(capsys):
    command, table = re.search(r"\$ (dperm plan .+)\n    …\n((?:    .+\n)+)", PAGE).groups()
    assert dedent(table) in shown(capsys, *command.split()[1:])
