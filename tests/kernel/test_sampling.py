"""Pitfall 19: the sampler that runs is the one that is accounted."""

import math

import numpy as np
import pytest

from dperm.accounting.events import Gaussian, PoissonSampledGaussian
from dperm.kernel.noise import Randomness
from dperm.kernel.oracle import Oracle
from dperm.mechanisms import GradientQuery, PrintedEpochQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.privacy.guarantee import Adjacency
from dperm.rows.arrays import ArraySource
from kernel.harness import (
    N,
    P,
    base_table,
    logistic_problem,
    record,
    record_differences,
    record_epochs,
    setting_of,
)

DRAWS = 10_000


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_rows_are_included_at_the_accounted_rate_and_independently(rate):
    problem = logistic_problem()
    table = base_table()
    n = 40
    rows = ArraySource(table.X[:n], table.y[:n])
    setting = setting_of(problem, Adjacency.ADD_REMOVE, n=n)
    query = GradientQuery(setting, rate)
    plan = Plan("test", (PlannedQuery(query),), {})
    with Oracle(rows, problem, setting, CalibratedPlan(plan, 1.0), Randomness.from_random_state(1)) as oracle:
        included = np.zeros((DRAWS, n), dtype=bool)
        for draw in range(DRAWS):
            included[draw, oracle._sums._batches(*rows._blocks(problem), rate).rows] = True
    # Binomial standard errors; 4.5 of them over 40 rows and 780 pairs: false alarm below 1 %, fixed seed.
    single = 4.5 * math.sqrt(rate * (1 - rate) / DRAWS)
    assert np.abs(included.mean(axis=0) - rate).max() <= single
    pairs = (included.T.astype(float) @ included.astype(float) / DRAWS)[np.triu_indices(n, 1)]
    assert np.abs(pairs - rate**2).max() <= 4.5 * math.sqrt(rate**2 * (1 - rate**2) / DRAWS)
    sizes = included.sum(axis=1)
    assert abs(sizes.var() - n * rate * (1 - rate)) <= 0.1 * n * rate * (1 - rate)


def batches_of(oracle, rate, n_steps, n):
    """Which rows are in which step's batch, after checking that the batches are well formed."""
    batches = oracle._sums._batches(*oracle._sums.source._blocks(oracle._problem), rate, n_steps)
    assert batches.edges.shape == (n_steps + 1,)
    assert batches.edges[0] == 0
    assert batches.edges[-1] == batches.rows.size
    included = np.zeros((n_steps, n), dtype=bool)
    for t in range(n_steps):
        chosen = batches.rows[batches.edges[t] : batches.edges[t + 1]]
        assert (np.diff(chosen) > 0).all()  # no row twice in one batch
        included[t, chosen] = True
    return included


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_rows_are_in_the_batches_of_an_epoch_at_the_accounted_rate_and_independently(rate):
    problem = logistic_problem()
    table = base_table()
    n, n_steps = 10, 4
    rows = ArraySource(table.X[:n], table.y[:n])
    setting = setting_of(problem, Adjacency.ADD_REMOVE, n=n)
    plan = Plan("test", (PlannedQuery(PrintedEpochQuery(setting, rate, n_steps, 0.5)),), {})
    with Oracle(rows, problem, setting, CalibratedPlan(plan, 1.0), Randomness.from_random_state(1)) as oracle:
        included = np.array([batches_of(oracle, rate, n_steps, n).ravel() for _ in range(DRAWS)])
    # Binomial standard errors; 4.5 of them over 40 cells and 780 pairs of cells, in one step or in two: false alarm
    # below 1 %, fixed seed.
    assert np.abs(included.mean(axis=0) - rate).max() <= 4.5 * math.sqrt(rate * (1 - rate) / DRAWS)
    pairs = (included.T.astype(float) @ included.astype(float) / DRAWS)[np.triu_indices(n * n_steps, 1)]
    assert np.abs(pairs - rate**2).max() <= 4.5 * math.sqrt(rate**2 * (1 - rate**2) / DRAWS)
    # The size of one step's batch is binomial: its variance has standard error about √(2/DRAWS) and, for the excess
    # kurtosis 1/(nq), √(1/(nqDRAWS)); 10 % is above four of them.
    sizes = included.reshape(DRAWS, n_steps, n).sum(axis=2)[:, -1]
    assert abs(sizes.var() - n * rate * (1 - rate)) <= 0.1 * n * rate * (1 - rate)


@pytest.mark.parametrize("rate", [0.04, 0.06, 0.9, 1.0])
def test_batches_are_well_formed_whichever_way_the_generator_draws_them(rate):
    """Above 10 000 cells numpy draws a set by another algorithm, and by a third where the set is large."""
    problem = logistic_problem()
    table = base_table()
    rows = ArraySource(table.X, table.y)
    setting = setting_of(problem, Adjacency.ADD_REMOVE)
    plan = Plan("test", (PlannedQuery(PrintedEpochQuery(setting, rate, 1, 0.5)),), {})
    with Oracle(rows, problem, setting, CalibratedPlan(plan, 1.0), Randomness.from_random_state(4)) as oracle:
        included = batches_of(oracle, rate, 500, N)
    # The counts per row and per step are binomial; 5 standard errors over 700 of them: false alarm below 1e-3.
    for counts, trials in ((included.sum(axis=0), 500), (included.sum(axis=1), N)):
        assert np.abs(counts - trials * rate).max() <= 5 * math.sqrt(trials * rate * (1 - rate))


def test_empty_batches_still_get_noise_and_are_still_charged():
    problem = logistic_problem()
    start = np.ones(P)
    pairs = [(start, 2.0 * start)] * 3
    differences, _ = record_differences(problem, base_table(), Adjacency.ADD_REMOVE, pairs, rate=1e-9)
    assert all(np.abs(answer).min() > 0 for answer in differences.answers)
    epochs, query = record_epochs(problem, base_table(), Adjacency.ADD_REMOVE, pairs, rate=1e-9, n_steps=2)
    assert len({tuple(answer[2]) for answer in epochs.answers}) == 3
    assert epochs.sigmas == [query.sensitivity] * 3
    for oracle in (differences, epochs):
        assert not oracle._sums._batches(*oracle._sums.source._blocks(problem), 1e-9, 2).rows.size
        assert set(oracle._left.values()) == {0}


def test_the_event_names_the_rate_that_is_sampled():
    setting = setting_of(logistic_problem(), Adjacency.ADD_REMOVE)
    event = GradientQuery(setting, 0.25).event(2.0)
    assert isinstance(event, PoissonSampledGaussian)
    assert event.sampling_probability == 0.25
    assert event.noise_multiplier == 2.0
    assert isinstance(GradientQuery(setting).event(2.0), Gaussian)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_a_sampled_answer_moves_by_its_sensitivity_and_no_further(rate, adjacency):
    """The same batches on two tables: a batch with the record in it moves the answer by more than a full one would."""
    problem = logistic_problem()
    one, two = base_table(), base_table()
    unit = np.eye(5)[1]
    one.X[0], one.y[0] = 0.1 * np.eye(5)[0] + 0.99 * unit, 1.0
    two.X[0], two.y[0] = (
        (0.1 * np.eye(5)[0] - 0.99 * unit, 1.0) if adjacency is Adjacency.REPLACE_ONE else (unit, np.nan)
    )
    points = [np.array([-100.0, 0, 0, 0, 0])] * 100  # a steep slope for the record
    first, query = record(problem, one, adjacency, points, rate)
    second, _ = record(problem, two, adjacency, points, rate)
    moves = [np.linalg.norm(a - b) for a, b in zip(first.exact, second.exact, strict=True)]
    assert max(moves) <= query.sensitivity
    assert max(moves) >= 0.95 * query.sensitivity
    assert query.sensitivity == pytest.approx(GradientQuery(query.setting).sensitivity / rate)


def test_under_replace_one_the_event_is_relative_to_one_record():
    setting = setting_of(logistic_problem(), Adjacency.REPLACE_ONE)
    query = GradientQuery(setting)
    # σ/Δ = 2 with Δ = 2G is σ/G = 4, which is what dp-accounting wants; it applies the factor of replacing itself.
    assert query.event(2.0).noise_multiplier == 4.0
    assert 2.0 * query.sensitivity == pytest.approx(4.0 * setting.record_bound / setting.n)


def test_a_sampled_answer_is_unbiased():
    problem = logistic_problem()
    table = base_table()
    rows = ArraySource(table.X, table.y)
    setting = setting_of(problem, Adjacency.ADD_REMOVE)
    full, part = GradientQuery(setting), GradientQuery(setting, 0.2)
    full, part = PlannedQuery(full), PlannedQuery(part, 4000)
    plan = Plan("test", (full, part), {})
    with Oracle(rows, problem, setting, CalibratedPlan(plan, None), Randomness.from_random_state(2)) as oracle:
        w = np.full(5, 0.3)
        exact = oracle.ask(full, w)
        draws = np.array([oracle.ask(part, w) for _ in range(4000)])
    error = draws.mean(axis=0) - exact
    assert np.abs(error / (draws.std(axis=0) / math.sqrt(4000))).max() < 4.5  # false alarm below 1e-4, fixed seed
