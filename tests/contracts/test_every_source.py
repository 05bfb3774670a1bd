"""What every source of rows promises: the same sums, the same fits and the same sampling as one array of its rows."""

import dataclasses
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from contracts.solvers import SOLVER_EXAMPLES, STEADY_EXAMPLES
from contracts.sources import (
    BY_ROW_ONLY,
    MAKE,
    MAKE_BY_UNIT,
    PROBLEM,
    SCHEMA,
    SOURCES,
    Counted,
    CutSource,
    FromFiles,
    N,
    OnCluster,
    P,
    frame,
    made,
    most_additions,
    numbers,
    persons,
)
from dperm import Classes, Guarantee, InvalidParameterError, Number, PrivacyUnit, Problem, Schema
from dperm.kernel.adding import add_up
from dperm.kernel.counts import BeyondPart
from dperm.kernel.exact.words import fresh_key
from dperm.kernel.minimiser import minimiser
from dperm.kernel.noise import Randomness
from dperm.kernel.oracle import Oracle
from dperm.kernel.sampling import Sample
from dperm.kernel.source import LocalSource
from dperm.kernel.sums import RowSums
from dperm.mechanisms import StochasticStepsQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.mechanisms.setting import Setting, summation_slack
from dperm.paper import RRPSGD
from dperm.plan.options import FitOptions
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Huber, L1Ball, L2Ball, Logistic, Softmax, Squared
from dperm.rows.arrays import ArraySource, TableSource
from dperm.solvers import DPGD, DPSGD, DPSVRG, BassilySGD, DPNewton, DPObjective, TalwarFrankWolfe

SETTING = Setting(PROBLEM.constants(P), N, Adjacency.REPLACE_ONE)
# What the padding of a sensitivity allows two computed means of one table to differ by.
PADDING = summation_slack(SETTING) * SETTING.constants.lipschitz / N


@pytest.fixture(scope="module")
def pool():
    with ThreadPoolExecutor(2) as threads:
        yield threads


def sums(source, pool, problem=PROBLEM, seed=0):
    return RowSums(source, problem, pool, Randomness.from_random_state(seed).sampling)


def points(problem=PROBLEM):
    return np.random.default_rng(3).normal(size=(2, problem.dimension(P)))


def test_every_source_of_the_package_is_tested():
    assert {*MAKE, CutSource} == set(SOURCES)
    assert {*MAKE_BY_UNIT, *BY_ROW_ONLY} == set(MAKE)


def public_facts(source):
    """Every public attribute of a source, and what every public method gives for public arguments."""
    asked = {"is_slow": (10**6, None), "draw_units": (fresh_key(),), "with_schema": None}
    found = {}
    for name in dir(source):
        if name.startswith("_"):
            continue
        value = getattr(source, name)
        if callable(value):
            arguments = asked.get(name, ())
            value = "another source" if arguments is None else value(*arguments)
        found[name] = value
    return found


@pytest.mark.parametrize("cls", [cls for cls in SOURCES if cls is not CutSource])
def test_no_public_name_of_it_tells_neighbouring_tables_apart(cls):
    X, y = numbers()
    other = X.copy()
    other[5], shorter = 1.0, (X[:-1], y[:-1])
    facts = [public_facts(made(cls, *table)) for table in ((X, y), (other, -y), shorter)]
    assert facts[0] == facts[1] == facts[2]
    assert facts[0]["n_features"] == P
    assert not {"n_rows", "n_units", "count", "total", "blocks"} & set(facts[0])


@pytest.mark.parametrize("cls", SOURCES)
def test_its_public_shape_is_that_of_the_encoded_rows(cls, pool):
    source = made(cls, *numbers())
    assert (source._n_rows, source.n_features) == (N, P)
    if isinstance(source, LocalSource):
        blocks = list(source._blocks(PROBLEM))
        assert sum(map(len, blocks)) == N
        assert {block.table.shape[1] for block in blocks} == {P}
    with pytest.raises(TypeError, match="never leave"):
        pickle.dumps(source)


@pytest.mark.parametrize("cls", SOURCES)
def test_its_sums_are_those_of_one_array(cls, pool):
    one, other = sums(ArraySource(*numbers()), pool), sums(made(cls, *numbers()), pool)
    w, anchor = points()
    assert np.linalg.norm(one.gradient(w) - other.gradient(w)) / N <= PADDING
    assert np.linalg.norm(one.gradient(w, 0.3) - other.gradient(w, 0.3)) / N <= PADDING
    difference = one.difference(w, anchor, 10.0, 1.0) - other.difference(w, anchor, 10.0, 1.0)
    assert np.linalg.norm(difference) / N <= 2 * PADDING
    allowed = summation_slack(SETTING) * SETTING.constants.smoothness
    assert np.linalg.norm(one.hessian(w) - other.hessian(w)) <= allowed
    assert other.risk(w) == pytest.approx(one.risk(w), rel=1e-12)


@pytest.mark.parametrize("cls", SOURCES)
def test_its_minimiser_is_that_of_one_array(cls, pool):
    tolerance, start = 1e-7, np.zeros(PROBLEM.dimension(P))
    linear = np.random.default_rng(1).normal(size=start.size)
    one, other = (
        minimiser(PROBLEM, sums(source, pool), SETTING, linear, 0.01, tolerance, start)
        for source in (ArraySource(*numbers()), made(cls, *numbers()))
    )
    # Two points with subgradients of at most τ are within 2τ/(μ + ridge).
    assert np.linalg.norm(one - other) <= 2 * tolerance / 0.06


def fitted(problem, source, solver, *, noise=None, guarantee=None, schema=None):
    options = FitOptions(problem, guarantee=guarantee, noise=noise, solver=solver, schema=schema)
    return options.plan(source._n_rows, source.n_features).run(source, random_state=0)


def is_sampled(solver, problem):
    fit = FitOptions(problem, guarantee=None, noise=None, solver=solver).plan(N, P)
    return any(item.query.sampling_rate < 1.0 for item in fit.calibrated.plan.planned)


# Rows in uneven blocks, in Parquet files and on two workers. On the cluster most solvers are slow tests: they ask what
# the others ask.
CUT = [CutSource, FromFiles, OnCluster]
ON_CLUSTER = (DPGD, DPObjective, DPNewton, DPSVRG, DPSGD, TalwarFrankWolfe)
CUT_SOLVERS = [
    pytest.param(
        solver, cls, id=f"{solver!r}-{cls.__name__}",
        marks=[pytest.mark.slow] if cls is OnCluster and type(solver) not in ON_CLUSTER else [],
    )
    for cls in CUT
    for solver in STEADY_EXAMPLES
]  # fmt: skip


def with_few_steps(solver):
    """As many steps as tell, not as many as the optimum takes."""
    few = {"n_steps": 10, "n_epochs": 2, "n_inner": 8}
    left = {name: value for name, value in few.items() if getattr(solver, name, 0) is None}
    return dataclasses.replace(solver, **left, **({"max_steps": 100} if hasattr(solver, "max_steps") else {}))


def a_problem_for(solver):
    problems = (
        PROBLEM, Problem(Logistic(), domain=L1Ball(3.0), row_norm=2.0),
        Problem(Squared(), L2(0.1), L2Ball(2.0), row_norm=2.0),
        Problem(Softmax(3), L2(0.1), row_norm=2.0),  # targets −1 and 1: half of the rows count, all of one class
    )  # fmt: skip
    return next(problem for problem in problems if solver.refusal(problem) is None)


@pytest.mark.one_case_in(2, of_each="solver")
@pytest.mark.parametrize(("solver", "cls"), CUT_SOLVERS)
def test_a_fit_without_noise_does_not_depend_on_where_rows_are_and_how_they_are_cut(solver, cls, monkeypatch):
    monkeypatch.setattr(DPNewton, "noiseless_steps", 10)  # of 100, which take long on a cluster
    problem, solver = a_problem_for(solver), with_few_steps(solver)
    if is_sampled(solver, problem):
        pytest.skip("another cut draws other batches: see the sampled steps below")
    one, other = (fitted(problem, source, solver).w for source in (ArraySource(*numbers()), cls(*numbers())))
    assert np.abs(other - one).max() <= 1e-9 * max(1.0, np.abs(one).max())


@pytest.mark.long
@pytest.mark.one_case_in(2, of_each="solver")
@pytest.mark.parametrize(
    "solver",
    [pytest.param(solver, marks=[] if type(solver) in ON_CLUSTER else [pytest.mark.slow], id=repr(solver))
     for solver in SOLVER_EXAMPLES],
)  # fmt: skip
def test_a_seeded_fit_draws_the_same_batches_and_noise_from_files_and_on_a_cluster(solver):
    problem, solver = a_problem_for(solver), with_few_steps(solver)
    noisy = {"noise": "certified", "guarantee": Guarantee(5.0, 1e-6)}
    one, other = (fitted(problem, source(*numbers()), solver, **noisy).w for source in (FromFiles, OnCluster))
    assert np.abs(other - one).max() <= 1e-9 * max(1.0, np.abs(one).max())


@pytest.mark.parametrize("cls", SOURCES)
def test_a_fit_with_noise_draws_the_same_noise_from_every_source(cls):
    noisy = {"noise": "certified", "guarantee": Guarantee(1.0, 1e-6)}
    one, other = (
        fitted(PROBLEM, source, DPGD(n_steps=20), **noisy).w
        for source in (ArraySource(*numbers()), made(cls, *numbers()))
    )
    np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("noise", [None, 0.7])
@pytest.mark.parametrize("problem", [PROBLEM, Problem(Huber(), domain=L1Ball(0.2))], ids=["compiled", "own prox"])
def test_steps_over_several_blocks_are_the_compiled_steps_over_one(problem, noise):
    setting = Setting(problem.constants(P), N, Adjacency.REPLACE_ONE)
    item = PlannedQuery(StochasticStepsQuery(setting, 1.0, 12))
    plan = CalibratedPlan(Plan("test", (item,), {}), noise)
    start, step_sizes = np.full(problem.dimension(P), 0.1), np.linspace(0.5, 0.1, 12)
    answers = []
    for source in (ArraySource(*numbers()), CutSource(*numbers())):
        with Oracle(source, problem, setting, plan, Randomness.from_random_state(4)) as oracle:
            answers.append(oracle.ask(item, start, step_size=step_sizes))
    np.testing.assert_allclose(answers[1], answers[0], rtol=1e-10, atol=1e-12)


# Two of them would take 10 000 steps where there is no noise.
@pytest.mark.parametrize(
    "solver", ["dp-sgd", "dp-svrg", "dp-katyusha", BassilySGD(n_steps=500), RRPSGD(n_steps=500)], ids=str
)
def test_sampled_solvers_run_over_several_blocks_and_come_to_the_same_optimum(solver):
    problem = Problem(Logistic(), L2(0.5))
    one, other = (fitted(problem, source, solver).w for source in (ArraySource(*numbers()), CutSource(*numbers())))
    assert np.linalg.norm(one - other) <= 0.1 * np.linalg.norm(one)


@pytest.mark.long
@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_rows_are_sampled_at_the_accounted_rate_and_independently_in_every_block(rate, pool):
    n, draws = 40, 4000
    X, y = np.eye(n), np.ones(n)  # a row is a coordinate, so a sum shows who is in it
    problem = Problem(Logistic())
    source = CutSource(X, y, edges=(0, 1, 1, 30, n))
    watched = sums(source, pool, problem, seed=2)
    included = np.array([watched.gradient(np.zeros(n), rate=rate) != 0.0 for _ in range(draws)])
    # Binomial standard errors; 4.5 of them over 40 rows and 780 pairs: false alarm below 1 %, fixed seed.
    assert np.abs(included.mean(axis=0) - rate).max() <= 4.5 * math.sqrt(rate * (1 - rate) / draws)
    pairs = (included.T.astype(float) @ included.astype(float) / draws)[np.triu_indices(n, 1)]
    assert np.abs(pairs - rate**2).max() <= 4.5 * math.sqrt(rate**2 * (1 - rate**2) / draws)


@pytest.mark.long
def test_losses_of_several_outputs_add_up_over_blocks_too(pool):
    problem = Problem(Softmax(3), L2(0.1), intercept=True)
    X, _ = numbers()
    y = np.random.default_rng(5).integers(0, 3, N).astype(float)
    w, anchor = points(problem)
    one, other = sums(ArraySource(X, y), pool, problem), sums(CutSource(X, y), pool, problem)
    np.testing.assert_allclose(other.gradient(w), one.gradient(w), rtol=1e-11, atol=1e-11)
    expected = one.difference(w, anchor, 9.0, 1.0)
    np.testing.assert_allclose(other.difference(w, anchor, 9.0, 1.0), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7, 16, 17, 64, 1000, 4097])
def test_a_sum_takes_no_part_through_more_additions_than_the_padding_counts(n_parts):
    assert add_up(Counted() for _ in range(n_parts)).depth <= most_additions(n_parts)
    assert add_up(float(k) for k in range(n_parts)) == n_parts * (n_parts - 1) / 2
    # Of the blocks of a partition, the partitions of a worker and the workers, a million each; pieces and products.
    assert 3 * most_additions(10**6) + 12 <= 128


def test_an_array_is_read_once_per_fit_and_kept():
    source = ArraySource(*numbers())
    assert all(one is other for one, other in zip(*[list(source._blocks(PROBLEM)) for _ in "ab"], strict=True))


def test_private_ranges_are_found_among_all_blocks_and_rows_encoded_with_them():
    X, y = numbers()
    schema = Schema({**SCHEMA.columns, "x0": Number("private", within=(-9, 9))}, Classes("y", [0, 1]))
    fixed = {"noise": "certified", "guarantee": Guarantee(8.0, 1e-6), "schema": schema}
    problem = Problem(Logistic(), L2(0.05), row_norm=2.0)
    one, *others = (
        fitted(problem, source, DPGD(n_steps=20), **fixed)
        for source in (TableSource(frame(X, y), None, schema), FromFiles(X, y), OnCluster(X, y))
    )
    assert one.schema.columns["x0"].released
    for other in others:
        assert one.schema.columns["x0"].bounds == other.schema.columns["x0"].bounds
        np.testing.assert_allclose(one.w, other.w, rtol=1e-9, atol=1e-10)


def test_class_weights_of_a_table_are_those_of_an_array():
    X, y = numbers()
    one = TableSource(frame(X, y), None, SCHEMA, class_weights=(0.5, 2.0))
    problem = Problem(Logistic(), weight_bound=2.0)
    (block,) = one._blocks(problem)
    known = ~(np.isnan(y) | np.isnan(X).any(axis=1))
    np.testing.assert_array_equal(block.weight, np.where(known, np.where(y > 0, 2.0, 0.5), 0.0))


def test_rows_without_a_schema_have_no_ranges_to_find():
    source = ArraySource(*numbers())
    with pytest.raises(InvalidParameterError, match="cannot apply a schema to array input"):
        source.with_schema(SCHEMA)
    with pytest.raises(InvalidParameterError, match="no schema"):
        source._count(BeyondPart(("x",), (0.0, 1.0)))


@pytest.mark.parametrize(
    "make",
    [lambda X, y, w: ArraySource(X, y, w), lambda X, y, w: TableSource(frame(X, y), None, SCHEMA, weights=w)],
    ids=["array", "table"],
)
def test_weights_must_be_one_per_row(make):
    with pytest.raises(InvalidParameterError, match="one number per row"):
        make(*numbers(), np.ones(N - 1))


def test_the_table_of_this_test_has_rows_that_are_ignored(pool):
    (block,) = TableSource(frame(*numbers()), None, SCHEMA)._blocks(PROBLEM)
    (plain,) = ArraySource(*numbers())._blocks(PROBLEM)
    assert (block.weight == 0.0).sum() == (plain.weight == 0.0).sum() == 2
    assert isinstance(frame(*numbers()), pd.DataFrame)


# Persons with many rows, which are spread over the blocks of a source.
MEAN, LIMITED = PrivacyUnit("who", contribution="average"), PrivacyUnit("who", 3)


@pytest.mark.parametrize("cls", MAKE_BY_UNIT)
def test_its_sums_over_units_are_those_of_one_table(cls, pool):
    ids = persons()
    table, source = (MAKE_BY_UNIT[made](*numbers(), ids, MEAN) for made in (TableSource, cls))
    assert source.unit == MEAN
    assert source._n_units == table._n_units == len(set(ids[~np.isnan(ids)])) + 3
    one, other = sums(table, pool), sums(source, pool)
    w, anchor = points()
    np.testing.assert_allclose(other.gradient(w), one.gradient(w), rtol=1e-12, atol=1e-10)
    difference = [of.difference(w, anchor, 10.0, 1.0) for of in (one, other)]
    np.testing.assert_allclose(*difference, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(other.hessian(w), one.hessian(w), rtol=1e-12, atol=1e-10)
    assert other.risk(w) == pytest.approx(one.risk(w), rel=1e-12)


@pytest.mark.parametrize("cls", [FromFiles, OnCluster])
@pytest.mark.parametrize("solver", [DPGD(n_steps=5), DPSGD(n_steps=5, sampling_rate=0.2)], ids=["all", "samples"])
def test_a_seeded_fit_uses_the_same_rows_of_every_unit_wherever_they_are(cls, solver, pool):
    """A table in memory draws the batches of all steps at once, so only files can be compared with workers there."""
    first = MAKE_BY_UNIT[TableSource] if solver.name == "dp-gd" else FromFiles
    weights = []
    for make in (first, cls):
        source = make(*numbers(), persons(), LIMITED)
        options = FitOptions(PROBLEM, guarantee=Guarantee(5.0, 1e-6), solver=solver, unit=LIMITED)
        weights.append(options.plan(source._n_units, source.n_features).run(source, random_state=0).w)
    np.testing.assert_allclose(weights[1], weights[0], rtol=1e-9, atol=1e-10)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("unit", [MEAN, LIMITED], ids=["average", "limit"])
@pytest.mark.parametrize("cls", MAKE_BY_UNIT)
def test_a_person_with_rows_everywhere_moves_a_sum_by_no_more_than_is_declared(cls, unit, pool):
    """At a point where slopes are as large as they can be: 200 rows in all files, against as many that are ignored."""
    (X, y), ids = numbers(), persons()
    own = np.arange(0, N, 6)
    X[own], y[own], ids[own] = 1.0, -1.0, 5.0
    w, key, moved = np.full(PROBLEM.dimension(P), 50.0), fresh_key(), []
    for target in (-1.0, np.nan):
        y[own] = target
        source = MAKE_BY_UNIT[cls](X, y, ids, unit)
        source.draw_units(key)
        moved.append(sums(source, pool).gradient(w))
    distance = np.linalg.norm(moved[1] - moved[0])
    setting = Setting(PROBLEM.constants(P), source._n_units, Adjacency.ADD_REMOVE, unit)
    assert 0.95 * setting.sum_sensitivity < distance <= setting.sum_sensitivity


@pytest.mark.parametrize("cls", [cls for cls in MAKE_BY_UNIT if issubclass(cls, LocalSource)])
def test_a_batch_holds_all_rows_of_a_person_or_none_in_all_blocks(cls):
    source, key = MAKE_BY_UNIT[cls](*numbers(), persons(), MEAN), fresh_key()
    every = np.zeros(source._n_units, dtype=int)
    for block in source._blocks(PROBLEM):
        np.add.at(every, block.units, 1)
    assert every.sum() == N
    for step in range(20):
        drawn = np.zeros_like(every)
        for place, block in source._placed(PROBLEM):
            np.add.at(drawn, block.units[block.batches(Sample(key, step, 0.3), place).rows], 1)
        assert ((drawn == 0) | (drawn == every)).all()
        assert 0 < np.count_nonzero(drawn) < source._n_units
