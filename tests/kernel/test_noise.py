"""Pitfalls 9, 18, 28, 29, 30: the noise has the planned size, comes from a cryptographic source, and never repeats."""

import math
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

from dperm import Guarantee, InvalidParameterError, PrivateLogisticRegression, minimize
from dperm.kernel.exact.rounding import add_gaussian
from dperm.kernel.exact.words import next_word, stream_of
from dperm.kernel.noise import Randomness
from dperm.kernel.oracle import Oracle
from dperm.mechanisms import GradientQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.privacy.guarantee import Adjacency
from dperm.rows.arrays import ArraySource
from dperm.solvers import DPGD
from kernel.harness import N, P, Table, base_table, logistic_problem, record, setting_of

ONE_STEP = DPGD(n_steps=1, accounting="composition")


def released_noise(random_state=None):
    """What a fit on ignored rows releases: noise and nothing else."""
    X = np.full((N, P), np.nan)
    guarantee = Guarantee(1.0, 1e-6)
    return minimize(
        logistic_problem(), X, np.ones(N), guarantee=guarantee, solver=ONE_STEP, random_state=random_state
    ).w


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("rate", [1 / N, 10 / N, 100 / N, 1.0])
def test_zero_gradients_show_the_planned_noise(rate, adjacency):
    problem = logistic_problem()
    ignored = Table(np.full((N, P), np.nan), np.ones(N))
    draws = 4000
    oracle, query = record(problem, ignored, adjacency, [np.zeros(P)] * draws, rate, seed=11)
    answers = np.array(oracle.answers)
    planned = oracle._calibrated.noise_multiplier * query.sensitivity_at(np.zeros(P))
    assert set(oracle.sigmas) == {planned}
    # The standard error of an estimated standard deviation is σ/√(2m); three of them: false alarm 0.3 %, fixed seed.
    spread = answers.std()
    assert abs(spread - planned) <= 3 * planned / math.sqrt(2 * answers.size)
    assert abs(answers.mean()) <= 3 * planned / math.sqrt(answers.size)


def test_an_empty_batch_still_gets_noise_and_is_still_charged():
    problem = logistic_problem()
    setting = setting_of(problem, Adjacency.ADD_REMOVE)
    query = GradientQuery(setting, 1e-9)
    plan = Plan("test", (PlannedQuery(query, 3),), {})
    table = base_table()
    rows = ArraySource(table.X, table.y)
    with Oracle(rows, problem, setting, CalibratedPlan(plan, 1.0), Randomness.from_random_state(0)) as oracle:
        answers = [oracle.ask(plan.planned[0], np.zeros(P)) for _ in range(3)]
        assert all(np.abs(answer).min() > 0 for answer in answers)
        assert oracle._left[plan.planned[0]] == 0


def test_unseeded_noise_is_chacha_with_a_fresh_key_each_time():
    one, two = Randomness.from_random_state(None), Randomness.from_random_state(None)
    streams = [stream for fit in (one, two) for stream in (fit.noise, stream_of(fit.sampling.next(0.5).key))]
    assert len({tuple(stream[4:12]) for stream in streams}) == len(streams)  # keys
    assert len({next_word(stream) for stream in streams}) == len(streams)
    assert one.public_coin.random() != two.public_coin.random()
    assert not one.seeded


def test_the_streams_of_one_seeded_fit_are_independent():
    randomness = Randomness.from_random_state(7)
    one, two = np.zeros((2, 20_000))
    add_gaussian(one, 1.0, randomness.noise)
    add_gaussian(two, 1.0, stream_of(randomness.sampling.next(0.5).key, (1, 0)))
    # A correlation of independent streams has standard error 1/√m; four of them: false alarm 6e-5, fixed seed.
    assert abs(np.corrcoef(one, two)[0, 1]) < 4 / math.sqrt(20_000)
    assert randomness.seeded


def test_the_same_seed_repeats_a_fit_and_another_does_not():
    np.testing.assert_array_equal(released_noise(5), released_noise(5))
    assert not np.array_equal(released_noise(5), released_noise(6))


def test_seeds_are_read_as_scikit_learn_does():
    for state in (np.random.RandomState(1), np.random.default_rng(1), np.int64(3)):
        assert released_noise(state).shape == (P,)
    for bad in (-1, 1.5, "seed", True):
        with pytest.raises(InvalidParameterError, match="random_state"):
            released_noise(bad)


def test_noise_is_distinct_across_fits_and_threads():
    with ThreadPoolExecutor(4) as pool:
        vectors = list(pool.map(lambda _: released_noise(), range(12)))
    vectors += [released_noise() for _ in range(4)]
    assert len({float(v) for vector in vectors for v in vector}) == 16 * P


@pytest.mark.filterwarnings(
    "ignore:.*multi-threaded.*:DeprecationWarning", "ignore:os.fork\\(\\) was called:RuntimeWarning"
)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_noise_is_distinct_across_processes(method):
    released_noise()  # the parent has fitted before its children start
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        vectors = [*pool.map(released_noise, [None] * 4), released_noise()]
    assert len({float(v) for vector in vectors for v in vector}) == 5 * P


def test_every_class_gets_noise_of_its_own():
    X = np.full((N, P), np.nan)
    model = PrivateLogisticRegression(classes=[0, 1, 2, 3], solver=ONE_STEP).fit(X, np.zeros(N))
    assert len({float(v) for v in model.coef_.ravel()}) == 4 * P


def test_a_fitted_model_carries_no_generator_and_no_row():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, P))
    X[17] = 0.123456789  # a sentinel row
    model = PrivateLogisticRegression(classes=[0, 1]).fit(X, (X[:, 0] > 0).astype(int))
    assert model.privacy_.generator == "ChaCha20"  # its name is public
    blob = pickle.dumps(model).replace(b"ChaCha20", b"")
    assert b"ChaCha" not in blob
    assert b"uint32" not in blob
    assert b"Generator" not in blob
    assert np.float64(0.123456789).tobytes() not in blob
    assert X[0].tobytes() not in blob
    assert len(blob) < 5000


def test_rows_refuse_to_be_pickled():
    source = ArraySource(np.ones((3, 2)), np.ones(3))
    for rows in (source, *source._blocks(logistic_problem())):
        with pytest.raises(TypeError, match="never leave"):
            pickle.dumps(rows)
    assert "1." not in repr(rows)
