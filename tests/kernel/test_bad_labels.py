"""Pitfall 33 for targets: one label of any kind makes its own row ignored, stops no fit and changes no other row."""

import datetime
import decimal
import traceback

import numpy as np
import pandas as pd
import pytest

from cli.hostile import LINES, fit_arguments, run, write_table
from dperm import (
    Guarantee,
    InvalidParameterError,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Problem,
    minimize,
)
from dperm.problem import L2, Logistic
from dperm.rows import Table

N = 40
X = np.random.default_rng(0).normal(size=(N, 2)) / 3.0
NUMBERS, TEXTS = [0, 1] * (N // 2), ["no", "yes"] * (N // 2)


class Hostile:
    """A label that refuses everything."""

    def __hash__(self):
        raise RuntimeError("SECRET")

    def __eq__(self, other):
        raise RuntimeError("SECRET")

    def __float__(self):
        raise RuntimeError("SECRET")


ODD = {
    "text": "7.25 SECRET",
    "nothing": None,
    "not a number": float("nan"),
    "list": [1, 2],
    "tuple": (0,),
    "unhashable tuple": ([1],),
    "dictionary": {},
    "array": np.ones(2),
    "complex": 1 + 7.25j,
    "date": datetime.datetime(2020, 1, 1),
    "beyond floats": 10**400,
    "missing in pandas": pd.NA,
    "time missing in pandas": pd.NaT,
    "bytes": b"1 SECRET",
    "hostile": Hostile(),
}


def with_label(labels, label, kind):
    """The labels with this one in the fourth row, in a list or in an array of objects."""
    found = np.empty(N, dtype=object)
    for place, each in enumerate(labels):
        found[place] = each
    found[3] = label
    return {"list": list(found), "array": found, "series": pd.Series(found)}[kind]


@pytest.mark.parametrize("kind", ["list", "array"])
@pytest.mark.parametrize("name", ODD)
def test_a_label_of_any_kind_is_an_unknown_label(name, kind):
    for classes, labels, unknown in (([0, 1], NUMBERS, 99), (["no", "yes"], TEXTS, "perhaps")):
        model = PrivateLogisticRegression(1.0, 1e-3, classes=classes, random_state=0)
        expected = model.fit(X, with_label(labels, unknown, "list")).coef_.copy()
        model.fit(X, with_label(labels, ODD[name], kind))
        assert np.array_equal(model.coef_, expected)


@pytest.mark.filterwarnings("ignore::dperm.errors.NotForReleaseWarning")
@pytest.mark.parametrize("name", [name for name in ODD if name != "text"])
def test_classes_that_are_read_from_labels_leave_out_what_is_no_label(name):
    for labels in (NUMBERS, TEXTS):
        model = PrivateLogisticRegression(1.0, 1e-3).fit(X, with_label(labels, ODD[name], "list"))
        found = list(model.classes_)
        assert found[:2] == sorted(set(labels))
        assert len(found) == (3 if name == "beyond floats" and labels is NUMBERS else 2)


@pytest.mark.parametrize("kind", ["list", "series"])
@pytest.mark.parametrize("name", ODD)
def test_a_target_that_is_no_number_makes_its_row_ignored(name, kind):
    targets = np.linspace(-1.0, 1.0, N).tolist()
    model = PrivateLinearRegression(1.0, 1e-3, random_state=0, row_norm=1.0)
    expected = model.fit(X, with_label(targets, float("nan"), "list")).coef_.copy()
    assert np.array_equal(model.fit(X, with_label(targets, ODD[name], kind)).coef_, expected)
    assert np.array_equal(model.fit(X, np.array(with_label(targets, float("nan"), "list"))).coef_, expected)
    problem, guarantee = Problem(Logistic(), L2(0.1)), Guarantee(1.0, 1e-3)
    one, other = (
        minimize(problem, X, with_label(NUMBERS, label, kind), guarantee=guarantee, random_state=0).w
        for label in (float("nan"), ODD[name])
    )
    assert np.array_equal(one, other)


def test_numbers_of_any_kind_are_numbers():
    model = PrivateLinearRegression(1.0, 1e-3, random_state=0, row_norm=1.0)
    expected = model.fit(X, np.full(N, 0.5)).coef_.copy()
    for half in ("0.5", np.float32(0.5), decimal.Decimal("0.5")):
        assert np.array_equal(model.fit(X, with_label([0.5] * N, half, "list")).coef_, expected)


REFUSED = {
    "complex": np.array(NUMBERS) + 7.25j,
    "dates": np.array(NUMBERS, dtype="datetime64[D]"),
    "ragged": [[7.25], [7.25, 7.25]] * (N // 2),
    "two columns": np.full((N, 2), 7.25),
    "two columns in lists": [[7.25, 7.25]] * N,
    "one text": "SECRET" * N,
    "a set": {7.25},
    "too few": [7.25] * (N - 1),
    "all of another kind": ["SECRET"] * N,
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("model", [PrivateLogisticRegression(classes=[0, 1]), PrivateLinearRegression(row_norm=1.0)])
def test_a_target_of_another_form_is_one_sentence_without_a_value(name, model):
    with pytest.raises(InvalidParameterError) as error:
        model.fit(X, REFUSED[name])
    told = "".join(traceback.format_exception(error.value))
    assert "SECRET" not in told
    assert "7.25" not in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__context__ is None


@pytest.mark.parametrize("ending", ["", "\n", "\n\n", "\r\n\r\n", "\n\n\n\n"])
@pytest.mark.parametrize("last", ["", '"', "nothing of the kind", "1,2,3,4", ",,", "\r"])
def test_no_last_line_stops_a_fit_or_changes_the_rows_before_it(last, ending, tmp_path, own_folders):
    table, _ = write_table(tmp_path)
    before = Table(table, n_rows=60).opened().table
    table.write_text("\n".join(["age,job,rich", *LINES[:-1], last]) + ending, newline="")
    after = Table(table, n_rows=60).opened().table
    assert after.num_rows == 60
    assert after.slice(0, 59).equals(before.slice(0, 59))
    assert all(not value or value == b"" for value in after.slice(59).to_pylist()[0].values())


def test_an_empty_last_line_is_a_row_that_is_ignored(tmp_path, own_folders):
    table, _ = write_table(tmp_path)
    for number, last in enumerate(("", "nothing of the kind")):
        table.write_text("\n".join(["age,job,rich", *LINES[:-1], last, ""]))
        assert run(*fit_arguments(tmp_path, tmp_path / f"{number}.json", "--seed", "1"))[0] == 0
    assert (tmp_path / "0.json").read_text() == (tmp_path / "1.json").read_text()
