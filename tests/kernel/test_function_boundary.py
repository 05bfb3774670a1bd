"""Functions of one row within the boundary: no row adds more than the clip, and the function never sees one."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.audit.replay import largest_shift, replay
from dperm.audit.subject import Subject
from dperm.audit.tables import Surroundings, hostile_rows
from dperm.kernel.block import Block
from dperm.kernel.objectives import function as sums
from dperm.kernel.objectives import objective_of
from dperm.mechanisms.setting import Setting
from dperm.paper import RRPSGD
from dperm.privacy.guarantee import Adjacency
from dperm.problem import FunctionLoss
from dperm.solvers import DPGD, DPSGD, DPSVRG, SOLVERS, DPAdam, DPSpider
from kernel.harness import N, P, base_table, neighbours, record, record_differences
from kernel.test_trusted_boundary import check_solver

GUARANTEE = Guarantee(1.0, 1e-6)
CLIP, WEIGHT_BOUND = 0.7, 2.0
CLIPPINGS = ("flat", "per-layer", "automatic")

PARAMS = {"layer": {"kernel": np.full((P, 2), 0.3), "bias": np.array([0.1, -0.2])}, "scale": np.array(1.0)}


def outputs(w, x):
    return x @ w["layer"]["kernel"] + w["layer"]["bias"]


def network(w, x, y):
    return jnp.square(jnp.sum(jnp.tanh(outputs(w, x))) * w["scale"] - y)


def steep(w, x, y):
    """Gradients of any size, some too large to be measured."""
    return 1e153 * (jnp.sum(jnp.sin(outputs(w, x))) + x[0] * w["scale"]) * y


def amplified(w, x, y):
    """Nothing but a layer, whose gradient is the row times a huge factor: tiny rows count."""
    return 1e153 * jnp.sum(jnp.sin(x @ w["layer"]["kernel"])) * y


def broken(w, x, y):
    """Without a gradient on half of the rows, with an infinite one on some, and of no bound on the others."""
    return jnp.sum(jnp.sqrt(x[0] * outputs(w, x))) * jnp.exp(w["scale"] * x[1]) + jnp.log(x[2]) * w["scale"] * y


_traces = []


@jax.custom_vjp
def shifty(z):
    """A derivative of one's own, with another factor whenever it is traced."""
    return z


def _shifty_slope(_, slope):
    _traces.append(slope)
    return (1e3 * len(_traces) * slope,)


shifty.defvjp(lambda z: (z, None), _shifty_slope)


def lying(w, x, y):
    return jnp.square(jnp.sum(jnp.tanh(shifty(outputs(w, x)))) * w["scale"] - y)


FUNCTIONS = {"network": network, "steep": steep, "amplified": amplified, "broken": broken, "lying": lying}


def problem_of(function=network, clipping="flat", clip=CLIP, weight_bound=WEIGHT_BOUND):
    return Problem(FunctionLoss(function, PARAMS, clip=clip, clipping=clipping), weight_bound=weight_bound)


def gradient_sum(problem, X, y, weights=None, w=None):
    block = Block.from_table(X, y, problem, weights)
    return objective_of(problem).gradient_sum(block, problem.loss.start_point if w is None else w, None, None)


def difference_sum(problem, X, y, w, bound, weights=None):
    block = Block.from_table(X, y, problem, weights)
    anchor, chosen = problem.loss.start_point, np.arange(len(y))
    return objective_of(problem).difference_sum(block, chosen, w, anchor, bound, None)


every_clipping = pytest.mark.parametrize("clipping", CLIPPINGS)
every_function = pytest.mark.parametrize("name", FUNCTIONS)
entries = st.one_of(
    st.floats(-3.0, 3.0),
    st.floats(),
    st.sampled_from([0.0, 1e-310, 1e-160, 1e-156, -1e-154, 1e-153, 1e-150, 1e150, -1e154, 1e200, 1e308]),
)


# How much a row adds.


@pytest.mark.cases_with_every_value
@every_function
@every_clipping
@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    x=arrays(np.float64, P, elements=entries), y=entries, weight=st.floats(0.0, 9.0),
    moved=st.sampled_from([0.0, 1.0, -30.0, 1e6, 1e200]),
)  # fmt: skip
def test_no_row_adds_more_than_the_clip(name, clipping, x, y, weight, moved):
    problem = problem_of(FUNCTIONS[name], clipping)
    w = problem.loss.start_point + moved
    added = gradient_sum(problem, x[None], np.array([y]), np.array([weight]), w)
    assert np.linalg.norm(added) <= CLIP * min(weight, WEIGHT_BOUND)


@every_clipping
def test_the_clip_is_reached(clipping):
    """So a larger one would be noticed above."""
    problem = problem_of(steep, clipping)
    for size in (1e-150, 1e-120, 1.0):
        added = gradient_sum(problem, np.full((1, P), size), np.ones(1), np.array([9.0]))
        assert np.linalg.norm(added) == pytest.approx(CLIP * WEIGHT_BOUND, rel=1e-6)


@pytest.mark.cases_with_every_value
@every_clipping
@pytest.mark.parametrize("size", [1e-119, 1e-122, 1e-152, 1e-153, 1e-154, 1e-156])
def test_rows_whose_squares_vanish_are_clipped_all_the_same(clipping, size):
    """A tiny row beside a huge factor: compiled code takes the squares of the one for 0."""
    problem = problem_of(amplified, clipping, clip=1e-4)
    added = gradient_sum(problem, np.full((1, P), size), np.ones(1), np.ones(1))
    assert np.linalg.norm(added) <= 1e-4
    assert added.any() == (size > 2.0**-400)  # what is smaller counts as 0


@pytest.mark.one_case_in(2)
@every_function
@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    x=arrays(np.float64, P, elements=entries), y=entries, moved=st.sampled_from([1e-300, 1e-9, 1.0, 1e6]),
    bound=st.sampled_from([0.0, 1e-300, 1e-160, 1e-9, 0.3, 10.0]),
)  # fmt: skip
def test_no_row_adds_more_than_the_bound_to_a_difference(name, x, y, moved, bound):
    problem = problem_of(FUNCTIONS[name])
    added = difference_sum(problem, x[None], np.array([y]), problem.loss.start_point + moved, bound)
    assert np.linalg.norm(added) <= bound


def test_the_bound_on_a_difference_is_reached():
    problem = problem_of(steep)
    added = difference_sum(problem, np.full((1, P), 2.0), np.ones(1), problem.loss.start_point + 0.7, 0.1)
    assert np.linalg.norm(added) == pytest.approx(0.1 / WEIGHT_BOUND, rel=1e-6)


@every_clipping
def test_a_row_without_a_gradient_adds_nothing_and_spoils_nothing(clipping):
    problem = problem_of(broken, clipping)
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0.1, 1.0, (40, P)), np.ones(40)
    good = gradient_sum(problem, X, y)
    assert np.linalg.norm(good) > 1.0
    X_bad = X.copy()
    bad = [[-1.0, 1, 1, 1, 1], [1, 1, -1.0, 1, 1], [0.0, 1, 1, 1, 1], [1, 1e4, 1, 1, 1], [1, 1, 0.0, 1, 1]]
    X_bad[::8] = bad
    weights = np.ones(40)
    weights[::8] = 0.0
    np.testing.assert_array_equal(gradient_sum(problem, X_bad, y), gradient_sum(problem, X, y, weights))
    w = problem.loss.start_point + 0.1
    without = difference_sum(problem, X, y, w, 0.1, weights)
    assert without.any()
    np.testing.assert_array_equal(difference_sum(problem, X_bad, y, w, 0.1), without)


@pytest.mark.cases_with_every_value
@every_clipping
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_no_hostile_row_moves_the_sum_further_than_the_sensitivity(clipping, adjacency):
    problem = problem_of(clipping=clipping, weight_bound=1.0)
    sensitivity = Setting(problem.constants(P), N, adjacency).sum_sensitivity
    table = base_table()
    before = gradient_sum(problem, table.X, table.y)
    for other in neighbours(table, adjacency):
        moved = gradient_sum(problem, other.X, other.y) - before
        assert np.linalg.norm(moved) <= sensitivity, other.name


@pytest.mark.parametrize("clipping", CLIPPINGS)
def test_the_sensitivity_is_reached(clipping):
    """A row is replaced by one whose gradient points the other way."""
    problem = problem_of(steep, clipping, weight_bound=1.0)
    sensitivity = Setting(problem.constants(P), N, Adjacency.REPLACE_ONE).sum_sensitivity
    table = base_table()
    table.X[0], table.y[0] = 1.0, 1.0
    before = gradient_sum(problem, table.X, table.y)
    table.y[0] = -1.0
    moved = gradient_sum(problem, table.X, table.y) - before
    assert np.linalg.norm(moved) == pytest.approx(sensitivity, rel=1e-6)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_mean_answers_of_the_oracle_move_no_further_than_the_noise_is_made_for(adjacency):
    problem, table = problem_of(weight_bound=1.0), base_table()
    start = problem.loss.start_point
    points, pairs = [start, start + 1.0], [(start, start + 1e-3), (start + 1.0, start)]
    tapes, gradients = record(problem, table, adjacency, points)
    changes, differences = record_differences(problem, table, adjacency, pairs)
    for other in neighbours(table, adjacency):
        again, _ = record(problem, other, adjacency, points)
        for one, two in zip(tapes.exact, again.exact, strict=True):
            assert np.linalg.norm(one - two) <= gradients.sensitivity, other.name
        again, _ = record_differences(problem, other, adjacency, pairs)
        for pair, one, two in zip(pairs, changes.exact, again.exact, strict=True):
            allowed = differences.sensitivity_at_distance(float(np.linalg.norm(pair[0] - pair[1])))
            assert np.linalg.norm(one - two) <= allowed, other.name


# What the function sees.


def test_the_function_is_called_with_shapes_alone_and_not_again_for_other_rows():
    seen = []

    def watched(w, x, y):
        seen.append((x, y, *jax.tree_util.tree_leaves(w)))
        return network(w, x, y)

    problem = problem_of(watched, weight_bound=1.0)
    table = base_table()
    for solver in (DPGD(n_steps=2), DPSpider(n_steps=3, period=3), DPAdam(n_steps=2)):
        minimize(problem, table.X, table.y, guarantee=GUARANTEE, solver=solver)
    assert seen
    for arguments in seen:
        assert all(isinstance(value, jax.core.Tracer) for value in arguments)
        assert arguments[0].shape == (P,)  # one row
        assert arguments[1].shape == ()
    calls = len(seen)
    minimize(problem, table.X + 1.0, -table.y, guarantee=GUARANTEE, solver=DPGD(n_steps=2))
    assert len(seen) == calls


def test_a_derivative_of_ones_own_is_called_with_shapes_alone():
    _traces.clear()
    sums._compiled.cache_clear()
    assert gradient_sum(problem_of(lying), np.ones((3, P)), np.ones(3)).any()
    assert _traces
    assert all(isinstance(slope, jax.core.Tracer) for slope in _traces)


def gated(w, x, y):
    """Its gradient is 0 wherever x_0 is 0, whatever else the row holds."""
    return x[0] * network(w, x, y)


@every_clipping
def test_what_a_row_adds_is_the_same_to_the_last_bit_beside_any_others_and_in_any_place(clipping):
    problem = problem_of(gated, clipping)
    rng = np.random.default_rng(0)
    row, target = rng.normal(size=P), 0.3
    alone = gradient_sum(problem, row[None], np.array([target]))
    assert alone.any()
    for n, place in (
        (2, 1),
        (512, 511),
        (600, 0),
        (600, 511),
        (600, 512),
        (1500, 777),
        (2500, 1024),
        (2500, 2047),
        (2500, 2048),
    ):
        X, y = 100.0 * rng.normal(size=(n, P)), rng.normal(size=n)
        X[:, 0] = 0.0
        X[place], y[place] = row, target
        np.testing.assert_array_equal(gradient_sum(problem, X, y), alone)
        X[:, 0], weights = 1.0, np.zeros(n)
        X[place, 0], weights[place] = row[0], 1.0
        np.testing.assert_array_equal(gradient_sum(problem, X, y, weights), alone)


def test_a_difference_that_a_row_adds_is_the_same_in_any_place():
    problem = problem_of(gated)
    rng = np.random.default_rng(0)
    row, w = rng.normal(size=P), problem.loss.start_point + 0.2
    alone = difference_sum(problem, row[None], np.array([0.3]), w, 0.1)
    assert alone.any()
    for place in (1, 299, 511, 550):
        X, y = rng.normal(size=(600, P)), rng.normal(size=600)
        X[:, 0] = 0.0
        X[place], y[place] = row, 0.3
        np.testing.assert_array_equal(difference_sum(problem, X, y, w, 0.1), alone)


def test_no_more_than_1024_rows_are_added_up_one_after_another():
    """The padding for rounding counts on it: a call has no more. Sums of the halves are the same to the bit."""
    problem, rng = problem_of(clip=50.0), np.random.default_rng(0)
    X, y, w = rng.normal(size=(2048, P)), rng.normal(size=2048), problem.loss.start_point + 0.2
    for total in (
        lambda rows: gradient_sum(problem, X[rows], y[rows]),
        lambda rows: difference_sum(problem, X[rows], y[rows], w, 10.0),
    ):
        halves = total(slice(0, 1024)) + total(slice(1024, 2048))
        np.testing.assert_array_equal(total(slice(0, 2048)), halves)


def test_code_that_treats_places_differently_is_replaced_by_one_row_at_a_time():
    loss, together, length = problem_of(gated).loss, 32, 64
    parts = sums._Parts(loss, P)
    compiled = []

    def jit(function):
        compiled.append(jax.jit(function))
        if len(compiled) > 1:
            return compiled[-1]

        def uneven(w, clip, n_rows, x, y, weight):
            return np.asarray(compiled[0](w, clip, n_rows, x, y, weight)) * (1.0 + 2.0**-52 * weight[together - 1])

        return uneven

    with sums.in_float64():
        even = sums._alike_everywhere(parts, together, length)
        parts.jax = SimpleNamespace(jit=jit, lax=jax.lax, numpy=jnp, vmap=jax.vmap, grad=jax.grad)
        replaced = sums._alike_everywhere(parts, together, length)
        rng = np.random.default_rng(0)
        x, y, weight = rng.normal(size=(length, P)), rng.normal(size=length), rng.uniform(size=length)
        total = np.asarray(replaced(loss.start_point, CLIP, length, x, y, weight))
        np.testing.assert_allclose(total, even(loss.start_point, CLIP, length, x, y, weight), rtol=1e-12)
        row, added = rng.normal(size=P), []
        for place in (0, 30, length - 1):
            here = np.where(np.arange(length)[:, None] == place, row, x)
            chosen = (np.arange(length) == place).astype(float)
            added.append(np.asarray(replaced(loss.start_point, CLIP, length, here, np.zeros(length), chosen)))
    assert len(compiled) == 2
    assert added[0].any()
    np.testing.assert_array_equal(added[0], added[1])
    np.testing.assert_array_equal(added[0], added[2])


# What leaves.


TAKING_FUNCTIONS = [
    DPGD(n_steps=3, accounting="composition"),
    DPSGD(n_steps=3, sampling_rate=0.3),
    DPAdam(n_steps=3, sampling_rate=0.3),
    RRPSGD(n_steps=3, sampling_rate=0.3),
    DPSVRG(n_epochs=2, n_inner=2),
    DPSpider(n_steps=4, period=2),
]


@pytest.mark.parametrize("solver", TAKING_FUNCTIONS, ids=lambda solver: solver.name)
def test_solvers_on_a_function_see_noisy_answers_alone(solver, capsys, caplog):
    check_solver(solver, problem_of(weight_bound=1.0), capsys, caplog)


def test_no_other_method_takes_functions():
    """The privacy of the others rests on convexity or on margins."""
    problem = problem_of()
    assert {name for name, method in SOLVERS.items() if method().refusal(problem) is None} == {
        solver.name for solver in TAKING_FUNCTIONS
    }
    with pytest.raises(InvalidParameterError, match="needs a convex loss"):
        FitOptions(problem, guarantee=GUARANTEE, solver=DPGD(accounting="last-iterate")).plan(N, P)


def audited(solver):
    return Subject(FitOptions(problem_of(weight_bound=1.0), guarantee=GUARANTEE, solver=solver).plan(100, P), seed=0)


@pytest.mark.parametrize("solver", [TAKING_FUNCTIONS[0], TAKING_FUNCTIONS[5]], ids=lambda solver: solver.name)
def test_the_audit_finds_nothing_wrong(solver):
    assert replay(audited(solver), 1e-6).broken == ()


def test_the_audit_would_find_a_clip_twice_as_long(monkeypatch):
    subject = audited(TAKING_FUNCTIONS[0])
    honest = sums.FunctionObjective.gradient_sum
    monkeypatch.setattr(
        sums.FunctionObjective, "gradient_sum", lambda self, *question: 2.0 * honest(self, *question)
    )  # fmt: skip
    problem = subject.plan.problem
    rows, surroundings = hostile_rows(problem, P), Surroundings(problem, 100, P, ignored=False)
    ratio, _ = largest_shift(subject, surroundings, rows, subject.run(surroundings.table(rows[0]), None))
    assert ratio > 1.5
