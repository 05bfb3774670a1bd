"""Rows as codes give the same sums as the rows that they stand for, whatever a schema is made of."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dperm import Bins, Category, Classes, Number, Problem, Schema
from dperm.kernel import native, products
from dperm.kernel.block import Block
from dperm.kernel.coded import plain
from dperm.kernel.objectives import objective_of
from dperm.kernel.row_norms import row_norms
from dperm.problem import L2, Logistic, Softmax
from dperm.rows.encoding import encode_rows

KNOTS = Number((-2, 2), encode="bins", bins="even", n_bins=7)
COLUMNS = {
    "a": KNOTS, "b": Number((-1, 1)), "c": Category(range(30), unseen="none"), "d": Bins((-1, 0, 1), missing="column"),
    "e": Number((-1, 1), missing="column"), "f": Number((0, 1), encode="bins", bins="even", n_bins=3, missing="column"),
    "g": Number((-1, 2), missing="row"),
}  # fmt: skip
SCHEMAS = {
    "mixed": Schema(COLUMNS, Classes("y", [0, 1])),
    "crossed": Schema(COLUMNS, Classes("y", [0, 1]), interactions=9),
    "short": Schema({"b": COLUMNS["b"], "c": Category(range(3))}, Classes("y", [0, 1])),
    "many categories": Schema({"a": KNOTS, "c": Category(range(300))}, Classes("y", [0, 1])),
    "more categories": Schema({"c": Category(range(70_000))}, Classes("y", [0, 1])),
    "numbers crossed": Schema({name: Number((-1, 1)) for name in "abe"}, Classes("y", [0, 1]), interactions=1),
}
N = 300
PROBLEMS = {
    "logistic": Problem(Logistic(), L2(0.1), row_norm=2.0, intercept=True),
    "softmax": Problem(Softmax(3), L2(0.1), row_norm=1.5),
}


def rows_of(schema):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.normal(size=N) for name in schema.columns} | {"c": rng.integers(0, 320, N)})
    return encode_rows(table.mask(rng.random(table.shape) < 0.1), schema, fitting=True)


def blocks_of(schema, problem):
    coded = rows_of(schema)
    rng = np.random.default_rng(1)
    target = rng.integers(0, 3, N) if problem.loss.n_outputs > 1 else np.sign(rng.normal(size=N))
    weights = rng.random(N)
    return [Block.from_table(rows, target, problem, weights) for rows in (coded, plain(coded))]


@pytest.fixture(params=[False, True], ids=["fast", "plain"], autouse=True)
def kernels(request):
    native.only_plain(request.param)
    yield
    native.only_plain(False)


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_sums_over_codes_are_those_over_the_rows_that_they_stand_for(schema, problem):
    coded, written = blocks_of(schema, problem)
    np.testing.assert_array_equal(coded.weight, written.weight)
    np.testing.assert_allclose(coded.scale, written.scale, rtol=1e-15)
    objective, rng = objective_of(problem), np.random.default_rng(2)
    w, anchor = rng.normal(size=(2, problem.dimension(coded.table.shape[1]))) / 10
    chosen = rng.integers(0, N, 50)
    with ThreadPoolExecutor(2) as pool:
        for found, expected in (
            [objective.gradient_sum(block, w, None, pool) for block in (coded, written)],
            [objective.difference_sum(block, chosen, w, anchor, 1.0, pool) for block in (coded, written)],
            [objective.difference_sum(block, chosen, w, anchor, 1.0, pool, 0.5) for block in (coded, written)],
            [objective.risk_sum(block, w) for block in (coded, written)],
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        if problem.loss.n_outputs == 1 and w.size < 1000:
            found, expected = (objective.hessian_sum(block, w, 1, 1.0) for block in (coded, written))
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_products_of_codes_and_of_sparse_rows_are_those_of_an_array(schema):
    coded, rng = rows_of(schema), np.random.default_rng(2)
    coded = coded[np.isfinite(row_norms(coded)[0])]
    thin, factors = sparse.csr_matrix(plain(coded)), rng.random((len(coded.codes), 2))
    factors[rng.random(factors.shape) < 0.2] = 0.0
    dense, fitting = thin.toarray().astype(float), schema.n_features < 1000
    for rows in (coded, thin, dense):
        if fitting:
            wanted = (dense.T * factors[:, 0]) @ dense
            np.testing.assert_allclose(
                products.product_sum(rows, factors[:, 0].copy(), 100), wanted, rtol=1e-12, atol=1e-12
            )
        wanted = factors.T @ (dense * dense)
        np.testing.assert_allclose(products.square_sums(rows, factors), wanted, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            products.weighted_sums(rows, factors, 100), dense.T @ factors, rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_norms_and_entries_of_codes_are_those_of_the_rows_that_they_stand_for(schema):
    rows = rows_of(schema)
    for found, expected in zip(row_norms(rows), row_norms(plain(rows)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_a_row_has_the_same_margin_wherever_it_stands():
    rows, w = rows_of(SCHEMAS["crossed"]), np.random.default_rng(3).normal(size=SCHEMAS["crossed"].n_features)
    together = rows @ w
    np.testing.assert_array_equal([(rows[[place]] @ w)[0] for place in range(0, N, 17)], together[::17])


def test_codes_are_pickled_and_cut_as_they_are():
    rows = rows_of(SCHEMAS["crossed"])
    other = pickle.loads(pickle.dumps(rows))
    assert other.layout == rows.layout
    for chosen in (slice(3, 40), np.array([5, 5, 0]), np.arange(N) % 3 == 0):
        np.testing.assert_array_equal(plain(other[chosen]).toarray(), plain(rows).toarray()[chosen])
    together = type(rows).together([rows[:7], rows[7:]])
    np.testing.assert_array_equal(plain(together).toarray(), plain(rows).toarray())


def test_rows_with_bins_take_a_quarter_of_the_bytes_that_sparse_ones_take_and_crosses_none():
    schema = Schema(dict.fromkeys("abcdefghijklmnopqrst", KNOTS), Classes("y", [0, 1]))
    rows = rows_of(schema)
    size = sum(array.nbytes for array in rows.arrays)
    thin = plain(rows)
    assert size == N * rows.layout.bytes_per_row == 2 * 20 * N
    assert 4 * size <= thin.data.nbytes + thin.indices.nbytes + thin.indptr.nbytes
    crossed = rows_of(Schema(schema.columns, schema.target, interactions=50))
    assert sum(array.nbytes for array in crossed.arrays) == size
