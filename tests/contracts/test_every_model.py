"""Every model that the registry finds works everywhere: Python, command line, model file, verification and report."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dperm import Guarantee, InvalidParameterError, load_model, load_schema, private_evaluate, save_model
from dperm.cli.main import run_with
from dperm.files.model_file import read_content
from dperm.ledger import Budget
from dperm.models.base import PrivateEstimator
from dperm.models.own_function import OwnFunction
from dperm.models.registry import models
from dperm.models.regressor import LinearRegressor
from dperm.report import write_report
from dperm.schema import Classes
from dperm.verify.release import verify

N = 3000
ROWS = np.random.default_rng(7).normal(size=(N, 3)) / 3.0
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c"])
MODELS = list(models().items())
ON_COMMAND_LINE = [(kind, model) for kind, model in MODELS if model.on_command_line]

SCHEMA = """
[target]
column = "goal"
{target}
[columns.a]
range = [-1, 1]
[columns.b]
range = [-1, 1]
"""


def targets_for(model):
    """Labels, or counts that every regression can take."""
    signal = 2.0 * ROWS[:, 0]
    if model.target_kind is Classes:
        return np.where(signal > 0.0, "yes", "no")
    return np.random.default_rng(8).poisson(np.exp(signal)).clip(max=5).astype(float)


def with_classes(model, **parameters):
    own = {"classes": ["no", "yes"]} if model.target_kind is Classes else {"target_bound": 5.0}
    if issubclass(model, LinearRegressor):
        own["row_norm"] = 1.0
    return own_function(model(**parameters, **own))


def line(params, x):
    """A linear model, as somebody's own function."""
    return x @ params["slope"][: x.shape[0]] + params["offset"]


def own_function(model):
    if isinstance(model, OwnFunction):
        model.model, model.params = line, {"slope": np.zeros(3), "offset": np.zeros(())}
    return model


def as_csv(path, model):
    lines = [f"{a},{b},{goal}" for (a, b), goal in zip(ROWS[:, :2], targets_for(model), strict=True)]
    path.write_text("\n".join(["a,b,goal", *lines]) + "\n")
    return path


def as_schema(path, model):
    path.write_text(
        SCHEMA.format(target='classes = ["no", "yes"]' if model.target_kind is Classes else "range = [0, 5]")
    )
    return path


def test_the_registry_has_every_estimator_that_is_exported():
    import dperm

    exported = {getattr(dperm, name) for name in dperm.__all__ if name.startswith("Private")}
    assert set(models().values()) == {cls for cls in exported if issubclass(cls, PrivateEstimator)}


@pytest.mark.parametrize(("kind", "model"), MODELS)
def test_a_model_has_a_title_and_is_the_same_after_cloning(kind, model):
    assert kind == model.kind
    assert model.title
    first = model(epsilon=0.5, random_state=3)
    assert clone(first).get_params() == first.get_params()
    assert set(model.own_parameters) <= set(first.get_params())


@pytest.mark.long
@pytest.mark.parametrize(("kind", "model"), MODELS)
def test_a_model_predicts_the_same_after_a_model_file_and_is_verified(kind, model, tmp_path):
    found = with_classes(model, epsilon=2.0, delta=1e-6).fit(FRAME, targets_for(model))
    save_model(found, tmp_path / "model.json")
    again = own_function(load_model(tmp_path / "model.json"))
    assert type(again) is model
    assert np.array_equal(found.predict(FRAME), again.predict(FRAME))
    assert all(finding.holds for finding in verify(read_content(tmp_path / "model.json")))
    scored = private_evaluate(again, FRAME, targets_for(model), epsilon=1.0)
    assert scored.model_fingerprint == read_content(tmp_path / "model.json")["fingerprint"]
    page = write_report(tmp_path / "model.json", evaluation=scored.to_dict()).read_text()
    assert model.title.capitalize() in page
    assert all(name in page for name in scored.table)


@pytest.mark.parametrize(("kind", "model"), MODELS)
def test_the_plain_scikit_learn_model_predicts_the_same(kind, model):
    if model.to_sklearn is PrivateEstimator.to_sklearn:
        pytest.skip("scikit-learn has no such model")
    found = with_classes(model, epsilon=2.0, delta=1e-6).fit(ROWS, targets_for(model))
    plain = found.to_sklearn()
    expected, got = found.predict(ROWS), plain.predict(ROWS)
    assert (expected == got).all() if model.target_kind is Classes else np.allclose(expected, got, rtol=1e-12)


@pytest.mark.parametrize(("kind", "model"), ON_COMMAND_LINE)
def test_the_command_line_fits_charges_predicts_verifies_and_reports(kind, model, tmp_path, own_folders, capsys):
    table, schema, file = as_csv(tmp_path / "t.csv", model), as_schema(tmp_path / "t.toml", model), tmp_path / "m.json"
    Budget.create("people", Guarantee(2.0, 1e-5))
    options = ["--model", kind, "--epsilon", "1", "--delta", "1e-6", "--dataset", "people", "-o", str(file)]
    assert run_with(["fit", str(table), "--schema", str(schema), *options]) == 0
    assert run_with(["predict", str(file), str(table), "-o", str(tmp_path / "p.csv")]) == 0
    assert len((tmp_path / "p.csv").read_text().splitlines()) == N + 1
    assert run_with(["verify", str(file)]) == 0
    assert run_with(["report", str(file)]) == 0
    assert "in the ledger was charged for this release" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize(("kind", "model"), MODELS)
def test_with_hardly_any_noise_a_model_learns_the_signal(kind, model):
    """Far above chance, or above the mean, on rows that hold one strong signal."""
    found = with_classes(model, epsilon=1000.0, delta=1e-6, penalty=None, random_state=0).fit(ROWS, targets_for(model))
    at_chance = 0.5 if model.target_kind is Classes else 0.0
    assert found.score(ROWS, targets_for(model)) > at_chance + 0.15


@pytest.mark.parametrize(("kind", "model"), MODELS)
def test_a_target_of_the_other_kind_is_refused_in_one_sentence(kind, model, tmp_path):
    other = next(one for one in models().values() if one.target_kind is not model.target_kind)
    asked = own_function(model(schema=load_schema(as_schema(tmp_path / "t.toml", other))))
    with pytest.raises(InvalidParameterError, match=f"{model.title} needs a schema whose target has"):
        asked.options()


@pytest.mark.parametrize("name", sorted({name for model in models().values() for name in model.own_parameters}))
def test_an_option_of_other_models_is_refused_and_names_them(name, capsys):
    unable = next((kind for kind, model in ON_COMMAND_LINE if name not in model.own_parameters), None)
    if unable is None:
        pytest.skip("every model has it")
    value = "1.0" if name != "classes" else "a,b"
    arguments = ["plan", "--n", "100", "--p", "2", "--epsilon", "1", "--delta", "1e-6", "--model", unable]
    assert run_with([*arguments, f"--{name.replace('_', '-')}", value]) == 2
    assert "requires --model" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [0, "", (), 1.0])
@pytest.mark.parametrize(("kind", "model"), MODELS)
def test_what_is_no_domain_is_refused_whatever_its_truth_value(kind, model, wrong):
    asked = with_classes(model, domain=wrong)
    with pytest.raises(InvalidParameterError, match="domain must be a dperm Domain"):
        asked.options()
