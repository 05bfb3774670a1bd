"""Searches: the law of what is selected, rows that are put apart, scores that no row moves by more than is declared."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import norm
from sklearn.base import clone

from dperm import PrivateLogisticRegression
from dperm.accounting.composition import delta_of, epsilon_of
from dperm.accounting.curve import Curve, gaussian_delta, pure_delta
from dperm.accounting.divergence import renyi_divergence
from dperm.accounting.events import (
    BoundedRange,
    Composed,
    Gaussian,
    OneOf,
    PoissonSampledGaussian,
    Pure,
    RandomTrials,
    Repeated,
    event_to_list,
)
from dperm.accounting.events.random_trials import TrialsCurve, _least_shift
from dperm.kernel.apart import stops
from dperm.kernel.exact.words import stream_of
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.bounded_sum.answer import added
from dperm.mechanisms.held_out import HeldOutChoice
from dperm.mechanisms.held_out.answer import added_losses
from dperm.mechanisms.setting import PublicTable
from dperm.models import apart
from dperm.models.candidates import Candidates
from dperm.plan.search import SearchOptions, cheapest
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.rigorous.bound import rigorous_bound

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def stream(seed):
    return stream_of(np.arange(seed, seed + 8, dtype=np.uint32))


def selected(trial, stop):
    """The law of the best of K trials, outcomes in rising order: f(F_j) − f(F_{j−1}), f the generating function."""
    below = np.append(0.0, np.cumsum(trial))
    below /= below[-1]
    return np.diff(stop * below / (1.0 - (1.0 - stop) * below))


def divergence(first, second, epsilon):
    return max(
        np.maximum(one - math.exp(epsilon) * other, 0.0).sum() for one, other in ((first, second), (second, first))
    )


@dataclass(frozen=True)
class ExactCurve(Curve):
    """Of a mechanism with finitely many outcomes and two possible laws."""

    first: tuple
    second: tuple
    reaches_zero: ClassVar[bool] = True

    def delta(self, epsilon):
        return divergence(np.array(self.first), np.array(self.second), epsilon)


def bound_of(first, second, stop):
    trial = ExactCurve(tuple(first), tuple(second))
    return TrialsCurve(trial, stop, _least_shift(trial, (1.0 - stop) / stop, 0.3))


def test_the_law_of_what_is_selected_is_the_sum_over_all_numbers_of_trials():
    trial, stop = np.array([0.5, 0.3, 0.2]), 0.2
    total, below = np.zeros(3), np.append(0.0, np.cumsum(trial))
    for count in range(1, 400):
        total += stop * (1.0 - stop) ** (count - 1) * np.diff(below**count)
    assert selected(trial, stop) == pytest.approx(total, abs=1e-12)


@given(st.integers(0, 10**6), st.integers(2, 7), st.sampled_from([1.0, 0.5, 0.1, 1.0 / 64.0, 1e-3]))
@settings(max_examples=150, deadline=None)
def test_what_is_selected_costs_no_more_than_its_curve_says(seed, size, stop):
    rng = np.random.default_rng(seed)
    first = rng.dirichlet(np.full(size, 0.5))
    second = first * np.exp(rng.uniform(-1.0, 1.0, size=size) * rng.choice([0.05, 0.5, 2.0]))
    second /= second.sum()
    bound = bound_of(first, second, stop)
    laws = selected(first, stop), selected(second, stop)
    for epsilon in (0.0, 0.05, 0.3, 1.0, 2.0, 4.0):
        assert divergence(*laws, epsilon) <= bound.delta(epsilon) * (1.0 + 1e-9) + 1e-15


def test_three_times_the_epsilon_of_a_pure_trial_is_nearly_reached():
    """The best outcome is rarer with the one table, the second best more likely: e^ε for it, and e^2ε for the first."""
    epsilon, stop, top, middle = 0.5, 1e-6, 0.3, 1e-9
    first = np.array([1.0 - top * math.exp(-epsilon) - middle * math.exp(epsilon), middle * math.exp(epsilon), 0.0])
    first[2] = top * math.exp(-epsilon)
    second = np.array([1.0 - top - middle, middle, top])
    assert np.abs(np.log(first / second)).max() <= epsilon * (1.0 + 1e-9)
    reached = np.abs(np.log(selected(first, stop) / selected(second, stop))).max()
    claimed = RandomTrials(Pure(epsilon), stop).pure_epsilon
    assert 0.95 * claimed < reached <= claimed
    assert epsilon_of(RandomTrials(Pure(epsilon), stop), 0.0, ADD) == pytest.approx(claimed)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("stop", [0.5, 1.0 / 16.0, 1.0 / 128.0])
@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0])
def test_the_best_of_gaussian_scores_costs_no_more_than_its_curve_says(mu, stop):
    """By integration: the largest of K numbers has the density f'(Φ(x)) φ(x)."""
    x = np.linspace(-9.0, 10.0 + mu, 200_001)

    def density(centre):
        return stop / (1.0 - (1.0 - stop) * norm.cdf(x - centre)) ** 2 * norm.pdf(x - centre) * (x[1] - x[0])

    event = RandomTrials(Gaussian(1.0 / mu), stop)
    for epsilon in (0.0, mu, 2.0 * mu, 4.0 * mu, 8.0 * mu):
        exact = divergence(density(0.0), density(mu), epsilon)
        assert exact <= delta_of(event, epsilon, ADD) * (1.0 + 1e-6) + 1e-9
    # It is worse than one trial, which a bound that forgot the selection would be.
    assert divergence(density(0.0), density(mu), 2.0 * mu) > 1.05 * gaussian_delta(mu, 2.0 * mu)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_one_trial_has_the_renyi_divergence_of_a_trial(adjacency):
    trial = Gaussian(8.0)
    for order in (2, 8):
        exact = renyi_divergence(trial, order, adjacency)
        assert exact <= renyi_divergence(RandomTrials(trial, 1.0), order, adjacency) <= 1.01 * exact


def test_a_choice_in_view_of_the_past_costs_more_than_each_alternative_and_no_more_than_one_of_them():
    """Randomized response first; its loss decides which of two mechanisms follows."""
    before, epsilon = 0.1, 0.2
    likely = 1.0 / (1.0 + math.exp(-before))
    gaussian, pure = Gaussian(1.0 / 0.3), Pure(0.28)

    def together(after_high, after_low):
        return likely * after_high(epsilon - before) + (1.0 - likely) * after_low(epsilon + before)

    curves = (lambda e: gaussian_delta(0.3, e), lambda e: pure_delta(0.28, e))
    alone = [together(curve, curve) for curve in curves]
    adaptive = max(together(high, low) for high in curves for low in curves)
    assert adaptive > 1.01 * max(alone)
    assert adaptive <= delta_of(Composed((Pure(before), OneOf((gaussian, pure)))), epsilon, ADD) * (1.0 + 1e-6)


def test_one_of_several_costs_what_the_worst_of_them_does():
    event = OneOf((Gaussian(3.0), Pure(0.2), BoundedRange(0.3)))
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        alone = max(delta_of(one, epsilon, ADD) for one in event.alternatives)
        assert delta_of(event, epsilon, ADD) == alone
    assert OneOf((Gaussian(3.0), Gaussian(3.0))).alternatives == OneOf((Gaussian(3.0),)).alternatives


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_an_alternative_that_is_composed_on_a_grid_is_composed_again(adjacency):
    """Its curve ends at what rounding on its grid leaves; that much of δ counts as lost, and ε stays finite."""
    sampled, last = Repeated(PoissonSampledGaussian(0.05, 2.0), 100), Gaussian(5.0)
    plain = epsilon_of(Composed((sampled, last)), 1e-5, adjacency)
    nested = Composed((OneOf((Composed((sampled, Pure(1e-4))), BoundedRange(0.01))), last))
    found = epsilon_of(nested, 1e-5, adjacency)
    assert plain <= found <= 1.02 * plain
    bound = rigorous_bound(event_to_list(nested), 1e-5, adjacency.value, found)
    assert plain * 0.99 <= bound.epsilon <= found


# Rows apart


def positions(rows):
    return [set(np.asarray(X)[:, 0].astype(int).tolist()) for X, _ in (rows.train, rows.held_out)]


@pytest.mark.parametrize("seed", range(5))
def test_what_a_row_holds_changes_nothing_about_where_the_others_go(seed):
    X, y = np.arange(40.0)[:, None], np.arange(40)
    changed, places = X.copy(), y.copy()
    changed[7], places[7] = 999.0, -5
    first, second = (apart.rows_apart(*table, 40, 30, stream(seed)) for table in ((X, y), (changed, places)))
    for one, other in zip(positions(first), positions(second), strict=True):
        assert one - {7} == other - {999}
    assert [len(part) for part in positions(first)] == [30, 10]
    # The changed row is in one of the parts, and the other part is the same to the last bit.
    same = [np.array_equal(a[0], b[0]) for a, b in ((first.train, second.train), (first.held_out, second.held_out))]
    assert sorted(same) == [False, True]


@pytest.mark.parametrize("seed", range(5))
def test_a_row_more_changes_nothing_about_where_the_others_go(seed):
    X = np.arange(41.0)[:, None]
    first, second = (apart.rows_apart(X[:n], X[:n, 0], 43, 32, stream(seed)) for n in (40, 41))
    train, scored = positions(first)
    more_train, more_scored = positions(second)
    assert (more_train - {40}, more_scored - {40}) == (train, scored)
    assert len(more_train) <= 32


def test_every_row_is_as_likely_to_be_held_out():
    X = np.arange(20.0)[:, None]
    counts = np.zeros(20)
    for seed in range(2000):
        counts[list(positions(apart.rows_apart(X, X[:, 0], 20, 15, stream(seed)))[1])] += 1
    # 20 counts of mean 500 and deviation 19.4; 5 deviations: a false alarm in 100 000 runs.
    assert np.abs(counts - 500.0).max() < 97.0


@pytest.mark.parametrize("kind", ["list", "frame", "arrow", "polars", "sparse"])
def test_tables_of_every_kind_are_divided_alike(kind):
    numbers = np.arange(30.0)
    table = {
        "list": lambda: numbers[:, None].tolist(),
        "frame": lambda: pd.DataFrame({"x": numbers}, index=numbers[::-1]),
        "arrow": lambda: pa.table({"x": numbers}),
        "polars": lambda: pl.DataFrame({"x": numbers}),
        "sparse": lambda: sparse.csr_matrix(numbers[:, None]),
    }[kind]()
    rows = apart.rows_apart(table, pa.array(numbers) if kind == "arrow" else numbers.tolist(), 30, 20, stream(3))
    plain = apart.rows_apart(numbers[:, None], numbers, 30, 20, stream(3))
    for (X, y), (x_plain, y_plain) in zip((rows.train, rows.held_out), (plain.train, plain.held_out), strict=True):
        found = X.toarray() if kind == "sparse" else np.asarray(X["x"] if kind in ("arrow", "polars") else X)
        assert found.ravel().tolist() == x_plain.ravel().tolist()
        assert np.asarray(y).astype(float).tolist() == y_plain.tolist()


def test_coins_are_exact_for_every_number_of_trials():
    for trials in range(1, 2049):
        assert int(1.0 / trials * 2.0**64) == Fraction(1.0 / trials) * 2**64
    tossed = sum(stops(0.25, stream(seed)) for seed in range(4000))
    assert abs(tossed - 1000) < 5 * math.sqrt(750)  # a false alarm in two million runs


# Scores

losses = st.floats(allow_nan=True, allow_infinity=True)
tables = st.lists(st.tuples(losses, losses, losses), min_size=2, max_size=6)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@given(tables, st.tuples(losses, losses, losses))
@settings(max_examples=80, deadline=None)
def test_one_row_moves_two_sums_against_each_other_by_no_more_than_is_declared(adjacency, table, other):
    query = HeldOutChoice(PublicTable(10, adjacency), "losses", 3)
    neighbour = [other, *table[1:]] if adjacency is REPLACE else [other, *table]
    moved = added_losses(query, np.array(neighbour)) - added_losses(query, np.array(table))
    assert moved.max() - moved.min() <= 2.0 * query.sensitivity


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_range_of_a_choice_is_reached(adjacency):
    """P ∝ exp(−sum/g): the log ratios of two neighbours span what the event says, so 5 % less would be wrong."""
    query, multiplier = HeldOutChoice(PublicTable(10, adjacency), "losses", 2), 4.0
    table, row, other = [[0.5, 0.5]] * 5, [0.0, 1.0], [1.0, 0.0]
    pair = ([*table, row], [*table, other]) if adjacency is REPLACE else (table, [*table, row])
    scale = multiplier * query.sensitivity
    laws = []
    for rows in pair:
        weights = np.exp(-added_losses(query, np.array(rows)) / scale)
        laws.append(weights / weights.sum())
    ratios = np.log(laws[0] / laws[1])
    length = query.event(multiplier).epsilon
    assert 0.95 * length < ratios.max() - ratios.min() <= length


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("distribution", ["Gaussian", "Laplace"])
@given(st.lists(st.tuples(losses), min_size=2, max_size=6), st.tuples(losses))
@settings(max_examples=60, deadline=None)
def test_one_row_moves_one_sum_by_its_bound_at_the_most(adjacency, distribution, table, other):
    query = BoundedSum(PublicTable(10, adjacency), "losses", 1, 1.0, True, distribution)
    neighbour = [other, *table[1:]] if adjacency is REPLACE else [other, *table]
    moved = abs(added(query, np.array(neighbour)) - added(query, np.array(table)))[0]
    assert moved <= query.sensitivity <= 1.0 + 1e-9
    extreme = abs(added(query, np.array([[1.0]])) - added(query, np.array([[0.0]])))[0]
    assert extreme > 0.95 * query.sensitivity


def test_every_loss_lies_between_0_and_1_whatever_rows_and_models_hold():
    strange = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0])
    places = np.array([0.0, 1.0, np.nan, 1.0, 0.0, 1.0])
    probabilities = np.column_stack([np.array([0.0, 1.0, 0.5, 0.2, np.nan, 1.0])] * 2)
    numbers = np.array([0.0, np.nan, 1e300, -np.inf, 2.0, np.inf])
    found = [
        apart.wrong(strange, places),
        apart.log_losses(probabilities, places),
        apart.squared_errors_of_classes(probabilities, places),
        apart.squared_errors(strange, numbers, -1.0, 1.0),
    ]
    for values in found:
        assert ((values >= 0.0) & (values <= 1.0)).all()
    query = HeldOutChoice(PublicTable(6, REPLACE), "losses", 4)
    assert (added_losses(query, np.column_stack(found)) <= 6.0).all()


def test_a_loss_that_is_no_number_counts_as_1_in_both_methods():
    nothing, places = np.full((3, 2), np.nan), np.array([0.0, 1.0, np.nan])  # the last row has no class
    choice = HeldOutChoice(PublicTable(3, REPLACE), "losses", 1)
    score = BoundedSum(PublicTable(3, REPLACE), "losses", 1, 1.0, True, "Gaussian")
    for found in (
        apart.log_losses(nothing, places),
        apart.squared_errors_of_classes(nothing, places),
        apart.squared_errors(nothing[:, 0], places, -1.0, 1.0),
    ):
        for total in (added_losses(choice, found[:, None]), added(score, found[:, None])):
            assert total == pytest.approx([2.0])


@pytest.mark.parametrize("scoring", ["accuracy", "log_loss", "squared_error"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_row_less_moves_the_loss_of_no_other(scoring, classes):
    """Copies of a row at the boundary of two classes, up to the last bit, where BLAS rounds them by their place."""
    rng = np.random.default_rng(0)
    model = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, classes=list(range(classes)))
    candidates = Candidates([model], [{}], "replace_one", scoring)
    model = clone(model).fit(rng.normal(size=(300, 101)), np.arange(300) % classes)
    for _ in range(10):
        row = rng.normal(size=(1, 101))
        model.coef_ = rng.normal(size=model.coef_.shape)
        model.intercept_ = -(row @ model.coef_.T)[0]
        alone = candidates.losses(model, (row, np.array([0])))
        for n in (1000, 999):
            found = candidates.losses(model, (np.repeat(row, n, axis=0), np.zeros(n, dtype=int)))
            np.testing.assert_array_equal(found, np.repeat(alone, n))


def test_losses_are_what_they_are_called():
    half = np.array([[0.5, 0.5], [0.25, 0.75]])
    places = np.array([1.0, 0.0])
    assert apart.squared_errors_of_classes(half, places) == pytest.approx([0.25, 0.5625])
    assert apart.log_losses(half, places) == pytest.approx([math.log(2) / math.log(16), math.log(4) / math.log(16)])
    assert apart.wrong(np.array([0.3, 0.3]), places).tolist() == [0.0, 1.0]
    assert apart.wrong(half, np.array([0.0, 0.0])).tolist() == [0.0, 1.0]
    assert apart.squared_errors(np.array([3.0, 9.0]), np.array([1.0, 4.0]), 0.0, 4.0) == pytest.approx([0.25, 0.0])


# Which method is the cheaper


@pytest.mark.parametrize(("size", "method"), [(2, "composition"), (12, "composition"), (100, "random-trials")])
def test_few_candidates_are_composed_and_many_are_tried_at_random(size, method):
    options = SearchOptions(Guarantee(1.0, 1e-5), ADD, "losses")
    chosen, precision = cheapest(options, size, min(2 * size, 64))
    assert chosen == method
    other = {"composition": "random-trials", "random-trials": "composition"}[method]
    forced = SearchOptions(Guarantee(1.0, 1e-5), ADD, "losses", other)
    assert cheapest(forced, size, min(2 * size, 64))[1] <= precision


def test_pure_trials_cost_three_times_one_so_from_four_candidates_on_they_are_random():
    for size, method in ((3, "composition"), (4, "random-trials")):
        assert cheapest(SearchOptions(Guarantee(1.0, 0.0), ADD, "losses"), size, 8)[0] == method
