"""A promise about all rows of a unit is attacked with units: noise or samples that protect only a row are noticed."""

import math
from contextlib import nullcontext

import numpy as np
import pytest
from scipy.stats import binom, norm

from audit.broken import BROKEN_UNITS
from contracts.solvers import SOLVER_EXAMPLES
from contracts.test_every_solver import first_taken_by
from dperm import (
    Classes,
    FitOptions,
    Guarantee,
    InvalidParameterError,
    Number,
    PlanExceededError,
    PrivacyUnit,
    PrivateLogisticRegression,
    Problem,
    Schema,
)
from dperm.accounting.composition import delta_of
from dperm.audit import AuditResult, audit_plan, audit_table, draw_audit
from dperm.audit.one_run import draw_canaries
from dperm.audit.replay import replay
from dperm.audit.result import name_of_plan
from dperm.audit.subject import Subject
from dperm.audit.tables import neighbour_pairs
from dperm.audit.watched import ExactOracle
from dperm.errors import DpermError
from dperm.kernel.exact.words import fresh_key
from dperm.kernel.noise import Randomness
from dperm.kernel.oracle import Oracle
from dperm.kernel.parts import GradientPart
from dperm.kernel.sampling import Sample
from dperm.kernel.units import Membership
from dperm.mechanisms import DifferenceQuery, GradientQuery, HessianQuery, OutputPerturbationQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Huber, Logistic
from dperm.rows.arrays import ArraySource
from dperm.rows.canaries import WithCanaries
from dperm.solvers import DPGD, DPSVRG
from kernel.joints import LIARS, QUESTIONS, ROWS, STORAGE, adjacent_tables, ball_problem

THREE, MEAN = PrivacyUnit("person_id", 3), PrivacyUnit("person_id", contribution="average")
BOTH = pytest.mark.parametrize("adjacency", list(Adjacency), ids=lambda adjacency: adjacency.value)
# Of a replay: the chance that a correct library is accused. All but the size of noise and of samples is exact.
ALPHA = 1e-6


def plan_for(solver, adjacency=Adjacency.REPLACE_ONE, unit=THREE, problem=None, n=60, p=3):
    return FitOptions(
        problem or Problem(Logistic(), L2(0.1)), guarantee=Guarantee(4.0, 1e-5), solver=solver,
        adjacency=adjacency.value, unit=unit,
    ).plan(n, p)  # fmt: skip


# --- Neighbours ---


@BOTH
@pytest.mark.parametrize("unit", [THREE, MEAN, PrivacyUnit("person_id", 2, missing="ignore")], ids=str)
def test_neighbours_differ_in_all_rows_of_one_unit(unit, adjacency):
    subject = Subject(plan_for(DPGD(n_steps=2), adjacency, unit, n=20))
    shared = subject.surroundings(ignored=False, crowded=True)
    bare = shared.table(None)
    canaries = subject.canaries()
    k = unit.max_rows or 5
    assert {len(canary.y) for canary in canaries} == {1, k, 3 * k + 1}
    assert sum(not canary.has_id for canary in canaries) == 1
    for canary in canaries:
        table = shared.table(canary)
        own = len(bare.y)
        np.testing.assert_array_equal(table.X[:own], bare.X)
        np.testing.assert_array_equal(table.groups[:own], bare.groups)
        if canary.has_id:
            assert set(table.groups[own:].tolist()) == {19}  # nobody else has that number
    assert len(np.unique(bare.groups)) == 19
    assert np.bincount(bare.groups).max() == 3 * k
    n_pairs = len(canaries) if adjacency is Adjacency.ADD_REMOVE else len(canaries) * (len(canaries) - 1) // 2
    assert len(neighbour_pairs(canaries, adjacency)) == n_pairs


# --- Broken libraries ---


@pytest.mark.parametrize(
    "broken",
    [pytest.param(one, marks=[pytest.mark.slow] if "," in one.name else [], id=one.name) for one in BROKEN_UNITS],
)
def test_a_library_that_protects_rows_where_units_are_promised_is_caught(broken):
    """The same audit accuses a correct library with a probability of at most 1e-6."""
    assert audit_plan(broken.plan(), attacks=["replay"], confidence=1.0 - ALPHA).kept
    with broken.change():
        result = audit_plan(broken.plan(), attacks=["replay"], confidence=1.0 - ALPHA)
    assert not result.kept
    assert "THE GUARANTEE IS VIOLATED" in str(result)


@pytest.mark.slow
def test_a_black_box_catches_unit_weights_that_are_left_out():
    broken = BROKEN_UNITS[0]
    assert audit_plan(broken.plan(), attacks=["black-box"], fits=400, random_state=1).kept
    with broken.change():
        assert not audit_plan(broken.plan(), attacks=["black-box"], fits=400, random_state=1).kept


@pytest.mark.parametrize(
    "broken", [b for b in BROKEN_UNITS if "chosen" in b.name or "1.05" in b.name], ids=lambda b: b.name
)
def test_wrong_weights_are_seen_without_any_audit(broken):
    """All that a correct draw promises: at most 1 for each unit, and the same for others whatever one unit holds."""
    unit, numbers, key = broken.unit, np.repeat(np.arange(6), [1, 3, 4, 9, 2, 7]), fresh_key()
    kept = []
    for change in (nullcontext, broken.change):
        with change():
            few, more = (
                Membership.of(unit, np.append(numbers, np.full(n_rows, 6))).drawn(key) for n_rows in (1, 20)
            )  # fmt: skip
        sums = np.bincount(few.numbers, few.weights)
        kept.append(bool((sums <= 1.0).all() and np.array_equal(few.weights[:-1], more.weights[: numbers.size])))
    assert kept == [True, False]


def test_rows_that_are_not_grouped_are_refused_under_a_promise_about_units():
    """The oracle compares what the source groups by with what noise was planned for, both ways."""
    X, y, groups = np.zeros((6, 3)), np.tile([1.0, -1.0], 3), np.repeat(np.arange(3), 2)
    problem = Problem(Logistic(), L2(0.1))
    grouped, alone = ArraySource(X, y, None, groups, THREE), ArraySource(X, y)
    other = ArraySource(X, y, None, groups, PrivacyUnit("person_id", 4))
    for unit, sources in ((THREE, (alone, other)), (None, (grouped,))):
        setting = Setting(problem.constants(3), 3, Adjacency.REPLACE_ONE, unit)
        plan = CalibratedPlan(Plan("test", (PlannedQuery(GradientQuery(setting)),), {}), 1.0)
        for source in sources:
            with pytest.raises(PlanExceededError, match="different unit"):
                Oracle(source, problem, setting, plan, Randomness.from_random_state(0))


# --- Losses that lie about themselves ---


@pytest.mark.slow  # a loss of its own is compiled
@BOTH
@pytest.mark.parametrize("storage", list(STORAGE))
@pytest.mark.parametrize("ask", QUESTIONS, ids=lambda ask: ask.__name__)
def test_a_unit_of_rows_whose_loss_lies_moves_no_further_than_is_declared(ask, storage, adjacency):
    """Every row is clipped before it is weighted: were it the other way round, k rows would move k times as far."""
    loss, k = LIARS[0], 4
    problem = ball_problem(loss)
    one, two, n = adjacent_tables(adjacency)
    setting = Setting(problem.constants(one.X.shape[1]), n, adjacency, PrivacyUnit("person_id", k))
    try:
        question = ask(problem, setting)
    except DpermError:
        assert "objective" in ask.__name__  # its proof is for one row
        return
    answers = []
    for table in (one, two):
        order = np.append(np.arange(ROWS), np.repeat(1, k - 1))  # row 1 is the one that differs
        table.X, table.y, table.weights, table.groups = (
            table.X[order], table.y[order], table.weights[order], order,
        )  # fmt: skip
        answers.append(question.ask(problem, table, as_rows=STORAGE[storage]))
    assert np.linalg.norm(answers[0] - answers[1]) <= question.declared * (1.0 + 1e-9)


# --- Exact densities ---

# Slopes of 1 at 0, and a curvature of 1 there for targets of 0: every bound is reached.
HUBER, N = Problem(Huber(1.0, 10.0), L2(0.1)), 40
FIRST, SECOND = np.eye(3)[:2]
EPSILONS = (0.0, 0.05, 0.2, 0.5, 1.0, 1.5, 2.0)


def exact_vector(query, points, rows):
    """The exact answer where only this unit counts; rows is a list of (x, target)."""
    X, y = np.full((N - 1, 3), np.nan), np.zeros(N - 1)
    groups = np.append(np.arange(N - 1), np.full(len(rows), N))
    if rows:
        X, y = np.vstack([X, [x for x, _ in rows]]), np.append(y, [target for _, target in rows])
    plan = CalibratedPlan(Plan("test", (PlannedQuery(query),), {}), None)
    with ExactOracle(X, y, HUBER, query.setting, plan, 0, groups=groups) as oracle:
        return oracle.exact(PlannedQuery(query), *points).passed[0].exact.ravel()


def worst_case(kind, adjacency, unit):
    """A query, its points, and the two units that its exact answers tell apart best."""
    setting, k, zero = Setting(HUBER.constants(3), N, adjacency, unit), unit.max_rows or 5, np.zeros(3)
    gone = adjacency is Adjacency.ADD_REMOVE
    if kind == "hessian":
        return HessianQuery(setting), (zero,), [(FIRST, 0.0)] * k, [] if gone else [(SECOND, 0.0)] * k
    if kind == "difference":
        there = [] if gone else [(zero, 0.0)] * k
        return DifferenceQuery(setting, 1.0), (1e-3 * FIRST, zero), [(FIRST, 0.0)] * k, there
    there = [] if gone else [(FIRST, -10.0)] * k
    query = OutputPerturbationQuery(setting, 1e-9) if kind == "output" else GradientQuery(setting)
    return query, (zero,), [(FIRST, 10.0)] * k, there


def gaussian_delta(move, sigma, epsilon):
    """δ(ε) between N(0, σ²) and N(move, σ²), exactly."""
    mu = move / sigma
    return norm.cdf(mu / 2.0 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2.0 - epsilon / mu)


def mixture_delta(one, two, sigma, epsilon):
    """δ(ε) between mixtures {place: chance} of normal laws, both ways, by the rectangle rule to ten digits."""
    reach = max(map(abs, (*one, *two))) + 12.0 * sigma
    x = np.linspace(-reach, reach, 100_001)
    first, second = (sum(chance * norm.pdf(x, at, sigma) for at, chance in law.items()) for law in (one, two))
    ways = ((first, second), (second, first))
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * (x[1] - x[0])) for p, q in ways)


@pytest.mark.one_case_in(2)
@BOTH
@pytest.mark.parametrize("unit", [THREE, MEAN, PrivacyUnit("person_id", 7)], ids=str)
@pytest.mark.parametrize("kind", ["gradient", "difference", "hessian"])
def test_the_exact_privacy_curve_of_a_unit_is_the_one_that_is_charged(kind, unit, adjacency):
    query, points, one, two = worst_case(kind, adjacency, unit)
    move = float(np.linalg.norm(exact_vector(query, points, one) - exact_vector(query, points, two)))
    multiplier = 1.3
    sigma = multiplier * query.sensitivity_at(*points)
    charged = [delta_of(query.event(multiplier), epsilon, adjacency) for epsilon in EPSILONS]
    for epsilon, allowed in zip(EPSILONS, charged, strict=True):
        assert gaussian_delta(move, sigma, epsilon) <= allowed * (1.0 + 1e-9)
    assert any(gaussian_delta(move, 0.95 * sigma, e) > allowed for e, allowed in zip(EPSILONS, charged, strict=True))


def sampled(adjacency, unit, rate):
    """A sampled gradient, and how far the worst two units move it from the answer without them if they are in."""
    query, points, one, two = worst_case("gradient", adjacency, unit)
    moves = [float(exact_vector(query, points, rows) @ FIRST) / rate for rows in (one, two)]
    return GradientQuery(query.setting, rate), moves


@BOTH
@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_the_exact_privacy_curve_of_sampled_units_is_the_one_that_is_charged(rate, adjacency):
    query, moves = sampled(adjacency, THREE, rate)
    laws = [{0.0: 1.0 - rate, move: rate} if move else {0.0: 1.0} for move in moves]
    multiplier = 0.4
    sigma = multiplier * query.sensitivity
    charged = [delta_of(query.event(multiplier), epsilon, adjacency) for epsilon in EPSILONS]
    for epsilon, allowed in zip(EPSILONS, charged, strict=True):
        assert mixture_delta(*laws, sigma, epsilon) <= allowed * (1.0 + 1e-6) + 1e-10
    assert any(mixture_delta(*laws, 0.95 * sigma, e) > allowed for e, allowed in zip(EPSILONS, charged, strict=True))


@BOTH
def test_sampling_rows_would_break_what_is_charged_for_sampling_units(adjacency):
    """Any of seven rows is in a batch more often than one unit would be, if with a seventh of the weight."""
    rate, k, multiplier = 0.05, 7, 0.4
    query, moves = sampled(adjacency, PrivacyUnit("person_id", k), rate)
    laws = [
        {move * j / k: float(binom.pmf(j, k, rate)) for j in range(k + 1)} if move else {0.0: 1.0} for move in moves
    ]  # fmt: skip
    allowed = delta_of(query.event(multiplier), 0.0, adjacency)
    assert mixture_delta(*laws, multiplier * query.sensitivity, 0.0) > 1.2 * allowed


@BOTH
@pytest.mark.parametrize("unit", [THREE, MEAN], ids=str)
def test_the_largest_log_ratio_of_a_minimiser_is_the_one_that_is_charged(unit, adjacency):
    """Noise with density ∝ exp(−‖b‖/s): two answers that are d apart have a ratio of exp(d/s), on the line through."""
    query, points, one, two = worst_case("output", adjacency, unit)
    move = float(np.linalg.norm(exact_vector(query, points, one) - exact_vector(query, points, two)))
    multiplier = 1.3
    scale = multiplier * query.sensitivity
    assert move / scale <= query.event(multiplier).epsilon < move / (0.95 * scale)


# --- Every solver ---

# One that walks, one that samples, one that minimises; the others are slow together.
FAST = [DPGD(accounting="composition"), DPSVRG()]


@BOTH
@pytest.mark.parametrize(
    "solver",
    [*FAST, *(pytest.param(solver, marks=pytest.mark.slow) for solver in SOLVER_EXAMPLES if solver not in FAST)],
    ids=repr,
)
@pytest.mark.parametrize("unit", [THREE, MEAN], ids=str)
def test_no_solver_s_answers_move_further_than_claimed_for_units(solver, unit, adjacency):
    """The chance that this accuses a correct solver is 1e-6."""
    problem = first_taken_by(solver)
    try:
        plan = plan_for(solver, adjacency, unit, problem, n=300, p=6)
    except DpermError:  # its proof is not for so many rows together, and is for one
        plan = plan_for(solver, adjacency, PrivacyUnit("person_id", 1), problem, n=300, p=6)
    assert replay(Subject(plan, 1), ALPHA).broken == ()


@pytest.mark.slow
@pytest.mark.parametrize("unit", [THREE, MEAN], ids=str)
def test_gradients_of_a_function_move_no_further_than_claimed_for_units(unit):
    functions = pytest.importorskip("kernel.test_function_boundary")  # it needs JAX
    for solver in (functions.TAKING_FUNCTIONS[0], functions.TAKING_FUNCTIONS[5]):
        problem = functions.problem_of(weight_bound=1.0)
        assert replay(Subject(plan_for(solver, unit=unit, problem=problem, p=functions.P), 0), ALPHA).broken == ()


# --- Words ---


def test_the_result_names_the_unit_and_a_plan_for_rows_has_another_name():
    plan = plan_for(DPGD(n_steps=2, accounting="composition"))
    result = audit_plan(plan, attacks=["black-box"], fits=20, random_state=0)
    assert "protected:  one person, with up to 3 rows; n counts them" in str(result)
    assert AuditResult.from_dict(result.to_dict()) == result
    assert result.to_dict()["unit"] == "one person, with up to 3 rows"
    assert draw_audit(result, plan)[:4] == b"\x89PNG"
    alone = plan_for(DPGD(n_steps=2, accounting="composition"), unit=None)
    other = audit_plan(alone, attacks=["replay"], random_state=0)
    assert other.plan != result.plan
    assert "protected:" not in str(other)
    assert other.to_dict()["unit"] is None
    assert AuditResult.from_dict(other.to_dict()) == other
    assert name_of_plan(plan.statement.to_dict(), []) != name_of_plan(alone.statement.to_dict(), [])


def test_private_ranges_are_replayed_for_units(monkeypatch):
    from dperm.mechanisms import RangeQuery

    columns = {"age": Number("private", within=(0, 120)), "pay": Number((0, 9))}
    schema = Schema(columns, Classes("y", [0, 1]), n=500, encode="linear", unit=THREE)
    plan = PrivateLogisticRegression(4.0, 1e-5, schema=schema, solver="dp-gd").plan()
    assert replay(Subject(plan, 0), ALPHA).broken == ()
    monkeypatch.setattr(RangeQuery, "sensitivity", 0.95)
    (broken, *_) = replay(Subject(plan, 0), ALPHA).broken
    assert "1.053 times as far as claimed (Range" in broken


# --- One run ---


def people(n=40, p=60):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(n), rng.integers(1, 6, n))
    return rng.normal(size=(groups.size, p)) / 20.0, rng.choice([-1, 1], groups.size), groups


def model_for(adjacency, **more):
    return PrivateLogisticRegression(
        1.0, 1e-6, fit_intercept=False, solver=DPGD(n_steps=3, accounting="composition"), adjacency=adjacency.value,
        classes=[-1, 1], unit="person_id", max_rows_per_unit=3, **more,
    )  # fmt: skip


@BOTH
def test_one_run_puts_in_units_and_catches_a_fit_with_hardly_any_noise(adjacency, monkeypatch):
    """ε = 1 was promised, and the noise is a thousandth of it."""
    X, y, groups = people()
    correct = audit_table(model_for(adjacency, n=40), X, y, groups, canaries=60, random_state=0)
    assert correct.kept
    assert correct.n == 100
    assert "canaries (person: 3 rows each)" in str(correct)
    true = CalibratedPlan.sigma
    monkeypatch.setattr(CalibratedPlan, "sigma", lambda *given: 1e-3 * true(*given))
    result = audit_table(model_for(adjacency, n=40), X, y, groups, canaries=60, random_state=0)
    assert not result.kept
    assert result.lower_bound > 1.0


def test_canary_units_have_the_weight_of_a_unit_and_numbers_of_their_own():
    X, y, groups = people(p=4)
    problem = Problem(Logistic(), L2(0.1))
    setting = Setting(problem.constants(4), 45, Adjacency.REPLACE_ONE, THREE)
    canaries = draw_canaries(problem, 4, 5, np.random.default_rng(0))
    rows = canaries.rows(setting)
    assert len(rows[1]) == 15
    source = WithCanaries(ArraySource(X, y, None, groups, THREE), *rows)
    assert (source._n_units, source.unit, source._n_rows) == (45, THREE, len(y) + 15)
    seen = []

    class Watching(GradientPart):
        def of(self, block, place, objective, pool):
            seen.append(block)
            return np.zeros(4)

    source._total(problem, Watching(np.zeros(4), None, None), None, None)
    own, made_up = seen
    assert set(own.units.tolist()) == set(range(40))
    assert set(made_up.units.tolist()) == set(range(40, 45))
    assert np.bincount(made_up.units, made_up.weight).max() <= 1.0


def test_canary_units_are_drawn_whole_at_the_rate_and_apart_from_the_others():
    """3000 draws at 0.3: a frequency is off by 0.045, or a correlation by 0.1, with a probability below 1e-6 each."""
    X, y, groups = people(p=4)
    problem = Problem(Logistic(), L2(0.1))
    setting = Setting(problem.constants(4), 45, Adjacency.REPLACE_ONE, THREE)
    canaries = draw_canaries(problem, 4, 5, np.random.default_rng(0))
    source = WithCanaries(ArraySource(X, y, None, groups, THREE), *canaries.rows(setting))
    key, drawn = fresh_key(), np.zeros((3000, 45), dtype=bool)

    class Drawing(GradientPart):
        def of(self, block, place, objective, pool):
            rows = block.batches(self.sample, place).rows
            units, counts = np.unique(block.units[rows], return_counts=True)
            np.testing.assert_array_equal(counts, np.bincount(block.units, minlength=45)[units])
            drawn[self.sample.step, units] = True
            return np.zeros(4)

    for step in range(3000):
        source._total(problem, Drawing(np.zeros(4), None, Sample(key, step, 0.3)), None, None)
    assert np.abs(drawn.mean(axis=0) - 0.3).max() < 0.045
    together = np.corrcoef(drawn.T)[40:]
    together[np.arange(5), np.arange(40, 45)] = 0.0
    assert np.abs(together).max() < 0.1


# --- Refusals ---


def test_what_cannot_be_audited_for_units_is_refused_in_a_sentence():
    X, y, groups = people(p=4)
    model = model_for(Adjacency.REPLACE_ONE)
    with pytest.raises(InvalidParameterError, match="one id per row"):
        audit_table(model, X, y, groups[:-1], canaries=10)
    with pytest.raises(InvalidParameterError, match="no column 'person_id'"):
        audit_table(model, X, y, canaries=10)
    with pytest.raises(InvalidParameterError, match="groups requires unit"):
        audit_table(PrivateLogisticRegression(classes=[-1, 1]), X, y, groups, canaries=10)
    with pytest.raises(InvalidParameterError, match="10 canaries"):
        audit_table(model, X, y, groups, canaries=10, guesses=(6, 5))
    with pytest.raises(InvalidParameterError, match="attacks must name"):
        audit_plan(plan_for(DPGD(n_steps=2)), attacks=["persons"])
