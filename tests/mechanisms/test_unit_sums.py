"""Sums, evaluations, searches and transformers: all rows of a unit together move them no more than one row may."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import PolynomialFeatures

from dperm import (
    Classes,
    Guarantee,
    InvalidParameterError,
    Number,
    PlanExceededError,
    PrivacyUnit,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMinMaxScaler,
    PrivatePCA,
    PrivateQuantileTransformer,
    PrivateSearch,
    PrivateStandardScaler,
    Schema,
    make_private_pipeline,
    private_evaluate,
)
from dperm.cli.main import run_with
from dperm.errors import DpermError
from dperm.files.content import content_of
from dperm.files.model_file import save_model
from dperm.kernel import oracle
from dperm.kernel.exact.words import fresh_key, stream_of
from dperm.kernel.noise import Randomness
from dperm.kernel.units import Membership, UnitRows
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.bounded_sum.answer import added
from dperm.mechanisms.cell_counts import CellCounts
from dperm.mechanisms.held_out import HeldOutChoice
from dperm.mechanisms.plan import Planned, plan_of_sums
from dperm.mechanisms.second_moment import SecondMoment
from dperm.mechanisms.setting import PublicTable
from dperm.models import trials as trials_module
from dperm.models.apart import rows_apart
from dperm.plan.sums import plan_sums
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.statement import PrivacyStatement
from dperm.rows.ids import codes_of_array
from dperm.verify.release import verify
from kernel.released_sums import released

UNITS = [
    PrivacyUnit("person", 3),
    PrivacyUnit("person", 1),
    PrivacyUnit("person", contribution="average"),
    PrivacyUnit("person", 4, "average"),
]
# How many rows the canary has: fewer, as many and more than a limit allows.
SIZES = (1, 3, 60)
OTHERS = np.repeat(np.arange(6), [1, 2, 1, 3, 1, 1])
BOUND, HUGE = 0.7, 1e308


def queries(adjacency, unit):
    """Every mechanism that the oracle adds up, with rows that are as far apart as two can be, and hostile ones."""
    table = PublicTable(7, adjacency, unit)
    hostile = [HUGE, -HUGE, np.inf, -np.inf, np.nan, 1e-308, 0.4]
    for distribution in ("Gaussian", "Laplace"):
        yield BoundedSum(table, "sum", 2, BOUND, False, distribution), [HUGE, 0.0], [-HUGE, 0.0], hostile
        yield BoundedSum(table, "sum", 2, BOUND, True, distribution), [HUGE, 0.0], [0.0, HUGE], hostile
        yield BoundedSum(table, "sum", 1, BOUND, True, distribution), [HUGE], [0.0], hostile
        yield CellCounts(table, "counts", (4, 6), distribution), [0, 5], [3, 2], [-1, 0, 1, 3, 5, 6, 99]
    yield SecondMoment(table, "moment", 2, BOUND), [HUGE, 0.0], [0.0, HUGE], hostile
    yield HeldOutChoice(table, "losses", 2), [HUGE, 0.0], [0.0, HUGE], hostile


CASES = [
    pytest.param(adjacency, unit, place, id=f"{adjacency.value}-{unit.contribution}-{unit.max_rows}-{place}")
    for adjacency in Adjacency
    for unit in UNITS
    for place in range(len(list(queries(adjacency, unit))))
]


def width(query):
    return {CellCounts: lambda: len(query.sizes), SecondMoment: lambda: query.width}.get(
        type(query), lambda: query.size
    )()


def exact(query, rows, ids, weights=None):
    """The sum before noise, as the oracle computes it; with other weights if they are given."""
    item = Planned(query)
    whole = oracle.Oracle.of_sums(plan_of_sums((item,)).with_noise(None), Randomness.from_random_state(None))
    units = Membership.of(query.setting.unit, codes_of_array(ids, len(ids))).drawn(fresh_key())
    if weights is not None:
        units = UnitRows(units.numbers, weights, units.n)
    half = len(rows) // 2  # in two parts, so that units are cut
    return whole._exact(item, [rows[:half], rows[half:]], units)


def moved(query, first, second):
    """In what the sensitivity is about."""
    if isinstance(query, HeldOutChoice):
        return float(np.ptp(first - second)) / 2.0
    return float(np.linalg.norm(first - second, ord=1 if query.distribution == "Laplace" else 2))


def with_canary(others, rows):
    """A table in which the canary's rows stand among those of others."""
    ids = np.concatenate([OTHERS, np.full(len(rows), 6)])
    table = np.concatenate([others, np.reshape(rows, (-1, others.shape[1]))])
    order = np.random.default_rng(len(rows)).permutation(len(ids))
    return table[order], ids[order]


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize(("adjacency", "unit", "place"), CASES)
def test_a_unit_moves_a_sum_by_no_more_than_is_declared_whatever_its_rows_hold(adjacency, unit, place):
    query, one, other, hostile = list(queries(adjacency, unit))[place]
    rng, columns = np.random.default_rng(place), width(query)
    # All rows of another unit are alike, so that it does not matter which of them are used.
    others = rng.choice(np.asarray(hostile, dtype=float), size=(6, columns))[OTHERS]
    farthest = 0.0
    for size in SIZES:
        tables = [
            np.tile(np.asarray(one, dtype=float), (size, 1)),
            np.tile(np.asarray(other, dtype=float), (size + 2, 1)),
            rng.choice(np.asarray(hostile, dtype=float), size=(size, columns)),
            np.empty((0, columns)),
        ]
        sums = [exact(query, *with_canary(others, rows)) for rows in tables]
        pairs = [(0, 3), (1, 3), (2, 3)] if adjacency is Adjacency.ADD_REMOVE else [(0, 1), (0, 2), (1, 2)]
        for first, second in pairs:
            distance = moved(query, sums[first], sums[second])
            assert distance <= query.sensitivity
            farthest = max(farthest, distance)
    assert farthest > 0.95 * query.sensitivity


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize(("adjacency", "unit", "place"), CASES)
def test_rows_that_are_not_weighted_by_unit_would_be_caught(adjacency, unit, place, monkeypatch):
    query, one, other, _ = list(queries(adjacency, unit))[place]
    others = np.zeros((len(OTHERS), width(query)))
    tables = [with_canary(others, np.tile(np.asarray(row, dtype=float), (60, 1))) for row in (one, other)]
    if adjacency is Adjacency.ADD_REMOVE:
        tables[1] = with_canary(others, [])
    with pytest.raises(PlanExceededError, match="weigh more than one row"):
        exact(query, *tables[0], np.ones(len(tables[0][1])))
    monkeypatch.setattr(UnitRows, "check", lambda self: None)
    sums = [exact(query, rows, ids, np.ones(len(ids))) for rows, ids in tables]
    assert moved(query, *sums) > 5.0 * query.sensitivity


def test_weighting_before_clipping_would_be_caught():
    query = BoundedSum(PublicTable(7, Adjacency.REPLACE_ONE, PrivacyUnit("person", 3)), "sum", 2, BOUND)
    rows, weights = np.tile([HUGE, 0.0], (3, 1)), np.full((3, 1), 1.0 / 3.0)
    assert np.linalg.norm(added(query, rows * weights)) > 2.9 * BOUND
    assert np.linalg.norm(added(query, rows, UnitRows(np.zeros(3, np.int64), weights[:, 0], 1))) <= BOUND


def test_rows_without_an_id_add_nothing_where_they_are_ignored():
    query = BoundedSum(PublicTable(7, Adjacency.REPLACE_ONE, PrivacyUnit("person", 3, missing="ignore")), "sum", 1, 1.0)
    rows, ids = np.array([[1.0], [1.0], [HUGE]]), [1, 2, None]
    assert exact(query, rows, ids)[0] == pytest.approx(2.0 / 3.0)


def test_the_oracle_refuses_rows_whose_units_do_not_fit_the_plan():
    by_unit = Planned(CellCounts(PublicTable(3, Adjacency.REPLACE_ONE, UNITS[0]), "counts", (2,)))
    by_row = Planned(CellCounts(PublicTable(3, Adjacency.REPLACE_ONE), "counts", (2,)))
    units = Membership.of(UNITS[0], np.arange(3)).drawn(fresh_key())
    for item, cells, whose in ((by_unit, 3, None), (by_row, 3, units), (by_unit, 2, units), (by_unit, 4, units)):
        counting = oracle.Oracle.of_sums(plan_of_sums((item,)).with_noise(1.0), Randomness.from_random_state(0))
        with pytest.raises((PlanExceededError, IndexError, ValueError)):
            counting.add_up(item, [np.zeros((cells, 1), dtype=int)], whose)
    plan = plan_sums([by_unit.query], Guarantee(1.0, 1e-6))
    for membership in (None, Membership.of(UNITS[1], np.arange(3))):
        with pytest.raises(InvalidParameterError, match="different privacy units"):
            released(plan, [lambda: [np.zeros((3, 1), dtype=int)]], 3, membership=membership)


def test_a_statement_names_the_unit_or_none():
    by_unit = plan_sums(
        [CellCounts(PublicTable(3, Adjacency.REPLACE_ONE, UNITS[0]), "counts", (2,))], Guarantee(1.0, 1e-6)
    ).statement
    assert by_unit.unit == UNITS[0]
    assert PrivacyStatement.from_dict(json.loads(json.dumps(by_unit.to_dict()))) == by_unit
    assert "one person, with up to 3 rows" in str(by_unit)
    by_row = plan_sums([CellCounts(PublicTable(3, Adjacency.REPLACE_ONE), "counts", (2,))], Guarantee(1.0, 1e-6))
    assert by_row.statement.to_dict()["unit"] is None


# A table of people with one to six rows each, of which every row has something of its person in it.
rng = np.random.default_rng(5)
PEOPLE = 3000
IDS = rng.permutation(np.repeat(np.arange(PEOPLE), rng.integers(1, 7, PEOPLE)))
TRAIT = rng.normal(size=PEOPLE)
X = np.column_stack([TRAIT[IDS] / 3 + rng.normal(size=IDS.size) / 6, rng.normal(size=IDS.size) / 3])
Y = X[:, 0] + rng.normal(size=IDS.size) / 4 > 0
ALMOST_NO_NOISE = 1000.0


class Known:
    """A public model: the first column, as a score."""

    classes_ = np.array([False, True])

    def predict(self, X):
        return np.asarray(X)[:, 0] > 0

    def predict_proba(self, X):
        shown = 1.0 / (1.0 + np.exp(-8.0 * np.asarray(X)[:, 0]))
        return np.column_stack([1.0 - shown, shown])


def person_means(values):
    return np.bincount(IDS, values) / np.bincount(IDS)


@pytest.mark.parametrize("contribution", ["average", "limit"])
def test_a_metric_is_that_of_people_or_of_rows_as_declared(contribution):
    """At this ε the noise on a count has a deviation of 0.005: an accuracy is off by 1e-4 never."""
    limit = None if contribution == "average" else 6
    found = private_evaluate(
        Known(), X, Y, epsilon=ALMOST_NO_NOISE, unit="person", contribution=contribution, max_rows_per_unit=limit,
        groups=IDS,
    )  # fmt: skip
    right = (Known().predict(X) == Y).astype(float)
    shown = np.clip(Known().predict_proba(X)[np.arange(len(Y)), Y.astype(int)], 0.01, 1.0)
    weigh = person_means if contribution == "average" else np.asarray
    assert found.privacy_.n == PEOPLE
    assert found.accuracy.value == pytest.approx(float(weigh(right).mean()), abs=1e-4)
    assert found.log_loss.value == pytest.approx(float(weigh(-np.log(shown)).mean()), abs=1e-3)
    total = sum(cell.value for line in found.confusion for cell in line)
    assert total == pytest.approx(PEOPLE if contribution == "average" else IDS.size / 6, rel=1e-3)
    assert abs(float(person_means(right).mean()) - float(right.mean())) > 3e-4  # the two can be told apart
    assert all(finding.holds for finding in verify(json.loads(json.dumps(found.to_dict()))))


def test_a_regression_is_evaluated_by_unit():
    numbers = np.clip(X[:, 0] + 0.1, -1.0, 1.0)

    class Half:
        def predict(self, X):
            return np.asarray(X)[:, 0]

    found = private_evaluate(
        Half(), X, numbers, epsilon=ALMOST_NO_NOISE, target_range=(-1.0, 1.0), unit="person", contribution="average",
        groups=IDS,
    )  # fmt: skip
    errors = np.abs(numbers - np.clip(X[:, 0], -1.0, 1.0))
    assert found.mae.value == pytest.approx(float(person_means(errors).mean()), abs=1e-3)


def test_files_are_evaluated_by_unit_wherever_an_id_stands(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y.astype(int), "person": IDS})
    frame[:4000].to_csv(tmp_path / "1.csv", index=False)
    frame[4000:].assign(person=[f"{number}.0" for number in IDS[4000:]]).to_csv(tmp_path / "2.csv", index=False)
    model = Known()
    model.feature_names_in_, model.classes_ = np.array(["a", "b"]), np.array([0, 1])
    model.predict_proba = lambda rows: Known.predict_proba(model, rows)
    found = private_evaluate(
        model, str(tmp_path / "*.csv"), target="y", epsilon=ALMOST_NO_NOISE, unit="person", contribution="average"
    )
    right = (X[:, 0] > 0) == Y
    assert found.privacy_.n == PEOPLE
    assert found.accuracy.value == pytest.approx(float(person_means(right.astype(float)).mean()), abs=1e-4)


def run(*arguments):
    """Exit code, what was printed, and what was said of errors."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run_with([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


def test_the_command_line_evaluates_by_unit_and_refuses_in_one_line(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "y": Y.astype(str), "person": IDS})
    frame.to_csv(tmp_path / "t.csv", index=False)
    schema = Schema({"a": Number((-2, 2))}, Classes("y", ("False", "True")))
    save_model(PrivateLogisticRegression(1.0, 1e-6, schema=schema).fit(frame), tmp_path / "m.json")
    asked = ["evaluate", tmp_path / "m.json", tmp_path / "t.csv", "--epsilon", "1"]
    code, out, _ = run(*asked, "--unit", "person", "--contribution", "average", "-o", tmp_path / "e.json")
    assert code == 0
    assert f"n = {PEOPLE} units" in out
    assert "one person, with all of its rows" in out
    assert run("verify", tmp_path / "e.json")[0] == 0
    for wrong in (
        ["--unit", "nobody", "--contribution", "average"],
        ["--unit", "person"],
        ["--max-rows-per-unit", "2"],
    ):
        code, _, err = run(*asked, *wrong)
        assert (code, err.count("\n")) == (2, 1)


def fitted(**declared):
    declared = {"unit": "person", "max_rows_per_unit": 6} | declared
    return PrivateLogisticRegression(1.0, 1e-6, solver="dp-gd", **declared)


def test_the_unit_of_a_model_or_of_its_schema_is_that_of_its_evaluation():
    model = fitted().fit(X, Y, groups=IDS)
    assert private_evaluate(model, X, Y, epsilon=1.0, groups=IDS).privacy_.unit == PrivacyUnit("person", 6)
    with pytest.raises(InvalidParameterError, match="no column 'person'"):
        private_evaluate(model, X, Y, epsilon=1.0)
    schema = Schema({"a": Number((-2, 2))}, Classes("y", ("False", "True")), unit=PrivacyUnit("person", 2))
    frame = pd.DataFrame({"a": X[:, 0], "y": Y.astype(str), "person": IDS})
    model = PrivateLogisticRegression(1.0, 1e-6, solver="dp-gd", schema=schema).fit(frame)
    found = private_evaluate(model, frame, epsilon=1.0)
    assert (found.privacy_.unit, found.privacy_.n) == (PrivacyUnit("person", 2), PEOPLE)
    with pytest.raises(DpermError, match="person"):
        private_evaluate(model, frame.drop(columns="person"), epsilon=1.0)
    other = private_evaluate(model, frame, epsilon=1.0, unit="person", max_rows_per_unit=3)
    assert other.privacy_.unit == PrivacyUnit("person", 3)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"groups": IDS}, "groups requires unit"),
        ({"unit": "person", "groups": IDS}, "max_rows_per_unit"),
        ({"unit": "person", "max_rows_per_unit": 0, "groups": IDS}, "max_rows_per_unit"),
        ({"unit": "person", "contribution": "sum", "groups": IDS}, "contribution"),
        ({"unit": "person", "max_rows_per_unit": 2, "groups": IDS[1:]}, "one id per row"),
        ({"unit": "person", "max_rows_per_unit": 2}, "no column 'person'"),
        ({"contribution": "average"}, "require unit"),
        ({"unit": "person", "contribution": "average", "missing_units": "ignore", "groups": IDS}, "declare a public n"),
        ({"unit": "person", "contribution": "average", "n": len(IDS), "groups": IDS}, "number of units"),
    ],
)
def test_an_evaluation_refuses_what_bounds_nobody(wrong, words):
    with pytest.raises(InvalidParameterError, match=words):
        private_evaluate(Known(), X, Y, epsilon=1.0, **wrong)


def crowd():
    """Units of 1 to 40 rows in no order, and rows of nobody."""
    codes = np.concatenate([np.repeat(np.arange(20), [1, 2, 3, 4, 40] * 4), [-1] * 5])
    return np.random.default_rng(1).permutation(codes)


@pytest.mark.parametrize("missing", ["separate", "ignore"])
def test_all_rows_of_a_unit_are_fitted_on_or_all_are_scored_on(missing):
    membership = Membership.of(PrivacyUnit("person", 2, missing=missing), crowd())
    rows = np.arange(len(crowd()), dtype=float)[:, None]
    apart = rows_apart(rows, rows[:, 0], membership.n, 12, stream_of(fresh_key()), membership)
    train, held = (part[0][:, 0].astype(int) for part in (apart.train, apart.held_out))
    assert not set(membership.numbers[train]) & set(membership.numbers[held])
    assert len(set(membership.numbers[train])) == 12
    assert sorted([*train, *held]) == sorted(np.flatnonzero(membership.numbers >= 0))
    np.testing.assert_array_equal(apart.train_units, membership.numbers[train])
    np.testing.assert_array_equal(apart.held_out_units.numbers, membership.numbers[held])


def test_every_unit_is_as_likely_as_another_to_be_fitted_on():
    """25 units of any size, 2000 draws at 10/25: a frequency is off by 0.06 with a probability below 1e-6."""
    membership = Membership.of(PrivacyUnit("person", 2), crowd())
    rows, stream, often = np.zeros((len(crowd()), 1)), stream_of(fresh_key()), np.zeros(membership.n)
    for _ in range(2000):
        often[np.unique(rows_apart(rows, None, membership.n, 10, stream, membership).train_units)] += 1
    np.testing.assert_allclose(often / 2000, 10 / membership.n, atol=0.06)


def test_where_a_unit_goes_does_not_depend_on_how_many_rows_another_has():
    codes, key = np.repeat(np.arange(10), 2), fresh_key()
    sides = []
    for many in (1, 100):
        table = Membership.of(PrivacyUnit("person", 2), np.concatenate([codes, np.full(many, 10)]))
        apart = rows_apart(np.zeros((20 + many, 1)), None, 11, 5, stream_of(key.copy()), table)
        sides.append(set(apart.train_units.tolist()) - {10})
    assert sides[0] == sides[1]


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("method", ["composition", "random-trials"])
def test_a_search_is_by_unit_from_its_parts_to_its_file(monkeypatch, adjacency, method):
    parts, weights = [], []

    def spied(*arguments):
        parts.append(rows_apart(*arguments))
        return parts[0]

    whole = oracle.Oracle._exact
    monkeypatch.setattr(trials_module, "rows_apart", spied)
    monkeypatch.setattr(
        oracle.Oracle, "_exact", lambda self, item, rows, units: weights.append(units) or whole(self, item, rows, units)
    )
    declared = None if adjacency is Adjacency.REPLACE_ONE else PEOPLE
    found = PrivateSearch(
        PrivateLogisticRegression(solver="dp-gd", unit="person", max_rows_per_unit=6), {"penalty": [1.0, 1e-3]},
        epsilon=4.0, delta=1e-6, method=method, adjacency=adjacency.value, n=declared,
    ).fit(X, Y, groups=IDS)  # fmt: skip
    (apart,) = parts
    assert not set(apart.train_units.tolist()) & set(apart.held_out_units.numbers.tolist())
    assert apart.train_units.size + apart.held_out_units.numbers.size == IDS.size
    for units in weights:
        assert max(np.bincount(units.numbers, units.weights)) <= 1.0
        assert units.weights.size == apart.held_out_units.numbers.size
    assert found.privacy_.n == found.best_estimator_.privacy_.n == PEOPLE
    assert found.privacy_.unit == found.best_estimator_.privacy_.unit == PrivacyUnit("person", 6)
    content = json.loads(json.dumps(content_of(found.best_estimator_)))
    assert [finding.text for finding in verify(content) if not finding.holds] == []


def test_a_search_refuses_candidates_of_different_units_and_ids_of_nothing():
    model = PrivateLogisticRegression(solver="dp-gd")
    units = [PrivacyUnit("person", 2), PrivacyUnit("person", 3)]
    several = [PrivateLogisticRegression(unit=unit.name, max_rows_per_unit=unit.max_rows) for unit in units]
    with pytest.raises(InvalidParameterError, match="same privacy unit"):
        PrivateSearch(candidates=several).fit(X, Y, groups=IDS)
    with pytest.raises(InvalidParameterError, match="same privacy unit"):
        PrivateSearch(candidates=[several[0], model]).fit(X, Y, groups=IDS)
    with pytest.raises(InvalidParameterError, match="groups requires unit"):
        PrivateSearch(model, {"penalty": [1.0, 0.1]}).fit(X, Y, groups=IDS)
    with pytest.raises(InvalidParameterError, match="no column 'person'"):
        PrivateSearch(several[0], {"penalty": [1.0, 0.1]}).fit(X, Y)


BOUNDS = [(-2.0, 2.0), (-1.0, 3.0)]
AVERAGE = {"unit": "person", "contribution": "average"}
TRANSFORMERS = [
    PrivateStandardScaler(ALMOST_NO_NOISE, 1e-6, bounds=BOUNDS, **AVERAGE),
    PrivateMinMaxScaler(1.0, 1e-6, bounds=BOUNDS, **AVERAGE),
    PrivateMinMaxScaler(1.0, 0.0, bounds=BOUNDS, unit="person", max_rows_per_unit=2),
    PrivateQuantileTransformer(1.0, 1e-6, bounds=BOUNDS, unit="person", max_rows_per_unit=2),
    PrivatePCA(1.0, 1e-6, row_norm=1.0, **AVERAGE),
]


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda one: type(one).__name__)
def test_a_unit_moves_the_sums_of_a_transformer_by_no_more_than_is_declared(transformer):
    transformer.fit(X, groups=IDS)
    assert (transformer.privacy_.n, transformer.privacy_.unit.name) == (PEOPLE, "person")
    plan = transformer.plan(n=7, n_features=2)
    hostile = [np.tile(row, (9, 1)) for row in ([HUGE, 0.0], [-HUGE, HUGE], [np.nan, 1.0], [1.0, 0.0], [0.0, 1.0])]
    for place, item in enumerate(plan.calibrated.plan.planned):
        sums = []
        for rows in hostile:
            table, ids = with_canary(np.full((len(OTHERS), 2), 0.3), rows)
            parts = np.concatenate(list(transformer._parts(table)[place]()))
            sums.append(exact(item.query, parts, ids))
        farthest = max(moved(item.query, first, second) for first in sums for second in sums)
        assert 0.4 * item.query.sensitivity < farthest <= item.query.sensitivity


def test_a_scaler_learns_the_mean_over_people_also_of_a_frame_with_their_ids():
    frame = pd.DataFrame({"a": X[:, 0], "person": IDS, "b": X[:, 1]})
    scaler = PrivateStandardScaler(ALMOST_NO_NOISE, 1e-6, bounds=BOUNDS, **AVERAGE).fit(frame)
    expected = [person_means(column).mean() for column in X.T]
    np.testing.assert_allclose(scaler.mean_, expected, atol=1e-3)
    assert scaler.transform(frame).shape == scaler.transform(frame.drop(columns="person")).shape == X.shape


@pytest.mark.parametrize("transformer", [PrivateStandardScaler(bounds=BOUNDS), PrivatePCA(row_norm=1.0)])
def test_means_are_refused_where_rows_weigh_less_than_n(transformer):
    transformer.set_params(unit="person", max_rows_per_unit=2)
    with pytest.raises(InvalidParameterError, match="requires contribution='average'"):
        transformer.fit(X, groups=IDS)


def test_a_transformer_refuses_ids_of_nothing_and_units_without_ids():
    with pytest.raises(InvalidParameterError, match="groups requires unit"):
        PrivateMinMaxScaler(bounds=BOUNDS).fit(X, groups=IDS)
    with pytest.raises(InvalidParameterError, match="no column 'person'"):
        PrivateMinMaxScaler(bounds=BOUNDS, **AVERAGE).fit(X)
    with pytest.raises(InvalidParameterError, match="number of units"):
        PrivateMinMaxScaler(bounds=BOUNDS, n=len(IDS), **AVERAGE).fit(X, groups=IDS)


def a_pipeline(**declared):
    return make_private_pipeline(
        PrivateStandardScaler(bounds=BOUNDS), PolynomialFeatures(2, include_bias=False),
        PrivateLinearRegression(solver="dp-gd", row_norm=2.0), epsilon=1.0, delta=1e-6, **declared,
    )  # fmt: skip


def test_a_pipeline_protects_one_unit_in_all_of_its_steps():
    pipe = a_pipeline(**AVERAGE).fit(X, X[:, 0], groups=IDS)
    units = [part.privacy_.unit for part in (pipe, pipe[0], pipe[-1])]
    assert units == [PrivacyUnit("person", contribution="average")] * 3
    assert pipe.privacy_.n == pipe[0].privacy_.n == pipe[-1].privacy_.n == PEOPLE
    assert pipe[-1].unit is None  # its own parameters are as they were
    assert pipe.predict(X[:3]).shape == (3,)
    asked = {"epsilon": 1.0, "target_range": (-1.0, 1.0)}
    assert private_evaluate(pipe, X, X[:, 0], groups=IDS, **asked).privacy_.n == PEOPLE
    with pytest.raises(InvalidParameterError, match="no column 'person'"):
        private_evaluate(pipe, X, X[:, 0], **asked)


@pytest.mark.parametrize(
    ("declared", "given", "words"),
    [
        ({}, {"groups": IDS}, "groups requires unit"),
        (AVERAGE, {}, "pass the ids as groups"),
        ({"unit": "person", "max_rows_per_unit": 2}, {"groups": IDS}, "requires contribution='average'"),
        (AVERAGE | {"n": len(IDS)}, {"groups": IDS}, "number of units"),
    ],
)
def test_a_pipeline_refuses_what_its_steps_could_not_protect(declared, given, words):
    with pytest.raises(InvalidParameterError, match=words):
        a_pipeline(**declared).fit(X, X[:, 0], **given)


def test_a_pipeline_refuses_a_step_with_a_unit_of_its_own_and_ids_among_the_columns():
    pipe = a_pipeline(**AVERAGE)
    with pytest.raises(InvalidParameterError, match="leave 'person' out of X"):
        pipe.fit(pd.DataFrame({"a": X[:, 0], "person": IDS}), X[:, 0], groups=IDS)
    pipe.set_params(privatestandardscaler__unit="household")
    with pytest.raises(InvalidParameterError, match="all steps share"):
        pipe.fit(X, X[:, 0], groups=IDS)
