"""The command line, as a person types it."""

import json

import numpy as np
import pyarrow
import pytest

from dperm import PrivateLogisticRegression, PrivateSearch
from dperm.cli.budget import budget
from dperm.cli.main import COMMANDS, app, run_with
from dperm.cli.schema import schema
from dperm.files.model_file import load_model
from dperm.solvers import SOLVERS


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3)) / 3
    lines = ["a,b,c,kind,price"]
    for x in X:
        lines.append(f"{x[0]:.5f},{x[1]:.5f},{x[2]:.5f},{'high' if x[0] > 0 else 'low'},{x[0] / 2 + x[1] / 4:.5f}")
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def fit(table, *more, epsilon="2", delta="1e-6", target="kind"):
    model = table.parent / "model.json"
    arguments = [
        "fit",
        str(table),
        "--target",
        target,
        "--epsilon",
        epsilon,
        "--delta",
        delta,
        "-o",
        str(model),
        "--force",
    ]
    return run_with([*arguments, *more]), model


GOOD = ("--features", "a,b,c", "--classes", "low,high")


def events_in(content):
    """What the answers of a fit cost, one of each query."""
    return [event for query in content["plan"]["queries"] for event in query["events"]]


def test_fit_writes_a_model_and_prints_the_statement(table, capsys):
    code, path = fit(table, *GOOD)
    out = capsys.readouterr().out
    assert code == 0
    assert out.startswith("promised:   (ε = 2, δ = 1e-06)-differential privacy, adjacency replace_one")
    assert "FOR RELEASE" in out
    content = json.loads(path.read_text())
    assert content["columns"] == ["a", "b", "c"]
    assert content["classes"] == ["low", "high"]
    assert content["privacy"]["for_release"] is True
    assert [event["mechanism"] for event in events_in(content)] == ["objective perturbation"]


def test_predict_reads_the_model_and_writes_one_column(table, capsys):
    _, path = fit(table, *GOOD)
    output = table.parent / "predictions.csv"
    assert run_with(["predict", str(path), str(table), "-o", str(output)]) == 0
    predicted = output.read_text().split()
    assert predicted[0] == "prediction"
    truth = [line.split(",")[3] for line in table.read_text().split()[1:]]
    assert np.mean(np.array(predicted[1:]) == np.array(truth)) > 0.9
    capsys.readouterr()
    assert run_with(["predict", str(path), str(table)]) == 0
    assert capsys.readouterr().out.split() == predicted


def test_a_missing_number_is_predicted_as_0_without_a_schema(table, capsys):
    code, path = fit(table, "--features", "a,b,c", "--model", "linear", "--row-norm", "1", target="price")
    assert code == 0
    predictions = []
    for row in ("0.5,,0.1", "0.5,0,0.1", "0.5,none,0.1"):
        rows = table.with_name("rows.csv")
        rows.write_text(f"a,b,c\n{row}\n0.1,0.2,0.3\n0.1,0.2,0.3\n0.1,0.2,0.3\n")
        capsys.readouterr()
        assert run_with(["predict", str(path), str(rows)]) == 0
        predictions.append(capsys.readouterr().out)
    assert "nan" not in predictions[0]
    assert predictions[0] == predictions[1] == predictions[2]


def test_parquet_and_csv_give_the_same_fit(table):
    from pyarrow import csv, parquet

    parquet.write_table(csv.read_csv(table), table.with_suffix(".parquet"))
    _, path = fit(table, *GOOD, "--seed", "1")
    one = path.read_text()
    _, path = fit(table.with_suffix(".parquet"), *GOOD, "--seed", "1")
    assert path.read_text() == one


def test_linear_models_and_svc_can_be_fitted_and_loaded(table):
    code, path = fit(table, "--features", "a,b,c", "--model", "linear", "--row-norm", "1", target="price")
    assert code == 0
    model = load_model(path)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.predict(pyarrow.table({name: [0.0, 0.0] for name in "abc"})).shape == (2,)
    code, path = fit(table, *GOOD, "--model", "svc", "--penalty", "elastic-net:0.01:0.5", "--domain", "l2-ball:5")
    assert code == 0
    assert load_model(path).privacy_.for_release


def test_a_number_as_penalty_is_the_strength_of_an_l2_penalty_and_0_is_none(table):
    kinds = []
    for text in ("0.1", "l2:0.1", "0", "none"):
        code, path = fit(table, *GOOD, "--solver", "dp-gd", "--penalty", text, "--force")
        assert code == 0
        kinds.append(load_model(path).parameters_["penalty"])
    assert kinds[0] == kinds[1] != kinds[2] == kinds[3]


@pytest.mark.filterwarnings("always")
def test_a_seed_and_undeclared_classes_are_not_for_release(table, capsys):
    assert fit(table, *GOOD, "--seed", "3")[0] == 0
    assert "NOT FOR RELEASE: the noise came from a seed" in capsys.readouterr().out
    assert fit(table, "--features", "a,b,c")[0] == 0
    printed = capsys.readouterr()
    assert "NOT FOR RELEASE: the classes were read from the rows" in printed.out
    assert printed.err.startswith("dperm: warning: the classes were read from y")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": "0"}, "epsilon must be above 0"),
        ({"epsilon": "nan"}, "epsilon must be finite"),
        ({"epsilon": "one"}, "not a valid float"),
        ({"delta": "0.5"}, "lie strictly between 0 and 0.1"),
        ({"target": "income"}, "has no column 'income'"),
        ({"more": ("--features", "a,z")}, "has no column 'z'"),
        ({"more": ("--features", "a,kind", "--classes", "low,high")}, "cannot also be a feature"),
        ({"more": ("--features", "a,kind", "--model", "linear", "--row-norm", "1"), "target": "price"}, "holds text"),
        ({"more": ("--classes", "low")}, "at least two"),
        ({"more": ("--penalty", "l3:1")}, "--penalty"),
        ({"more": ("--penalty", "l2:x")}, "--penalty needs numbers"),
        ({"more": ("--penalty", "l2:0")}, "strength must be above 0"),
        ({"more": ("--penalty", "-1")}, "strength must be above 0"),
        ({"more": ("--penalty", "nan")}, "strength must be finite"),
        ({"more": ("--domain", "l2-ball:1:2:3")}, "too many numbers"),
        ({"more": ("--adjacency", "both")}, "--adjacency"),
        ({"more": ("--accountant", "moments")}, "--accountant"),
        ({"more": (*GOOD, "--accountant", "advanced-composition"), "epsilon": "50"}, "needs ε' ≤ 1"),
        ({"more": (*GOOD, "--accountant", "advanced-composition", "--noise", "paper")}, "certified noise"),
        ({"more": ("--row-norm", "-1")}, "row_norm must be above 0"),
        ({"more": ("--entry-bound", "0")}, "entry_bound must be above 0"),
        ({"more": ("--model", "linear", "--classes", "a,b"), "target": "price"}, "--classes requires"),
        ({"more": ("--colour", "red")}, "No such option"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two_and_writes_nothing(change, message, table, capsys):
    more = change.pop("more", GOOD)
    code, path = fit(table, *more, **change)
    printed = capsys.readouterr()
    assert code == 2
    assert message in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert printed.out == ""
    assert not path.exists()
    assert not list(table.parent.glob("*.part"))


@pytest.mark.parametrize("content", ["", "a,b\n", "a,a,kind\n1,2,low\n", "\x00\x01"])
def test_hostile_files_are_refused_in_one_line(content, tmp_path, capsys):
    path = tmp_path / "hostile.csv"
    path.write_text(content)
    assert fit(path, "--classes", "low,high")[0] == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_missing_and_wrong_files_are_refused_in_one_line(tmp_path, capsys):
    wrong = tmp_path / "model.json"
    wrong.write_text('{"format": "something else"}')
    text = tmp_path / "table.txt"
    text.write_text("a\n1\n")
    fake = tmp_path / "table.parquet"
    fake.write_text("not parquet")
    for arguments in (
        ["predict", str(tmp_path / "none.json"), str(text)],
        ["predict", str(wrong), str(text)],
        ["fit", str(text), "--target", "a", "--epsilon", "1", "--delta", "1e-6", "-o", str(tmp_path / "m.json")],
        ["fit", str(fake), "--target", "a", "--epsilon", "1", "--delta", "1e-6", "-o", str(tmp_path / "m.json")],
        ["fit", str(tmp_path / "no.csv"), "--target", "a", "--epsilon", "1", "--delta", "1e-6", "-o", "m.json"],
        ["fit", str(text), "--target", "a", "--epsilon", "1", "--delta", "1e-6", "-o", str(tmp_path / "no" / "m.json")],
        ["frobnicate"],
    ):
        assert run_with(arguments) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_the_accountant_of_the_appendix_is_named_in_the_statement_and_kept_in_the_file(table, capsys):
    code, path = fit(table, *GOOD, "--accountant", "advanced-composition")
    out = capsys.readouterr().out
    assert code == 0
    assert "; calibrated by advanced composition (Appendix B.1), accounted ε = " in out
    assert load_model(path).privacy_.accountant == "advanced-composition"
    assert str(load_model(path).privacy_) in out
    assert run_with(["plan", "--n", "3000", "--p", "3", "--epsilon", "2", "--delta", "1e-6", "--accountant",
                     "advanced-composition"]) == 0  # fmt: skip
    assert "calibrated by advanced composition" in capsys.readouterr().out


def test_plan_needs_no_data_and_names_the_privacy_cost(capsys):
    assert (
        run_with(["plan", "--n", "200000", "--p", "54", "--epsilon", "1", "--delta", "1e-6", "--solver", "dp-gd"]) == 0
    )
    out = capsys.readouterr().out
    for words in ("noise:", "multiplier", "G = 1.06587", "step_size", "passes over the rows", "Rényi accounting gives"):
        assert words in out
    assert run_with(["plan", "--n", "0", "--p", "54", "--epsilon", "1", "--delta", "1e-6"]) == 2


def test_solvers_are_listed_from_the_code(capsys):
    assert run_with(["solvers"]) == 0
    out = capsys.readouterr().out
    headings = ("source", "table", "utility", "gradients", "regularizers", "adjacency", "needs", "guarantee")
    for name, solver in SOLVERS.items():
        assert f"{name}: {solver.profile.summary}" in out
        assert solver.profile.utility in out
    assert all(out.count(f"  {heading}:") == len(SOLVERS) for heading in headings)
    for row in ("Chaudhuri", "Kifer", "Bassily", "Zhang", "Talwar et al. 2014", "Talwar et al. 2015", "this paper"):
        assert any(row in solver.profile.table for solver in SOLVERS.values())


def test_one_solver_can_be_looked_up(capsys):
    assert run_with(["solvers", "kifer-objective"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("kifer-objective: ")
    assert "dp-gd" not in out
    assert run_with(["solvers", "nothing"]) == 2
    assert "choose from dp-gd" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        [],
        *([name] for name in COMMANDS),
        *(["budget", name] for name in budget.commands),
        *(["schema", name] for name in schema.commands),
    ],
)
def test_every_help_text_has_an_example(command, capsys):
    assert run_with([*command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Example: dperm" in out


@pytest.mark.parametrize("name", ["fit", "plan", "tune", "audit"])
def test_the_command_line_and_python_have_the_same_default_delta(name):
    (option,) = (one for one in app.get_command(None, name).params if one.name == "delta")
    assert option.default == PrivateLogisticRegression().delta == PrivateSearch().delta == 1e-5
    assert option.show_default


@pytest.mark.filterwarnings("default::dperm.LargeDeltaWarning")
def test_a_plan_warns_of_a_large_delta_as_a_fit_does(capsys):
    assert run_with(["plan", "--n", "1000", "--p", "5", "--epsilon", "1", "--delta", "0.01"]) == 0
    assert "delta = 0.01 is not below 1/n = 0.001" in capsys.readouterr().err


def test_without_a_command_the_help_is_shown(capsys):
    assert run_with([]) == 0
    assert "Usage: dperm" in capsys.readouterr().out


def test_the_demo_prints_scores_statement_and_attack_and_draws(tmp_path, capsys):
    assert run_with(["demo", "--output", str(tmp_path), "--rows", "2000"]) == 0
    out = capsys.readouterr().out
    for words in (
        "Adult", "Covertype", "dperm, ε = 8", "gradient boosting, no privacy", "DP-EBM as published", "promised:",
        "an attacker", "picture:",
    ):  # fmt: skip
        assert words in out
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_frank_wolfe_is_planned_checked_and_written_with_its_events(table, capsys):
    options = ("--solver", "talwar-frank-wolfe", "--penalty", "none", "--domain", "l1-ball:5", "--entry-bound", "0.5")
    assert run_with(["plan", "--n", "10000", "--p", "50", "--epsilon", "1", "--delta", "1e-6", *options]) == 0
    printed = capsys.readouterr().out
    assert "noise:      Gumbel, multiplier" in printed
    assert "and ‖x‖_∞ ≤ 0.5" in printed
    assert "checked:    Rényi accounting gives ε ≤ 1" in printed
    code, path = fit(table, *GOOD, *options)
    assert code == 0
    content = json.loads(path.read_text())
    (query,) = content["plan"]["queries"]
    assert [event["mechanism"] for event in query["events"]] == ["bounded range"]
    assert query["count"] == content["plan"]["n_steps"] == content["privacy"]["n_steps"]
    assert content["privacy"]["entry_bound"] == 0.5
    code, path = fit(table, *GOOD, *options, "--noise", "paper")
    assert events_in(json.loads(path.read_text()))[0]["mechanism"] == "pure"


def test_plan_explains_how_auto_chooses(capsys):
    public = ["plan", "--n", "200000", "--p", "54", "--epsilon", "1", "--delta", "1e-6", "--explain"]
    assert run_with(public) == 0
    table = capsys.readouterr().out.split("expected excess risk")[1].splitlines()[1:-1]
    risks = [float(line.split()[1].replace("unknown", "inf")) for line in table]
    assert table[0].split()[0] == "dp-objective"
    assert risks == sorted(risks)
    assert len(table) > 10
    assert run_with([*public, "--noise", "paper"]) == 2
    assert "--explain" in capsys.readouterr().err


def test_the_file_of_a_model_says_all_that_its_privacy_cost_needs(table, capsys):
    code, path = fit(table, *GOOD, "--solver", "kifer-objective")
    capsys.readouterr()
    (event,) = events_in(json.loads(path.read_text()))
    assert code == 0
    assert event["mechanism"] == "objective perturbation"
    assert {"noise_multiplier", "log_jacobian", "monotone", "remainder", "sigmoidal", "slope_share"} < event.keys()
