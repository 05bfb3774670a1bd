"""Persons whose rows are spread over files: they are found by digests, weighed as in memory, and read once."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import dataset as arrow_dataset

from contracts.sources import PROBLEM, SCHEMA, N, files, frame, numbers, persons, schema_of
from dperm import Classes, InvalidTableError, Number, PrivacyUnit, PrivateLogisticRegression, Schema
from dperm.kernel.block import Block
from dperm.kernel.counts import BeyondPart, CellsPart
from dperm.kernel.exact.words import fresh_key
from dperm.kernel.noise import Randomness
from dperm.kernel.sums import RowSums
from dperm.kernel.units import Membership
from dperm.rows.arrays import TableSource
from dperm.rows.digests import IdColumn, Numbering
from dperm.rows.ids import codes_of_column
from dperm.rows.kept import KeptBlocks, Room
from dperm.rows.memory import MemoryBudget
from dperm.rows.pieces import ParquetPiece
from dperm.rows.streamed import FileSource

MEAN, LIMITED = PrivacyUnit("who", contribution="average"), PrivacyUnit("who", 3)
W = np.random.default_rng(3).normal(size=PROBLEM.dimension(4))


def as_parquet(table, folder):
    return files(*numbers(), table["who"])


def as_csv(table, folder):
    for place, rows in enumerate(np.array_split(np.arange(len(table)), 3)):
        table.iloc[rows].to_csv(folder / f"part-{place}.csv", index=False)
    return folder


def as_dataset(table, folder):
    return arrow_dataset.dataset(as_parquet(table, folder))


def as_filtered_dataset(table, folder):
    return as_dataset(table, folder).filter(arrow_dataset.field("y") >= 0)


FORMATS = [as_parquet, as_csv, as_dataset, as_filtered_dataset]


def gradient(source):
    with ThreadPoolExecutor(1) as pool:
        sums = RowSums(source, PROBLEM, pool, Randomness.from_random_state(0).sampling)
        return sums.gradient(W)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize(
    "unit", [MEAN, LIMITED, PrivacyUnit("who", 3, missing="ignore"), PrivacyUnit("who", 2, "average")], ids=str
)
@pytest.mark.parametrize("written", FORMATS)
def test_rows_weigh_the_same_in_every_format_as_in_memory(written, unit, tmp_path):
    table, key = frame(*numbers(), persons()), fresh_key()
    one = TableSource(table, None, schema_of(unit))
    other = FileSource(written(table, tmp_path), schema_of(unit), memory=MemoryBudget(10**6))
    for source in (one, other):
        source.draw_units(key)
    (whole,), parts = one._blocks(PROBLEM), list(other._blocks(PROBLEM))
    assert other._n_units == one._n_units
    np.testing.assert_array_equal(np.concatenate([block.units for block in parts]), whole.units)
    np.testing.assert_array_equal(np.concatenate([block.weight for block in parts]), whole.weight)
    np.testing.assert_allclose(gradient(other), gradient(one), rtol=1e-12, atol=1e-10)


def test_private_counts_weigh_rows_by_unit_as_in_memory(tmp_path):
    table, key = frame(*numbers(), persons()), fresh_key()
    schema = dataclasses.replace(
        schema_of(LIMITED), columns={**SCHEMA.columns, "x1": Number((-1, 1), encode="bins", bins="private", n_bins=4)}
    )
    one, other = TableSource(table, None, schema), FileSource(as_csv(table, tmp_path), schema)
    for part in (BeyondPart(("x0",), (-0.5, 0.0, 0.7)), CellsPart(("x1",))):
        for source in (one, other):
            source.draw_units(key)
        np.testing.assert_array_equal(other._count(part), one._count(part))
        assert one._count(part).max() <= one._n_units


def test_what_leaves_a_piece_holds_no_id_and_is_different_in_every_pass():
    texts = ["SENTINELvalue", "Robert'); DROP TABLE", "SENTINELvalue", None, "7.0", "7"]
    table = pa.table({"who": texts})
    one, other = (next(IdColumn("who", (), key, 10**6).read([table])) for key in (b"a" * 32, b"b" * 32))
    for found in (one, other):
        assert len(found.digests) in (48, 64)  # 7.0 and 7 are written differently, and are one id
        assert b"SENTINEL" not in found.digests
        assert found.codes.tolist()[:4] == [0, 1, 0, -1]
    pieces = [{rows.digests[k : k + 16] for k in range(0, len(rows.digests), 16)} for rows in (one, other)]
    assert not pieces[0] & pieces[1]
    numbering = Numbering(10**6, None)
    numbering.add(one)
    membership = numbering.membership(MEAN)
    assert membership.numbers.tolist() == [0, 1, 0, 3, 2, 2]
    assert membership.n == 4


@pytest.mark.parametrize("at_once", [1, 7, 10**6])
def test_units_are_numbered_by_their_first_row_however_many_are_looked_at_together(at_once, tmp_path):
    ids = pa.array(np.random.default_rng(0).integers(0, 80, 500).astype(str))
    column = IdColumn("who", ("5", "6"), b"k" * 32, 200 * at_once)
    for folder in (None, tmp_path):
        rows = column.read(pa.table({"who": ids.slice(first, 13)}) for first in range(0, 500, 13))
        numbering = Numbering.of(rows, 200 * at_once, folder)
        numbers = numbering.membership(PrivacyUnit("who", 2, missing="ignore")).numbers
        assert numbers.tolist() == codes_of_column(ids, "who", ("5", "6")).tolist()
    assert not list(tmp_path.iterdir())
    first = [numbers.tolist().index(number) for number in range(numbers.max() + 1)]
    assert first == sorted(first)


def test_ids_of_any_kind_raise_nothing_and_one_that_fills_the_table_changes_no_other(tmp_path):
    odd = ['"', "''", "\x00", "x" * 100_000, "é\n", "-0.0", "1e999", "inf", "NaN", "true", "TRUE", " ", "{}", "\ud7ff"]
    for ids in (odd, [*odd, *["everywhere"] * 5000]):
        table = pa.table({"x0": np.zeros(len(ids)), "y": np.zeros(len(ids), int), "who": ids})
        pa.parquet.write_table(table, tmp_path / "odd.parquet")
        source = FileSource(tmp_path / "odd.parquet", Schema({"x0": Number((-1, 1))}, Classes("y", [0, 1]), unit=MEAN))
        # NaN and the blank are no ids, and true is written in two ways.
        assert source._n_units == len(odd) - 1 + (len(ids) > len(odd))
        numbers = source._members().numbers[: len(odd)]
        assert numbers[9] == numbers[10]
        assert len(set(numbers.tolist())) == len(odd) - 1


def test_a_column_that_is_not_there_or_holds_no_ids_is_refused_in_a_sentence(tmp_path):
    table = frame(*numbers())
    table.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InvalidTableError, match=r"rows\.parquet has no column 'who'"):
        FileSource(tmp_path, schema_of(MEAN))
    table.assign(who=[[1, 2]] * N).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InvalidTableError, match="column 'who' should contain ids and contains list"):
        FileSource(tmp_path, schema_of(MEAN))._n_units  # noqa: B018


def test_ids_are_read_alone_and_once_whatever_key_and_schema_follow(monkeypatch):
    asked = []
    tables = ParquetPiece._tables

    def watched(piece, columns, reading):
        asked.append(tuple(columns))
        return tables(piece, columns, reading)

    monkeypatch.setattr(ParquetPiece, "_tables", watched)
    source = FileSource(files(*numbers(), persons()), schema_of(LIMITED), memory=MemoryBudget(10**6))
    source._raw._left = 0  # as if the table were large
    assert source._n_units > 0
    assert set(asked) == {("who",)}
    n_passes = len(asked)
    source.draw_units(fresh_key())
    narrow = Schema({"x0": SCHEMA.columns["x0"]}, SCHEMA.target, unit=LIMITED)
    assert source.with_schema(narrow)._n_units == source._n_units
    assert len(asked) == n_passes
    gradient(source)
    assert len(asked) == 2 * n_passes
    assert all("who" not in columns for columns in asked[n_passes:])
    assert source.with_schema(schema_of(PrivacyUnit("who", 4)))._n_units == source._n_units
    assert len(asked) == 3 * n_passes


def test_another_key_uses_other_rows_and_the_same_key_the_same_ones():
    source, keys = FileSource(files(*numbers(), persons()), schema_of(LIMITED)), [fresh_key(), fresh_key()]
    found = []
    for key in (keys[0], keys[0], keys[1], keys[0]):
        source.draw_units(key)
        found.append(np.concatenate([block.weight for block in source._blocks(PROBLEM)]))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[3])
    assert (found[0] != found[2]).any()


@pytest.mark.parametrize("room", [0, 2**30], ids=["file", "memory"])
def test_a_block_that_is_kept_has_its_units(room, tmp_path):
    (X, y), unit_rows = numbers(), Membership.of(LIMITED, np.arange(N) % 70).drawn(fresh_key())
    block, kept = Block.from_table(X, y, PROBLEM, None, unit_rows), KeptBlocks(Room(room), tmp_path)
    kept.offer(0, block)
    for name in ("table", "target", "scale", "weight", "units"):
        np.testing.assert_array_equal(getattr(kept[0], name), getattr(block, name))
    assert kept[0].n_units == 70
    for name in ("units", "rows", "starts"):
        np.testing.assert_array_equal(getattr(kept[0].members, name), getattr(block.members, name))
    kept.close()


def test_a_unit_that_is_replaced_by_an_empty_line_does_not_end_a_fit(tmp_path):
    schema = Schema({"a": Number((0, 1))}, Classes("y", [0, 1]), unit=LIMITED, n=40)
    lines = [f"{k % 10 / 10},{k % 2},{k % 40}" for k in range(79)]
    model = PrivateLogisticRegression(2.0, 1e-4, schema=schema, solver="dp-gd", row_warnings=False)
    for last in ("0.9,1,39", ""):
        content = [line for line in lines if not line.endswith(",39")]
        (tmp_path / "rows.csv").write_text("\n".join(["a,y,who", *content, last, ""]))
        assert model.fit(FileSource(tmp_path / "rows.csv")).privacy_.n == 40


def test_a_fit_of_files_protects_the_unit_and_says_so(tmp_path):
    table = frame(*numbers(), persons())
    model = PrivateLogisticRegression(
        2.0, 1e-4, schema=SCHEMA, solver="dp-sgd", unit="who", max_rows_per_unit=3, row_warnings=False
    )
    model.fit(as_csv(table, tmp_path))
    assert model.privacy_.unit == LIMITED
    assert model.privacy_.n == TableSource(table, None, schema_of(LIMITED))._n_units
