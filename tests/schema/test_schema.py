"""Schemas: what is declared is checked, written and read back, and nothing else is taken."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dperm import Amount, Bins, Category, Classes, InvalidParameterError, Number, Schema, load_schema
from dperm.schema import schema_from_dict, schema_to_dict
from dperm.schema.plain import schema_to_toml

finite = st.floats(-1e9, 1e9, allow_nan=False)
texts = st.text(min_size=1, max_size=12).filter(lambda text: text.strip() != "")
spelled = st.lists(texts.map(str.strip), min_size=2, max_size=6, unique=True)


@st.composite
def ranges(draw):
    low = draw(finite)
    return low, low + draw(st.floats(1.0, 1e9))


ordinary = st.builds(
    Number,
    range=ranges() | st.just("private"),
    outside=st.sampled_from(["clip", "missing"]),
    missing=st.sampled_from(["middle", "column", "row"]) | finite,
    encode=st.sampled_from([None, "auto", "bins"]),
    bins=st.sampled_from([None, "even", "private"]),
    n_bins=st.none() | st.integers(2, 64),
)
linear = st.builds(Number, range=ranges(), encode=st.just("linear"))
released = st.builds(
    Number,
    range=st.just((0.0, 100.0)),
    encode=st.just("bins"),
    bins=st.just("private"),
    n_bins=st.just(4),
    edges=st.just((1.5, 20.25, 60.0)),
)
numbers = ordinary | linear | released
bins = st.builds(
    Bins,
    edges=st.lists(finite, min_size=1, max_size=5, unique=True).map(sorted),
    missing=st.sampled_from(["none", "column", "row"]) | finite,
)


@st.composite
def categories(draw):
    values = draw(spelled)
    named = {"value": values[0]}
    return Category(
        values,
        missing=draw(st.sampled_from(["none", "column", "row", named])),
        unseen=draw(st.sampled_from(["missing", "none", "column", "row", named])),
    )


columns = numbers | bins | categories()


@st.composite
def schemas(draw):
    names = draw(st.lists(texts, min_size=2, max_size=5, unique=True))
    target = draw(
        st.builds(Classes, column=st.just(names[0]), classes=spelled)
        | st.builds(Amount, column=st.just(names[0]), range=ranges() | st.just("private"))
    )
    return Schema(
        {name: draw(columns) for name in names[1:]},
        target,
        n=draw(st.none() | st.integers(1, 10**9)),
        missing=draw(st.lists(texts, max_size=3)),
        row_norm=draw(st.none() | st.floats(0.1, 10)),
        encode=draw(st.sampled_from(["auto", "linear", "bins"])),
        interactions=draw(st.integers(0, 1)) if len(names) > 2 else 0,
        derived_from_data=draw(st.booleans()),
    )


@pytest.mark.long
@given(schemas())
def test_a_schema_survives_plain_data_and_toml(schema):
    import tempfile
    from pathlib import Path

    assert schema_from_dict(schema_to_dict(schema)) == schema
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.toml"
        path.write_text(schema_to_toml(schema), encoding="utf-8")
        assert load_schema(path) == schema


@given(schemas())
def test_every_column_of_the_table_counts_once_in_the_bound(schema):
    assert schema.largest_norm == math.sqrt(len(schema.columns) + schema.interactions)
    assert schema.bound <= schema.largest_norm
    assert len(schema.feature_names) == schema.n_features


GOOD = {"target": {"column": "y", "classes": [0, 1]}, "columns": {"age": {"range": [0, 100]}}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": {}}, "at least one column"),
        ({"columns": None}, r"at least one \[columns.NAME\]"),
        ({"target": None}, r"\[target\] must be a table"),
        ({"target": {"column": "y"}}, "classes or a range"),
        ({"target": {"column": "y", "classes": [0]}}, "at least 2"),
        ({"target": {"column": "y", "classes": [0, 0.0]}}, "every spelling once"),
        ({"target": {"column": "y", "classes": ["a", ""]}}, "empty string"),
        ({"target": {"column": "age", "classes": [0, 1]}}, "cannot also be a feature"),
        ({"target": {"column": "y", "range": [1, 0]}}, "low < high"),
        ({"columns": {"age": {}}}, "exactly one of"),
        ({"columns": {"age": 3}}, "exactly one of"),
        ({"columns": {"age": {"range": [0, 1], "values": ["a"]}}}, "exactly one of"),
        ({"columns": {"age": {"range": [0]}}}, "low < high"),
        ({"columns": {"age": {"range": "public"}}}, "'private'"),
        ({"columns": {"age": {"range": [0, float("inf")]}}}, "finite"),
        ({"columns": {"age": {"range": [1e99, 1e99 + 1e80]}}}, "narrow|low < high"),
        ({"columns": {"age": {"range": [0, 1], "within": [0, 2]}}}, "goes with range"),
        ({"columns": {"age": {"range": "private", "within": [1e9, 1e9 + 1]}}}, "too narrow"),
        ({"columns": {"age": {"range": [0, 1], "released": "yes"}}}, "released"),
        ({"columns": {"age": {"range": "private", "released": True}}}, "released"),
        ({"columns": {"age": {"range": [0, 1], "missing": "mean"}}}, "'middle'"),
        ({"columns": {"age": {"range": [0, 1], "outside": "drop"}}}, "'clip'"),
        ({"columns": {"age": {"range": [0, 1], "colour": "red"}}}, r"\[columns.age\] has no key 'colour'"),
        ({"columns": {"age": {"bins": []}}}, "at least one"),
        ({"columns": {"age": {"bins": [2, 1]}}}, "increasing"),
        ({"columns": {"age": {"bins": "12"}}}, "must be a list"),
        ({"columns": {"age": {"values": []}}}, "at least 1"),
        ({"columns": {"age": {"values": [["a"], []]}}}, "no empty list"),
        ({"columns": {"age": {"values": ["a", {"b": 1}]}}}, "strings, numbers or booleans"),
        ({"columns": {"age": {"values": ["a", " a "]}}}, "every spelling once"),
        ({"columns": {"age": {"values": ["a"], "missing": {"value": "b"}}}}, "one of the declared values"),
        ({"columns": {"age": {"values": ["a"], "unseen": "drop"}}}, "'missing'"),
        ({"columns": {" ": {"range": [0, 1]}}}, "non-empty"),
        ({"table": {"n": 0}}, "n must be a positive integer"),
        ({"table": {"n": 3.5}}, "n must be a positive integer"),
        ({"table": {"rows": 3}}, "has no key 'rows'"),
        ({"table": {"missing": "?"}}, "missing must be a list"),
        ({"table": {"header": ["age", "age", "y"]}}, "twice"),
        ({"table": {"header": ["age"]}}, "does not name the column 'y'"),
        ({"table": {"row_norm": 0}}, "row_norm must be above 0"),
        ({"table": {"range_share": 1.0}}, "range_share"),
        ({"derived_from_data": "no"}, "true or false"),
        ({"colour": 1}, "has no key 'colour'"),
    ],
)
def test_a_mistake_in_a_schema_is_one_sentence_that_says_where(change, message):
    with pytest.raises(InvalidParameterError, match=message) as error:
        schema_from_dict(GOOD | change)
    assert "\n" not in str(error.value)


def test_what_is_not_a_schema_is_refused_in_one_sentence(tmp_path):
    for content, message in ((b"\xff", "not UTF-8"), (b"a = ", "not TOML"), (b"[target]\n", "needs a")):
        path = tmp_path / "schema.toml"
        path.write_bytes(content)
        with pytest.raises(InvalidParameterError, match=message):
            load_schema(path)
    with pytest.raises(InvalidParameterError, match="cannot be read"):
        load_schema(tmp_path / "none.toml")
    with pytest.raises(InvalidParameterError, match="Number, Bins or Category"):
        Schema({"age": (0, 1)}, Classes("y", [0, 1]))
    with pytest.raises(InvalidParameterError, match="Classes or an Amount"):
        Schema({"age": Number((0, 1))}, "y")


def test_a_schema_cannot_be_changed_behind_a_fit():
    schema = schema_from_dict(GOOD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        schema.n = 3
    assert schema.with_ranges({}) == schema


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encode": "spline"}, "encode must be"),
        ({"bins": "quantiles"}, "bins must be"),
        ({"encode": "linear", "bins": "even"}, "go with encode"),
        ({"n_bins": 1}, "between 2 and 64"),
        ({"n_bins": 65}, "between 2 and 64"),
        ({"edges": (1.0,)}, "written by a fit"),
        ({"bins": "even", "n_bins": 2, "edges": (1.0,)}, "written by a fit"),
        ({"bins": "private", "n_bins": 3, "edges": (1.0,)}, "one fewer than n_bins"),
        ({"bins": "private", "n_bins": 3, "edges": (2.0, 1.0)}, "must increase"),
        ({"bins": "private", "n_bins": 2, "edges": (90.0,)}, "must increase"),
    ],
)
def test_bins_that_cannot_be_are_refused(settings, message):
    with pytest.raises(InvalidParameterError, match=message):
        Number((0, 90), **settings)


def test_bins_of_a_number_are_named_after_their_ends():
    even = Number((0, 80), encode="bins", bins="even", n_bins=4, missing="column")
    assert even.column_names("age") == (*(f"age at {knot}" for knot in (0, 20, 40, 60, 80)), "age: missing")
    waiting = Number((0, 80), encode="bins", bins="private", n_bins=4)
    assert len(waiting.column_names("age")) == 5
    close = Number((1e6, 1e6 + 1), encode="bins", bins="even", n_bins=4)
    assert len(set(close.column_names("t"))) == 5


def test_a_schema_says_where_bins_are_cut_or_leaves_it_to_the_fit():
    text = {"target": {"column": "y", "classes": [0, 1]}, "columns": {"a": {"range": [0, 9], "bins": "private"}}}
    assert schema_from_dict(text).columns["a"] == Number((0, 9), bins="private")
    text["columns"]["a"] = {"bins": [1, 2]}
    assert schema_from_dict(text).columns["a"] == Bins((1, 2))
    for wrong in ({"range": [0, 9], "bins": [1, 2]}, {"bins": "private"}):
        text["columns"]["a"] = wrong
        with pytest.raises(InvalidParameterError):
            schema_from_dict(text)


# Written down once: a model file from one machine must mean the same on another.
CROSSES = [("b", "c", "f"), ("b", "e", "f"), ("b", "d", "e"), ("c", "e", "f")]
LEVELS = (0, 0, 4, 3, 0, 0, 2, 2, 2, 1)


def test_interactions_are_public_different_and_the_same_on_every_machine():
    columns = {name: Number((0, 1)) for name in "abcdef"}
    schema = Schema(columns, Classes("y", [0, 1]), interactions=4)
    assert [cross.columns for cross in schema.crosses] == CROSSES
    turned = Schema(dict(reversed(columns.items())), Classes("y", [0, 1]), interactions=4)
    assert turned.crosses == schema.crosses  # the order of the columns does not matter
    assert schema.n_features == 6 + 4 * 125
    assert len(set(schema.feature_names)) == schema.n_features
    assert schema.largest_norm == math.sqrt(10)
    assert len(Schema(columns, Classes("y", [0, 1]), interactions=20).crosses) == 20
    assert schema.crosses[0].levels("job", 40, ordered=False)[:10] == LEVELS
    assert schema.crosses[0].levels("job", 10, ordered=True) == (0, 0, 1, 1, 2, 2, 3, 3, 4, 4)
    for wrong in (21, -1, 1.5, True):
        with pytest.raises(InvalidParameterError):
            Schema(columns, Classes("y", [0, 1]), interactions=wrong)
    with pytest.raises(InvalidParameterError, match="at most 0 interactions"):
        Schema({"a": Number((0, 1))}, Classes("y", [0, 1]), interactions=1)
