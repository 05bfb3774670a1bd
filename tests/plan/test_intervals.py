"""What intervals ask of rows: how far it moves, what it costs, and that nothing else leaves."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from dperm import (
    FitOptions,
    Guarantee,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegression,
    Problem,
)
from dperm.accounting.composition import delta_of, epsilon_of
from dperm.accounting.events import Composed
from dperm.kernel.noise import Noise, Randomness
from dperm.kernel.oracle import Oracle
from dperm.mechanisms import GradientQuery, HessianQuery, MomentsQuery
from dperm.mechanisms.plan import PlannedQuery
from dperm.plan.intervals import moments_query
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Logistic, Poisson, Squared
from dperm.rows.arrays import ArraySource
from kernel.harness import BlindNoise, N, P, Table, base_table, neighbours, only_row, replay, setting_of

PROBLEMS = [
    Problem(Squared(), L2(0.01)),
    Problem(Squared(target_bound=3.0), L2(0.01), row_norm=2.0, intercept=True),
]
BOTH = [Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE]
LOSSES = [Squared(), Logistic(), Poisson(math.log(5.0), 5.0)]
GUARANTEE = Guarantee(1.0, 1e-6)


def moments_of(problem, table, adjacency, as_rows=None):
    """What comes to the gate, in the vector whose length is the matrix' Frobenius norm."""
    query = moments_query(problem, setting_of(problem, adjacency))
    return replay(problem, table, adjacency, query, [()], as_rows=as_rows).exact[0], query


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("problem", PROBLEMS, ids=["plain", "scaled"])
def test_a_row_moves_the_moments_by_no_more_than_is_declared(problem, adjacency):
    base, query = moments_of(problem, base_table(), adjacency)
    moved = [
        np.linalg.norm(moments_of(problem, table, adjacency)[0] - base) for table in neighbours(base_table(), adjacency)
    ]
    assert max(moved) <= query.sensitivity
    assert np.isfinite(moved).all()


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("problem", PROBLEMS, ids=["plain", "scaled"])
def test_two_rows_reach_the_declared_sensitivity_so_that_five_per_cent_less_would_be_too_little(problem, adjacency):
    norm, bound = problem.row_norm, problem.loss.target_bound
    query = moments_query(problem, setting_of(problem, adjacency))
    # The second row is at right angles to the first, their constants and opposite targets included.
    along = ((query.target_scale * bound) ** 2 - problem.intercept_value**2) / norm**2
    first, second = np.eye(P)[0], along * np.eye(P)[0] + math.sqrt(1.0 - along**2) * np.eye(P)[1]
    one = moments_of(problem, only_row(norm * first, bound), adjacency)[0]
    other = moments_of(problem, only_row(norm * second, -bound), adjacency)[0]
    found = np.linalg.norm(one - other if adjacency is Adjacency.REPLACE_ONE else one)
    assert 0.95 * query.sensitivity < 0.999999 * query.sensitivity < found <= query.sensitivity


def test_a_target_that_breaks_its_bound_is_scaled_with_its_row():
    problem = PROBLEMS[0]
    honest = moments_query(problem, setting_of(problem, Adjacency.ADD_REMOVE))
    liar = replace(honest, target_scale=1e6)  # a mechanism that understates what it lets in
    exact = replay(problem, only_row(np.eye(P)[0], 1.0), Adjacency.ADD_REMOVE, liar, [()]).exact[0]
    assert np.linalg.norm(exact) <= liar.sensitivity


def test_sparse_rows_and_blocks_give_the_same_moments():
    problem, table = PROBLEMS[1], base_table()
    table.X[3, 2], table.X[7, 0] = np.nan, 1e200
    dense, _ = moments_of(problem, table, Adjacency.REPLACE_ONE)
    rows, _ = moments_of(problem, table, Adjacency.REPLACE_ONE, as_rows=sparse.csr_matrix)
    np.testing.assert_allclose(rows, dense, rtol=1e-12, atol=1e-15)


def test_the_moments_are_those_of_the_bounded_rows():
    problem, table = Problem(Squared(), intercept=0.5), base_table()
    norms = np.maximum(1.0, np.linalg.norm(table.X, axis=1))
    query = moments_query(problem, setting_of(problem, Adjacency.REPLACE_ONE))
    answer = replay(problem, table, Adjacency.REPLACE_ONE, query, [()], noise=None).answers[0]
    z = np.column_stack([table.X / norms[:, None], np.full(N, 0.5), query.target_scale * np.clip(table.y, -1, 1)])
    np.testing.assert_allclose(answer, z.T @ z / N, rtol=1e-9)


def test_a_row_that_is_ignored_adds_nothing_and_no_row_counts_twice():
    problem = PROBLEMS[0]
    nothing, _ = moments_of(problem, only_row(np.full(P, np.nan), 1.0), Adjacency.REPLACE_ONE)
    assert not nothing.any()
    once = moments_of(problem, only_row(np.eye(P)[0], 1.0), Adjacency.REPLACE_ONE)[0]
    heavy = Table(only_row(np.eye(P)[0], 1.0).X, only_row(np.eye(P)[0], 1.0).y, weights=np.full(N, 7.0))
    np.testing.assert_array_equal(moments_of(problem, heavy, Adjacency.REPLACE_ONE)[0], once)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("share", [True, 0.2, 0.9])
def test_everything_together_keeps_the_guarantee_and_nearly_spends_it(loss, adjacency, share):
    options = FitOptions(
        Problem(loss, L2(0.01), intercept=True), guarantee=GUARANTEE, adjacency=adjacency, intervals=share
    )
    plan = options.plan(20_000, 5)
    parsed = Adjacency.parse(adjacency)
    assert epsilon_of(plan.event, GUARANTEE.delta, parsed) <= GUARANTEE.epsilon
    assert delta_of(plan.event, GUARANTEE.epsilon, parsed) <= GUARANTEE.delta
    assert plan.statement.certified_epsilon == epsilon_of(plan.event, GUARANTEE.delta, parsed)
    # Five per cent less noise on what intervals ask for, and the promise would be broken.
    inner = plan.calibrated.plan
    less = tuple(replace(item, relative_noise=0.95 * item.relative_noise) for item in inner.afterwards)
    if share != 0.2:  # a small share is a small part of the cost
        broken = replace(inner, afterwards=less).event(plan.calibrated.noise_multiplier)
        assert epsilon_of(broken, GUARANTEE.delta, parsed) > GUARANTEE.epsilon


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_events_of_all_noises_compose_to_exactly_the_plans_event(loss):
    plan = FitOptions(Problem(loss, L2(0.01)), guarantee=GUARANTEE, intervals=True).plan(20_000, 5)
    inner = plan.calibrated.plan
    noises = [Noise(item, plan.calibrated, Randomness.from_random_state(0)) for item in inner.everything]
    assert Composed(noise.event for noise in noises) == plan.event
    assert {type(item.query) for item in inner.afterwards} <= {MomentsQuery, HessianQuery, GradientQuery}
    assert all(item.fixed for item in inner.afterwards)


def test_a_solver_that_costs_something_whatever_its_noise_is_planned_beside_intervals():
    model = PrivateLogisticRegression(
        2.0, 1e-6, classes=(0, 1), adjacency="add_remove", n=20_000, intervals=0.4, fit_intercept=False,
        solver="chaudhuri-objective",
    )  # fmt: skip
    plan = model.plan(20_000, 4)
    assert epsilon_of(plan.event, 1e-6, Adjacency.ADD_REMOVE) <= 2.0


def test_a_fit_without_intervals_plans_nothing_afterwards():
    plain = FitOptions(PROBLEMS[0], guarantee=GUARANTEE).plan(20_000, 5)
    assert plain.calibrated.plan.afterwards == ()
    assert "intervals" not in plain.statement.mechanism


def test_the_oracle_answers_what_is_planned_afterwards_once():
    plan = FitOptions(PROBLEMS[0], guarantee=GUARANTEE, intervals=True).plan(N, P)
    table = base_table()
    source, randomness = ArraySource(table.X, table.y), Randomness.from_random_state(0)
    (item,) = plan.calibrated.plan.afterwards
    with Oracle(source, plan.problem, plan.setting, plan.calibrated, randomness) as oracle:
        assert oracle.ask(item).shape == (P + 1, P + 1)
        with pytest.raises(Exception, match="more often than planned"):
            oracle.ask(item)
        with pytest.raises(Exception, match="not in the plan"):
            oracle.ask(PlannedQuery(item.query, relative_noise=1e-6, fixed=True))


def rows(seed, n=800):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * (seed + 1.0)
    return X, X[:, 0] + seed


MODELS = [
    (PrivateLinearRegression(2.0, 1e-5, intervals=True, random_state=1, row_norm=1.0), lambda y: np.tanh(y)),
    (
        PrivateLogisticRegression(2.0, 1e-5, intervals=True, random_state=1, classes=(0, 1)),
        lambda y: (y > 0).astype(int),
    ),
    (
        PrivatePoissonRegression(2.0, 1e-5, intervals=True, random_state=1, row_norm=1.0),
        lambda y: np.round(np.exp(np.tanh(y))),
    ),
]


@pytest.mark.parametrize(("model", "target"), MODELS, ids=lambda value: getattr(value, "kind", ""))
def test_behind_a_blind_gate_intervals_are_the_same_on_any_table(model, target, monkeypatch):
    monkeypatch.setattr(Noise, "adders", BlindNoise.adders)
    monkeypatch.setattr(Noise, "choosers", BlindNoise.choosers)
    one, other = (model.fit(X, target(y)).uncertainty_.to_dict() for X, y in map(rows, (0, 1)))
    assert one == other


@pytest.mark.parametrize(("model", "target"), MODELS, ids=lambda value: getattr(value, "kind", ""))
def test_behind_the_real_gate_they_are_not(model, target):
    one, other = (model.fit(X, target(y)).uncertainty_.to_dict() for X, y in map(rows, (0, 1)))
    assert one != other
    assert one["gradient_noise"] > 0.0 < one["hessian_noise"]
