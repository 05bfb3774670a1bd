"""What every mechanism promises: an answer, a sensitivity, an event, and nothing but the gate as a way out."""

import math
from dataclasses import FrozenInstanceError, dataclass, replace

import numpy as np
import pandas as pd
import pytest

from contracts.discovered import concrete
from contracts.mechanisms import FIXED, MECHANISMS, PROBLEM, SETTING, N, P, name, question
from contracts.solvers import SOLVER_EXAMPLES
from contracts.sources import CutSource
from dperm import (
    Amount,
    Category,
    Classes,
    FitOptions,
    Guarantee,
    InvalidParameterError,
    Number,
    PlanExceededError,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Problem,
    Schema,
    minimize,
)
from dperm.accounting.events import Composed, Event, NotPrivate
from dperm.kernel.answers import _ANSWERS, answer_to, answers
from dperm.kernel.noise import Noise, Randomness
from dperm.kernel.oracle import Oracle
from dperm.mechanisms import (
    GradientQuery,
    LastIterateQuery,
    PrintedEpochQuery,
    Query,
    RangeQuery,
    StochasticStepsQuery,
    VertexQuery,
)
from dperm.mechanisms.base import Mechanism
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.problem import L2, L1Ball, L2Ball, Logistic, Softmax, Squared
from dperm.rows.arrays import ArraySource, TableSource
from kernel.harness import BlindNoise, BlindOracle, RecordingOracle

GUARANTEE = Guarantee(1.0, 1e-6)


def table(seed, n=N):
    """Two seeds give tables that have nothing in common but their shape."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, P)) * 10.0 ** rng.uniform(-2, 2, size=(n, 1)) + seed
    return X, np.where(rng.random(n) < (0.9 if seed else 0.2), 1.0, -1.0)


def frame(seed, n=N):
    X, y = table(seed, n)
    columns = pd.DataFrame(X, columns=[f"x{j}" for j in range(P)])
    columns["job"] = np.random.default_rng(seed).choice(["a", "b", "c"], n)
    columns["y"], columns["amount"] = (y > 0).astype(int), X[:, 0] * 3.0 + seed
    return columns


def planned(query, count=1):
    return PlannedQuery(query, relative_noise=query.scale, fixed=True) if isinstance(query, FIXED) else (
        PlannedQuery(query, count)
    )  # fmt: skip


def asked(query, source, oracle_type, seed=0, multiplier=2.0):
    """The answer of an oracle, and the oracle."""
    item = planned(query)
    others, ranges = (PlannedQuery(GradientQuery(SETTING)),), (item,)
    plan = Plan("test", others, {}, ranges) if item.fixed else Plan("test", (item,), {})
    points, more = question(query)
    randomness = Randomness.from_random_state(seed)
    with oracle_type(source, PROBLEM, SETTING, CalibratedPlan(plan, multiplier), randomness) as oracle:
        return oracle.ask(item, *points, **more), oracle


def source_for(query, seed):
    schema = Schema({f"x{j}": Number((-1, 1)) for j in range(P)}, Classes("y", [0, 1]))
    return TableSource(frame(seed), None, schema) if isinstance(query, FIXED) else ArraySource(*table(seed))


def test_every_mechanism_of_the_package_is_tested_and_answered():
    assert {type(query) for query in MECHANISMS} == set(concrete(Query))
    assert set(concrete(Mechanism)) == set(_ANSWERS)
    assert {kind: answer.__module__ for kind, answer in _ANSWERS.items()} == {
        kind: f"{kind.__module__}.answer" for kind in concrete(Mechanism)
    }


@pytest.mark.parametrize("query", MECHANISMS, ids=name)
def test_its_settings_are_what_the_interface_says(query):
    assert query.setting == SETTING
    assert query.distribution in ("Gaussian", "Gamma", "Laplace", "Gumbel")
    assert 0.0 < query.sampling_rate <= 1.0
    assert query.n_steps >= 1
    assert query.gradients_per_row >= 0.0
    assert query.n_points in (0, 1, 2)
    points, _ = question(query)
    assert 0.0 < query.sensitivity_at(*points) <= query.sensitivity < math.inf
    assert isinstance(query.event(2.0), Event)
    with pytest.raises(FrozenInstanceError):
        query.setting = None


def test_nobody_can_change_a_plan_or_its_noise_once_they_are_made():
    calibrated = CalibratedPlan(Plan("test", (PlannedQuery(GradientQuery(SETTING)),), {}), 2.0)
    for made in (calibrated, calibrated.plan, *calibrated.plan.planned):
        for field in made.__dataclass_fields__:
            with pytest.raises(FrozenInstanceError):
                setattr(made, field, None)


@pytest.mark.parametrize("query", MECHANISMS, ids=name)
def test_behind_a_blind_gate_its_answer_is_the_same_on_any_table(query):
    answers_given = [asked(query, source_for(query, seed), BlindOracle)[0] for seed in (0, 1)]
    np.testing.assert_array_equal(*answers_given)
    assert np.isfinite(answers_given[0]).all()


@pytest.mark.parametrize("query", MECHANISMS, ids=name)
def test_behind_the_real_gate_its_answer_depends_on_the_table_and_on_the_noise(query):
    one, other = (asked(query, source_for(query, seed), Oracle, multiplier=1e-3)[0] for seed in (0, 1))
    assert not np.array_equal(one, other)
    if query.distribution not in ("Gumbel", "Laplace") and not isinstance(query, FIXED):  # not a choice
        assert not np.array_equal(one, asked(query, source_for(query, 0), Oracle, seed=1, multiplier=1e-3)[0])


@pytest.mark.parametrize("query", [query for query in MECHANISMS if not isinstance(query, FIXED)], ids=name)
def test_it_is_answered_over_several_blocks_and_nothing_goes_round_the_gate_there(query):
    edges = (0, 1, 1, 120, N)
    cut = [CutSource(*table(seed), edges) for seed in (0, 1)]
    np.testing.assert_array_equal(*(asked(query, source, BlindOracle)[0] for source in cut))
    if query.sampling_rate == 1.0:
        whole, pieces = (asked(query, source, Oracle)[0] for source in (ArraySource(*table(0)), cut[0]))
        np.testing.assert_allclose(pieces, whole, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("query", MECHANISMS, ids=name)
def test_all_that_it_lets_out_came_to_the_gate_with_the_planned_noise(query):
    _, oracle = asked(query, source_for(query, 0), RecordingOracle)
    points, _ = question(query)
    multiplier = query.scale if isinstance(query, FIXED) else 2.0
    # A hidden step meets the noise after it was multiplied by the step size.
    factor = query.step_size if isinstance(query, LastIterateQuery) else 1.0
    assert oracle.sigmas
    assert oracle.sigmas[0] == pytest.approx(factor * multiplier * query.sensitivity_at(*points), rel=1e-12)


@dataclass(frozen=True, eq=False)
class LastReleaseGiven(Noise):
    """The real gate, but what leaves it last is given; a mechanism accounts for that alone unless it is listed."""

    tape: "LastReleaseOracle"

    def _add(self, exact, distribution, scale):
        self.tape.n_released += 1
        if self.tape.n_released == self.tape.last:
            return np.random.default_rng(5).normal(size=np.shape(exact)) * 0.1
        return super()._add(exact, distribution, scale)


class LastReleaseOracle(Oracle):
    last, n_released = 0, 0

    def _noise_of(self, item):
        return LastReleaseGiven(item, self._calibrated, self._randomness, self)


# Steps and choices of these are all accounted for, each as a release of its own: the blind gate tests them.
ALL_ACCOUNTED = (StochasticStepsQuery, PrintedEpochQuery, RangeQuery, VertexQuery)


@pytest.mark.parametrize("query", [query for query in MECHANISMS if not isinstance(query, ALL_ACCOUNTED)], ids=name)
def test_its_answer_is_a_fixed_function_of_what_was_released_and_of_nothing_hidden(query, monkeypatch):
    """The rule of docs/proofs/exact.md: other rows and other hidden noise, the same last release, the same bits."""
    _, oracle = asked(query, source_for(query, 0), LastReleaseOracle)
    monkeypatch.setattr(LastReleaseOracle, "last", oracle.n_released)
    given = [asked(query, source_for(query, seed), LastReleaseOracle, seed=seed)[0] for seed in (0, 1)]
    np.testing.assert_array_equal(*given)


# --- Whole fits ---

PROBLEMS = (
    Problem(Logistic(), L2(0.05), intercept=True),
    Problem(Logistic(), domain=L1Ball(3.0)),
    Problem(Squared(), L2(0.05), L2Ball(2.0)),
    Problem(Softmax(3), L2(0.05)),
)


WEIGHTED_PROBLEMS = tuple(replace(problem, weight_bound=2.0) for problem in PROBLEMS)


@pytest.fixture
def blind(monkeypatch):
    monkeypatch.setattr(Noise, "adders", BlindNoise.adders)
    monkeypatch.setattr(Noise, "choosers", BlindNoise.choosers)


@pytest.mark.parametrize("solver", SOLVER_EXAMPLES, ids=repr)
def test_behind_a_blind_gate_every_solver_gives_the_same_coefficients_on_any_table(solver, blind):
    problem = next(problem for problem in PROBLEMS if solver.refusal(problem) is None)
    first = 1.0 if problem.loss.n_outputs > 1 else 0.0  # classes −1 and 1 are 0 and 2
    tables = ((X, y + first) for X, y in map(table, (0, 1)))
    fits = [minimize(problem, X, y, guarantee=GUARANTEE, solver=solver, random_state=3).w for X, y in tables]
    np.testing.assert_array_equal(*fits)


@pytest.mark.parametrize("solver", SOLVER_EXAMPLES, ids=repr)
def test_behind_a_blind_gate_every_solver_gives_the_same_coefficients_with_any_weights(solver, blind):
    problem = next(problem for problem in WEIGHTED_PROBLEMS if solver.refusal(problem) is None)
    X, y = table(0)
    y = y + (1.0 if problem.loss.n_outputs > 1 else 0.0)
    given = (np.ones(N), np.where(np.arange(N) % 2 == 0, np.nan, np.random.default_rng(1).uniform(-1.0, 3.0, N)))
    fits = [
        minimize(
            problem, X, y, guarantee=GUARANTEE, solver=solver, random_state=3, weights=weights, row_warnings=False
        ).w
        for weights in given
    ]  # fmt: skip
    np.testing.assert_array_equal(*fits)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVER_EXAMPLES, ids=repr)
def test_every_solver_minimises_the_weighted_loss(solver):
    """Seven rows in ten say the opposite of the others, and have a tenth of their weight."""
    problem = next(problem for problem in WEIGHTED_PROBLEMS if solver.refusal(problem) is None)
    rng = np.random.default_rng(5)
    X, light = rng.uniform(-0.5, 0.5, size=(300, P)), np.arange(300) % 10 < 7
    y, weights = np.where(light, -np.sign(X[:, 0]), np.sign(X[:, 0])), np.where(light, 0.2, 2.0)
    if problem.loss.n_outputs > 1:
        y += 1.0
    fit = minimize(problem, X, y, guarantee=None, noise=None, solver=solver, random_state=3, weights=weights)
    matrix = fit.w.reshape(problem.loss.n_outputs, -1)
    assert matrix[-1, 0] > (matrix[0, 0] if problem.loss.n_outputs > 1 else 0.0)


def fit_frame(model, seed):
    fitted = model.fit(frame(seed, 4000))
    return np.append(fitted.coef_, fitted.intercept_), {name: c.bounds for name, c in numbers_of(fitted.schema_)}


def numbers_of(schema):
    return [(name, column) for name, column in schema.columns.items() if isinstance(column, Number)]


COLUMNS = {"x0": Number("private"), "x1": Number("private", within=(-5, 5)), "job": Category(["a", "b"])}
MODELS = [
    PrivateLogisticRegression(4.0, 1e-6, schema=Schema(COLUMNS, Classes("y", [0, 1]), n=4000), random_state=0),
    PrivateLogisticRegression(
        4.0, 0.0, schema=Schema(COLUMNS, Classes("y", [0, 1]), n=4000), random_state=0, solver="dp-objective"
    ),
    PrivateLinearRegression(4.0, 1e-6, schema=Schema(COLUMNS, Amount("amount", "private"), n=4000), random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=["Gaussian", "pure", "private target"])
def test_behind_a_blind_gate_private_ranges_and_what_follows_are_the_same_on_any_table(model, blind):
    (one, ranges), (other, again) = (fit_frame(model, seed) for seed in (0, 1))
    np.testing.assert_array_equal(one, other)
    assert ranges == again


def test_behind_the_real_gate_they_are_not():
    (one, ranges), (other, again) = (fit_frame(MODELS[0], seed) for seed in (0, 1))
    assert not np.array_equal(one, other)
    assert ranges != again


# --- Cheats ---


@dataclass(frozen=True)
class Peek(GradientQuery):
    """A mechanism of a test's own."""


def lets_the_exact_answer_out(query, asked, w):
    return asked.sums.gradient(w)


def adds_a_trace_of_the_exact_answer(query, asked, w):
    exact = asked.sums.gradient(w) / N
    return asked.noise.release(exact, query.sensitivity) + 1e-12 * exact


def stops_early_on_the_exact_answer(query, asked, w):
    exact = asked.sums.gradient(w) / N
    released = asked.noise.release(exact, query.sensitivity)
    return released if exact[0] > 0.0 else asked.noise.release(exact, query.sensitivity)


def chooses_among_releases_by_rows(query, asked, w):
    released = asked.noise.release(np.zeros(P), query.sensitivity)
    (block,) = asked.sums.source._blocks(asked.problem)
    return np.roll(released, int(block.target.sum() > 0))


@pytest.mark.parametrize(
    "cheat",
    [
        lets_the_exact_answer_out,
        adds_a_trace_of_the_exact_answer,
        stops_early_on_the_exact_answer,
        chooses_among_releases_by_rows,
    ],
)
def test_an_answer_that_lets_something_else_out_is_caught_by_the_blind_gate(cheat, monkeypatch):
    monkeypatch.setitem(_ANSWERS, Peek, cheat)
    query = Peek(SETTING)
    one, other = (
        asked_peek(query, ArraySource(*table(seed))) for seed in (0, 1)
    )  # fmt: skip
    assert not np.array_equal(one, other)


def asked_peek(query, source):
    item = PlannedQuery(query)
    plan = CalibratedPlan(Plan("test", (item,), {}), 2.0)
    with BlindOracle(source, PROBLEM, SETTING, plan, Randomness.from_random_state(0)) as oracle:
        return oracle.ask(item, np.full(P, 0.1))


def test_a_class_derived_from_a_mechanism_is_not_answered_in_its_name():
    with pytest.raises(PlanExceededError, match="no answer"):
        asked_peek(Peek(SETTING), ArraySource(*table(0)))


def test_one_decorator_and_one_file_make_an_answer(monkeypatch):
    monkeypatch.setitem(_ANSWERS, Peek, None)  # taken out again after the test

    @answers(Peek)
    def half(query, asked, w):
        return asked.noise.release(np.zeros(P), query.sensitivity) / 2.0

    assert answer_to(Peek(SETTING)) is half
    assert asked_peek(Peek(SETTING), ArraySource(*table(0))).shape == (P,)


# --- Noise and its cost are one object ---


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("noise", ["certified", None])
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("solver", ["dp-gd", "dp-svrg", "dp-sgd", "dp-objective", "dp-newton"])
def test_the_events_of_a_plans_noises_compose_to_exactly_the_plans_event(solver, private, noise):
    schema = Schema({f"x{j}": Number("private") for j in range(P)}, Classes("y", [0, 1])) if private else None
    fit = FitOptions(
        PROBLEMS[0], guarantee=GUARANTEE if noise else None, solver=solver, noise=noise, schema=schema
    ).plan(20_000, P)
    plan, randomness = fit.calibrated.plan, Randomness.from_random_state(0)
    noises = [Noise(item, fit.calibrated, randomness) for item in (*plan.ranges, *plan.planned)]
    assert len(plan.ranges) == (P + 1 if private else 0)  # the ranges, and the bins of all of them
    if noise is None:
        assert {type(noise.event) for noise in noises} == {type(fit.event)} == {NotPrivate}
        assert {noise.multiplier for noise in noises} == {None}
        return
    assert Composed(noise.event for noise in noises) == fit.event
    for noise in noises:
        scale = noise.multiplier * noise.item.query.sensitivity
        assert scale == fit.calibrated.sigma(noise.item)
        assert noise.distribution == noise.item.query.distribution


def test_the_noise_of_a_range_does_not_follow_the_plans_multiplier():
    query = MECHANISMS[-2]
    assert isinstance(query, RangeQuery)
    item, step = planned(query), PlannedQuery(GradientQuery(SETTING))
    for multiplier in (0.1, 50.0):
        calibrated = CalibratedPlan(Plan("test", (step,), {}, (item,)), multiplier)
        noise = Noise(item, calibrated, Randomness.from_random_state(0))
        assert noise.multiplier == calibrated.sigma(item) == query.scale
        assert noise.event == query.event(query.scale)
    with pytest.raises(InvalidParameterError, match="asked once"):
        PlannedQuery(query, 2, query.scale, fixed=True)
