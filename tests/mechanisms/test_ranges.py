"""Private ranges: one row moves no count by more than one, and every count that gets noise is accounted for."""

import math
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm import Amount, Classes, Guarantee, InvalidParameterError, Number, Schema
from dperm.accounting.composition import epsilon_of
from dperm.accounting.curve import gaussian_epsilon
from dperm.accounting.events import Composed
from dperm.kernel.counts import BeyondPart
from dperm.kernel.noise import Noise, Randomness
from dperm.kernel.oracle import Oracle
from dperm.mechanisms import GradientQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.mechanisms.range import RangeQuery
from dperm.mechanisms.range.answer import first_place
from dperm.plan.ranges import range_queries
from dperm.privacy.guarantee import Adjacency
from dperm.rows.arrays import TableSource
from kernel.harness import logistic_problem, setting_of

CANDIDATES = Number("private").candidates
values = st.floats(allow_nan=True, allow_infinity=True)


def setting(n, adjacency=Adjacency.REPLACE_ONE):
    return setting_of(logistic_problem(), adjacency, n=n, n_features=1)


def planned(*queries):
    return tuple(PlannedQuery(query, relative_noise=query.scale, fixed=True) for query in queries)


def exact_counts(values, query):
    return BeyondPart((query.column,), query.candidates).of({query.column: values}, None)


def release_ranges(table, schema, queries, randomness, noisy=True):
    """The schema with the ranges that an oracle finds."""
    source = TableSource(table.assign(y=0) if "y" not in table else table, None, schema)
    step = PlannedQuery(GradientQuery(queries[0].setting))
    plan = CalibratedPlan(Plan("test", (step,), {}, planned(*queries)), 1.0 if noisy else None)
    with Oracle(source, logistic_problem(), queries[0].setting, plan, randomness) as oracle:
        return oracle.complete(schema)


@given(st.lists(values, min_size=1, max_size=30), values, st.integers(0, 29))
@settings(max_examples=200, deadline=None)
def test_one_row_moves_no_count_by_more_than_one(rows, other, place):
    query = RangeQuery(setting(1000), "x", CANDIDATES, 1.0)
    before = exact_counts(np.array(rows), query)
    replaced = [*rows[: place % len(rows)], other, *rows[place % len(rows) + 1 :]]
    for neighbour in (rows[1:], [*rows, other], replaced):
        for one, two in zip(before, exact_counts(np.array(neighbour), query), strict=True):
            assert np.abs(one - two).max() <= 1.0


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_price_is_that_of_every_count_with_sensitivity_one_under_either_adjacency(adjacency):
    query = RangeQuery(setting(100_000, adjacency), "x", CANDIDATES, 50.0)
    counts = 2 * math.ceil(math.log2(len(CANDIDATES)))
    exact = gaussian_epsilon(math.sqrt(counts) / 50.0, 1e-6)
    assert epsilon_of(query.event(query.scale), 1e-6, adjacency) == pytest.approx(exact, rel=1e-9)
    pure = RangeQuery(setting(100_000, adjacency), "x", CANDIDATES, 50.0, "Laplace")
    assert epsilon_of(pure.event(pure.scale), 0.0, adjacency) == pytest.approx(counts / 50.0, rel=1e-9)
    assert epsilon_of(pure.event(pure.scale), 0.0, adjacency) >= counts / 50.0


@pytest.mark.parametrize("distribution", ["Gaussian", "Laplace"])
@pytest.mark.parametrize("rows", [[1.0] * 100, [np.nan] * 100, list(range(100))])
def test_as_many_counts_get_noise_as_are_paid_for_whatever_the_rows_hold(distribution, rows, monkeypatch):
    query, drawn = RangeQuery(setting(100), "x", CANDIDATES, 1.0, distribution), []

    def write_down(kind):
        return lambda values, scale, words: drawn.extend([(kind, scale)] * values.size)

    monkeypatch.setattr(Noise, "adders", {kind: write_down(kind) for kind in Noise.adders})
    schema = Schema({"x": Number("private")}, Classes("y", [0, 1]))
    release_ranges(pd.DataFrame({"x": rows}), schema, (query,), Randomness.from_random_state(0))
    assert drawn == [(distribution, query.scale * query.sensitivity)] * query.event(query.scale).count


def test_the_noise_on_a_count_has_the_scale_that_is_paid_for():
    # 1000 values lie above the first candidate, and 700 are wanted: noise says so with probability Φ(−300/σ).
    query = RangeQuery(setting(140_000), "x", (0.0, 1.0), 150.0)
    assert (query.steps_per_end, query.n_steps, query.beyond) == (1, 2, 700)
    above, _ = exact_counts(np.full(1000, 0.5), query)
    (item,), step, draws = planned(query), PlannedQuery(GradientQuery(query.setting)), 4000
    # The plan's own multiplier does not matter to a range.
    noise = Noise(item, CalibratedPlan(Plan("test", (step,), {}, (item,)), 7.0), Randomness.from_random_state(0))
    passed = sum(first_place(above, query, noise) == 0 for _ in range(draws))
    expected = NormalDist().cdf(-300 / 150.0)
    # 4.5 standard deviations: a false alarm once in 150 000.
    assert abs(passed / draws - expected) < 4.5 * math.sqrt(expected * (1 - expected) / draws)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_all_ranges_alone_keep_their_share_of_epsilon(delta, adjacency):
    schema = Schema(
        {"a": Number("private"), "b": Number((0, 1)), "c": Number("private", within=(0, 100))},
        Amount("y", "private"),
        range_share=0.3,
    )
    queries = range_queries(schema, setting(10**6, adjacency), Guarantee(2.0, delta))
    assert [query.column for query in queries] == ["a", "c", "y"]
    event = Composed(query.event(query.scale) for query in queries)
    assert 0.6 * (1 - 1e-6) <= epsilon_of(event, delta, adjacency) <= 0.6


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("missing", [0.0, 0.5])
@pytest.mark.parametrize("within", [None, (-10.0, 1000.0)])
def test_a_released_range_holds_nearly_all_values_and_not_much_more(missing, within):
    rng = np.random.default_rng(0)
    n = 20_000
    numbers = rng.gamma(3.0, 20.0, n)
    numbers[rng.random(n) < missing] = np.nan
    schema = Schema({"x": Number("private", within=within)}, Classes("y", [0, 1]))
    queries = range_queries(schema, setting(n), Guarantee(1.0, 1e-6))
    table = pd.DataFrame({"x": numbers})
    for seed in range(20):
        released = release_ranges(table, schema, queries, Randomness.from_random_state(seed))
        low, high = released.columns["x"].bounds
        inside = np.mean((numbers[~np.isnan(numbers)] >= low) & (numbers[~np.isnan(numbers)] <= high))
        assert released.columns["x"].released
        assert released.private_ranges == {}
        assert inside > 0.9
        assert high < 1.1 * np.nanmax(numbers)
        assert low > -11.0  # the candidate before the smallest one at most


def test_ages_are_found_though_many_people_share_one():
    ages = np.repeat(np.arange(17, 91), 400)
    schema = Schema({"age": Number("private")}, Classes("y", [0, 1]))
    queries = range_queries(schema, setting(ages.size), Guarantee(1.0, 1e-5))
    for seed in range(20):
        released = release_ranges(pd.DataFrame({"age": ages}), schema, queries, Randomness.from_random_state(seed))
        low, high = released.columns["age"].bounds
        assert 14 < low < 22
        assert 80 < high < 100


def test_two_fits_draw_different_noise():
    table, schema = (
        pd.DataFrame({"x": np.linspace(0, 50, 1000)}),
        Schema({"x": Number("private")}, Classes("y", [0, 1])),
    )
    query = (RangeQuery(setting(1000), "x", CANDIDATES, 40.0),)
    ends = {
        release_ranges(table, schema, query, Randomness.from_random_state(None)).columns["x"].bounds for _ in range(20)
    }
    assert len(ends) > 3


@pytest.mark.parametrize("column", [[5.0] * 500, [np.nan] * 500, [np.inf, -np.inf] * 250, ["?"] * 500])
def test_a_column_without_a_range_still_gives_two_rising_numbers(column):
    schema = Schema({"x": Number("private")}, Classes("y", [0, 1]))
    query = (RangeQuery(setting(500), "x", CANDIDATES, 20.0),)
    for noisy in (True, False):
        for seed in range(5):
            released = release_ranges(
                pd.DataFrame({"x": column}), schema, query, Randomness.from_random_state(seed), noisy=noisy
            )
            low, high = released.columns["x"].bounds
            assert low < high


def test_too_few_rows_for_a_range_are_refused_with_how_many_it_takes():
    with pytest.raises(InvalidParameterError, match="the private range of 'x' needs about 20000 rows"):
        RangeQuery(setting(1000), "x", CANDIDATES, 1000.0)
    good = {"setting": setting(1000), "column": "x", "candidates": CANDIDATES, "scale": 1.0}
    for bad in ({"scale": 0.0}, {"scale": math.nan}, {"distribution": "Gumbel"}):
        with pytest.raises(InvalidParameterError):
            RangeQuery(**(good | bad))
