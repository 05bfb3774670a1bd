"""Every number, text and truth value of a file, changed or left out and sealed again: `verify` refuses it.

What is left is in `CANNOT_BE_PROVED`, and docs/threat_model.md says the same.
"""

import copy
import fnmatch
import json

import numpy as np
import pandas as pd
import pytest

from dperm import (
    Amount,
    Budget,
    Category,
    Classes,
    Guarantee,
    InvalidParameterError,
    Number,
    PrivacyUnit,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearch,
    Schema,
    private_evaluate,
)
from dperm.evaluation.result import PrivateEvaluation, is_evaluation, read_evaluation
from dperm.evaluation.verify import verify_evaluation
from dperm.files.content import content_of
from dperm.files.model_file import read_content
from dperm.privacy.statement import PrivacyStatement
from dperm.problem import L2
from dperm.verify.model import verify
from integration.tampered import resealed, retold

pytestmark = pytest.mark.usefixtures("own_folders")

N = 400
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RNG.uniform(18, 90, N),
        "job": RNG.choice(["clerk", "smith"], N),
        "rich": RNG.choice(["no", "yes"], N),
        "pay": RNG.uniform(1, 1000, N),
        "who": np.arange(N) // 2,
    }
)
COLUMNS = {"age": Number((18, 90), encode="linear"), "job": Category(["clerk", "smith"])}
ROWS = TABLE[["age"]] / 90.0
ARRAY = PrivateLogisticRegression(2.0, 1e-6, classes=["no", "yes"], row_norm=3.0, penalty=L2(0.1), solver="dp-gd")

# Leaves that can be changed without any other: nothing in a file follows from them. Patterns of their paths.
CANNOT_BE_PROVED = {
    # What was released. Only a ledger that was told of the file knows it.
    "coef.*", "intercept", "intercept.*", "uncertainty.*", "released.*",
    # What the holder declares about the table: names, ranges, and how many rows were scored.
    "columns.*", "classes.*", "design.classes.*", "schema.target.column", "schema.columns.*.range.*",
    "schema.target.range.*", "privacy.unit.*", "evaluation: privacy.n",
    # How values are read, which the holder declares too. The transform of the target is in the statement, and proved.
    "schema.columns.*.transform", "schema.columns.*.missing", "schema.columns.*.outside", "schema.table.missing",
    "schema.table.missing.*", "schema.table.separator",
    # Of an evaluation: intervals of another level follow from the same numbers, and are as true.
    "level",
    # Which model was scored; `dperm report --evaluation` compares it with that model's file.
    "model", "model_fingerprint",
    # Who wrote the file, where it was charged (a ledger knows), and that no search came before the fit.
    "library", "ledger", "ledger.*", "search",
    # Settings on which this plan does not depend: another value of them gives the same noise, steps and events.
    "fit.solver.nominal_distance", "fit.solver.max_steps", "fit.solver.paper_constant", "search.description.held_out",
    # The same of candidates that lost.
    "search.description.candidates.*.fit.*", "search.description.candidates.*.trial.*",
}  # fmt: skip


def tuned():
    base = PrivateLogisticRegression(classes=["no", "yes"], row_norm=3.0, solver="dp-gd")
    search = PrivateSearch(base, {"penalty": [L2(0.05), L2(0.1)]}, epsilon=2.0, delta=1e-6, noisy_trials=True)
    return content_of(search.fit(ROWS, TABLE["rich"]).best_estimator_)


def with_a_unit():
    schema = Schema(COLUMNS, Classes("rich", ["no", "yes"]), unit=PrivacyUnit("who", 2))
    return content_of(PrivateLogisticRegression(2.0, 1e-6, schema=schema, penalty=L2(0.1), solver="dp-gd").fit(TABLE))


def of_a_number():
    columns = {"age": Number((18, 90), encode="linear", transform="log", missing=40.0, outside="missing")}
    schema = Schema(columns, Amount("pay", (1, 1000), transform="log"), missing=["?"], separator=";")
    return content_of(PrivateLinearRegression(2.0, 1e-6, schema=schema, penalty=L2(0.1), solver="dp-gd").fit(TABLE))


FILES = {
    "array": lambda: content_of(ARRAY.fit(ROWS, TABLE["rich"])),
    "schema": with_a_unit,
    "number": of_a_number,
    "tuned": tuned,
    "evaluation": lambda: private_evaluate(ARRAY.fit(ROWS, TABLE["rich"]), ROWS, TABLE["rich"], epsilon=1.0).to_dict(),
}


@pytest.fixture(scope="module")
def files():
    return {name: json.loads(json.dumps(make())) for name, make in FILES.items()}


def leaves(content, path=()):
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield (*path, key), value
            yield from leaves(value, (*path, key))


def others(value):
    if isinstance(value, bool):
        return [not value, str(value).lower(), int(value)]
    if isinstance(value, int):
        return [value + 1, value - 1, 2 * value, value // 2, str(value)]
    if isinstance(value, float):
        return [value * (1.0 + 1e-5) + 1e-12, 2.0 * value + 1.0, str(value)]
    if isinstance(value, str):
        return [value + "x", 7]
    if value is None:
        return [1.0, "x"]
    return [value + value[-1:] if isinstance(value, list) else value | {"more": 1}, None]


def mutants(content):
    for path, value in leaves(content):
        if path == ("fingerprint",):
            continue
        for to in [*others(value), KeyError]:
            changed = copy.deepcopy(content)
            at = changed
            for key in path[:-1]:
                at = at[key]
            if to is KeyError:
                del at[path[-1]]
            else:
                at[path[-1]] = to
            if changed != content or type(to) is not type(value):
                yield ".".join(map(str, path)), to, changed


def told_again(content):
    """With every text that follows from the numbers written anew, where they can be read."""
    try:
        if content["format"] == "dperm-evaluation":
            privacy = PrivateEvaluation.from_dict(content)
            return resealed(content | {key: privacy.to_dict()[key] for key in ("metrics", "verdict", "statement")})
        if "search" in content:
            joint = PrivacyStatement.from_dict(content["search"]["privacy"])
            content["search"]["statement"] = str(joint).splitlines()
        certified = {key: content["privacy"][key] for key in ("certified_epsilon", "certified_delta")}
        return retold(content, **certified)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return resealed(content)


def is_refused(content, path, ledger=None):
    """Whether a file of these contents is refused, as the command does it."""
    path.write_text(json.dumps(content), encoding="utf-8")
    try:
        if is_evaluation(path):
            return not all(finding.holds for finding in verify_evaluation(read_evaluation(path), ledger))
        return not all(finding.holds for finding in verify(read_content(path), ledger))
    except InvalidParameterError:
        return True


def in_the_list(name, path):
    return any(
        fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(f"{name}: {path}", pattern)
        for pattern in CANNOT_BE_PROVED
    )


@pytest.mark.parametrize("name", FILES)
def test_every_leaf_that_is_changed_and_told_again_in_words_is_refused(name, files, tmp_path):
    honest, path = files[name], tmp_path / "file.json"
    assert not is_refused(honest, path)
    assert not is_refused(told_again(copy.deepcopy(honest)), path)
    survived = [
        (leaf, to)
        for leaf, to, changed in mutants(honest)
        if not in_the_list(name, leaf)
        for version in (resealed(changed), told_again(changed))
        if version != honest and not is_refused(version, path)  # what was a text may be written as it was
    ]
    assert survived == []


def test_another_transform_of_the_target_is_refused(files, tmp_path):
    for other in ({}, {"transform": "log1p"}):
        changed = copy.deepcopy(files["number"])
        changed["schema"]["target"] = {"column": "pay", "range": [1.0, 1000.0]} | other
        assert is_refused(told_again(changed), tmp_path / "file.json")


@pytest.mark.parametrize("name", ["array", "evaluation"])
def test_a_ledger_that_was_told_of_a_file_refuses_every_change_of_what_the_file_cannot_prove(name, tmp_path):
    ledger, path = str(tmp_path / "ledger.db"), tmp_path / "file.json"
    budget = Budget.create("people", Guarantee(9.0, 1e-5), ledger=ledger)
    if name == "array":
        model = PrivateLogisticRegression(
            2.0, 1e-6, classes=["no", "yes"], row_norm=3.0, penalty=L2(0.1), solver="dp-gd", budget=budget
        )
        honest = content_of(model.fit(ROWS, TABLE["rich"]))
    else:
        model = ARRAY.fit(ROWS, TABLE["rich"])
        honest = private_evaluate(model, ROWS, TABLE["rich"], epsilon=1.0, budget=budget).to_dict()
    honest = json.loads(json.dumps(honest))
    assert not is_refused(honest, path, ledger)
    unproved = [(leaf, told_again(changed)) for leaf, _, changed in mutants(honest) if in_the_list(name, leaf)]
    assert len(unproved) > 20
    assert [leaf for leaf, changed in unproved[::5] if not is_refused(changed, path, ledger)] == []
