"""Weights of rows: whatever a weight is, its row moves no answer further than the declared bound allows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from contracts.mechanisms import FIXED, MECHANISMS, name, question
from contracts.mechanisms import P as COLUMNS
from dperm import (
    Amount,
    Budget,
    Classes,
    Guarantee,
    InvalidParameterError,
    InvalidTableError,
    Number,
    PrivateHuberRegression,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Problem,
    Schema,
    load_model,
    minimize,
    save_model,
)
from dperm.files.model_file import fingerprint_of, read_content
from dperm.kernel.block import Block
from dperm.mechanisms import DifferenceQuery, GradientQuery, HessianQuery, LocalGradientQuery, VertexQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Huber, L1Ball, L2Ball, Logistic, Softmax
from dperm.verify.release import verify
from kernel.harness import Liar, N, P, Table, replay, setting_of

ADJACENCIES = list(Adjacency)
BOUND = 2.5
HOSTILE = [np.nan, np.inf, -np.inf, -1.0, -1e308, 0.0, 5e-324, 1.0, BOUND, np.nextafter(BOUND, 9.0), 1e6, 1e308]
WEIGHTED = Problem(Logistic(), L2(0.1), L1Ball(2.0), weight_bound=BOUND)


def table_with(weight, row=None, target=1.0, n=N, p=P, more=0):
    """A table of rows with weights, of which the first (or one more) has this weight and these contents."""
    rng = np.random.default_rng(0)
    X, y, weights = rng.normal(size=(n, p)), np.sign(rng.normal(size=n)), rng.uniform(0.0, BOUND, n)
    if more:
        X, y, weights = np.vstack([X, X[:1]]), np.append(y, 1.0), np.append(weights, 0.0)
    place = -1 if more else 0
    X[place] = 3.0 * np.eye(p)[0] if row is None else row
    y[place], weights[place] = target, weight
    return Table(X, y, repr(weight), weights)


def first_answer(query, problem, table):
    """What came to the gate before its noise."""
    points, more = question(query)
    return replay(problem, table, query.setting.adjacency, query, [points], **more).exact[0]


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("query", [query for query in MECHANISMS if not isinstance(query, FIXED)], ids=name)
def test_tables_that_differ_in_one_weight_only_are_no_further_apart_than_any_neighbours(query, adjacency):
    setting = Setting(WEIGHTED.constants(COLUMNS), N, adjacency)
    query, more = replace(query, setting=setting), int(adjacency is Adjacency.ADD_REMOVE)
    points, _ = question(query)
    # Under add_remove a row of weight 0 is as good as none.
    before = first_answer(query, WEIGHTED, table_with(0.0, p=COLUMNS, more=more))
    for weight in HOSTILE:
        after = first_answer(query, WEIGHTED, table_with(weight, p=COLUMNS, more=more))
        moved = np.abs(after - before).max() if isinstance(query, VertexQuery) else np.linalg.norm(after - before)
        assert np.isfinite(after).all(), weight
        assert moved <= query.sensitivity_at(*points), weight


STEEP = Problem(Liar(), domain=L1Ball(1.0), weight_bound=BOUND)
BENT = Problem(Huber(0.5), domain=L2Ball(3.0), weight_bound=BOUND)
ALONG, AWAY = np.eye(P)[0], np.eye(P)[1]


def differences(setting):
    return DifferenceQuery(setting, 1.0)


@pytest.mark.parametrize(
    ("problem", "query", "points", "rows"),
    [
        (STEEP, GradientQuery, (ALONG,), ((ALONG, 1.0), (ALONG, -1.0))),
        (STEEP, VertexQuery, (ALONG,), ((ALONG, 1.0), (ALONG, -1.0))),
        (replace(STEEP, loss=Huber(0.5)), LocalGradientQuery, (0.0 * ALONG,), ((ALONG, 1.0), (ALONG, -1.0))),
        (BENT, differences, (0.3 * ALONG, 0.0 * ALONG), ((ALONG, 0.0), (0.0 * ALONG, 0.0))),
        (BENT, HessianQuery, (0.0 * ALONG,), ((ALONG, 0.0), (AWAY, 0.0))),
    ],
    ids=["gradient", "vertex", "local gradient", "difference", "hessian"],
)  # fmt: skip
def test_a_bound_on_weights_five_per_cent_smaller_would_not_hold(problem, query, points, rows):
    """The largest move that weights and contents make is the declared one, and no weight makes a larger one."""
    asked = query(setting_of(problem, Adjacency.REPLACE_ONE))
    moves = []
    for weight in (BOUND, 1e6, np.inf):
        one, two = (
            replay(problem, table_with(weight, row, target), Adjacency.REPLACE_ONE, asked, [points]).exact[0]
            for row, target in rows
        )
        moves.append(np.abs(one - two).max() if query is VertexQuery else np.linalg.norm(one - two))
    assert max(moves) <= asked.sensitivity_at(*points)
    assert max(moves) > 0.95 * asked.sensitivity_at(*points)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_what_objective_perturbation_rests_on_holds_for_every_weight_and_not_for_five_per_cent_less(loss):
    """No weight gives a row a longer gradient than G, nor a Hessian beyond β: the proofs need nothing else of it."""
    problem = Problem(loss, L2(0.1), weight_bound=BOUND)
    constants, n_outputs = problem.constants(P), loss.n_outputs
    wrong = 0.0 if n_outputs > 1 else -1.0
    far = np.kron(np.arange(n_outputs) * 500.0, ALONG) if n_outputs > 1 else 500.0 * ALONG
    alone = np.full((N, P), np.nan)
    alone[0] = ALONG
    gradients, curvatures = [], []
    for weight in HOSTILE:
        rows = Table(alone, np.full(N, wrong), weights=np.full(N, weight))
        query = GradientQuery(setting_of(problem, Adjacency.ADD_REMOVE))
        at_far = replay(problem, rows, Adjacency.ADD_REMOVE, query, [(far,)]).exact[0] * N
        gradients.append(np.linalg.norm(at_far))
        near = 1e-4 * (far / np.linalg.norm(far))
        at_near, at_zero = (
            replay(problem, rows, Adjacency.ADD_REMOVE, query, [(w,)]).exact[0] * N for w in (near, 0.0 * near)
        )
        curvatures.append(np.linalg.norm(at_near - at_zero) / 1e-4)
    assert 0.95 * constants.lipschitz < max(gradients) <= constants.lipschitz * (1.0 + 1e-9)
    assert max(curvatures) <= constants.smoothness * (1.0 + 1e-6)
    if n_outputs == 1:
        assert max(curvatures) > 0.95 * constants.smoothness


def test_a_declared_bound_below_one_holds_for_rows_without_weights_too():
    problem = Problem(Logistic(), weight_bound=0.3)
    rng = np.random.default_rng(0)
    block = Block.from_table(rng.normal(size=(5, 2)), np.ones(5), problem)
    np.testing.assert_array_equal(block.weight, np.full(5, 0.3))


def test_weights_that_are_no_numbers_ignore_their_rows_and_raise_for_their_type_only():
    X, y = np.eye(4), np.ones(4)
    problem = Problem(Logistic(), L2(0.1))

    def fit(weights):
        return minimize(
            problem, X, y, guarantee=Guarantee(1.0, 1e-6), weights=weights, random_state=0, row_warnings=False
        )

    np.testing.assert_array_equal(fit(["secret", 1.0, None, 1.0]).w, fit([0.0, 1.0, np.nan, 1.0]).w)
    np.testing.assert_array_equal(fit([10**400, 1, 1, 1]).w, fit([0.0, 1, 1, 1]).w)
    masked = np.ma.array(["secret", 1.0, 1.0, 1.0], mask=[False, False, True, False], dtype=object)
    np.testing.assert_array_equal(fit(masked).w, fit([0.0, 1.0, 0.0, 1.0]).w)
    np.testing.assert_array_equal(fit([[1.0, 2.0], 1.0, [1.0], 1.0]).w, fit([0.0, 1.0, 0.0, 1.0]).w)
    np.testing.assert_array_equal(fit(pl.Series([1.0, None, 1.0, 1.0])).w, fit([1.0, 0.0, 1.0, 1.0]).w)
    np.testing.assert_array_equal(fit(pa.chunked_array([[1.0, None], [1.0, 1.0]])).w, fit([1.0, 0.0, 1.0, 1.0]).w)
    with pytest.raises(InvalidParameterError, match="real numbers"):
        fit(np.ones(4, dtype=complex))
    np.testing.assert_array_equal(fit([[1.0], [1.0], [1.0], 1.0]).w, fit([0.0, 0.0, 0.0, 1.0]).w)


# --- Fits ---


def rows(n=600, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) / 3
    return X, np.where(X[:, 0] + 0.1 * rng.normal(size=n) > 0, 1, 0), rng.uniform(0.0, 2.0, n)


MODELS = [
    PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], random_state=0, row_warnings=False),
    PrivateHuberRegression(1.0, 1e-5, random_state=0, row_warnings=False, row_norm=1.0),
]
BAD = [np.nan, -1.0, -np.inf, None, "secret", pd.NA, object(), 10**400, 1j]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_a_private_weight_never_raises_and_a_bad_one_ignores_its_row(model):
    X, y, weights = rows()
    model.set_params(weight_bound=2.0, private_weights=True)
    ignored = weights.copy()
    ignored[7] = 0.0
    wanted = model.fit(X, y, ignored).coef_
    for bad in BAD:
        given = weights.tolist()
        given[7] = bad
        np.testing.assert_allclose(model.fit(X, y, given).coef_, wanted, rtol=1e-12)
    bad_row = X.copy()
    bad_row[7] = np.nan
    np.testing.assert_allclose(model.fit(bad_row, y, weights).coef_, wanted, rtol=1e-12)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_a_private_weight_above_the_bound_is_clipped(model):
    X, y, weights = rows()
    model.set_params(weight_bound=2.0, private_weights=True)
    clipped = weights.copy()
    clipped[7] = 2.0
    wanted = model.fit(X, y, clipped).coef_
    for large in (2.0001, 1e308, np.inf):
        weights[7] = large
        np.testing.assert_allclose(model.fit(X, y, weights).coef_, wanted, rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, -1e-9, 2.1, np.inf, None, "secret"])
def test_a_public_weight_that_cannot_be_one_raises_and_nothing_is_spent(bad, tmp_path):
    X, y, weights = rows()
    budget = Budget.create("weights", Guarantee(3.0, 1e-4), ledger=str(tmp_path / "ledger.sqlite"))
    model = PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], weight_bound=2.0, budget=budget)
    given = weights.tolist()
    given[3] = bad
    with pytest.raises(InvalidParameterError, match="between 0 and weight_bound = 2") as raised:
        model.fit(X, y, given)
    assert "secret" not in str(raised.value)
    assert ("larger bound" in str(raised.value)) == (bad in (2.1, np.inf))
    assert budget.account().releases == ()


def test_class_weights_and_row_weights_multiply_and_so_do_their_bounds():
    X, y, weights = rows()
    by_class = {0: 0.5, 1: 3.0}
    model = PrivateLogisticRegression(
        1.0, 1e-5, classes=[0, 1], class_weight=by_class, weight_bound=2.0, random_state=0, penalty=0.05
    )  # fmt: skip
    assert model.options().problem.weight_bound == 6.0
    together = model.fit(X, y, weights)
    alone = PrivateLogisticRegression(
        1.0, 1e-5, classes=[0, 1], weight_bound=6.0, random_state=0, penalty=0.05
    ).fit(X, y, weights * np.where(y == 1, 3.0, 0.5))  # fmt: skip
    np.testing.assert_array_equal(together.coef_, alone.coef_)
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y, w=weights)
    schema = Schema({name: Number((-1, 1)) for name in "abc"}, Classes("y", [0, 1]))
    by_table = model.set_params(schema=schema, classes=None).fit(frame, sample_weight="w").coef_
    np.testing.assert_array_equal(by_table, model.fit(frame, sample_weight=weights).coef_)
    assert not np.array_equal(by_table, model.fit(frame, sample_weight=np.ones(600)).coef_)


def test_weights_of_a_regression_with_a_schema_are_used():
    X, _, weights = rows()
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=X[:, 0], w=weights)
    schema = Schema({name: Number((-1, 1)) for name in "abc"}, Amount("y", (-1, 1)))
    model = PrivateLinearRegression(schema=schema, noise=None, weight_bound=2.0, row_warnings=False)
    frame.loc[:299, "y"] *= -1.0
    heavy = np.where(np.arange(600) < 300, 0.0, 2.0)
    assert np.corrcoef(model.fit(frame, sample_weight=heavy).predict(frame), X[:, 0])[0, 1] > 0.9
    assert np.corrcoef(model.fit(frame, sample_weight=2.0 - heavy).predict(frame), X[:, 0])[0, 1] < -0.9


def test_without_noise_the_optimum_is_that_of_scikit_learn_with_the_same_weights():
    from sklearn.linear_model import LogisticRegression

    X, y, weights = rows()
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    ours = PrivateLogisticRegression(
        noise=None, penalty=0.01, fit_intercept=False, classes=[0, 1], weight_bound=2.0
    ).fit(X, y, weights)  # fmt: skip
    theirs = LogisticRegression(C=1 / (0.01 * len(y)), fit_intercept=False, tol=1e-10).fit(X, y, weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("private", [False, True])
def test_the_statement_says_whose_the_weights_are_and_the_file_is_verified(private, tmp_path):
    X, y, weights = rows()
    model = PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], weight_bound=2.0, private_weights=private)
    save_model(model.fit(X, y, weights), tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    assert loaded.privacy_ == model.privacy_
    assert (loaded.privacy_.weights, loaded.privacy_.weight_bound) == ("private" if private else "public", 2.0)
    assert ("weights, which are private, to [0, 2]" in str(model.privacy_)) is private
    assert ("the weights of rows, at most 2" in str(model.privacy_)) is not private
    assert all(finding.holds for finding in verify(read_content(tmp_path / "model.json")))


@pytest.mark.parametrize(
    "change", [{"weights": "private"}, {"weight_bound": 1.0}, {"weights": None, "weight_bound": None}]
)
def test_a_file_that_says_otherwise_of_its_weights_is_not_verified(change, tmp_path):
    X, y, weights = rows()
    path = tmp_path / "model.json"
    save_model(PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], weight_bound=2.0).fit(X, y, weights), path)
    content = read_content(path)
    content["privacy"] |= change
    content["fingerprint"] = fingerprint_of(content)
    assert [finding.holds for finding in verify(content)].count(False) == 1


@pytest.mark.parametrize(
    ("parameters", "X", "weights", "words"),
    [
        ({"weight_bound": 2.0}, None, None, "route sample_weight"),
        ({"private_weights": True}, None, None, "route sample_weight"),
        ({"weight_bound": 0.0}, None, 1.0, "above 0"),
        ({"weight_bound": "two"}, None, 1.0, "plain number"),
        ({"private_weights": "yes"}, None, 1.0, "True or False"),
        ({}, None, "w", "only with a schema"),
        ({}, None, np.ones(5), "one number per row"),
        ({}, None, np.ones((600, 1)), "one number per row"),
        ({}, "table.csv", 1.0, "schema"),
    ],
)
def test_wrong_weights_are_refused_in_a_sentence(parameters, X, weights, words):
    table, y, _ = rows()
    given = np.full(600, weights) if isinstance(weights, float) else weights
    model = PrivateLogisticRegression(classes=[0, 1], **parameters)
    with pytest.raises(InvalidParameterError, match=words):
        model.fit(table if X is None else X, y if X is None else None, given)


def test_rows_in_files_and_columns_that_are_not_there_are_refused(tmp_path):
    X, y, weights = rows()
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    schema = Schema({name: Number((-1, 1)) for name in "abc"}, Classes("y", [0, 1]))
    model = PrivateLogisticRegression(schema=schema)
    with pytest.raises(InvalidParameterError, match="table in memory"):
        model.fit(tmp_path / "rows.csv", sample_weight=weights)
    with pytest.raises(InvalidTableError, match="no column 'w'"):
        model.fit(frame, sample_weight="w")
