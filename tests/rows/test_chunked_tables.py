"""Tables whose columns come in several chunks, as `pd.concat` and large files leave them, read like whole ones."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dperm import Category, Classes, Number, PrivateLogisticRegression, Schema
from dperm.kernel.coded import plain
from dperm.rows.columns import Columns, as_numbers, as_words
from dperm.rows.encoding import encode_rows, encode_target

TEXTS = ["a", "b", None, "b", "c"]
KINDS = {
    "text": (pa.string(), TEXTS),
    "large_string": (pa.large_string(), TEXTS),
    "string_view": (pa.string_view(), TEXTS),
    "binary": (pa.binary(), [None if text is None else text.encode() for text in TEXTS]),
    "dictionary": (None, TEXTS),
    "bool": (pa.bool_(), [True, False, None, True, True]),
    "int": (pa.int32(), [1, 2, None, 3, 1]),
    "float": (pa.float32(), [1.5, 2.0, None, 3.0, 1.0]),
    "decimal": (pa.decimal128(8, 2), [Decimal("1.50"), Decimal(2), None, Decimal(3), Decimal(1)]),
    "null": (pa.null(), [None] * 5),
}


def array(kind, values):
    return pa.array(values, pa.string()).dictionary_encode() if kind is None else pa.array(values, kind)


def whole_and_cut(kind):
    """A column in one chunk, and in three of which one is empty; dictionaries differ from chunk to chunk."""
    of, values = KINDS[kind]
    whole = pa.chunked_array([array(of, values)])
    return whole, pa.chunked_array([array(of, values[:2]), array(of, values[:0]), array(of, values[2:])])


def frames(kind):
    """The cut column as every library holds it."""
    whole, cut = (pa.table({"x": column}) for column in whole_and_cut(kind))
    first, second = whole.slice(0, 2), whole.slice(2)
    yield cut
    yield pa.concat_tables([first, second])
    yield cut.to_pandas(types_mapper=pd.ArrowDtype)
    yield pd.concat([first.to_pandas(), second.to_pandas()])
    yield pd.concat([part.to_pandas(types_mapper=pd.ArrowDtype) for part in (first, second)], ignore_index=True)
    yield pl.concat([pl.from_arrow(first), pl.from_arrow(second)], rechunk=False)
    if kind in ("text", "dictionary"):
        yield pd.concat([first.to_pandas(), second.to_pandas()]).astype("category")
    if kind == "text":
        for of in ("string[pyarrow]", pd.StringDtype("pyarrow", na_value=np.nan)):
            series = pd.Series(TEXTS, dtype=of)
            yield pd.concat([series[:2], series[2:]]).to_frame("x")


def words(table):
    codes, texts = as_words(Columns(table).arrow("x"), "x")
    return [None if code < 0 else texts[code] for code in codes]


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_in_chunks_reads_as_the_whole_column(kind):
    whole = pa.table({"x": whole_and_cut(kind)[0]})
    expected, numbers = words(whole), as_numbers(Columns(whole).arrow("x"), "x")
    assert len(expected) == 5
    assert any(word is not None for word in expected) == (kind != "null")
    for table in frames(kind):
        assert words(table) == expected
        np.testing.assert_array_equal(as_numbers(Columns(table).arrow("x"), "x"), numbers)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_table_in_chunks_are_encoded_as_those_of_a_whole_one(kind):
    number = kind in ("bool", "int", "float", "decimal", "null")
    column = Number((0, 3), missing="column") if number else Category(["a", "b"], missing="column")
    schema = Schema({"x": column}, Classes("x2", [0, 1]))
    whole = pa.table({"x": whole_and_cut(kind)[0]})
    for table in frames(kind):
        expected = plain(encode_rows(whole, schema, fitting=True))
        np.testing.assert_array_equal(plain(encode_rows(table, schema, fitting=True)), expected)


def test_a_target_in_chunks_is_encoded_as_a_whole_one():
    schema = Schema({"x": Number((0, 3))}, Classes("y", ["a", "b"]))
    _, cut = whole_and_cut("text")
    table = pa.table({"x": [0.0] * 5, "y": cut})
    for target in (None, cut, pd.Series(cut, dtype=pd.ArrowDtype(pa.string()))):
        np.testing.assert_array_equal(encode_target(table, target, schema), [-1, 1, np.nan, 1, np.nan])


@pytest.mark.parametrize("storage", ["string[pyarrow]", "category", object])
def test_a_fit_on_concatenated_frames_is_the_fit_on_the_whole_frame(storage):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"job": rng.choice(["a", "b", "c"], 400), "pay": rng.random(400)})
    frame["y"] = np.where((frame["job"] == "a") ^ (rng.random(400) < 0.2), "yes", "no")
    frame = frame.astype({"job": storage, "y": storage})
    schema = Schema({"job": Category(["a", "b", "c"]), "pay": Number("private")}, Classes("y", ["no", "yes"]), n=400)
    cut = pd.concat([frame.iloc[:130], frame.iloc[130:131], frame.iloc[131:]])
    fits = [
        PrivateLogisticRegression(40.0, 1e-6, schema=schema, random_state=0).fit(table)
        for table in (frame, cut, pl.concat([pl.from_pandas(frame[:50]), pl.from_pandas(frame[50:])], rechunk=False))
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.coef_, fits[0].coef_)
