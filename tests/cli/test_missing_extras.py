"""What a command needs and does not find is said in one sentence, before it reads or computes anything."""

import sys

import numpy as np
import pytest

from dperm import PrivateMLPClassifier, PrivateSearch, save_model
from dperm.cli.main import run_with

pytestmark = pytest.mark.usefixtures("own_folders")

SCHEMA = """
[table]
n = 1000
[target]
column = "rich"
classes = ["no", "yes"]
[columns.age]
range = [18, 90]
"""
GUARANTEE = ["--epsilon", "1", "--delta", "1e-6"]
FIT = ["fit", "not-there.csv", "--schema", "schema.toml", *GUARANTEE, "-o", "model.json"]
AUDIT = ["audit", "--model", "logistic", "--n", "100", "--p", "2", *GUARANTEE, "-o", "audit.png"]


def take_away(missing, monkeypatch):
    for name in [name for name in sys.modules if name == missing or name.startswith(f"{missing}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)


@pytest.mark.parametrize(
    ("command", "missing", "extra"),
    [
        (["plot", "not-there.json", "--what", "effects", "-o", "model.png"], "matplotlib", "plot"),
        (["demo"], "matplotlib", "plot"),
        (["reproduce", "figure-1"], "matplotlib", "plot"),
        (["reproduce", "nonconvex"], "jax", "jax"),
        (AUDIT, "matplotlib", "plot"),
        ([*FIT, "--cluster", "local[2]"], "distributed", "cluster"),
        ([*FIT, "--model", "mlp-classifier"], "jax", "jax"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_missing_extra_is_named_before_anything_is_read_or_computed(
    command, missing, extra, tmp_path, monkeypatch, capsys
):
    def computed(*_, **__):
        raise AssertionError("something was computed first")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dperm.audit.audit_plan", computed)
    monkeypatch.setattr("dperm.paper.studies.reproduce.lab.Lab.run", computed)
    monkeypatch.setattr("dperm.demo.load_covertype_table", computed)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    take_away(missing, monkeypatch)
    assert run_with(command) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"pip install 'dperm[{extra}]'" in said
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("tuned", [False, True], ids=["fit", "search"])
def test_a_network_is_not_verified_where_its_fit_cannot_be_planned_again(tuned, tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    rows, labels = rng.uniform(-0.5, 0.5, (200, 2)), rng.choice(["no", "yes"], 200)
    model = PrivateMLPClassifier(2.0, 1e-6, classes=["no", "yes"], hidden_layer_sizes=())
    if tuned:
        model = PrivateSearch(model, {"clip": [0.5, 1.0]}, epsilon=2.0, delta=1e-6)
    found = model.fit(rows, labels)
    save_model(found.best_estimator_ if tuned else found, tmp_path / "model.json")
    verify = ["verify", str(tmp_path / "model.json")]
    assert run_with(verify) == 0
    assert "verified: " in capsys.readouterr().out.splitlines()[-1]
    take_away("jax", monkeypatch)
    assert run_with(verify) == 1
    *findings, last = capsys.readouterr().out.splitlines()
    assert last == "NOT verified"
    (refused,) = (line for line in findings if line.startswith("NO "))
    assert "pip install 'dperm[jax]'" in refused
