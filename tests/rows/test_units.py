"""A unit's rows together weigh no more than one row, and what becomes of them depends on no other unit."""

from fractions import Fraction

import numpy as np
import pytest

from dperm import (
    Category,
    Classes,
    InvalidParameterError,
    Number,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Schema,
)
from dperm.errors import DroppedRowsWarning, InvalidTableError
from dperm.kernel.exact.words import fresh_key
from dperm.kernel.sampling import Sample
from dperm.kernel.source import check_count
from dperm.kernel.units import Members, Membership
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.unit import PrivacyUnit
from dperm.rows.ids import codes_of_array, codes_of_column

UNITS = [
    PrivacyUnit("person", 3),
    PrivacyUnit("person", 1),
    PrivacyUnit("person", 7, missing="ignore"),
    PrivacyUnit("person", contribution="average"),
    PrivacyUnit("person", 4, "average"),
]
SIZES = (1, 2, 3, 4, 6, 7, 49, 1000)


def crowd(sizes=SIZES, seed=0):
    """The unit of every row, in no order, and two rows of nobody."""
    codes = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), [-1, -1]])
    return np.random.default_rng(seed).permutation(codes)


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_the_weights_of_a_unit_add_up_to_at_most_one_in_exact_arithmetic(unit):
    rows = Membership.of(unit, crowd()).drawn(fresh_key())
    for number in range(rows.n):
        own = rows.weights[rows.numbers == number]
        total = sum(map(Fraction, own.tolist()))
        assert total <= 1
        # The product with a weight, each rounded, is still at most that weight's bound.
        assert sum(Fraction(float(weight * 1.7)) for weight in own.tolist()) <= Fraction(1.7)
        if unit.contribution == "average" and own.any():
            assert total > Fraction(1) - Fraction(1, 2**48)
        if unit.max_rows is not None:
            assert np.count_nonzero(own) <= unit.max_rows
    assert int(rows.shares.sum()) <= rows.n * 2**32


def test_under_a_limit_all_rows_that_are_used_weigh_the_same():
    rows = Membership.of(PrivacyUnit("person", 5), crowd()).drawn(fresh_key())
    used = rows.weights[rows.weights > 0]
    assert len(set(used.tolist())) == 1
    assert used[0] == pytest.approx(0.2)
    counts = [np.count_nonzero(rows.weights[rows.numbers == number]) for number in range(len(SIZES))]
    assert counts == [min(size, 5) for size in SIZES]


def test_a_row_without_an_id_is_a_unit_of_its_own_or_ignored():
    codes = crowd()
    separate = Membership.of(PrivacyUnit("person", 2), codes).drawn(fresh_key())
    assert separate.n == len(SIZES) + 2
    assert (separate.weights[codes < 0] > 0).all()
    assert len(set(separate.numbers[codes < 0].tolist())) == 2
    ignored = Membership.of(PrivacyUnit("person", 2, missing="ignore"), codes).drawn(fresh_key())
    assert ignored.n == len(SIZES)
    assert not ignored.weights[codes < 0].any()


def test_every_choice_of_rows_is_as_likely_as_any_other():
    """Two of four rows: six choices. A χ² of 5 degrees exceeds 30 with a probability of 1.5e-5."""
    membership = Membership.of(PrivacyUnit("person", 2), np.zeros(4, dtype=np.int64))
    counts: dict[tuple[bool, ...], int] = {}
    for _ in range(3000):
        chosen = tuple((membership.drawn(fresh_key()).weights > 0).tolist())
        counts[chosen] = counts.get(chosen, 0) + 1
    assert len(counts) == 6
    assert sum((count - 500.0) ** 2 / 500.0 for count in counts.values()) < 30.0


def test_an_id_that_fills_the_table_changes_nothing_for_the_others():
    """What others weigh is the same however many rows one unit has."""
    few, many = np.array([0, 1, 1, 2]), np.concatenate([[0, 1, 1, 2], np.zeros(5000, dtype=np.int64)])
    for unit in UNITS:
        first, second = (Membership.of(unit, codes).drawn(fresh_key()) for codes in (few, many))
        for number in (1, 2):
            weights = [np.sort(rows.weights[rows.numbers == number]).tolist() for rows in (first, second)]
            assert weights[0] == weights[1]


def test_a_batch_holds_all_rows_of_a_unit_or_none():
    numbers = Membership.of(PrivacyUnit("person", 2), crowd()).numbers
    members = Members.of(numbers, int(numbers.max()) + 1)
    for step in range(50):
        batches = Sample(fresh_key(), step, 0.4).batches_by_unit(members, n_steps=3)
        assert batches.edges[-1] == batches.rows.size
        for first, last in zip(batches.edges[:-1], batches.edges[1:], strict=True):
            rows = batches.rows[first:last]
            assert len(set(rows.tolist())) == rows.size
            drawn = set(numbers[rows].tolist())
            assert set(rows.tolist()) == set(np.flatnonzero(np.isin(numbers, list(drawn))).tolist())


def test_units_are_drawn_with_the_rate_that_is_accounted_for():
    """8 units of very different size, 4000 draws at 0.3: a frequency is off by 0.035 with a probability below 1e-5."""
    numbers = np.repeat(np.arange(8), [1, 2, 3, 4, 50, 6, 7, 80])
    members, key = Members.of(numbers, 8), fresh_key()
    drawn = np.zeros(8)
    for step in range(4000):
        rows = Sample(key, step, 0.3).batches_by_unit(members).rows
        drawn[np.unique(numbers[rows])] += 1
    assert np.abs(drawn / 4000 - 0.3).max() < 0.035


def test_blocks_of_one_table_draw_the_same_units():
    numbers = crowd()[:-2]
    whole, key = Members.of(numbers, 8), fresh_key()
    halves = [Members.of(part, 8) for part in np.array_split(numbers, 2)]
    sample = Sample(key, 1, 0.5)
    together = np.sort(sample.batches_by_unit(whole).rows)
    first, second = (sample.batches_by_unit(half).rows for half in halves)
    assert together.tolist() == np.sort(np.concatenate([first, second + len(np.array_split(numbers, 2)[0])])).tolist()


def test_ids_that_are_written_the_same_are_the_same():
    codes = codes_of_array([2, 2.0, "2", " 2 ", True, 1, None, float("nan"), [1], {}, "x"], 11)
    assert len(set(codes[:4].tolist())) == 1
    assert codes[4] != codes[5]
    assert codes[6:10].tolist() == [-1] * 4
    assert codes[10] not in (-1, *codes[:6].tolist())


class Strange:
    """An id of a kind of its own."""

    def __init__(self, **methods):
        self.methods = methods

    def __eq__(self, other):
        return self.methods["eq"]()

    def __hash__(self):
        return self.methods["hash"]()

    def __str__(self):
        return self.methods["text"]()


def raises():
    raise RuntimeError("a value")


HARMLESS = {"eq": lambda: True, "hash": lambda: 1, "text": lambda: "a"}


@pytest.mark.parametrize("method", ["eq", "hash", "text", None])
def test_an_id_that_raises_whatever_is_done_with_it_is_no_id(method):
    strange = [Strange(**(HARMLESS | ({} if method is None else {method: raises}))) for _ in range(2)]
    codes = codes_of_array([*strange, 1, "a", 1], 5).tolist()
    assert codes[:2] == ([-1, -1] if method else [codes[3]] * 2)
    assert codes[2] == codes[4] not in (-1, codes[3])


def test_equal_ids_that_are_written_differently_are_different_whatever_else_there_is():
    from datetime import UTC, datetime, timedelta, timezone
    from decimal import Decimal

    here = datetime(2020, 1, 1, tzinfo=UTC)
    for one, two in (
        (Decimal("1.50"), Decimal("1.5")),
        (here, here.astimezone(timezone(timedelta(hours=1)))),
        (Strange(**HARMLESS), Strange(**HARMLESS | {"text": lambda: "b"})),
        (b"\xff", b"\xfe"),
    ):
        alone = codes_of_array([two, str(two) if not isinstance(two, bytes) else two], 2).tolist()
        beside = codes_of_array([one, two, str(two) if not isinstance(two, bytes) else two], 3).tolist()
        assert alone == [0, 0]
        assert beside[0] != beside[1] == beside[2]


@pytest.mark.parametrize("other", [None, 2**63, -1, "x", 0.5])
def test_no_other_id_makes_large_whole_numbers_the_same(other):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    ids = [2**53, 2**53 + 1, 2**53, other]
    given = [ids, pd.Series(ids, dtype=object)]
    if other is None or other == -1:
        given += [pd.Series(ids, dtype="Int64"), pd.Series(pd.Categorical(ids)), pl.Series(ids), pa.array(ids)]
    for groups in given:
        codes = codes_of_array(groups, 4).tolist()
        assert codes[0] == codes[2] != codes[1]
        assert codes[3] == -1 if other is None else codes[3] not in codes[:3]


def test_missing_ids_of_every_kind_are_none_and_a_masked_one_leaves_no_number_behind():
    import pandas as pd

    for values in (
        np.array([pd.NA, "a", pd.NaT, "a"], dtype=object),
        pd.Series([None, "a", None, "a"], dtype="string"),
        np.array(["NaT", "2020-01-01", "NaT", "2020-01-01"], dtype="M8[ns]"),
        pd.Series([None, 1.5, None, 1.5], dtype="Float64"),
        np.ma.array([7, 5, 9, 5], mask=[True, False, True, False]),
    ):
        codes = codes_of_array(values, 4)
        assert codes.tolist() == [-1, 0, -1, 0]
        assert Membership.of(PrivacyUnit("person", 2), codes).n == 3
    nobody = Membership.of(PrivacyUnit("person", 2, missing="ignore"), np.array([-1, -1])).drawn(fresh_key())
    assert (nobody.n, nobody.weights.tolist()) == (0, [0.0, 0.0])
    # How many entries of a list are lists is a fact about rows, and one unit may have most of them.
    for table in ([[1], [2]], [[1], None]):
        assert codes_of_array(table, 2).tolist() == [-1, -1]
    assert codes_of_array([(1,), (2, 3)], 2).tolist() == [0, 1]
    with pytest.raises(InvalidParameterError, match="one id per row"):
        codes_of_array(np.ones((2, 1)), 2)


@pytest.mark.parametrize("model", [PrivateLogisticRegression, PrivateLinearRegression])
def test_a_unit_that_has_most_rows_does_not_decide_of_what_kind_a_target_is(model):
    """With rows protected one by one a majority of bad labels is refused, as a fact about the table."""
    groups = np.append(np.zeros(300, dtype=int), np.arange(1, 100))
    X = np.random.default_rng(0).normal(size=(399, 2))
    y = np.array([*["text"] * 300, *[0, 1] * 49, 0], dtype=object)
    more = {"classes": [0, 1]} if model is PrivateLogisticRegression else {"row_norm": 1.0}
    fit = model(1.0, 1e-5, solver="dp-gd", row_warnings=False, **more)
    with pytest.raises(InvalidParameterError):
        fit.fit(X, y)
    by_unit = fit.set_params(unit="who", max_rows_per_unit=2).fit(X, y, groups=groups)
    assert by_unit.privacy_.n == 100


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        ([-128, 127, 3, -128], np.int8),
        ([1, 1, 1], np.bool_),
        ([2**64 - 1, 2**64 - 2, 2**64 - 1], np.uint64),
        ([-(2**63), 2**63 - 1, 5, 5], np.int64),
        ([7, 9, 8, 7, 9], np.int64),
        ([], np.int32),
    ],
)
def test_whole_numbers_of_every_size_are_told_apart(ids, kind):
    codes = codes_of_array(np.array(ids, dtype=kind), len(ids))
    assert [ids.index(value) for value in ids] == [codes.tolist().index(code) for code in codes.tolist()]
    assert sorted(set(codes.tolist())) == list(range(len(set(ids))))


def test_ids_of_every_kind_of_column_are_read():
    import pyarrow as pa

    for values, same in (
        (pa.array([1, 2, 1, None]), [0, 2]),
        (pa.array([1.0, 2.5, 1.0, float("nan")]), [0, 2]),
        (pa.array(["a", "b", " a", ""]), [0, 2]),
        (pa.array([0, 1, 0, None], pa.timestamp("s")), [0, 2]),
        (pa.array(["a", "b", "a", None]).dictionary_encode(), [0, 2]),
    ):
        codes = codes_of_column(values, "id")
        assert codes[same[0]] == codes[same[1]] >= 0
        assert codes[1] not in (-1, codes[0])
        assert codes[3] == -1
    assert codes_of_column(pa.array(["?", "a"]), "id", ["?"]).tolist() == [-1, 0]
    with pytest.raises(InvalidTableError, match="should contain ids"):
        codes_of_column(pa.array([[1], [2]]), "id")


def table(n_units=300, seed=0):
    import pandas as pd

    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.repeat(np.arange(n_units), rng.integers(1, 6, n_units)))
    frame = pd.DataFrame({"a": rng.uniform(0, 1, ids.size), "b": rng.choice(["u", "v"], ids.size), "who": ids})
    frame["y"] = (frame["a"] > 0.5).astype(int)
    return frame


SCHEMA = Schema({"a": Number((0, 1)), "b": Category(["u", "v"])}, Classes("y", [0, 1]), unit=PrivacyUnit("who", 3))


def test_n_is_the_number_of_units_and_the_statement_names_the_unit():
    frame = table()
    model = PrivateLogisticRegression(2.0, 1e-4, schema=SCHEMA, solver="dp-gd", row_warnings=False).fit(frame)
    assert model.privacy_.n == 300
    assert model.privacy_.unit == PrivacyUnit("who", 3)
    assert "who" not in model.feature_names_in_


def test_the_same_fit_without_a_schema_takes_the_ids_apart():
    frame = table()
    rows = frame[["a", "who"]]
    model = PrivateLogisticRegression(
        2.0, 1e-4, classes=[0, 1], solver="dp-sgd", unit="who", contribution="average", row_warnings=False
    )
    assert model.fit(rows, frame["y"]).n_features_in_ == 1
    assert model.predict(rows).shape == model.predict(rows[["a"]]).shape == (len(rows),)
    given = model.fit(rows[["a"]], frame["y"], groups=frame["who"])
    assert given.privacy_.n == 300


@pytest.mark.parametrize(
    ("parameters", "groups", "words"),
    [
        ({"unit": "who"}, None, "pass max_rows_per_unit"),
        ({"unit": "who", "max_rows_per_unit": 0}, None, "max_rows_per_unit"),
        ({"unit": "nobody", "max_rows_per_unit": 2}, None, "no column 'nobody'"),
        ({"max_rows_per_unit": 2}, None, "require unit"),
        ({"contribution": "average"}, None, "require unit"),
        ({"unit": "who", "max_rows_per_unit": 2, "contribution": "all"}, None, "contribution"),
        ({"unit": "who", "max_rows_per_unit": 2, "n": 100}, None, "number of units"),
        ({"unit": "person", "max_rows_per_unit": 2}, [1, 2], "one id per row"),
        ({}, [1] * 2, "groups requires unit"),
        ({"unit": "who", "max_rows_per_unit": 2, "noise": "paper"}, None, "certified noise"),
        ({"unit": "who", "max_rows_per_unit": 2, "intervals": True}, None, "intervals cannot be combined"),
    ],
)
def test_wrong_declarations_are_refused_in_a_sentence(parameters, groups, words):
    frame = table()
    model = PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], solver="dp-gd", **parameters)
    with pytest.raises(InvalidParameterError, match=words):
        model.fit(frame[["a", "who"]], frame["y"], groups=groups)


def test_a_schema_whose_unit_is_a_feature_or_not_there_is_refused():
    with pytest.raises(InvalidParameterError, match="cannot also be a feature"):
        Schema({"a": Number((0, 1))}, Classes("y", [0, 1]), unit=PrivacyUnit("a", 2))
    with pytest.raises(InvalidTableError, match="no column 'who'"):
        PrivateLogisticRegression(1.0, 1e-5, schema=SCHEMA).fit(table().drop(columns="who"))


def test_ids_that_are_all_different_are_said_to_be_rows():
    frame = table().drop_duplicates("who")
    model = PrivateLogisticRegression(2.0, 1e-4, schema=SCHEMA, solver="dp-gd")
    with pytest.warns(DroppedRowsWarning, match="hardly any who has more than one row"):
        model.fit(frame)


def test_more_units_than_declared_are_refused_and_ignored_ids_make_the_count_private():
    unit = PrivacyUnit("who", 2)
    check_count(105, 100, Adjacency.ADD_REMOVE, unit)
    with pytest.raises(InvalidParameterError, match=r"declare about its number of units \(who\)"):
        check_count(107, 100, Adjacency.ADD_REMOVE, unit)
    ignoring = PrivacyUnit("who", 2, missing="ignore")
    check_count(99, 100, Adjacency.REPLACE_ONE, ignoring)
    with pytest.raises(InvalidParameterError, match="declare at least that number"):
        check_count(101, 100, Adjacency.REPLACE_ONE, ignoring)
    frame = table()
    frame.loc[0, "who"] = np.nan
    model = PrivateLogisticRegression(
        2.0, 1e-4, classes=[0, 1], solver="dp-gd", unit="who", max_rows_per_unit=3, missing_units="ignore",
        row_warnings=False,
    )  # fmt: skip
    assert not model.fit(frame[["a", "who"]], frame["y"]).privacy_.for_release
