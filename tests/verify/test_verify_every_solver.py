"""`verify` on a file of every solver under both adjacencies: every promise is derived twice, and decided."""

import time

import numpy as np
import pandas as pd
import pytest

from dperm import (
    Number,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Schema,
    UnsupportedProblemError,
    save_model,
)
from dperm.files.model_file import read_content
from dperm.files.plan_data import plan_from
from dperm.files.reading import promise_of
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.statement import FitStatement
from dperm.problem import L2, L1Ball, L2Ball
from dperm.schema import Classes
from dperm.solvers import SOLVERS
from dperm.verify.release import verify
from verify.tampered import changed, complaints, resealed

N = 500
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)) / 3.0
LABELS = np.where(X[:, 0] > 0.0, "yes", "no")
THREE = np.digitize(X[:, 0], [-0.2, 0.2])

QUICK = {
    "dp-gd",
    "dp-svrg++",
    "dp-sgd",
    "dp-objective",
    "dp-softmax",
    "chaudhuri-output",
    "talwar-frank-wolfe",
    "adassp",
}
ADJACENCIES = [adjacency.value for adjacency in Adjacency]

pytestmark = pytest.mark.filterwarnings("ignore::dperm.LargeDeltaWarning")


def fitted(name, adjacency, delta):
    """A small fit of this solver on the first problem that it takes."""
    common = {"epsilon": 1.0, "delta": delta, "solver": name, "adjacency": adjacency, "n": N}
    cases = (
        (PrivateLogisticRegression, LABELS, {"classes": ["no", "yes"]}),
        (PrivateLinearRegression, X[:, 0], {"row_norm": 1.0}),
        (PrivateLogisticRegression, THREE, {"classes": [0, 1, 2]}),
    )
    for model, y, own in cases:
        for penalty, domain in ((L2(0.01), None), (None, L1Ball(2.0)), (None, L2Ball(2.0)), (L2(0.01), L2Ball(2.0))):
            try:
                return model(**common, **own, penalty=penalty, domain=domain).fit(X, y)
            except UnsupportedProblemError:
                continue
    raise AssertionError(f"{name} takes none of these problems")


def content_of(model, tmp_path):
    save_model(model, tmp_path / "model.json")
    return read_content(tmp_path / "model.json")


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SOLVERS]
)
def test_a_file_of_every_solver_is_verified_by_both_derivations(name, adjacency, tmp_path):
    for delta in (1e-5, 0.0) if SOLVERS[name].pure else (1e-5,):
        content = content_of(fitted(name, adjacency, delta), tmp_path)
        start = time.perf_counter()
        findings = verify(content)
        assert [finding.text for finding in findings if not finding.holds] == []
        assert time.perf_counter() - start < 60.0
        (second,) = [
            finding.text for finding in findings if finding.text.startswith("independent check (interval arithmetic)")
        ]
        assert second.startswith("independent check (interval arithmetic): ε ≤ ")
        assert second.endswith(f"adjacency {adjacency}")


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in {"dp-gd", "dp-sgd"} else pytest.mark.slow) for name in sorted(QUICK)],
)
def test_noise_that_is_two_per_cent_smaller_is_caught_by_both_derivations(name, adjacency, tmp_path):
    content = content_of(fitted(name, adjacency, 1e-5), tmp_path)
    forged = changed(content, "plan", "noise_multiplier", to=0.98 * content["plan"]["noise_multiplier"])
    assert complaints(resealed(forged))
    statement = FitStatement.from_dict(content["privacy"])
    event = plan_from(forged["plan"], *promise_of(forged)).event
    found = [one.text for one in verify.__globals__["_bound"](event, statement) if not one.holds]
    assert any(text.startswith("the recorded events give") for text in found)
    assert any(text.startswith("independent check (interval arithmetic): ε ≤") for text in found)


def test_private_ranges_are_those_of_the_schema_that_was_declared(tmp_path):
    table = pd.DataFrame({"age": RNG.uniform(18, 90, 5000), "rich": RNG.choice(["no", "yes"], 5000)})
    schema = Schema({"age": Number("private", within=(0, 150))}, Classes("rich", ["no", "yes"]), n=5000)
    content = content_of(PrivateLogisticRegression(2.0, 1e-6, schema=schema).fit(table), tmp_path)
    assert complaints(content) == []
    assert content["parameters"]["schema"]["columns"]["age"]["range"] == "private"
    other = changed(content, "parameters", "schema", "columns", "age", to={"range": "private"})
    assert len(complaints(resealed(other))) == 1
