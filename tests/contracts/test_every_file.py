"""Every loss, regularizer, domain, solver and model, also a user's own: fit, save, verify, report."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from contracts.discovered import DOMAINS, REGULARIZERS, concrete, examples
from contracts.own_parts import AnyClassifier, AnyRegressor, NotAsData, OwnDomain, OwnLoss, OwnPenalty, OwnSolver
from dperm import (
    InvalidParameterError,
    PrivateJaxClassifier,
    PrivateLogisticRegression,
    PrivateSearch,
    UnsupportedProblemError,
    load_model,
    save_model,
)
from dperm.files.described import NotDescribableError, NotImportedError
from dperm.files.model_file import read_content, release_text
from dperm.problem.losses import Loss
from dperm.report import write_report
from dperm.solvers import SOLVERS
from dperm.verify.release import verify

pytestmark = [
    pytest.mark.usefixtures("own_folders"),
    pytest.mark.filterwarnings("ignore::dperm.LargeDeltaWarning"),
]

N = 300
ROWS = np.random.default_rng(0).normal(size=(N, 6)) / 6.0
LABELS = np.where(ROWS[:, 0] > 0.0, "yes", "no")
LOSSES = [*examples(Loss), OwnLoss()]
ASKED = {"epsilon": 2.0, "delta": 1e-6, "row_norm": 1.0}


def goes_all_the_way(model, tmp_path):
    """Save, read, verify and report a fitted model."""
    path = tmp_path / "model.json"
    save_model(model, path)
    content = read_content(path)
    assert [finding.text for finding in verify(content) if not finding.holds] == []
    save_model(load_model(path), tmp_path / "again.json")
    assert read_content(tmp_path / "again.json") == content
    page = write_report(path).read_text(encoding="utf-8")
    assert "NOT VERIFIED" not in page
    return content


def fit_somehow(rows, **asked):
    """A fit by the first solver that takes the problem: which one is another test's matter."""
    for solver in ("auto", "dp-gd", "talwar-mirror", "talwar-frank-wolfe", "dp-sgd", "rrpsgd"):
        try:
            model = PrivateLogisticRegression(**ASKED, classes=["no", "yes"], solver=solver, **asked)
            return model.fit(rows, LABELS)
        except UnsupportedProblemError:
            continue
    raise AssertionError("no solver takes it")


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_every_loss_goes_into_a_file_that_verifies(loss, tmp_path):
    if loss.clipped_range is not None:
        bound = max(map(abs, loss.clipped_range))
        model = AnyRegressor(**ASKED, loss=loss, target_bound=bound, penalty=0.1).fit(ROWS, ROWS[:, 0] ** 2)
    else:
        classes = list(range(max(2, loss.n_outputs)))
        model = AnyClassifier(**ASKED, loss=loss, classes=classes, penalty=0.1).fit(ROWS, np.arange(N) % len(classes))
    content = goes_all_the_way(model, tmp_path)
    assert content["plan"]["problem"]["loss"]["class"].endswith(type(loss).__name__)


@pytest.mark.parametrize("regularizer", [*REGULARIZERS, OwnPenalty()], ids=repr)
def test_every_regularizer_goes_into_a_file_that_verifies(regularizer, tmp_path):
    content = goes_all_the_way(fit_somehow(ROWS[:, :5], penalty=regularizer), tmp_path)
    assert content["plan"]["problem"]["regularizer"]["class"].endswith(type(regularizer).__name__)


def width_of(domain):
    for width in (6, 2, 11, 50):
        try:
            domain.check_dimension(width)
        except InvalidParameterError:
            continue
        return width
    raise AssertionError("no width fits")


@pytest.mark.parametrize("domain", [*DOMAINS, OwnDomain()], ids=repr)
def test_every_domain_goes_into_a_file_that_verifies(domain, tmp_path):
    rows = np.tile(ROWS, 9)[:, : width_of(domain)]
    content = goes_all_the_way(fit_somehow(rows, domain=domain, penalty=None, fit_intercept=False), tmp_path)
    assert content["plan"]["problem"]["domain"]["class"].endswith(type(domain).__name__)


def test_the_solvers_of_the_package_are_verified_one_by_one_elsewhere():
    """integration/test_verify_every_solver.py has them all, and contracts/test_every_model.py the models."""
    assert set(SOLVERS) >= {"dp-gd", "dp-objective"}


def test_a_file_of_parts_of_one_s_own_is_verified_by_whoever_imports_them(tmp_path):
    model = AnyRegressor(**ASKED, loss=OwnLoss(), penalty=OwnPenalty(), domain=OwnDomain(), solver=OwnSolver())
    content = goes_all_the_way(model.fit(ROWS, ROWS[:, 0]), tmp_path)
    assert content["kind"] == "contracts.own_parts:AnyRegressor"
    assert content["plan"]["solver"]["class"] == "contracts.own_parts:OwnSolver"
    folder = str(Path(__file__).parents[1])
    run = "import sys; from dperm.cli.main import run_with; sys.exit(run_with(sys.argv[1:]))"
    call = [sys.executable, "-c", run, "verify", str(tmp_path / "model.json")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([folder, *sys.path])}
    alone = subprocess.run(call, capture_output=True, text=True, check=False, env=environment)
    assert alone.returncode == 2
    assert "which is not imported: dperm verify --import contracts.own_parts" in alone.stderr
    named = subprocess.run(
        [*call, "--import", "contracts.own_parts"], capture_output=True, text=True, check=False, env=environment
    )
    assert (named.returncode, named.stderr) == (0, "")


@pytest.mark.parametrize("name", ["os:system", "contracts.own_parts:NotAsData.__init__", "no.such:Thing", "Solver"])
def test_a_file_runs_and_imports_nothing_that_it_names(name, tmp_path):
    content = read_content_of(PrivateLogisticRegression(**ASKED, classes=["no", "yes"]).fit(ROWS, LABELS), tmp_path)
    content["plan"]["problem"]["regularizer"] = {"class": name, "strength": 0.1}
    before = set(sys.modules)
    if ":" in name:
        with pytest.raises(NotImportedError, match="is not imported"):
            verify(content)
    else:
        assert not all(finding.holds for finding in verify(content))
    assert not {module for module in set(sys.modules) - before if module.startswith("no")}


def read_content_of(model, tmp_path):
    save_model(model, tmp_path / "model.json")
    return read_content(tmp_path / "model.json")


@pytest.mark.parametrize("searching", [False, True])
def test_what_no_file_can_describe_is_refused_before_the_fit_where_a_file_is_asked_for(searching, tmp_path):
    model = PrivateLogisticRegression(row_norm=1.0, classes=["no", "yes"], penalty=NotAsData(0.1), solver="dp-gd")
    if searching:
        model = PrivateSearch(model, {"fit_intercept": [True, False]}, epsilon=2.0, delta=1e-6, noisy_trials=True)
    with pytest.raises(NotDescribableError, match="make it a frozen dataclass"):
        model.fit(ROWS, LABELS, save=lambda fitted: save_model(fitted, tmp_path / "model.json"))
    fitted = model.fit(ROWS, LABELS)
    with pytest.raises(InvalidParameterError, match="contains code, or an object that is not a frozen dataclass"):
        save_model(fitted.best_estimator_ if searching else fitted, tmp_path / "model.json")
    assert not (tmp_path / "model.json").exists()


def test_a_function_of_one_s_own_is_described_by_the_shapes_of_its_parameters(tmp_path):
    pytest.importorskip("jax")
    model = PrivateJaxClassifier(
        2.0, 1e-6, classes=["no", "yes"], model=lambda w, x: x @ w["a"] + w["b"],
        params={"a": np.zeros(6), "b": np.zeros(())},
    )  # fmt: skip
    content = goes_all_the_way(model.fit(ROWS, LABELS), tmp_path)
    assert content["plan"]["problem"]["loss"]["params"] == [["a", [6]], ["b", []]]
    assert "lambda" not in release_text(model)


def test_every_loss_of_the_package_is_among_these():
    assert {type(loss) for loss in LOSSES} == {*concrete(Loss), OwnLoss}
