"""Every number, text and truth value of a file, changed or left out and sealed again: `verify` refuses it.

What is left is in `CANNOT_BE_PROVED`, and docs/threat_model.md says the same.
"""

import copy
import fnmatch
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import PolynomialFeatures

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
    PrivateStandardScaler,
    Schema,
    make_private_pipeline,
    private_evaluate,
)
from dperm.files.model_file import read_content, release_text
from dperm.plan.rows_per_unit import rows_per_unit
from dperm.problem import L2
from dperm.verify.release import verify
from verify.tampered import resealed

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

# Leaves that can be changed without any other: nothing in a file follows from them. Patterns of their paths, and why.
CANNOT_BE_PROVED = {
    # What was released. Only a ledger that was told of the file knows it.
    "coef.*", "intercept", "intercept.*", "uncertainty.*", "released.*", "counts.*", "steps.*.released.*",
    "steps.*.coef.*", "steps.*.intercept.*",
    # What the holder declares about the table: names, ranges and bounds, and whose rows are protected together.
    "columns.*", "classes.*", "design.classes.*", "schema.target.column", "schema.columns.*.range.*",
    "schema.target.range.*", "rows per unit: privacy.unit.*", "steps.*.columns.*", "rows.*", "columns",
    "steps.*.columns",
    # How values are read, which the holder declares too. The transform of the target is in the statement, and proved.
    "schema.columns.*.transform", "schema.columns.*.missing", "schema.columns.*.outside", "schema.table.missing",
    "schema.table.missing.*", "schema.table.separator",
    # What a transformer was asked to do: it makes its map of released sums by them, and no cost rests on them.
    "transformer: parameters.*", "pipeline: steps.0.1.parameters.*",
    # How many numbers such a sum has: what a row can add to all of them is bounded together.
    "transformer: plan.queries.*.query.size", "pipeline: plan.sequence.0.queries.*.query.size",
    # A larger ε or δ is a weaker promise, and as true.
    "*privacy.epsilon", "*privacy.delta",
    # What a looser accountant certified, up to the promise, is as true.
    "*privacy.certified_epsilon", "*privacy.certified_delta",
    # A step's name, and what a public step does with a row.
    "steps.*.0", "steps.1.1.*",
    # Words for a reader.
    "privacy.mechanism", "steps.*.privacy.mechanism", "privacy.parts.*", "*.privacy.parts.*", "*.query.what",
    "privacy.parts", "*.privacy.parts", "steps.*.privacy.caveats.*",
    # Of an evaluation: intervals of another level follow from the same numbers, and are as true.
    "level",
    # Which model was scored; `dperm report --evaluation` compares it with that model's file.
    "model", "model_fingerprint",
    # Who wrote the file, where it was charged (a ledger knows), and that no search came before the fit.
    "library", "ledger", "ledger.*", "search",
    # What the solver was told and how it walks: no noise, no number of steps and no cost rests on them.
    "*solver.*", "*solver",
}  # fmt: skip


def tuned():
    base = PrivateLogisticRegression(classes=["no", "yes"], row_norm=3.0, solver="dp-gd")
    search = PrivateSearch(base, {"penalty": [L2(0.05), L2(0.1)]}, epsilon=2.0, delta=1e-6, noisy_trials=True)
    return search.fit(ROWS, TABLE["rich"]).best_estimator_


def with_a_unit():
    schema = Schema(COLUMNS, Classes("rich", ["no", "yes"]), unit=PrivacyUnit("who", 2))
    return PrivateLogisticRegression(2.0, 1e-6, schema=schema, penalty=L2(0.1), solver="dp-gd").fit(TABLE)


def of_a_number():
    columns = {"age": Number((18, 90), encode="linear", transform="log", missing=40.0, outside="missing")}
    schema = Schema(columns, Amount("pay", (1, 1000), transform="log"), missing=["?"], separator=";")
    return PrivateLinearRegression(2.0, 1e-6, schema=schema, penalty=L2(0.1), solver="dp-gd", intervals=True).fit(TABLE)


def in_steps():
    scaler, poly = PrivateStandardScaler(bounds=(0, 1)), PolynomialFeatures(2, include_bias=False)
    model = PrivateLogisticRegression(classes=["no", "yes"], row_norm=1.5, penalty=L2(0.1), solver="dp-gd")
    return make_private_pipeline(scaler, poly, model, epsilon=2.0, delta=1e-6).fit(ROWS.to_numpy(), TABLE["rich"])


FILES = {
    "array": lambda: ARRAY.fit(ROWS, TABLE["rich"]),
    "schema": with_a_unit,
    "number": of_a_number,
    "tuned": tuned,
    "evaluation": lambda: private_evaluate(ARRAY.fit(ROWS, TABLE["rich"]), ROWS, TABLE["rich"], epsilon=1.5),
    "transformer": lambda: PrivateStandardScaler(1.0, 1e-6, bounds=(0, 1)).fit(ROWS),
    "pipeline": in_steps,
    "rows per unit": lambda: rows_per_unit(TABLE["who"], "who", epsilon=0.5),
}


@pytest.fixture(scope="module")
def files():
    return {name: json.loads(release_text(make())) for name, make in FILES.items()}


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


def at_path(content, path):
    for key in path:
        content = content[key]
    return content


def mutants(content):
    for path, value in leaves(content):
        if path == ("fingerprint",):
            continue
        # What is left out of an object or of parameters stands for the default: a later version may add some.
        inner = at_path(content, path[:-1])
        left_out = [] if "class" in inner or path[-2:-1] == ("parameters",) else [KeyError]
        for to in [*others(value), *left_out]:
            changed = copy.deepcopy(content)
            at = at_path(changed, path[:-1])
            if to is KeyError:
                del at[path[-1]]
            else:
                at[path[-1]] = to
            if changed != content or type(to) is not type(value):
                yield ".".join(map(str, path)), to, changed


def is_refused(content, path, ledger=None):
    """Whether a file of these contents is refused, as the command does it."""
    path.write_text(json.dumps(content), encoding="utf-8")
    try:
        return not all(finding.holds for finding in verify(read_content(path), ledger))
    except InvalidParameterError:
        return True


def in_the_list(name, path):
    return any(
        fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(f"{name}: {path}", pattern)
        for pattern in CANNOT_BE_PROVED
    )


@pytest.mark.parametrize("name", FILES)
def test_every_leaf_that_is_changed_and_sealed_again_is_refused(name, files, tmp_path):
    honest, path = files[name], tmp_path / "file.json"
    assert not is_refused(honest, path)
    survived = [
        (leaf, to)
        for leaf, to, changed in mutants(honest)
        if not in_the_list(name, leaf) and not is_refused(resealed(changed), path)
    ]
    assert survived == []


@pytest.mark.parametrize("pattern", sorted(CANNOT_BE_PROVED - {"ledger.*"}))  # that is of files below
def test_the_list_of_what_cannot_be_proved_holds_nothing_that_no_file_has(pattern, files):
    paths = [(name, ".".join(map(str, path))) for name, content in files.items() for path, _ in leaves(content)]
    assert any(fnmatch.fnmatchcase(one, pattern) for name, path in paths for one in (path, f"{name}: {path}"))


def test_another_transform_of_the_target_is_refused(files, tmp_path):
    for other in ({}, {"transform": "log1p"}):
        changed = copy.deepcopy(files["number"])
        changed["schema"]["target"] = {"column": "pay", "range": [1.0, 1000.0]} | other
        assert is_refused(resealed(changed), tmp_path / "file.json")


@pytest.mark.parametrize("name", ["array", "evaluation"])
def test_a_ledger_that_was_told_of_a_file_refuses_every_change_of_what_the_file_cannot_prove(name, tmp_path):
    ledger, path = str(tmp_path / "ledger.db"), tmp_path / "file.json"
    budget = Budget.create("people", Guarantee(9.0, 1e-5), ledger=ledger)
    if name == "array":
        model = PrivateLogisticRegression(
            2.0, 1e-6, classes=["no", "yes"], row_norm=3.0, penalty=L2(0.1), solver="dp-gd", budget=budget
        )
        honest = release_text(model.fit(ROWS, TABLE["rich"]))
    else:
        model = ARRAY.fit(ROWS, TABLE["rich"])
        honest = release_text(private_evaluate(model, ROWS, TABLE["rich"], epsilon=1.0, budget=budget))
    honest = json.loads(honest)
    assert not is_refused(honest, path, ledger)
    unproved = [(leaf, resealed(changed)) for leaf, _, changed in mutants(honest) if in_the_list(name, leaf)]
    assert len(unproved) > 20
    assert [leaf for leaf, changed in unproved[::5] if not is_refused(changed, path, ledger)] == []
