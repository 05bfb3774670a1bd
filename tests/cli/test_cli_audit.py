"""`dperm audit`: what it prints and writes, its exit codes, and how its result comes to the page of a model."""

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pytest

from audit.broken import BROKEN
from dperm import Classes, Number, PrivateLogisticRegression, PrivateSearch, Schema
from dperm.accounting.events import event_to_list
from dperm.audit import Attack, AuditResult, audit_plan, draw_audit, read_audit
from dperm.audit.result import name_of_plan
from dperm.cli.main import run_with
from dperm.errors import InvalidParameterError
from dperm.files.content import content_of
from dperm.files.model_file import read_content, save_model
from dperm.report import render_report

PUBLIC = ["--n", "200", "--p", "2", "--epsilon", "2", "--delta", "1e-5", "--solver", "dp-gd", "--fits", "20"]
MODEL = PrivateLogisticRegression(2.0, 1e-5, classes=[0, 1], solver="dp-gd")


@pytest.fixture(scope="module")
def result():
    return audit_plan(MODEL.plan(200, 2), attacks=["replay", "black-box"], fits=20, random_state=0)


@pytest.fixture(scope="module")
def content():
    rng = np.random.default_rng(0)
    return content_of(dataclasses.replace(MODEL).fit(rng.normal(size=(200, 2)), rng.choice([0, 1], 200)))


def test_an_audit_prints_lower_bounds_and_writes_a_picture_and_json(tmp_path, capsys):
    picture, written = tmp_path / "audit.png", tmp_path / "audit.json"
    assert run_with(["audit", *PUBLIC, "--attack", "black-box", "-o", str(picture), "--json", str(written)]) == 0
    printed = capsys.readouterr().out
    assert "promised:   ε = 2 at δ = 1e-05, adjacency replace_one; proved: ε ≤ 2" in printed
    assert "black box:  ε ≥ 0.00; " in printed
    assert "(20 fits)" in printed
    assert "verdict:    nothing contradicts the guarantee, at confidence 95 %" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert json.loads(written.read_text())["kept"] is True
    assert str(read_audit(written)) in printed


def test_a_broken_promise_is_exit_code_1(capsys):
    (half,) = [broken for broken in BROKEN if broken.name == "rows not clipped"]
    with half.change():
        assert run_with(["audit", *PUBLIC, "--attack", "replay"]) == 1
    printed = capsys.readouterr().out
    assert "THE GUARANTEE IS VIOLATED" in printed
    assert "times as far as claimed" in printed


def test_one_run_reads_a_table_and_says_whether_it_may_be_released(tmp_path, capsys):
    rng = np.random.default_rng(0)
    table = tmp_path / "people.csv"
    np.savetxt(
        table,
        np.column_stack([rng.normal(size=(300, 2)), rng.integers(0, 2, 300)]),
        "%g",
        ",",
        header="a,b,y",
        comments="",
    )
    command = ["audit", str(table), "--target", "y", "--classes", "0,1", "--epsilon", "1", "--delta", "1e-6"]
    command += ["--attack", "one-run", "--canaries", "40"]
    assert run_with(command) == 0
    printed = capsys.readouterr().out
    assert "of 20 guesses about 40 canaries were right (1 fit)" in printed
    assert "n = 340" in printed
    assert "NOT FOR RELEASE: the fit was not charged to a budget" in printed
    ledger = str(tmp_path / "ledger.db")
    assert run_with(["budget", "create", "people", "--epsilon", "3", "--delta", "1e-4", "--ledger", ledger]) == 0
    assert run_with([*command, "--dataset", "people", "--ledger", ledger]) == 0
    assert "charged to the budget of people" in capsys.readouterr().out
    assert run_with(["budget", "show", "people", "--ledger", ledger]) == 0
    assert run_with([*command, "--seed", "1"]) == 0
    assert "NOT FOR RELEASE: the noise and the coins came from a seed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epsilon", "1", "--delta", "1e-5"], "pass --n and --p"),
        (["--n", "200", "--p", "2"], "pass --epsilon, or a model file"),
        (["--of", "model.json", *PUBLIC], "--n cannot be combined with --of"),
        (["--of", "model.json", "--penalty", "0.1"], "--penalty cannot be combined with --of"),
        (["people.csv", "--of", "model.json"], "TABLE cannot be combined with --of"),
        (["--of", "{tmp}/model.json"], "model.json cannot be read"),
        ([*PUBLIC, "--attack", "one-run"], "requires a TABLE"),
        (["people.csv", *PUBLIC], "requires a TABLE"),
        ([*PUBLIC, "--dataset", "people"], "--dataset requires a TABLE"),
        ([*PUBLIC, "--attack", "replay", "-o", "{tmp}/a.png"], "no curve to draw"),
        ([*PUBLIC, "--json", "{tmp}/nowhere/a.json"], "cannot be written"),
        ([*PUBLIC, "--confidence", "1"], "confidence must lie in"),
        ([*PUBLIC, "--noise", "none"], "no guarantee to audit"),
        (["people.csv", *PUBLIC, "--attack", "one-run", "-o", "{tmp}/a.png"], "no curve to draw"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_one_line(arguments, words, tmp_path, capsys):
    assert run_with(["audit", *(argument.format(tmp=tmp_path) for argument in arguments)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_result_survives_a_file(result, tmp_path):
    path = tmp_path / "audit.json"
    path.write_text(json.dumps(result.to_dict()))
    assert read_audit(path) == result


@pytest.mark.parametrize("change", [{"version": 2}, {"n": "200"}, {"attacks": [{}]}, {"plan": 7}, {"epsilon": "x"}])
def test_another_file_is_no_result(result, tmp_path, change):
    path = tmp_path / "audit.json"
    path.write_text(json.dumps(result.to_dict() | change))
    with pytest.raises(InvalidParameterError, match="not the result of an audit"):
        read_audit(path)
    path.write_text("[")
    with pytest.raises(InvalidParameterError, match="not the result of an audit"):
        read_audit(path)


def test_the_page_of_a_model_shows_an_audit_of_its_plan(result, content, tmp_path, capsys):
    page = render_report(content, audit=result)
    assert "No attack contradicts the guarantee." in page
    assert "What attacks found" in page
    assert ". All of it holds with a confidence of 95 %." in " ".join(page.split())
    assert "What attacks found" not in render_report(content)
    broken = dataclasses.replace(result, attacks=(Attack("low bits", 3.0, 50, "all of them", ("<b>bits</b>",)),))
    page = render_report(content, audit=broken)
    assert "AN ATTACK CONTRADICTS THE GUARANTEE." in page
    assert "&lt;b&gt;bits" in page


def test_the_fit_of_a_model_file_is_audited_without_its_options_and_belongs_on_its_page(tmp_path, capsys):
    rng, bins = np.random.default_rng(0), {"encode": "bins", "bins": "private", "n_bins": 4}
    columns = {"age": Number((0, 120), **bins), "pay": Number((0, 9), **bins)}
    table = {"age": rng.uniform(0, 120, 400), "pay": rng.uniform(0, 9, 400), "y": rng.choice([0, 1], 400)}
    model = PrivateLogisticRegression(schema=Schema(columns, Classes("y", [0, 1])))
    search = PrivateSearch(model, {"penalty": [0.1, 0.01]}, epsilon=3.0, delta=1e-5, noisy_trials=True)
    chosen = search.fit(pa.table(table)).best_estimator_
    path, written = tmp_path / "model.json", tmp_path / "audit.json"
    save_model(chosen, path)
    assert run_with(["audit", "--of", str(path), "--attack", "replay", "--seed", "0", "--json", str(written)]) == 0
    assert f"promised:   ε = {chosen.privacy_.epsilon:g} at δ = 1e-05" in capsys.readouterr().out
    content = read_content(path)
    assert read_audit(written).plan == name_of_plan(content["privacy"], event_to_list(chosen.event_))


def test_an_audit_of_another_plan_is_refused(content, tmp_path, capsys):
    other = audit_plan(MODEL.plan(201, 2), attacks=["replay"], random_state=0)
    with pytest.raises(InvalidParameterError, match="another plan"):
        render_report(content, audit=other)
    rng = np.random.default_rng(0)
    fitted = dataclasses.replace(MODEL).fit(rng.normal(size=(200, 2)), rng.choice([0, 1], 200))
    save_model(fitted, tmp_path / "model.json")
    (tmp_path / "audit.json").write_text(json.dumps(other.to_dict()))
    command = ["report", str(tmp_path / "model.json"), "--audit", str(tmp_path / "audit.json")]
    assert run_with(command) == 2
    assert "another plan" in capsys.readouterr().err
    assert not (tmp_path / "model.html").exists()
    same = audit_plan(MODEL.plan(200, 2), attacks=["replay"], random_state=0)
    (tmp_path / "audit.json").write_text(json.dumps(same.to_dict()))
    assert run_with(command) == 0


def test_the_picture_needs_a_curve(result):
    plan = MODEL.plan(200, 2)
    assert draw_audit(result, plan).startswith(b"\x89PNG")
    with pytest.raises(InvalidParameterError, match="a plot needs"):
        draw_audit(dataclasses.replace(result, attacks=result.attacks[:1]), plan)


def test_a_result_names_the_best_attack(result):
    attacks = (Attack("replay", None, 2, "x"), Attack("black box", 0.5, 9, "y"), Attack("low bits", 0.7, 3, "z"))
    found = dataclasses.replace(result, attacks=attacks)
    assert (found.best.name, found.lower_bound, found.fits, found.kept) == ("low bits", 0.7, 14, True)
    assert dataclasses.replace(found, attacks=()).best is None
    assert isinstance(found, AuditResult)


# --- Units ---


SCHEMA = """
[table]
n = 40
unit = "person_id"
max_rows = 3

[target]
column = "y"
classes = [0, 1]

[columns.a]
range = [0, 1]
"""


def test_an_audit_of_a_schema_with_a_unit_attacks_units_and_says_so(tmp_path, capsys):
    (tmp_path / "people.toml").write_text(SCHEMA)
    public = ["--schema", str(tmp_path / "people.toml"), "--epsilon", "2", "--delta", "1e-5", "--solver", "dp-gd"]
    written = tmp_path / "audit.json"
    assert run_with(["audit", *public, "--attack", "replay", "--seed", "0", "--json", str(written)]) == 0
    assert "protected:  one person, with up to 3 rows; n counts them" in capsys.readouterr().out
    assert read_audit(written).unit == "one person, with up to 3 rows"
    rng = np.random.default_rng(0)
    rows = [f"{rng.random():.3f},{person},{rng.integers(2)}" for person in range(40) for _ in range(person % 5 + 1)]
    (tmp_path / "people.csv").write_text("\n".join(["a,person_id,y", *rows]))
    assert run_with(["audit", str(tmp_path / "people.csv"), *public, "--attack", "one-run", "--canaries", "8"]) == 0
    printed = capsys.readouterr().out
    assert "canaries (person: 3 rows each) were right" in printed
    assert "(n = 48," in printed


def test_the_page_of_a_model_says_that_units_were_attacked():
    rng = np.random.default_rng(0)
    model = PrivateLogisticRegression(
        2.0, 1e-5, classes=[0, 1], solver="dp-gd", unit="person_id", max_rows_per_unit=3, row_warnings=False
    )
    groups = np.repeat(np.arange(100), 2)
    fitted = content_of(model.fit(rng.normal(size=(200, 2)), rng.choice([0, 1], 200), groups=groups))
    result = audit_plan(model.plan(100, 2), attacks=["replay"], random_state=0)
    assert "in tables that differ in one person, with up to 3 rows." in render_report(fitted, None, "m.json", result)
    alone = audit_plan(MODEL.plan(100, 2), attacks=["replay"], random_state=0)
    with pytest.raises(InvalidParameterError, match="another plan"):
        render_report(fitted, None, "m.json", alone)
