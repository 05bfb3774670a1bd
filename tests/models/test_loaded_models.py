"""What a loaded model is: the parameters of the fit, and predictions spelled as the table spells its target."""

import numpy as np
import pandas as pd
import pytest

from dperm import (
    Amount,
    Classes,
    Number,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Schema,
    load_model,
    load_schema,
    save_model,
)
from dperm.cli.main import run_with
from dperm.unsafe import draft_schema

N = 400
COLUMNS = {"a": Number((-2, 2)), "b": Number((-2, 2))}
GUARANTEE = ["--epsilon", "4", "--delta", "1e-5"]


def table(target):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.uniform(-2, 2, N), "b": rng.uniform(-2, 2, N), "who": np.arange(N) % 200})
    return rows.assign(goal=target(rows["a"] > 0))


MODELS = [
    PrivateLogisticRegression(2.5, 1e-4, adjacency="add_remove", n=N, schema=Schema(COLUMNS, Classes("goal", [0, 1]))),
    PrivateLogisticRegression(2.5, 1e-4, classes=[0, 1], penalty=0.01, row_norm=3.0, fit_intercept=False),
    PrivateLinearRegression(2.5, 1e-4, schema=Schema(COLUMNS, Amount("goal", (-1, 2))), solver="dp-gd"),
    PrivateLogisticRegression(2.5, 1e-4, classes=[0, 1], unit="who", max_rows_per_unit=2),
    PrivateLogisticRegression(
        2.5, 1e-4, schema=Schema({**COLUMNS}, Classes("goal", [0, 1])), unit="who", max_rows_per_unit=2
    ),
]


@pytest.mark.parametrize("model", MODELS)
def test_a_loaded_model_has_the_parameters_of_its_fit(model, tmp_path):
    rows = table(lambda positive: positive.astype(int))
    columns = ["a", "b"] if model.unit is None else ["a", "b", "who"]
    fitted = model.fit(*((rows[columns], rows["goal"]) if model.schema is None else (rows,)))
    save_model(fitted, tmp_path / "model.json")
    loaded, asked = load_model(tmp_path / "model.json").get_params(deep=False), fitted.get_params(deep=False)
    # What ran is in the file by its own name; n and a schema's unit stand where the statement has them.
    for name in ("solver", "n", *(("schema", "unit", "max_rows_per_unit") if model.schema else ())):
        loaded.pop(name)
        asked.pop(name)
    assert loaded == asked
    again = load_model(tmp_path / "model.json")
    assert again.options().protected_unit == fitted.options().protected_unit
    if model.schema is not None:
        assert again.schema.columns == fitted.plan(fitted.privacy_.n, 2).schema.columns
    planned, was = again.plan(again.privacy_.n, 2), fitted.privacy_
    assert (planned.statement.epsilon, planned.statement.delta) == (was.epsilon, was.delta)
    assert (planned.statement.adjacency, planned.statement.mechanism) == (was.adjacency, was.mechanism)


def test_a_loaded_model_without_noise_is_asked_for_none(tmp_path):
    rows = table(lambda positive: positive.astype(int))
    save_model(
        PrivateLogisticRegression(noise=None, classes=[0, 1]).fit(rows[["a", "b"]], rows["goal"]), tmp_path / "m"
    )
    assert load_model(tmp_path / "m").noise is None


SPELLINGS = {
    "python.csv": lambda positive: positive,
    "upper.csv": lambda positive: np.where(positive, "TRUE", "FALSE"),
    "mixed.csv": lambda positive: np.where(np.arange(N) == 0, "true", np.where(positive, "True", "False")),
    "truth.parquet": lambda positive: positive,
    "whole.parquet": lambda positive: positive.astype(int),
    "words.parquet": lambda positive: np.where(positive, "True", "False"),
}
SPELLED = {
    "python.csv": ["False", "True"], "upper.csv": ["FALSE", "TRUE"], "mixed.csv": ["False", "True"],
    "truth.parquet": [False, True], "whole.parquet": [0, 1], "words.parquet": ["False", "True"],
}  # fmt: skip


def written(path, name):
    rows = table(SPELLINGS[name]).drop(columns="who")
    rows.to_csv(path / name, index=False) if name.endswith("csv") else rows.to_parquet(path / name)
    return path / name


def labels_of(path):
    rows = pd.read_parquet(path)["prediction"] if path.suffix == ".parquet" else pd.read_csv(path, dtype=str).iloc[:, 0]
    return sorted(set(rows))


@pytest.mark.parametrize("name", SPELLINGS)
@pytest.mark.filterwarnings("ignore")
def test_predictions_are_spelled_as_the_target_of_the_table(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, name)
    assert run_with(["schema", "draft", str(path), "--target", "goal", "-o", "t.toml"]) == 0
    draft = (tmp_path / "t.toml").read_text(encoding="utf-8")
    (tmp_path / "t.toml").write_text(draft.replace("derived_from_data = true\n", ""), encoding="utf-8")
    assert list(load_schema("t.toml").target.labels) == SPELLED[name]
    by_name = ["--target", "goal"]
    for number, how in enumerate((["--schema", "t.toml"], by_name, [*by_name, "--classes", classes_of(name)])):
        predicted = tmp_path / f"{number}{path.suffix}"
        assert run_with(["fit", str(path), *how, *GUARANTEE, "-o", f"{number}.json"]) == 0
        assert run_with(["predict", f"{number}.json", str(path), "-o", str(predicted)]) == 0
        expected = list(map(str, SPELLED[name])) if number == 2 or path.suffix == ".csv" else SPELLED[name]
        assert labels_of(predicted) == expected


def classes_of(name):
    return ",".join(map(str, SPELLED[name]))


@pytest.mark.parametrize("name", SPELLINGS)
def test_declared_classes_are_found_however_truth_is_spelled(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, name)
    declared = ["--target", "goal", "--classes", classes_of(name)]
    assert run_with(["fit", str(path), *declared, *GUARANTEE, "-o", "m.json"]) == 0
    capsys.readouterr()
    assert run_with(["diagnose", "m.json", str(path), "--target", "goal"]) == 0
    assert "none with an undeclared label" in capsys.readouterr().out


def test_a_frame_of_truth_values_gets_truth_values():
    rows = table(lambda positive: positive).drop(columns="who")
    for frame, kind in ((rows, bool), (rows.astype({"goal": object}), str)):
        schema, _ = draft_schema(frame, "goal")
        assert [type(label) for label in schema.target.labels] == [kind, kind]
