"""The native kernels: what they compute is what is written, on every processor, for every storage and every loss."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

from contracts.discovered import LOSSES
from dperm import Problem
from dperm.kernel import native
from dperm.kernel.block import Block
from dperm.kernel.exact.rounding import add_gaussian
from dperm.kernel.exact.words import stream_of
from dperm.kernel.objectives import margin_rows, objective_of
from dperm.kernel.objectives.base import Steps
from dperm.kernel.objectives.margin_rows import slope_of
from dperm.kernel.objectives.written_slopes import WrittenSlope, compiled_address
from dperm.kernel.sampling import Batches
from dperm.problem import L2, L2Ball, Logistic, Softmax, WholeSpace
from dperm.problem.prox import coordinate_prox

N, P = 700, 21
STORAGES = {
    "double": lambda X: X,
    "single": lambda X: X.astype(np.float32),
    "by column": np.asfortranarray,
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "sparse": sparse.csr_matrix,
    "sparse, wide": lambda X: _wide(sparse.csr_matrix(X.astype(np.float32))),
}


def _wide(table):
    table.indices, table.indptr = table.indices.astype(np.int64), table.indptr.astype(np.int64)
    return table


def table_for(loss, integers=False):
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (N, P)).astype(float) if integers else rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.7)
    low, high = loss.target_range
    y = rng.integers(low, high + 1, N) if loss.n_outputs > 1 else rng.uniform(low, high, N)
    X[5], X[6] = 0.0, 100.0
    if not integers:
        X[7, 3] = np.nan
    return X, y.astype(float)


def block_of(loss, storage="double", **bounds):
    X, y = table_for(loss)
    problem = Problem(loss, row_norm=3.0, intercept=True, domain=L2Ball(2.0), **bounds)
    return problem, Block.from_table(STORAGES[storage](X), y, problem)


def answers(problem, block):
    """Something of everything that kernels compute of a block."""
    objective, rng = objective_of(problem), np.random.default_rng(3)
    size = problem.loss.n_outputs * (P + 1)
    w, anchor = rng.normal(size=size) / 3, rng.normal(size=size) / 3
    chosen = np.sort(rng.integers(0, N, 150))
    with ThreadPoolExecutor(2) as pool:
        found = [
            objective.gradient_sum(block, w, None, pool),
            objective.difference_sum(block, chosen, w, anchor, 0.8, pool),
        ]
        if problem.loss.convex:
            found.append(objective.difference_sum(block, chosen, w, anchor, 0.8, pool, problem.constants(P).smoothness))
    found += [objective.hessian_diagonals(block, w, 1, 1.0).ravel()]
    if problem.loss.n_outputs == 1:
        found += [objective.hessian_sum(block, w, 1, 1.0).ravel(), objective.slope_sums(block, w, 0.5)]
    batches = Batches(chosen, np.array([0, 50, 50, 150]))
    steps = Steps(w, np.array([0.5, 0.3, 0.2]), 50.0, None, None, anchor, coordinate_prox(L2(0.1), WholeSpace()))
    found += list(objective.steps(block, batches, steps, add_gaussian, 0.01, stream_of(np.arange(8, dtype=np.uint32))))
    return found


def test_every_loss_of_this_package_is_native():
    assert {loss.name for loss in LOSSES} == {*native.SCALAR_SLOPES, *native.VECTOR_SLOPES}
    assert not any(isinstance(slope_of(loss, 1.0), WrittenSlope) for loss in LOSSES)


def test_the_exponential_agrees_with_numpy_to_fourteen_digits_and_stays_finite_beyond_its_ends():
    slope = native.Slope("poisson", 1, (1e308,), 1.0)  # exp(margin) − 0
    x = np.concatenate([np.linspace(-708, 709, 200_001), np.random.default_rng(0).normal(size=50_000), [0.0, -0.0]])
    np.testing.assert_allclose(native.slopes(slope, x[:, None], np.zeros(x.size))[:, 0], np.exp(x), rtol=2e-14)
    ends = native.slopes(slope, np.array([[-1e300], [-709.0], [710.0], [1e300]]), np.zeros(4))[:, 0]
    np.testing.assert_allclose(ends, np.exp([-708.0, -708.0, 709.0, 709.0]), rtol=2e-14)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_wider_registers_change_no_bit(loss, storage):
    problem, block = block_of(loss, storage)
    fast = answers(problem, block)
    native.only_plain(True)
    try:
        plain = answers(problem, block)
        one = stream_of(np.arange(8, dtype=np.uint32))
    finally:
        native.only_plain(False)
    for ours, theirs in zip(fast, plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(one, stream_of(np.arange(8, dtype=np.uint32)))


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_how_a_dense_table_is_stored_changes_no_bit(loss):
    X, y = table_for(loss, integers=True)
    problem = Problem(loss, row_norm=3.0, intercept=True, domain=L2Ball(2.0))
    kinds = (np.float32, np.int8, np.int16, np.int32, np.int64)
    wanted = answers(problem, Block.from_table(X, y, problem))
    tables = [X.astype(kind) for kind in kinds] + [np.asfortranarray(X), STORAGES["every other column"](X)]
    tables += [np.abs(X).astype(kind) for kind in (np.uint8, np.uint16, np.uint32, np.uint64)]
    for table in tables:
        same = (
            wanted
            if (np.asarray(table, float) == X).all()
            else answers(problem, Block.from_table(np.abs(X), y, problem))
        )
        for ours, theirs in zip(answers(problem, Block.from_table(table, y, problem)), same, strict=True):
            # BLAS multiplies other types in another order; nothing else of them is different.
            np.testing.assert_allclose(ours, theirs, rtol=1e-12) if ours.size == (
                P + 1
            ) ** 2 else np.testing.assert_array_equal(ours, theirs)


def in_the_order_that_is_written(x, w):
    """⟨w, x⟩ by eight sums side by side, without a fused product: every operation rounds once."""
    sums, whole = [0.0] * 8, len(x) - len(x) % 8
    for j in range(whole):
        sums[j % 8] += x[j] * w[j]
    rest = 0.0
    for j in range(whole, len(x)):
        rest += x[j] * w[j]
    pairs = [sums[k] + sums[k + 4] for k in range(4)]
    return ((pairs[0] + pairs[1]) + (pairs[2] + pairs[3])) + rest


def test_margins_are_rounded_as_written_not_fused_and_not_reordered():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 37)) * 10.0 ** rng.integers(-8, 8, (200, 37))
    w = rng.normal(size=37)
    found = native.margins(native.Rows(X), w[None, :], None, 0, 200)[:, 0]
    np.testing.assert_array_equal(found, [in_the_order_that_is_written(x.tolist(), w.tolist()) for x in X])
    fused = [float(np.dot(x.astype(np.longdouble), w)) for x in X]
    assert (found != fused).any()  # or the test could not tell


def test_the_sum_over_rows_is_within_the_bound_of_its_proof_and_no_better_than_its_order_allows():
    rng = np.random.default_rng(6)
    n, at_once = 5_000, 1_000
    X, factors = rng.normal(size=(n, 3)), rng.normal(size=(n, 1))
    out = np.zeros((1, 3))
    native.add_rows(native.Rows(X), factors, None, 0, n, at_once, out)
    wanted, sizes = (factors * X).astype(np.longdouble).sum(axis=0), np.abs(factors * X).sum(axis=0)
    chain = at_once // 4 + 3 + n // at_once + 2
    assert (np.abs(out[0] - wanted) <= chain * 2.0**-53 * sizes).all()
    by_blocks = np.zeros(3)
    for first in range(0, n, at_once):
        part = np.zeros(3)
        for i in range(first, first + at_once, 4):
            a, b, c, d = (factors[k, 0] * X[k] for k in range(i, i + 4))
            part += (a + b) + (c + d)
        by_blocks += part
    np.testing.assert_array_equal(out[0], by_blocks)


def written(monkeypatch):
    """Every loss as if somebody else had written it, without numba."""
    monkeypatch.setattr(margin_rows, "_NATIVE", {})
    monkeypatch.setattr(margin_rows.importlib.util, "find_spec", lambda name: None)


@pytest.mark.parametrize("storage", ["double", "sparse"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_loss_that_is_written_in_python_gives_the_same_sums(loss, storage, monkeypatch):
    problem, block = block_of(loss, storage)
    ours = answers(problem, block)
    written(monkeypatch)
    assert isinstance(slope_of(loss, 1.0), WrittenSlope)
    for here, there in zip(answers(problem, block), ours, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-9)


@dataclass(frozen=True)
class Doubled(Logistic):
    @staticmethod
    def derivative(margin, target):
        return -2.0 * target / (1.0 + np.exp(target * margin))


def test_a_subclass_with_a_derivative_of_its_own_is_not_taken_for_its_parent():
    slope = WrittenSlope(Doubled(), 5.0, 0.0)
    assert margin_rows._NATIVE.get(Doubled.derivative) is None
    np.testing.assert_allclose(slope.of(np.array([[0.0]]), np.array([1.0])), [[-1.0]])


@pytest.mark.parametrize("loss", [Doubled(), Softmax(3)], ids=repr)
def test_numba_compiles_a_derivative_that_native_code_calls(loss):
    pytest.importorskip("numba", reason="the extra numba is not installed")
    address = compiled_address(loss.derivative, loss.parameters, loss.n_outputs)
    rng = np.random.default_rng(2)
    margins = rng.normal(size=(60, loss.n_outputs))
    target = rng.choice([-1.0, 1.0], 60) if loss.n_outputs == 1 else rng.integers(0, 3, 60).astype(float)
    found = native.slopes(native.Slope(address, loss.n_outputs, loss.parameters, 1.0), margins, target)
    np.testing.assert_allclose(found, WrittenSlope(loss, 1.0, 0.0).of(margins, target), rtol=1e-13)


def test_arrays_that_do_not_fit_together_are_refused_before_anything_is_read():
    _problem, block = block_of(Logistic())
    rows, slope, point = margin_rows.rows_of(block, 1.0), slope_of(Logistic(), 1.0), np.zeros((1, P + 1))
    good = {
        "part": 0,
        "w": point,
        "anchor": None,
        "chosen": None,
        "start": 0,
        "stop": N,
        "block": 10,
        "out": point.copy(),
    }
    native.part_sum(rows, slope, **good)
    outside = np.array([0, N]), np.array([-1, 3])
    wrong = [
        {"stop": N + 1}, {"start": -1}, {"block": 0}, {"part": 3}, {"part": 1}, {"w": np.zeros((1, P))},
        {"out": np.zeros((2, P + 1))}, *({"chosen": chosen, "stop": 2} for chosen in outside),
    ]  # fmt: skip
    for change in wrong:
        with pytest.raises(ValueError, match="do not fit together"):
            native.part_sum(rows, slope, **{**good, **change})
    with pytest.raises(ValueError, match="do not fit together"):
        native.Rows(np.zeros((3, 2)), np.zeros(2), np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="do not fit together"):
        native.next_word(np.zeros(10, np.uint32))
