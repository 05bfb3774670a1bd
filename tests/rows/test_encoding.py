"""Pitfalls 1, 2, 5, 8, 33 for tables: whatever stands in them, rows are bounded by what the schema declares."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.model_selection import cross_val_score

from dperm import Amount, Bins, Category, Classes, InvalidTableError, Number, PrivateLogisticRegression, Schema
from dperm.kernel.coded import ENDS, PARTS, plain
from dperm.kernel.row_norms import row_norms
from dperm.problem import L2
from dperm.rows.columns import Columns
from dperm.rows.encoding import check_table, encode_rows, encode_target

MIXED = Schema(
    {
        "age": Number((0, 100)),
        "pay": Number((-10, 10), outside="missing", missing="column"),
        "hours": Number((0, 10), missing=5),
        "gain": Bins((1, 100), missing="column"),
        "loss": Bins((0,)),
        "job": Category(["a", ["b", "B"], 3], missing="column", unseen="column"),
        "sex": Category(["f", "m"], missing={"value": "f"}, unseen="none"),
    },
    Classes("y", [["no", "nein"], "yes"]),
    missing=("?", "-999"),
)

anything = (
    st.none()
    | st.floats()
    | st.integers(-(10**30), 10**30)
    | st.booleans()
    | st.sampled_from(["?", "-999", "", " a ", "B", "3", "=1+1", "@cmd", "1e999", "-1e308", "nan", "inf", "\x00", "٣"])
    | st.text(max_size=6)
    | st.binary(max_size=4)
)


class Unwritable:
    """A value that cannot be shown."""

    def __str__(self):
        raise RuntimeError("secret")


IGNORED = "the row is ignored"


def dense(rows):
    rows = plain(rows)
    return rows.toarray() if sparse.issparse(rows) else rows


@st.composite
def tables(draw):
    n = draw(st.integers(0, 5))
    names = [*MIXED.columns, "y"]
    return pd.DataFrame({name: pd.Series([draw(anything) for _ in range(n)], dtype=object) for name in names})


@pytest.mark.long
@given(tables())
@settings(max_examples=150, deadline=None)
def test_no_table_gives_a_row_that_is_longer_than_the_bound(table):
    rows = dense(encode_rows(table, MIXED, fitting=False))
    assert rows.shape == (len(table), MIXED.n_features)
    assert np.isfinite(rows).all()
    assert np.abs(rows).max(initial=0.0) <= 1.0
    assert (np.linalg.norm(rows, axis=1) <= MIXED.largest_norm * (1 + 1e-15)).all()
    # One block holds at most one number.
    widths = [len(column.column_names(name)) for name, column in MIXED.columns.items()]
    for block in np.split(rows, np.cumsum(widths)[:-1], axis=1):
        assert ((block != 0).sum(axis=1) <= 1).all()
    target = encode_target(table, None, MIXED)
    assert set(target[~np.isnan(target)]) <= {-1.0, 1.0}


@pytest.mark.long
@given(tables())
@settings(max_examples=60, deadline=None)
def test_a_row_is_encoded_without_a_look_at_the_others(table):
    together = dense(encode_rows(table, MIXED, fitting=True))
    for row in range(len(table)):
        alone = dense(encode_rows(table.iloc[[row]], MIXED, fitting=True))
        np.testing.assert_array_equal(alone[0], together[row])


@pytest.mark.parametrize("values", [[True, False], [1, 0], [0.25, 2.0], [1e300, -0.5], [2.0, float("inf")], [2**40, 7]])
@pytest.mark.parametrize(
    "other",
    ["secret", None, b"\xff", True, 3, 2.5, [1], object(), pytest.param(10**5000, id="huge"), "\ud800", Unwritable()],
)
def test_one_value_of_another_kind_does_not_change_what_becomes_of_the_rest(values, other):
    schema = Schema({"x": Number((-1, 3)), "z": Category([0, 1, 2, 0.25, 7, True])}, Classes("y", [0, 1]))
    alone = pd.DataFrame({"x": values, "z": values})
    mixed = pd.DataFrame({name: pd.Series([*values, other], dtype=object) for name in "xz"})
    before, after = (dense(encode_rows(table, schema, fitting=True)) for table in (alone, mixed))
    np.testing.assert_array_equal(before, after[:2])


@pytest.mark.parametrize(
    "column", [pd.Series(["a", "\ud800"], dtype=pd.StringDtype("python")), np.array(["a", "\ud800"])]
)
def test_text_that_cannot_be_written_raises_nothing(column):
    schema = Schema({"x": Category(["a"])}, Classes("y", ["a", "b"]))
    np.testing.assert_array_equal(encode_target(pd.DataFrame({"x": ["a", "a"]}), column, schema), [-1, np.nan])
    rows = encode_rows(pd.DataFrame({"x": pd.Series(list(column), dtype=object)}), schema, fitting=True)
    np.testing.assert_array_equal(dense(rows), [[1], [0]])


def test_the_bound_is_met_so_that_it_cannot_be_smaller():
    schema = Schema({"a": Number((0, 1)), "b": Number((-5, 5)), "c": Category(["x"])}, Classes("y", [0, 1]))
    rows = encode_rows(pd.DataFrame({"a": [1.0], "b": [-7.0], "c": ["x"]}), schema, fitting=True)
    assert row_norms(rows)[0] == schema.largest_norm == math.sqrt(3)


@pytest.mark.parametrize(
    ("column", "value", "row"),
    [
        (Number((0, 10)), 5, [0]),
        (Number((0, 10)), "7.5", [0.5]),
        (Number((0, 10)), " +10 ", [1]),
        (Number((0, 10)), 1e300, [1]),
        (Number((0, 10)), float("-inf"), [-1]),
        (Number((0, 10)), None, [0]),
        (Number((0, 10)), "five", [0]),
        (Number((0, 10)), "?", [0]),
        (Number((0, 10), missing=10), None, [1]),
        (Number((0, 10), missing=99), None, [1]),
        (Number((0, 10), missing="column"), None, [0, 1]),
        (Number((0, 10), missing="column"), 0, [-1, 0]),
        (Number((0, 10), missing="column", outside="missing"), 11, [0, 1]),
        (Number((-1000, 1000)), -999, [0]),  # stands for no value
        (Number((0, 10), missing="row"), None, IGNORED),
        (Bins((1, 5)), 0.99, [1, 0, 0]),
        (Bins((1, 5)), 1, [0, 1, 0]),
        (Bins((1, 5)), 5, [0, 0, 1]),
        (Bins((1, 5)), "x", [0, 0, 0]),
        (Bins((1, 5), missing="column"), None, [0, 0, 0, 1]),
        (Bins((1, 5), missing=7), None, [0, 0, 1]),
        (Bins((1, 5), missing="row"), None, IGNORED),
        (Category(["a", "b"]), "b", [0, 1]),
        (Category(["a", "b"]), " b\t", [0, 1]),
        (Category(["a", "b"]), "c", [0, 0]),
        (Category(["a", "b"]), "?", [0, 0]),
        (Category(["a", ["b", "B"]]), "B", [0, 1]),
        (Category(["a", "b"], unseen="column"), "c", [0, 0, 1]),
        (Category(["a", "b"], unseen="column"), "?", [0, 0, 0]),
        (Category(["a", "b"], missing="column"), "?", [0, 0, 1]),
        (Category(["a", "b"], missing="column"), "c", [0, 0, 1]),
        (Category(["a", "b"], missing="column", unseen="none"), "c", [0, 0, 0]),
        (Category(["a", "b"], missing="column", unseen="column"), "c", [0, 0, 0, 1]),
        (Category(["a", "b"], missing="column", unseen="column"), None, [0, 0, 1, 0]),
        (Category(["a", "b"], missing={"value": "b"}), None, [0, 1]),
        (Category(["a", "b"], missing="none", unseen={"value": "a"}), "z", [1, 0]),
        (Category(["a", "b"], missing="row"), "", IGNORED),
        (Category(["a", "b"], unseen="row"), "z", IGNORED),
        (Category(["?", "b"]), "?", [1, 0]),  # declared, so it is a value
        (Category([1, 2]), 2, [0, 1]),
        (Category([1, 2]), 2.0, [0, 1]),
        (Category([1, 2]), "2", [0, 1]),
        (Category([True, False]), False, [0, 1]),
        (Category(["True", "False"]), False, [0, 1]),
        (Category([True, False]), "FALSE", [0, 1]),
        (Category([1, 2]), "2.0", [0, 1]),
        (Category(["1.0", "2.00"]), 2, [0, 1]),
        (Category(["01", "1"]), "01", [1, 0]),
        (Number((0, 1)), True, [1]),
        (Number((0, 1)), "FALSE", [-1]),
        (Number((0, 1)), float("inf"), [1]),
        (Number((0, 1)), np.float32(1), [1]),
        (Category([1, 2]), np.int64(2), [0, 1]),
    ],
)
def test_every_value_goes_where_the_schema_says(column, value, row):
    schema = Schema({"x": column}, Classes("y", [0, 1]), missing=("?", "-999"))
    table = pd.DataFrame({"x": pd.Series([value], dtype=object)})
    encoded = dense(encode_rows(table, schema, fitting=True))[0]
    if row is IGNORED:  # ignored in a fit, and can still be predicted
        assert np.isnan(encoded).any()
        assert not dense(encode_rows(table, schema, fitting=False)).any()
    else:
        np.testing.assert_array_equal(encoded, row)


FRAME = pd.DataFrame(
    {
        "age": [20, 50, 130], "pay": [1.5, np.nan, 99.0], "hours": [1, 2, 3], "gain": [0, 50, 500],
        "loss": [-1.0, 0.0, 1.0], "job": ["a", "B", None], "sex": ["f", "m", "x"], "y": ["no", "yes", "maybe"],
    }
)  # fmt: skip


def test_pandas_polars_and_arrow_tables_give_the_same_rows():
    expected = dense(encode_rows(FRAME, MIXED, fitting=True))
    arrow = pa.Table.from_pandas(FRAME, preserve_index=False)
    strings = FRAME.astype(object).where(FRAME.notna(), None).map(lambda value: None if value is None else str(value))
    for table in (
        arrow,
        arrow.to_batches()[0],
        pa.concat_tables([arrow.slice(0, 1), arrow.slice(1)]),
        pl.from_arrow(arrow),
        pl.from_arrow(arrow).with_columns(pl.col("job").cast(pl.Categorical)),
        FRAME.astype({"job": "category", "sex": "category"}),
        FRAME.convert_dtypes(),
        strings,
    ):
        assert len(Columns(table)) == 3
        check_table(table, None, MIXED)
        np.testing.assert_array_equal(dense(encode_rows(table, MIXED, fitting=True)), expected)
        np.testing.assert_array_equal(encode_target(table, None, MIXED), [-1, 1, np.nan])


def test_wide_rows_are_written_out_as_sparse_ones_that_equal_arrays(monkeypatch):
    schema = Schema({f"c{i}": Category(range(40)) for i in range(3)} | {"x": Number((0, 1))}, Classes("y", [0, 1]))
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"c{i}": rng.integers(0, 45, 50) for i in range(3)} | {"x": rng.random(50)})
    rows = encode_rows(table, schema, fitting=True)
    wide = rows.expanded()
    assert sparse.issparse(wide)
    assert wide.nnz == 4 * 50
    monkeypatch.setattr("dperm.kernel.coded._WIDEST_ARRAY", 1000)
    np.testing.assert_array_equal(wide.toarray(), rows.expanded())


def test_ten_thousand_columns_are_encoded():
    schema = Schema({f"c{i}": Number((0, 1)) for i in range(10_000)}, Classes("y", [0, 1]))
    table = pd.DataFrame(np.full((3, 10_000), 2.0), columns=list(schema.columns))
    rows = encode_rows(table, schema, fitting=True)
    assert rows.shape == (3, 10_000)
    assert (rows.max(), schema.bound) == (1.0, 100.0)


def test_regression_targets_are_scaled_and_clipped():
    schema = Schema({"x": Number((0, 1))}, Amount("pay", (0, 200)))
    table = pd.DataFrame({"x": [0.0] * 5, "pay": [0, 100, 1e9, None, "?"]}, dtype=object)
    np.testing.assert_array_equal(encode_target(table, None, schema), [-1, 0, 1, np.nan, np.nan])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame({"y": [1]}), "no column 'x'"),
        (pd.DataFrame([[1, 2, 0]], columns=["x", "x", "y"]), "two columns 'x'"),
        (pd.DataFrame({"x": [1]}), "no column 'y'"),
        (pl.DataFrame({"x": [[1, 2]], "y": [0]}), "column 'x' should contain numbers and contains"),
        (pl.DataFrame({"x": [1.0], "y": [[0]]}), "column 'y' should contain categories and contains"),
        (
            pd.DataFrame({"x": [1.0], "y": pd.to_datetime(["2020-01-01"])}),
            "column 'y' should contain categories and contains time",
        ),
        (pd.DataFrame({"x": pd.arrays.SparseArray([1.0]), "y": [0]}), "cannot be read"),
        (pl.LazyFrame({"x": [1.0], "y": [0]}), "got LazyFrame"),
        (np.zeros((3, 1)), "no column 'x', as columns of an array are called x0"),
        (np.zeros((3, 2)), "the array has 2 columns, and 1 are declared"),
        (np.zeros(3), "or a dense array, got ndarray"),
        ([[1, 2]], "pandas, polars or Arrow table or a dense array, got list"),
    ],
)
def test_a_table_of_another_form_is_refused_in_one_sentence(table, message):
    schema = Schema({"x": Number((0, 1))}, Classes("y", [0, 1]))
    with pytest.raises(InvalidTableError, match=message):
        check_table(table, None, schema)


@example(["1", "secret-77"])
@given(st.lists(st.text(max_size=10), max_size=4))
@settings(max_examples=50, deadline=None)
def test_text_where_numbers_belong_raises_nothing(values):
    schema = Schema({"x": Number((0, 1)), "z": Bins((0.5,))}, Amount("y", (0, 1)))
    table = pd.DataFrame({"x": values, "z": values, "y": values}, dtype=object)
    encode_rows(table, schema, fitting=True)
    encode_target(table, None, schema)


# --- Bins with an entry at each end, and interactions ---

# How far rows to fit on, which are kept in float32 and rounded towards 0, are from what is meant.
FLOAT32 = 2.0**-23

CUT = Number((0, 100), encode="bins", bins="private", n_bins=4, edges=(1.0, 10.0, 50.0))


@pytest.mark.parametrize(
    ("column", "value", "row"),
    [
        (CUT, 0, [1, 0, 0, 0, 0]),
        (CUT, 1, [0, 1, 0, 0, 0]),
        (CUT, 0.5, [0.5**0.5, 0.5**0.5, 0, 0, 0]),
        (CUT, 20, [0, 0, 0.75 / 0.625**0.5, 0.25 / 0.625**0.5, 0]),
        (CUT, "20.0", [0, 0, 0.75 / 0.625**0.5, 0.25 / 0.625**0.5, 0]),
        (CUT, 1e300, [0, 0, 0, 0, 1]),
        (CUT, float("-inf"), [1, 0, 0, 0, 0]),
        (CUT, None, [0, 0, 0, 1, 0]),  # the middle of the range
        (CUT, "text", [0, 0, 0, 1, 0]),
        (replace(CUT, missing=10), None, [0, 0, 1, 0, 0]),
        (replace(CUT, missing="column"), None, [0, 0, 0, 0, 0, 1]),
        (replace(CUT, missing="column"), 100, [0, 0, 0, 0, 1, 0]),
        (replace(CUT, missing="column", outside="missing"), 101, [0, 0, 0, 0, 0, 1]),
        (Number((0, 4), encode="bins", bins="even", n_bins=2), 2, [0, 1, 0]),
    ],
)
def test_a_binned_number_has_entries_at_the_ends_of_its_bin(column, value, row):
    schema = Schema({"x": column}, Classes("y", [0, 1]))
    table = pd.DataFrame({"x": pd.Series([value], dtype=object)})
    for fitting in (True, False):
        np.testing.assert_allclose(dense(encode_rows(table, schema, fitting=fitting))[0], row, rtol=FLOAT32, atol=0)


def test_a_row_without_a_binned_number_is_ignored_where_the_schema_says_so():
    schema = Schema({"x": replace(CUT, missing="row"), "z": Number((0, 1))}, Classes("y", [0, 1]))
    table = pd.DataFrame({"x": [np.nan, 5.0], "z": [1.0, 1.0]})
    np.testing.assert_array_equal(np.isnan(dense(encode_rows(table, schema, fitting=True))).any(axis=1), [True, False])
    assert np.isfinite(dense(encode_rows(table, schema, fitting=False))).all()


def test_both_ends_of_a_bin_have_norm_at_most_one_exactly_on_every_part_of_the_way():
    for part, ends in enumerate(ENDS.tolist()):
        assert 1 - 2 * FLOAT32 < sum(Fraction(end) ** 2 for end in ends) <= 1
        assert ends[1] / sum(ends) == pytest.approx(part / PARTS, abs=FLOAT32)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20), st.integers(2, 64))
@settings(max_examples=50, deadline=None)
def test_a_binned_number_is_moved_by_less_than_a_four_hundredth_of_its_bin(values, n_bins):
    column = Number((-1e3, 7e5), encode="bins", bins="even", n_bins=n_bins)
    rows = dense(encode_rows(pd.DataFrame({"x": values}), Schema({"x": column}, Classes("y", [0, 1])), fitting=True))
    meant = np.clip(np.nan_to_num(values, nan=column.middle, posinf=7e5, neginf=-1e3), -1e3, 7e5)
    found = rows @ np.asarray(column.knots) / rows.sum(axis=1)
    np.testing.assert_allclose(found, meant, rtol=0, atol=1.01 * 701_000 / n_bins / (2 * PARTS))


def test_interactions_add_one_entry_each_and_the_bound_is_exact():
    columns = {
        "a": CUT, "b": Number((0, 1)), "c": Category(range(30), missing="none"), "d": Bins((1, 2)),
        "e": Number((0, 1), missing="column"),
    }  # fmt: skip
    schema = Schema(columns, Classes("y", [0, 1]), interactions=8)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.normal(size=300) * 30 for name in columns}).assign(c=rng.integers(0, 35, 300))
    table.iloc[0] = np.nan
    rows = dense(encode_rows(table, schema, fitting=True))
    assert rows.shape == (300, schema.n_features)
    own = schema.n_features - 8 * 125
    crossed = rows[:, own:].reshape(300, 8, 125)
    np.testing.assert_array_equal((crossed != 0).sum(axis=2), 1)
    assert (np.linalg.norm(rows, axis=1) <= schema.bound).all()
    assert (crossed.argmax(axis=2).max(axis=0) > 0).all()
    alone = dense(encode_rows(table.iloc[[7]], schema, fitting=True))
    np.testing.assert_array_equal(alone[0], rows[7])  # no other row has any influence


def test_a_fit_predicts_new_rows_by_the_bins_that_it_released():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.gamma(2.0, 10.0, 20_000), "job": rng.choice(["a", "b"], 20_000)})
    table["y"] = ((table.x > 10) & (table.x < 25)).astype(int)  # nothing that a linear column could tell
    schema = Schema({"x": Number((0, 1000)), "job": Category(["a", "b"])}, Classes("y", [0, 1]), interactions=1)
    model = PrivateLogisticRegression(2.0, 1e-6, penalty=L2(1e-5), schema=schema, random_state=0).fit(table)
    assert model.score(table.drop(columns="y"), table.y) > 0.85
    new = pd.DataFrame({"x": [17.0, None, "text", 1e300], "job": ["a", None, "zzz", "b"], "more": 1}, dtype=object)
    assert model.predict(new).shape == (4,)
    assert model.predict(new)[0] == 1
    again = PrivateLogisticRegression(2.0, 1e-6, penalty=L2(1e-5), schema=model.schema_, random_state=0).fit(table)
    assert again.schema_ == model.schema_  # what was released is not looked for again
    assert again.privacy_.private_edges == ()


def test_folds_of_a_table_are_fitted_with_bins_of_their_own():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.gamma(2.0, 10.0, 9000), "y": 0})
    table["y"] = (table.x > 15).astype(int)
    schema = Schema({"x": Number((0, 1000))}, Classes("y", [0, 1]))
    model = PrivateLogisticRegression(2.0, 1e-6, penalty=L2(1e-4), schema=schema, random_state=0)
    scores = cross_val_score(model, table, table.y, cv=3)
    assert scores.min() > 0.8
