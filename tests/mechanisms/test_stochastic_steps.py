"""Pitfalls 7, 8, 9, 18, 19, 20, 23, 33: stochastic steps move, and are noised, counted and charged as declared."""

import math

import numpy as np
import pytest

from dperm import FitOptions, Guarantee, InvalidParameterError, PlanExceededError, Problem
from dperm.accounting.events import Gaussian, PoissonSampledGaussian
from dperm.errors import UnsupportedProblemError
from dperm.kernel import sampling
from dperm.kernel.noise import Randomness
from dperm.kernel.oracle import Oracle
from dperm.kernel.sampling import Batches
from dperm.kernel.sums import RowSums
from dperm.mechanisms import GradientQuery, StochasticStepsQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.paper import RRPSGD
from dperm.paper.printed import published_plan
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Box, Huber, L1Ball, Logistic, Poisson, Sigmoid, Softmax
from dperm.rows.arrays import ArraySource
from dperm.solvers import DPSGD, BassilySGD
from kernel.harness import (
    Liar,
    N,
    P,
    RecordingOracle,
    VectorLiar,
    base_table,
    ignored_table,
    logistic_problem,
    neighbours,
    only_row,
    record_steps,
    setting_of,
)
from kernel.test_sensitivity import ADJACENCIES, STORAGE, problem_for

STEER = np.eye(P)[0]
STEPS = 9
# So short that every step is taken from the start, to the last bit: all means are then compared at one point.
STANDSTILL = (1e-300,) * STEPS


class SameSums(RowSums):
    def _batches(self, block, rate, n_steps=1):
        rng = np.random.default_rng(8)
        chosen = [np.flatnonzero(rng.random(N) < rate) for _ in range(n_steps)]
        chosen = [np.union1d(rows, [0]) if t % 3 else rows for t, rows in enumerate(chosen)]
        if len(block) > N:
            chosen = [np.append(rows, N) if t % 2 else rows for t, rows in enumerate(chosen)]
        return Batches(np.concatenate(chosen), np.cumsum([0, *map(len, chosen)]))


class SameBatches(RecordingOracle):
    """Draws the same batches whatever the table; a row that comes to the others is in every second one."""

    def _sums_over(self, source):
        return SameSums(source, self._problem, self._pool, self._randomness.sampling)


def starts_for(problem):
    rng = np.random.default_rng(5)
    w = rng.normal(size=problem.dimension(P))
    return [0.0 * w, w, 50.0 * np.sign(w)]


# --- Sensitivity ---


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.3, 2.0), Poisson(), Softmax(3)], ids=repr)
def test_no_hostile_row_moves_any_steps_mean_beyond_its_sensitivity(loss, intercept, adjacency):
    problem = problem_for(loss, intercept)
    table = base_table(n_classes=3 if loss.n_outputs > 1 else 2)
    for rate in (0.02, 0.3, 1.0):
        fixed = {"rate": rate, "step_sizes": STANDSTILL, "oracle_type": SameBatches}
        before, query = record_steps(problem, table, adjacency, starts_for(problem), **fixed)
        assert len(before.exact) == 3 * STEPS
        for other in neighbours(table, adjacency):
            after, _ = record_steps(problem, other, adjacency, starts_for(problem), **fixed)
            for one, two in zip(before.exact, after.exact, strict=True):
                assert np.isfinite(two).all(), other.name
                assert np.linalg.norm(one - two) <= query.sensitivity, other.name


@pytest.mark.cases_with_every_value
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("storage", STORAGE, ids=str)
def test_no_hostile_row_moves_a_steps_mean_beyond_its_sensitivity_in_any_storage(storage, adjacency):
    problem = logistic_problem(intercept=True)
    fixed = {"rate": 0.3, "step_sizes": STANDSTILL, "oracle_type": SameBatches, "as_rows": STORAGE[storage]}
    before, query = record_steps(problem, base_table(), adjacency, starts_for(problem), **fixed)
    for other in neighbours(base_table(), adjacency):
        after, _ = record_steps(problem, other, adjacency, starts_for(problem), **fixed)
        for one, two in zip(before.exact, after.exact, strict=True):
            assert np.linalg.norm(one - two) <= query.sensitivity, other.name


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("loss", [Liar(), VectorLiar()], ids=repr)
def test_a_loss_that_lies_moves_a_step_by_all_that_is_declared_and_no_further(loss, rate, adjacency):
    """The real sampler; a bound smaller by 5 % would be exceeded."""
    problem = Problem(loss, weight_bound=3.0, intercept=True)
    start = np.tile(np.append(STEER, 1.0), loss.n_outputs)
    opposite = only_row(STEER, -1.0, 3.0) if adjacency is Adjacency.REPLACE_ONE else ignored_table()
    fixed = {"rate": rate, "step_sizes": STANDSTILL}
    one, query = record_steps(problem, only_row(STEER, 1.0, 3.0), adjacency, [start] * 10, **fixed)
    two, _ = record_steps(problem, opposite, adjacency, [start] * 10, **fixed)
    moves = [np.linalg.norm(a - b) for a, b in zip(one.exact, two.exact, strict=True)]
    assert 0.95 * query.sensitivity <= max(moves) <= query.sensitivity
    expected = adjacency.records_moved * 3.0 * math.sqrt(2.0) / (rate * N)  # G = 3·√(1² + 1²)
    assert query.sensitivity == pytest.approx(expected, rel=1e-6)


def test_at_rate_one_a_step_takes_every_row_once():
    problem = logistic_problem(intercept=True)
    start = np.full(P + 1, 0.3)
    oracle, query = record_steps(problem, base_table(), Adjacency.ADD_REMOVE, [start], 1.0, STANDSTILL)
    item = PlannedQuery(GradientQuery(query.setting))
    rows = ArraySource(base_table().X, base_table().y)
    calibrated = CalibratedPlan(Plan("test", (item,), {}), None)
    with Oracle(rows, problem, query.setting, calibrated, Randomness.from_random_state(0)) as whole:
        gradient = whole.ask(item, start)
    for exact in oracle.exact:
        np.testing.assert_allclose(exact, gradient, rtol=1e-12, atol=1e-14)
    assert list(oracle._sums._batches(*oracle._sums.source._blocks(problem), 1.0).rows) == list(range(N))


# --- Noise ---


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("batch", [1, 10, 100, N])
def test_steps_over_nothing_show_the_planned_noise(batch, adjacency):
    problem = Problem(Logistic())
    draws = 2000
    start = np.ones(P)
    oracle, _ = record_steps(
        problem, ignored_table(), adjacency, [start] * draws, batch / N, (0.5,), noise=1.7, relative_noise=0.6, seed=13
    )  # fmt: skip
    last, mean = np.moveaxis(np.array(oracle.answers), 1, 0)
    np.testing.assert_array_equal(last, mean)
    noise = (start - last) / 0.5
    planned = 1.7 * 0.6 * adjacency.records_moved / batch  # G = 1
    # Three standard errors, σ/√(2k): false alarm 3e-3 each, fixed seed.
    assert abs(noise.std() - planned) <= 3 * planned / math.sqrt(2 * noise.size)
    assert abs(noise.mean()) <= 3 * planned / math.sqrt(noise.size)
    assert len(np.unique(noise)) == noise.size


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("domain", [None, L1Ball(1e6)], ids=["compiled", "step by step"])
@pytest.mark.parametrize("chunk", [None, 40])
def test_every_step_has_noise_of_its_own_and_its_own_step_size(chunk, domain, monkeypatch):
    if chunk is not None:  # several pieces
        monkeypatch.setattr(sampling, "_NUMBERS_AT_ONCE", chunk)
    problem = Problem(Logistic(), **({"domain": domain} if domain else {}))
    rate, walks = 0.05, 400
    step_sizes = 1.0 / np.arange(1.0, 26.0)
    start = np.ones(P)
    oracle, _ = record_steps(
        problem, ignored_table(), Adjacency.ADD_REMOVE, [start] * walks, rate, step_sizes, noise=1.7, seed=12
    )  # fmt: skip
    sigma = 1.7 / (rate * N)
    last, mean = np.moveaxis(np.array(oracle.answers), 1, 0)
    # Independent steps of η_t σ; step t is in the last 26 − t of the 25 iterates.
    in_mean = step_sizes * np.arange(25, 0, -1) / 25
    for found, weights in ((last - start, step_sizes), (mean - start, in_mean)):
        planned = sigma * math.sqrt((weights**2).sum())
        # Four standard errors: false alarm 6e-5 each, fixed seed.
        assert abs(found.std() - planned) <= 4 * planned / math.sqrt(2 * found.size)
        assert abs(found.mean()) <= 4 * planned / math.sqrt(found.size)


def test_an_empty_batch_still_gets_noise_and_is_still_charged():
    oracle, query = record_steps(
        logistic_problem(), base_table(), Adjacency.ADD_REMOVE, [np.ones(P)] * 3, 1e-9, (1.0, 1.0)
    )  # fmt: skip
    assert not np.any(oracle.exact)
    assert len({tuple(answer[0]) for answer in oracle.answers}) == 3
    assert oracle.sigmas == [query.sensitivity] * 3
    assert set(oracle._left.values()) == {0}


# --- Counting ---


def open_steps(n_steps=5, count=1, multiplier=1.0, progress=None, rate=0.1, table=None, adjacency=None):
    problem = logistic_problem()
    setting = setting_of(problem, adjacency or Adjacency.REPLACE_ONE)
    item = PlannedQuery(StochasticStepsQuery(setting, rate, n_steps), count)
    calibrated = CalibratedPlan(Plan("test", (item,), {}), multiplier)
    table = table or base_table()
    rows = ArraySource(table.X, table.y)
    return Oracle(rows, problem, setting, calibrated, Randomness.from_random_state(0), progress), item


def test_fewer_steps_than_paid_are_allowed_and_cost_the_same():
    oracle, item = open_steps(n_steps=5, count=2)
    with oracle:
        assert oracle.ask(item, np.zeros(P), step_size=np.ones(3)).shape == (2, P)
        oracle.ask(item, np.zeros(P), step_size=np.ones(1))
        with pytest.raises(PlanExceededError):
            oracle.ask(item, np.zeros(P), step_size=np.ones(1))


def test_more_steps_than_paid_are_never_run():
    done = []
    oracle, item = open_steps(n_steps=5, progress=lambda *pair: done.append(pair))
    with oracle:
        with pytest.raises(PlanExceededError, match="5 stochastic steps, not 6"):
            oracle.ask(item, np.zeros(P), step_size=np.ones(6))
        with pytest.raises(PlanExceededError):  # it was charged all the same
            oracle.ask(item, np.zeros(P), step_size=np.ones(5))
    assert done == []


@pytest.mark.parametrize(
    "schedule", [None, 0.5, [], [1.0, 0.0], [1.0, -1.0], [1.0, math.nan], [math.inf], [[1.0, 1.0]]], ids=str
)
def test_step_sizes_that_are_none_are_refused_and_charged(schedule):
    oracle, item = open_steps()
    with oracle:
        with pytest.raises(InvalidParameterError, match="step_size"):
            oracle.ask(item, np.zeros(P), step_size=schedule)
        assert oracle._left[item] == 0


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_progress_of_stochastic_steps_does_not_tell_how_many_rows_there_are(adjacency, monkeypatch):
    monkeypatch.setattr(sampling, "_NUMBERS_AT_ONCE", 1000)  # ten steps a piece at 0.5 · 200 rows, nine at 0.5 · 201

    def reported(table):
        done = []
        more = {"rate": 0.5, "table": table, "adjacency": adjacency, "progress": lambda *pair: done.append(pair)}
        oracle, item = open_steps(n_steps=30, **more)
        with oracle:
            oracle.ask(item, np.zeros(P), step_size=np.ones(30))
        return done

    for table in (base_table(), *neighbours(base_table(), adjacency)):
        assert reported(table) == [(10, 30), (20, 30), (30, 30)]


# --- Privacy cost ---


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("rate", [0.03, 1.0])
def test_every_step_is_priced_as_a_sampled_gaussian_relative_to_one_record(rate, adjacency):
    problem = Problem(Logistic(), row_norm=2.0)  # G = 2
    query = StochasticStepsQuery(setting_of(problem, adjacency), rate, 7)
    ((leaf, count),) = PlannedQuery(query, 3, 0.5).event(10.0).leaves()
    assert count == 7 * 3
    sigma = 5.0 * query.sensitivity
    if rate < 1.0:
        assert isinstance(leaf, PoissonSampledGaussian)
        assert leaf.sampling_probability == rate
    else:
        assert isinstance(leaf, Gaussian)
    assert leaf.noise_multiplier == pytest.approx(sigma / (2.0 / (rate * N)), rel=1e-6)


def test_the_price_does_not_depend_on_how_many_steps_turn_out_to_be_run():
    """The random round is drawn by a public coin, after everything was accounted for."""
    fit = FitOptions(Problem(Sigmoid()), guarantee=Guarantee(1.0, 1e-6), solver=RRPSGD(n_steps=50)).plan(N, P)
    ((_, count),) = fit.event.leaves()
    assert count == 50


@pytest.mark.parametrize("rate", [0.0, -0.5, 1.5, math.nan, math.inf])
def test_degenerate_sampling_is_refused(rate):
    setting = setting_of(logistic_problem(), Adjacency.REPLACE_ONE)
    with pytest.raises(InvalidParameterError, match="sampling_rate"):
        StochasticStepsQuery(setting, rate, 5)
    for n_steps in (0, -1, 1.5):
        with pytest.raises(InvalidParameterError, match="n_steps"):
            StochasticStepsQuery(setting, 0.1, n_steps)
    for multiplier in (0.0, -1.0, math.nan):
        with pytest.raises(InvalidParameterError, match="multiplier"):
            StochasticStepsQuery(setting, 0.1, 5).event(multiplier)


# --- The published noise ---


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("solver", [BassilySGD, RRPSGD])
def test_the_published_noise_is_that_of_bassily_smith_and_thakurta(solver, adjacency):
    problem = Problem(Logistic(), L2(0.02), row_norm=3.0)  # G = 3
    setting = setting_of(problem, adjacency, n=50)
    calibrated = published_plan(solver(), setting, Guarantee(0.3, 1e-4)).calibrated
    (item,) = calibrated.plan.planned
    assert item.query.n_steps == 50**2
    assert item.query.sampling_rate == 1 / 50
    on_the_sum = math.sqrt(32 * 3.0**2 * 50**2 * math.log(50 / 1e-4) * math.log(1e4)) / 0.3
    assert calibrated.sigma(item) == pytest.approx(on_the_sum / 50)
    # T steps at rate q in place of n² at rate 1/n: n² becomes T, and n = n² · (1/n) becomes qT.
    calibrated = published_plan(solver(n_steps=400, sampling_rate=0.1), setting, Guarantee(0.3, 1e-4)).calibrated
    on_the_sum = math.sqrt(32 * 3.0**2 * 400 * math.log(40 / 1e-4) * math.log(1e4)) / 0.3
    assert calibrated.sigma(calibrated.plan.planned[0]) == pytest.approx(on_the_sum / 50)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
def test_over_n_squared_steps_the_published_noise_keeps_its_promise_many_times_over(epsilon, adjacency):
    """Also at ε = 10, where the published derivation does not apply (ε' = 1.9 > 1)."""
    fit = FitOptions(
        Problem(Logistic(), domain=Box(-1.0, 1.0)),
        guarantee=Guarantee(epsilon, 1e-3),
        solver=BassilySGD(),
        noise="paper",
        adjacency=adjacency,
    ).plan(200, P)
    assert fit.statement.n_steps == 40_000
    assert fit.statement.certified_delta <= 1e-9
    assert fit.statement.certified_epsilon <= epsilon / 8
    assert not fit.statement.for_release


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_cut_to_fewer_steps_the_published_noise_breaks_its_promise(adjacency):
    """n = 20 000, 20 000 steps instead of 4e8: ε' = 27 where 1 is needed, and a record is drawn with chance 0.63."""
    fit = FitOptions(
        Problem(Logistic(), domain=Box(-1.0, 1.0)),
        guarantee=Guarantee(1.0, 1e-3),
        solver=BassilySGD(max_steps=20_000),
        noise="paper",
        adjacency=adjacency,
    ).plan(20_000, P)
    assert fit.statement.n_steps == 20_000
    assert 0.05 <= fit.statement.certified_delta <= 0.633
    assert fit.statement.certified_epsilon >= 5.0
    assert "NOT FOR RELEASE" in str(fit.statement)


def test_there_is_no_published_noise_for_dp_sgd():
    with pytest.raises(UnsupportedProblemError, match="noise='certified'"):
        FitOptions(logistic_problem(), guarantee=Guarantee(1.0, 1e-6), solver=DPSGD(), noise="paper").plan(1000, P)
