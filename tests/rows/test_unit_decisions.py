"""One unit may have most rows, a whole file or a line of its own: nothing that is decided or refused shows it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dperm import (
    Classes,
    InvalidParameterError,
    InvalidTableError,
    Number,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMinMaxScaler,
    PrivateSearch,
    Schema,
    load_model,
    make_private_pipeline,
    private_evaluate,
    save_model,
)
from dperm.kernel.units import Membership
from dperm.privacy.unit import PrivacyUnit
from dperm.rows import Table
from dperm.rows.digests import IdColumn, PartitionUnits, sequence_of
from dperm.rows.streamed import FileSource

UNIT = {"unit": "who", "max_rows_per_unit": 3}


def crowded(text, classes=False):
    """201 units, of which one has 300 of 500 rows, whose target is a text or a number."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (500, 2))
    y = np.empty(500, dtype=object)
    y[:] = [int(value > 0) if classes else float(value) for value in X[:, 0]]
    if text:
        y[:300] = "?"
    return X, y, np.concatenate([np.zeros(300, dtype=int), np.arange(1, 201)])


@pytest.mark.parametrize("text", [False, True])
def test_a_unit_with_most_rows_does_not_decide_whether_a_target_holds_numbers(text):
    """None of these raises, whatever that unit holds."""
    X, y, groups = crowded(text)
    model = PrivateLinearRegression(1.0, 1e-4, row_norm=1.0, row_warnings=False, **UNIT).fit(X, y, groups=groups)
    private_evaluate(model, X, y, groups=groups, epsilon=1.0)
    make_private_pipeline(
        PrivateMinMaxScaler(bounds=(-0.5, 0.5)), PrivateLinearRegression(row_warnings=False, row_norm=1.0),
        epsilon=1.0, delta=1e-4, unit="who", contribution="average",
    ).fit(X, y, groups=groups)  # fmt: skip
    X, y, groups = crowded(text, classes=True)
    model = PrivateLogisticRegression(1.0, 1e-4, classes=[0, 1], row_warnings=False, **UNIT).fit(X, y, groups=groups)
    private_evaluate(model, X, y, groups=groups, epsilon=1.0)
    PrivateSearch(
        PrivateLogisticRegression(classes=[0, 1], **UNIT), {"penalty": [0.1, 1.0]}, epsilon=2.0, delta=1e-4,
        noisy_trials=True, row_warnings=False,
    ).fit(X, y, groups=groups)  # fmt: skip


@pytest.mark.parametrize("last", ["0.25", "text"])
def test_a_row_that_is_a_block_by_itself_does_not_decide_what_a_column_holds(tmp_path, last):
    rng = np.random.default_rng(1)
    x = rng.uniform(-0.5, 0.5, 16_385)
    lines = [f"{value},{int(value > 0)}" for value in x[:-1]] + [f"{last},1"]
    (tmp_path / "rows.csv").write_text("\n".join(["x,y", *lines]) + "\n")
    frame = pd.DataFrame({"x": x[:1000]})
    model = PrivateLogisticRegression(2.0, 1e-5, classes=[0, 1], row_warnings=False).fit(frame, (x[:1000] > 0) * 1)
    assert private_evaluate(model, str(tmp_path / "rows.csv"), target="y", epsilon=1.0).accuracy.value > 0.5


def test_a_table_without_a_schema_asks_no_majority_where_a_unit_is_protected(tmp_path):
    (tmp_path / "rows.csv").write_text("x\n1\ntext\ntext\n")
    table = Table(tmp_path / "rows.csv").opened()
    with pytest.raises(InvalidTableError, match="holds text"):
        table.numbers(["x"])
    assert np.isnan(table.numbers(["x"], majority=False).column("x").to_numpy()).tolist() == [False, True, True]


def test_candidates_of_a_search_must_read_ids_alike():
    schema = Schema({"a": Number((0, 1))}, Classes("y", [0, 1]), unit=PrivacyUnit("who", 3))
    other = replace(schema, missing=("?",))
    search = PrivateSearch(
        PrivateLogisticRegression(schema=schema), {"schema": [schema, other]}, epsilon=1.0, delta=1e-5
    )
    with pytest.raises(InvalidParameterError, match="read ids the same way"):
        search.plan(n=1000)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (pa.array([7, 8], pa.int64()), pa.array([7, 9], pa.int32()), True),
        (pa.array(["7", "8"]), pa.array([b"7", b"9"], pa.binary()), True),
        (pa.array(["e\u0301", "8"]), pa.array(["\u00e9", "9"]), True),
        (pa.array([2**53 + 1, 8]), pa.array([float(2**53 + 1), 9.0]), False),
        (pa.array([1, 8]), pa.array([True, False]), False),
        (pa.array([0.1, 8.0], pa.float32()), pa.array([0.1, 9.0], pa.float64()), False),
    ],
)
def test_one_id_is_one_unit_in_all_files_or_the_files_are_refused(tmp_path, first, second, same):
    for name, ids in (("a", first), ("b", second)):
        pq.write_table(pa.table({"who": ids, "x": [0.1, 0.2], "y": [0, 1]}), tmp_path / f"{name}.parquet")
    schema = Schema({"x": Number((0, 1))}, Classes("y", [0, 1]), unit=PrivacyUnit("who", 2))
    source = FileSource(tmp_path).with_schema(schema)
    rows = pd.DataFrame({"x": [0.1, 0.2] * 50, "y": [0, 1] * 50, "who": np.arange(100)})
    model = PrivateLogisticRegression(1.0, 1e-4, schema=schema, row_warnings=False).fit(rows)
    if same:
        assert source._n_units == 3
        assert private_evaluate(model, str(tmp_path), epsilon=1.0).privacy_.n == 3
    else:
        with pytest.raises(InvalidTableError, match="one type"):
            _ = source._n_units
        with pytest.raises(InvalidTableError, match="one type"):
            private_evaluate(model, str(tmp_path), epsilon=1.0)


def test_an_empty_line_in_the_place_of_a_unit_does_not_end_a_fit(tmp_path):
    rng = np.random.default_rng(2)
    lines = [f"{rng.uniform():.3f},{row % 2},P{row // 2}" for row in range(599)]
    schema = Schema({"x": Number((0, 1), encode="linear")}, Classes("y", [0, 1]), unit=PrivacyUnit("who", 2))
    for last in ("0.5,1,P299", ""):
        text = "\n".join(["x,y,who", *lines[:-1], last])
        (tmp_path / "rows.csv").write_text(text + "\n")
        model = PrivateLogisticRegression(1.0, 1e-5, schema=schema, n=300, row_warnings=False)
        assert model.fit(str(tmp_path / "rows.csv")).privacy_.n == 300


def test_ids_of_a_partition_that_come_in_another_order_are_noticed():
    ids = IdColumn("who", (), bytes(32), 10**6)
    table = pa.table({"who": ["a", "b", "b", None, "c"]})
    rows = Membership.of(PrivacyUnit("who", 2), np.array([0, 1, 1, -1, 2])).drawn(np.zeros(8, np.uint32))
    units = PartitionUnits(rows, ids, sequence_of(ids.read([table])))
    units.check([table])
    units.check([table.slice(0, 2), table.slice(2)])
    for order in ([1, 0, 2, 3, 4], [0, 1, 3, 2, 4], [0, 1, 2, 3]):
        with pytest.raises(InvalidTableError, match="another order"):
            units.check([table.take(order)])


def test_a_loaded_model_protects_what_it_protected(tmp_path):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"a": rng.uniform(-0.5, 0.5, 900), "who": np.repeat(np.arange(300), 3)})
    model = PrivateLogisticRegression(2.0, 1e-5, classes=[0, 1], row_warnings=False, **UNIT)
    model.fit(frame, (frame["a"] > 0).astype(int))
    save_model(model, tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    assert (loaded.unit, loaded.max_rows_per_unit) == ("who", 3)
    assert (loaded.predict(frame) == model.predict(frame)).all()


def test_counts_beyond_what_a_number_of_a_unit_holds_weigh_no_more(monkeypatch):
    membership = Membership.of(PrivacyUnit("who", contribution="average"), np.zeros(3, dtype=np.int64))
    monkeypatch.setitem(vars(membership), "counts", np.array([2**31 + 5]))
    assert (membership.drawn(np.zeros(8, np.uint32)).weights < 1e-9).all()


def test_whole_numbers_of_numpy_and_ids_in_two_places():
    assert type(PrivacyUnit("who", np.int64(3)).max_rows) is int
    frame = pd.DataFrame({"a": [0.1, 0.2], "who": [1, 2]})
    model = PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], **UNIT)
    with pytest.raises(InvalidParameterError, match="in groups: remove one"):
        model.fit(frame, [0, 1], groups=[1, 2])


def test_an_evaluation_may_weigh_rows_otherwise_than_the_fit():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"x": rng.uniform(0, 1, 900), "who": np.repeat(np.arange(300), 3)})
    frame["y"] = (frame["x"] > 0.5).astype(int)
    schema = Schema({"x": Number((0, 1))}, Classes("y", [0, 1]), unit=PrivacyUnit("who", 3))
    model = PrivateLogisticRegression(2.0, 1e-5, schema=schema, row_warnings=False).fit(frame)
    assert private_evaluate(model, frame, epsilon=1.0).privacy_.unit == PrivacyUnit("who", 3)
    assert private_evaluate(model, frame, epsilon=1.0, contribution="average").privacy_.unit == PrivacyUnit(
        "who", 3, "average"
    )
    assert private_evaluate(model, frame, epsilon=1.0, max_rows_per_unit=2).privacy_.unit == PrivacyUnit("who", 2)


def test_files_with_numbers_of_different_types_are_read_together_whatever_the_numbers_are(tmp_path):
    for name, numbers in (("a", pa.array([2**53 + 1, 8])), ("b", pa.array([0.5, 9.0]))):
        pq.write_table(pa.table({"x": numbers}), tmp_path / f"{name}.parquet")
    table = Table(tmp_path).opened()
    assert table.table.column("x").to_pylist() == [2.0**53, 8.0, 0.5, 9.0]
    assert [part.num_rows for part in table.tables(["x"], 3)] == [3, 1]
