"""Files of every kind that an earlier version wrote: they verify, whatever is worded or planned otherwise since."""

import json
import subprocess
import sys

import pytest

from dperm import load_model, save_model
from dperm.cli.main import run_with
from dperm.evaluation import design
from dperm.evaluation.design import Design
from dperm.files.model_file import read_content
from dperm.plan import intervals, search
from dperm.plan.options import FitOptions
from dperm.privacy.statement import FitStatement, PrivacyStatement
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Constants
from dperm.problem.problem import Problem
from dperm.solvers import SOLVERS
from dperm.transformers.base import PrivateTransformer
from dperm.verify.release import verify
from golden.releases.write import FOLDER, RELEASES

pytestmark = pytest.mark.usefixtures("own_folders")

FILES = sorted(path.stem for path in FOLDER.glob("*.json"))


def test_every_kind_of_release_has_a_golden_file():
    assert sorted(RELEASES) == FILES
    kinds = {json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["kind"] for name in FILES}
    transformers = {kind.__name__ for kind in PrivateTransformer.__subclasses__()}
    assert kinds >= {"logistic", "linear", "evaluation", "pipeline", "rows-per-unit", *transformers}


def planned_otherwise(*_, **__):
    raise AssertionError("nothing is planned again")


def reworded(*_):
    return ["in other words"]


@pytest.fixture
def later(monkeypatch):
    """A version that says everything in other words, and plans otherwise."""
    for kind in (PrivacyStatement, FitStatement):
        monkeypatch.setattr(kind, "_lines", reworded)
        monkeypatch.setattr(kind, "promise_in_words", "in other words")
    monkeypatch.setattr(PrivacyUnit, "word", "somebody")
    for solver in SOLVERS.values():
        monkeypatch.setattr(solver, "plan", planned_otherwise)
        monkeypatch.setattr(solver, "refusal", lambda *_: "no longer")
    monkeypatch.setattr(FitOptions, "plan", planned_otherwise)
    monkeypatch.setattr(FitOptions, "facts", planned_otherwise)
    monkeypatch.setattr(Design, "plan", planned_otherwise)
    monkeypatch.setattr(PrivateTransformer, "plan_for", planned_otherwise)
    monkeypatch.setattr(search, "plan_search", planned_otherwise)
    monkeypatch.setattr(design, "_LEAST_PROBABILITY", 0.5)
    monkeypatch.setattr(intervals, "_SHARES", (0.2,) * 5)
    constants = Problem.constants

    def with_other_guesses(self, n_features) -> Constants:
        """What only steers solvers may be bounded otherwise."""
        found = constants(self, n_features)
        object.__setattr__(found, "initial_gap", 2.0 * found.initial_gap)
        object.__setattr__(found, "gaussian_width", 2.0 * found.gaussian_width)
        return found

    monkeypatch.setattr(Problem, "constants", with_other_guesses)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_an_earlier_version_verifies_whatever_is_worded_or_planned_otherwise(name, later):
    findings = verify(read_content(FOLDER / f"{name}.json"))
    assert [finding.text for finding in findings if not finding.holds] == []
    assert any("independent check (interval arithmetic): ε ≤" in finding.text for finding in findings)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_an_earlier_version_is_read_written_and_reported(name, tmp_path):
    path = FOLDER / f"{name}.json"
    save_model(load_model(path), tmp_path / "again.json")
    assert read_content(tmp_path / "again.json") == read_content(path)
    assert run_with(["verify", str(path)]) == 0
    assert run_with(["report", str(path), "-o", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "NOT VERIFIED" not in page
    assert read_content(path)["fingerprint"] in page


def test_no_file_holds_a_sentence_that_verify_would_compare():
    for name in FILES:
        content = read_content(FOLDER / f"{name}.json")
        assert not {"statement", "assumptions", "events", "fit"} & set(content)


@pytest.mark.parametrize("name", ["standard-scaler", "pipeline"])
def test_a_file_verifies_in_a_process_that_has_imported_nothing_else(name):
    command = [sys.executable, "-m", "dperm", "verify", str(FOLDER / f"{name}.json")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "verified: the recorded events imply the stated guarantee" in run.stdout, run.stdout + run.stderr
