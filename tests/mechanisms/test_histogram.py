"""Private bins: one row moves the counts by no more than is declared, and bins are cut by noisy counts alone."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm import Category, Classes, Guarantee, InvalidParameterError, Number, PrivateLogisticRegression, Schema
from dperm.accounting.composition import epsilon_of
from dperm.accounting.curve import gaussian_epsilon, gaussian_mu
from dperm.accounting.events import Composed
from dperm.kernel.noise import Noise, Randomness
from dperm.kernel.oracle import Oracle
from dperm.mechanisms import GradientQuery, HistogramQuery
from dperm.mechanisms.histogram.answer import exact_histogram
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.plan.ranges import HISTOGRAM_SHARE, count_deviation, histogram_query
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2
from dperm.rows.arrays import TableSource
from dperm.schema.binning import cell_counts, cell_edges, quantile_cuts
from kernel.harness import logistic_problem, setting_of

RANGES = {"a": (0.0, 100.0), "b": (-3.0, 1e6), "c": (17.0, 90.0)}
values = st.floats(allow_nan=True, allow_infinity=True)
rows = st.tuples(values, values, values)


def binned(bounds, **more):
    return Number(bounds, encode="bins", bins="private", n_bins=4, **more)


SCHEMA = Schema({name: binned(bounds) for name, bounds in RANGES.items()}, Classes("y", [0, 1]))


def setting(n, adjacency=Adjacency.REPLACE_ONE, schema=SCHEMA):
    return setting_of(logistic_problem(), adjacency, n=n, n_features=schema.n_features)


def counts(table, schema=SCHEMA, adjacency=Adjacency.REPLACE_ONE):
    """The exact counts, before noise."""
    frame = pd.DataFrame(list(table), columns=list(RANGES)).assign(y=0)
    query = HistogramQuery(setting(max(len(frame), 1), adjacency), tuple(RANGES), 1.0)
    sums = SimpleNamespace(source=TableSource(frame, None, schema))
    return exact_histogram(query, SimpleNamespace(sums=sums))


def moved(table, neighbour, distribution, adjacency, schema=SCHEMA):
    """How far the counts move, and how far they are declared to."""
    query = HistogramQuery(setting(10, adjacency), tuple(RANGES), 1.0, distribution)
    difference = counts(table, schema) - counts(neighbour, schema)
    return np.linalg.norm(difference, 1 if distribution == "Laplace" else 2), query.sensitivity


@pytest.mark.long
@pytest.mark.parametrize("distribution", ["Gaussian", "Laplace"])
@given(st.lists(rows, min_size=2, max_size=6), rows, st.sampled_from(["clip", "missing"]))
@settings(max_examples=60, deadline=None)
def test_one_row_moves_the_counts_by_no_more_than_is_declared(distribution, table, other, outside):
    schema = Schema({name: binned(RANGES[name], outside=outside) for name in RANGES}, Classes("y", [0, 1]))
    for neighbour in (table[1:], [*table, other]):
        far, declared = moved(table, neighbour, distribution, Adjacency.ADD_REMOVE, schema)
        assert far <= declared
    far, declared = moved(table, [other, *table[1:]], distribution, Adjacency.REPLACE_ONE, schema)
    assert far <= declared


@pytest.mark.parametrize("distribution", ["Gaussian", "Laplace"])
def test_a_sensitivity_five_per_cent_smaller_would_be_wrong(distribution):
    low, high = (-math.inf,) * 3, (math.inf,) * 3
    for table, neighbour, adjacency in (
        ([low, low], [low], Adjacency.ADD_REMOVE),
        ([low, low], [low, high], Adjacency.REPLACE_ONE),
    ):
        far, declared = moved(table, neighbour, distribution, adjacency)
        assert 0.95 * declared < far <= declared


def test_a_missing_value_is_in_no_cell_and_one_beyond_an_end_in_the_outer_one():
    bounds = RANGES["c"]
    counted = cell_counts(np.array([np.nan, -np.inf, 17.0, 90.0, 1e300]), bounds)
    assert counted.size == cell_edges(bounds).size + 1
    assert (counted.sum(), counted[0], counted[-1]) == (4.0, 2.0, 2.0)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_cost_is_that_of_one_release_with_this_multiplier_under_either_adjacency(adjacency):
    query = HistogramQuery(setting(1000, adjacency), tuple(RANGES), 7.0)
    exact = gaussian_epsilon(1.0 / 7.0, 1e-6)
    assert epsilon_of(query.event(query.scale), 1e-6, adjacency) == pytest.approx(exact, rel=1e-9)
    assert epsilon_of(query.event(0.95 * query.scale), 1e-6, adjacency) > exact
    pure = HistogramQuery(setting(1000, adjacency), tuple(RANGES), 7.0, "Laplace")
    assert 1 / 7.0 <= epsilon_of(pure.event(pure.scale), 0.0, adjacency) <= 1 / 7.0 * (1 + 1e-9)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_all_histograms_cost_their_share_and_their_noise_is_what_the_rule_counts_on(delta, adjacency):
    guarantee = Guarantee(2.0, delta)
    query = histogram_query(tuple(RANGES), setting(1000, adjacency), guarantee)
    if delta == 0.0:
        expected = HISTOGRAM_SHARE * 2.0
    else:
        expected = gaussian_epsilon(math.sqrt(HISTOGRAM_SHARE) * gaussian_mu(guarantee), delta)
    assert expected * (1 - 1e-6) <= epsilon_of(query.event(query.scale), delta, adjacency) <= expected
    item, step = PlannedQuery(query, relative_noise=query.scale, fixed=True), PlannedQuery(GradientQuery(query.setting))
    noise = Noise(item, CalibratedPlan(Plan("t", (step,), {}, (item,)), 1.0), Randomness.from_random_state(0))
    drawn = noise.release(np.zeros(20_000), query.sensitivity)
    deviation = count_deviation(len(RANGES), adjacency, guarantee)
    # The spread of a spread over 20 000 Laplace draws is 0.8 %: 4.5 of them, a false alarm once in 150 000.
    assert np.std(drawn) == pytest.approx(deviation, rel=0.036)


@pytest.mark.parametrize("distribution", ["Gaussian", "Laplace"])
@pytest.mark.parametrize("rows", [[1.0] * 50, [np.nan] * 50, ["text"] * 50, list(range(50))])
def test_every_count_gets_noise_once_whatever_the_rows_hold(distribution, rows, monkeypatch):
    schema = Schema({"x": binned((0, 50)), "job": Category(["a"])}, Classes("y", [0, 1]))
    query, drawn = HistogramQuery(setting(50, schema=schema), ("x",), 2.0, distribution), []

    def write_down(kind):
        return lambda values, scale, words: drawn.append((kind, values.size, scale))

    monkeypatch.setattr(Noise, "adders", {kind: write_down(kind) for kind in Noise.adders})
    frame = pd.DataFrame({"x": rows, "job": "a", "y": 0})
    released = release_bins(frame, schema, query)
    assert drawn == [(distribution, cell_edges((0.0, 50.0)).size + 1, 2.0 * query.sensitivity)]
    assert len(released.columns["x"].edges) == 3


def release_bins(frame, schema, query, noisy=True, seed=0):
    step = PlannedQuery(GradientQuery(query.setting))
    item = PlannedQuery(query, relative_noise=query.scale, fixed=True)
    plan = CalibratedPlan(Plan("test", (step,), {}, (item,)), 1.0 if noisy else None)
    source, randomness = TableSource(frame, None, schema), Randomness.from_random_state(seed)
    with Oracle(source, logistic_problem(), query.setting, plan, randomness) as oracle:
        return oracle.complete(schema)


bounds = st.tuples(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9)).map(lambda ends: (ends[0], ends[0] + ends[1]))


@given(bounds, st.integers(2, 64), st.integers(0, 2**32), st.floats(0.0, 1e6))
@settings(max_examples=150, deadline=None)
def test_any_counts_give_as_many_rising_bins_as_are_wanted(ends, n_bins, seed, noise):
    size = cell_edges(ends).size + 1
    for counted in (np.zeros(size), np.full(size, -1e9), np.random.default_rng(seed).normal(size=size) * noise):
        cuts = quantile_cuts(counted, ends, n_bins, noise)
        Number(ends, encode="bins", bins="private", n_bins=n_bins, edges=cuts)  # raises unless they rise inside


def test_cells_are_public_and_fine_where_skewed_columns_have_their_values():
    assert np.array_equal(cell_edges((0.0, 1e6)), cell_edges((0.0, 1e6)))
    edges = cell_edges((0.0, 1e6))
    assert edges[0] < 20.0
    assert np.diff(edges).max() <= 1e6 / 64 * (1 + 1e-9)
    around_zero = cell_edges((-1e6, 1e6))
    assert np.min(np.abs(around_zero)) == 0.0
    assert np.partition(np.abs(around_zero), 2)[2] < 40.0


def test_bins_of_a_skewed_column_follow_its_values_and_not_its_range():
    values = np.random.default_rng(0).lognormal(3.0, 1.0, 20_000)  # median 20, 99 % below 206
    for seed in range(5):
        noise = np.random.default_rng(seed).normal(scale=50.0, size=cell_edges((0.0, 1e5)).size + 1)
        cuts = quantile_cuts(cell_counts(values, (0.0, 1e5)) + noise, (0.0, 1e5), 10, 50.0)
        assert np.sum(np.array(cuts) < 1000.0) >= 5


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_a_fit_with_private_bins_keeps_the_whole_guarantee(delta, adjacency):
    rng = np.random.default_rng(0)
    n = 20_000
    frame = pd.DataFrame({"x": rng.gamma(2.0, 10.0, n), "z": rng.normal(size=n)})
    frame["y"] = ((frame.x > 15) ^ (rng.random(n) < 0.1)).astype(int)
    columns = {"x": binned((0, 1000)), "z": Number("private", encode="bins", bins="private", n_bins=5)}
    schema = Schema(columns, Classes("y", [0, 1]), n=n)
    model = PrivateLogisticRegression(
        4.0, delta, penalty=L2(0.01), schema=schema, adjacency=adjacency, solver="dp-objective", random_state=0
    ).fit(frame)
    assert model.privacy_.private_edges == ("x", "z")
    assert model.privacy_.private_ranges == ("z",)
    assert model.schema_.private_edges == ()
    assert model.schema_.released_edges == ("x", "z")
    assert epsilon_of(model.event_, delta, Adjacency.parse(adjacency)) <= 4.0
    # The histograms are in the event: without them it would cost less.
    parts = model.event_.releases()
    assert epsilon_of(Composed(parts[2:]), delta, Adjacency.parse(adjacency)) < model.privacy_.certified_epsilon
    assert model.predict(frame.drop(columns="y")).shape == (n,)


def test_two_fits_find_different_bins():
    frame = pd.DataFrame({"x": np.random.default_rng(0).gamma(2.0, 10.0, 2000), "job": "a", "y": 0})
    schema = Schema({"x": binned((0, 1000)), "job": Category(["a"])}, Classes("y", [0, 1]))
    query = HistogramQuery(setting(2000, schema=schema), ("x",), 30.0)
    found = {release_bins(frame, schema, query, seed=seed).columns["x"].edges for seed in range(10)}
    assert len(found) > 3
    exact = {release_bins(frame, schema, query, noisy=False, seed=seed).columns["x"].edges for seed in range(3)}
    assert len(exact) == 1


def test_a_histogram_without_columns_or_noise_is_refused():
    good = {"setting": setting(1000), "columns": ("x",), "scale": 1.0}
    for bad in ({"scale": 0.0}, {"scale": math.nan}, {"distribution": "Gumbel"}, {"columns": ()}):
        with pytest.raises(InvalidParameterError):
            HistogramQuery(**(good | bad))
