"""Pitfall 33 for cells: whatever one cell holds is a missing value; it ends no fit, and nobody hears what it says."""

import datetime
import decimal
import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from dperm import (
    Category,
    Classes,
    Guarantee,
    InvalidParameterError,
    InvalidTableError,
    Number,
    PrivacyUnit,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMinMaxScaler,
    PrivateSearch,
    PrivateStandardScaler,
    Problem,
    Schema,
    make_private_pipeline,
    minimize,
    private_evaluate,
    rows_per_unit,
)
from dperm.cli.main import run_with
from dperm.problem import L2, Logistic

N, ROW, COLUMN = 60, 5, 1
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)) / 3.0
Y = RNG.integers(0, 2, N)


class Hostile:
    """Refuses everything that it is asked, and says a secret."""

    def _refuse(self, *_arguments, **_more):
        raise RuntimeError("SECRET")

    __getattribute__ = __hash__ = __eq__ = __ne__ = __lt__ = __float__ = __index__ = __bool__ = _refuse
    __str__ = __repr__ = __len__ = __iter__ = __getitem__ = __array__ = _refuse


ODD = {
    "complex": 1 + 2j,
    "numpy's complex": np.complex128(1 + 2j),
    "date": datetime.datetime(2020, 1, 1),
    "numpy's date": np.datetime64("2020-01-01"),
    "dictionary": {"SECRET": 1},
    "set": {"SECRET"},
    "text": "SECRET",
    "bytes": b"SECRET",
    "list": [1, 2],
    "array of one": np.ones(1),
    "array of two": np.ones(2),
    "frame": pd.DataFrame({"SECRET": [1]}),
    "beyond floats": 10**400,
    "signalling": decimal.Decimal("sNaN"),
    "missing in pandas": pd.NA,
    "function": len,
    "hostile": Hostile(),
}


def objects(cell):
    table = np.empty((N, 3), dtype=object)
    table[:] = X.tolist()
    table[ROW, COLUMN] = cell
    return table


def column(cell):
    return list(objects(cell)[:, COLUMN])


CONTAINERS = {
    "array": objects,
    "lists": lambda cell: [list(row) for row in objects(cell)],
    "pandas": lambda cell: pd.DataFrame({"a": X[:, 0], "b": pd.Series(column(cell), dtype=object), "c": X[:, 2]}),
    "polars": lambda cell: pl.DataFrame({"a": X[:, 0], "b": pl.Series(column(cell), dtype=pl.Object), "c": X[:, 2]}),
}
LOGISTIC = PrivateLogisticRegression(1.0, 1e-3, classes=[0, 1], random_state=0)
FITTED = LOGISTIC.fit(X, Y)


def searched(table):
    candidates = [PrivateLogisticRegression(classes=[0, 1], penalty=strength) for strength in (0.1, 0.2)]
    search = PrivateSearch(
        epsilon=1.0, delta=1e-3, candidates=candidates, noisy_trials=True, random_state=0, row_warnings=False
    )
    return search.fit(table, Y).best_estimator_.coef_


def piped(*steps):
    pipeline = make_private_pipeline(
        *steps, PrivateLogisticRegression(classes=[0, 1]), epsilon=1.0, delta=1e-3, random_state=0
    )
    return lambda table: pipeline.fit(table, Y).steps[-1][1].coef_


USES = {
    "classifier": lambda table: (
        PrivateLogisticRegression(1.0, 1e-3, classes=[0, 1], random_state=0).fit(table, Y).coef_
    ),
    "regressor": lambda table: (
        PrivateLinearRegression(1.0, 1e-3, row_norm=1.0, random_state=0).fit(table, X[:, 0]).coef_
    ),
    "by unit": lambda table: (
        PrivateLogisticRegression(1.0, 1e-3, classes=[0, 1], unit="who", max_rows_per_unit=2, random_state=0)
        .fit(table, Y, groups=np.arange(N) // 2)
        .coef_
    ),
    "minimize": lambda table: (
        minimize(Problem(Logistic(), L2(0.1)), table, 2.0 * Y - 1.0, guarantee=Guarantee(1.0, 1e-3), random_state=0).w
    ),
    "transformer": lambda table: PrivateStandardScaler(1.0, 1e-3, bounds=(-1.0, 1.0), random_state=0).fit(table).mean_,
    "transformed": lambda table: PrivateMinMaxScaler(1.0, 1e-3, bounds=(-1.0, 1.0), random_state=0).fit_transform(
        table
    ),
    "pipeline": piped(PrivateStandardScaler(bounds=(-1.0, 1.0))),
    "search": searched,
    "evaluation": lambda table: private_evaluate(FITTED, table, Y, epsilon=1.0, random_state=0).accuracy.value,
}


def told(call):
    """What a call raises or warns of, with everything that a traceback shows."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            call()
            words = ""
        except Exception as error:
            words = "".join(traceback.format_exception(error))
    return words + "".join(str(warning.message) for warning in seen)


@pytest.mark.parametrize(
    ("use", "container"),
    [(use, container) for use in USES for container in CONTAINERS if (use, container) != ("by unit", "lists")],
)
def test_a_cell_of_any_kind_is_a_missing_value(use, container):
    expected = USES[use](CONTAINERS[container](float("nan")))
    for name, cell in ODD.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = USES[use](CONTAINERS[container](cell))
        assert np.array_equal(found, expected, equal_nan=True), name


@pytest.mark.parametrize("container", ["array", "lists"])
def test_texts_that_are_numbers_are_numbers(container):
    assert np.array_equal(
        USES["classifier"](CONTAINERS[container]("0.25")), USES["classifier"](CONTAINERS[container](0.25))
    )


def test_a_cell_of_a_list_is_a_missing_value_to_a_public_step():
    use = piped(Normalizer())
    expected = use(CONTAINERS["lists"](float("nan")))
    for name, cell in ODD.items():
        assert np.array_equal(use(CONTAINERS["lists"](cell)), expected), name


@pytest.mark.parametrize("use", [use for use in USES if use != "by unit"])
def test_a_row_of_another_length_holds_no_value(use):
    empty = X.copy()
    empty[ROW] = np.nan
    expected = USES[use](empty)
    for row in ([], [1.0], [1.0, 2.0, 3.0, 4.0], None, 7.0, "SECRET", {"SECRET": 1}, Hostile()):
        table = X.tolist()
        table[ROW] = row
        assert np.array_equal(USES[use](table), expected, equal_nan=True)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_cell_of_any_kind_is_a_missing_value_to_a_schema(kind):
    schema = Schema(
        {"a": Number((-1, 1)), "b": Number((-1, 1), missing="column"), "c": Number((-1, 1))}, Classes("y", [0, 1]), n=N
    )

    def fitted(cell):
        model = PrivateLogisticRegression(1.0, 1e-3, schema=schema, random_state=0)
        return model.fit(CONTAINERS[kind](cell), Y).coef_

    expected = fitted(None)
    for name, cell in ODD.items():
        if name not in ("beyond floats", "array of one"):  # a text of 400 digits is an infinite number; [1.] is a text
            assert np.array_equal(fitted(cell), expected), name


def test_categories_ids_and_targets_of_any_kind_end_no_fit_with_a_schema():
    schema = Schema({"b": Category([["x"], ["y"]])}, Classes("y", ["no", "yes"]), n=N // 2, unit=PrivacyUnit("who", 2))
    for cell in ODD.values():
        words, ids, labels = ["x", "y"] * (N // 2), [f"p{row // 2}" for row in range(N)], ["no", "yes"] * (N // 2)
        words[ROW] = labels[ROW] = cell
        table = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in (("b", words), ("who", ids))})
        for target in (labels, pd.Series(labels, dtype=object), pl.Series(labels, dtype=pl.Object)):
            model = PrivateLogisticRegression(1.0, 1e-3, schema=schema, random_state=0, row_warnings=False)
            assert told(lambda model=model, table=table, target=target: model.fit(table, target)) == ""


@pytest.mark.parametrize("first", [True, False])
def test_targets_weights_and_ids_of_any_kind_end_no_fit(first):
    """Also where the odd one comes first, by which a whole list might be judged."""
    row = 0 if first else ROW
    for cell in ODD.values():
        labels, weights, ids = Y.tolist(), [1.0] * N, [f"p{place}" for place in range(N)]
        labels[row] = weights[row] = ids[row] = cell
        model = PrivateLogisticRegression(
            1.0, 1e-3, classes=[0, 1], private_weights=True, unit="who", max_rows_per_unit=1, random_state=0,
            row_warnings=False,
        )  # fmt: skip
        given = {"y": labels, "sample_weight": weights, "groups": ids}
        assert told(lambda model=model, given=given: model.fit(X, **given)) == ""
        assert told(lambda ids=ids: rows_per_unit(ids, "who", epsilon=1.0, n=N)) == ""
        score = {"epsilon": 1.0, "unit": "who", "max_rows_per_unit": 1, "groups": ids}
        assert told(lambda labels=labels, score=score: private_evaluate(FITTED, X, labels, **score)) == ""


@pytest.mark.filterwarnings("ignore::dperm.errors.NotForReleaseWarning")
def test_a_label_of_any_kind_does_not_end_the_reading_of_classes():
    class Text(str):
        __lt__ = __eq__ = __hash__ = Hostile._refuse

    for cell in (*ODD.values(), Text("no")):
        for labels in (Y.tolist(), ["no", "yes"] * (N // 2)):
            labels[ROW] = cell
            model = PrivateLogisticRegression(1.0, 1e-3, random_state=0, row_warnings=False).fit(X, labels)
            assert len(model.classes_) in (2, 3)


def test_a_cell_that_another_model_raises_at_ends_no_evaluation():
    def read(table):
        return np.asarray(table, dtype=np.float64)

    model = make_pipeline(FunctionTransformer(read), LogisticRegression()).fit(pd.DataFrame(X, columns=list("abc")), Y)
    for cell in ODD.values():
        table = CONTAINERS["pandas"](cell)
        assert told(lambda table=table: private_evaluate(model, table, Y, epsilon=1.0)) == ""
    with pytest.raises(InvalidTableError, match="the model failed on these rows"):
        private_evaluate(model, CONTAINERS["pandas"](0.0).assign(b="SECRET"), Y, epsilon=1.0)


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_column_of_texts_is_refused_without_a_value(container):
    table = CONTAINERS[container](0.0)
    if container == "lists":
        table = [[a, "SECRET", c] for a, _, c in table]
    elif container == "polars":
        table = table.with_columns(pl.Series("b", ["SECRET"] * N, dtype=pl.Object))
    elif container == "pandas":
        table["b"] = "SECRET"
    else:
        table[:, COLUMN] = "SECRET"
    for use in ("classifier", "minimize", "transformer", "pipeline", "search", "evaluation"):
        words = told(lambda use=use: USES[use](table))
        assert "the table must be a 2-d array of real numbers; encode text first." in words
        assert "SECRET" not in words


def test_a_prediction_of_rows_that_hold_no_numbers_is_refused_without_a_value():
    for table in ([["SECRET"] * 3], [[Hostile()] * 3], pd.DataFrame({name: ["SECRET"] for name in "abc"})):
        words = told(lambda table=table: FITTED.predict(table))
        assert InvalidParameterError.__name__ in words
        assert "SECRET" not in words


def test_where_a_unit_is_protected_listed_rows_are_refused_whatever_they_hold():
    """One unit may have most rows, and would decide how long rows are."""
    for row in ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0], None):
        with pytest.raises(InvalidParameterError, match="got a list"):
            USES["by unit"]([*X.tolist()[:-1], row])


@pytest.mark.parametrize("odd", [[0], None, 0, [0, 1], [], float("nan"), "SECRET"])
def test_no_entry_of_a_list_of_lists_decides_whether_it_is_a_target(odd):
    for model in (PrivateLogisticRegression(classes=[0, 1]), PrivateLinearRegression(row_norm=1.0)):
        with pytest.raises(InvalidParameterError, match="got a list of lists"):
            model.fit(X, [odd, *([int(label)] for label in Y[1:])])


def test_no_label_of_a_list_changes_how_others_are_read():
    """numpy makes floats of all whole numbers if one of them is beyond the signed ones and another is negative."""
    classes = [-5, 2**60, 2**60 + 1]
    labels = [classes[number % 3] for number in range(N)]
    model = PrivateLogisticRegression(1.0, 1e-3, classes=classes, random_state=0)
    fits = [model.fit(X, [odd, *labels[1:]]).coef_.copy() for odd in (2**63, 10**40, None, [2**60], np.float64(0.5))]
    assert all(np.array_equal(found, fits[0]) for found in fits)


def test_one_text_in_an_empty_column_ends_no_fit(tmp_path):
    """Most cells decide whether a column holds numbers: of all cells, and not of those that are not missing."""
    for text in ("", "SECRET"):
        table = X.astype(object)
        table[:, 1] = None
        table[0, 1] = text
        PrivateLogisticRegression(1.0, 1e-3, classes=[0, 1], row_warnings=False).fit(table, Y)
        lines = [f"{value},{text if place == 0 else ''},{Y[place]}" for place, value in enumerate(X[:, 0])]
        (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
        arguments = ["fit", tmp_path / "t.csv", "--target", "y", "--classes", "0,1", "--epsilon", 1, "--delta", 1e-3]
        assert run_with(list(map(str, [*arguments, "--force", "-o", tmp_path / "m.json"]))) == 0
