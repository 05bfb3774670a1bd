"""Private transformers and pipelines: no row moves a sum further than declared, and nothing but noisy sums is kept."""

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import make_union
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer, OneHotEncoder, PolynomialFeatures

from dperm import (
    Guarantee,
    InvalidParameterError,
    PrivateLogisticRegression,
    PrivateMinMaxScaler,
    PrivatePCA,
    PrivateQuantileTransformer,
    PrivateStandardScaler,
    make_private_pipeline,
)
from dperm.accounting.composition import epsilon_of
from dperm.kernel.noise import Noise
from dperm.mechanisms.second_moment import SecondMoment
from dperm.mechanisms.second_moment.answer import multiplied
from dperm.mechanisms.setting import PublicTable
from dperm.pipelines.public_step import through
from dperm.pipelines.public_steps import made_up, tried
from dperm.plan.sums import plan_sums
from dperm.privacy.guarantee import Adjacency
from dperm.rows.column_parts import cells_of, moments_of
from dperm.solvers import DPGD
from kernel.released_sums import released

ADJACENCIES = list(Adjacency)
entries = st.floats(allow_nan=True, allow_infinity=True)
tables = st.lists(st.tuples(entries, entries, entries), min_size=2, max_size=6)
LOW, HIGH = np.array([-1.0, 0.0, 1e6]), np.array([1.0, 1e-3, 3e6])
BOUNDS = list(zip(LOW.tolist(), HIGH.tolist(), strict=True))
N = 400
TRANSFORMERS = [
    PrivateStandardScaler(1.0, 1e-6, bounds=BOUNDS),
    PrivateStandardScaler(1.0, 0.0, bounds=BOUNDS),
    PrivateMinMaxScaler(1.0, 1e-6, bounds=BOUNDS),
    PrivateMinMaxScaler(1.0, 0.0, bounds=BOUNDS),
    PrivateQuantileTransformer(1.0, 1e-6, bounds=BOUNDS),
    PrivateQuantileTransformer(1.0, 0.0, bounds=BOUNDS),
    PrivatePCA(1.0, 1e-6, row_norm=0.7, n_components=2),
]
HOSTILE = [
    (np.nan, np.nan, np.nan), (np.inf, -np.inf, np.inf), (1e308, -1e308, 1e308), (5e-324, -5e-324, 0.0),
    (-1.0, 0.0, 1e6), (1.0, 1e-3, 3e6), (0.0, 5e-4, 2e6), (0.5, np.nan, -np.inf), (-0.5, 2.5e-4, 1.5e6),
    (0.7, 0.0, 0.0), (-1e308, 1e308, -1e308),
]  # fmt: skip


def second_moment(adjacency, n=10, norm=0.7):
    return SecondMoment(PublicTable(n, adjacency), "second moment", 3, norm)


def neighbours(table, other, adjacency):
    if adjacency is Adjacency.ADD_REMOVE:
        return [table[1:], [*table, other]]
    return [[other, *table[1:]], [*table[:-1], other]]


def made_up_rows(seed):
    rng = np.random.default_rng(seed)
    return LOW + (HIGH - LOW) * rng.beta(1 + seed, 2, size=(N, 3))


@pytest.fixture
def exact(monkeypatch):
    """Everything that passes the gate, before noise, with the declared sensitivity."""
    seen = []

    def release(self, answer, sensitivity):
        seen.append((np.array(answer), sensitivity, self.distribution))
        return np.zeros_like(answer)

    monkeypatch.setattr(Noise, "release", release)
    return seen


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@given(tables, st.tuples(entries, entries, entries))
@settings(max_examples=80, deadline=None)
def test_one_row_moves_a_second_moment_by_no_more_than_is_declared(adjacency, table, other):
    query = second_moment(adjacency)
    for neighbour in neighbours(table, other, adjacency):
        moved = multiplied(query, np.array(table)) - multiplied(query, np.array(neighbour))
        assert np.linalg.norm(moved) <= query.sensitivity


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_sensitivity_of_a_second_moment_five_per_cent_smaller_would_be_wrong(adjacency):
    query = second_moment(adjacency)
    far, across = (1e300, 0.0, 0.0), (0.0, -1e300, 0.0)
    neighbour = [far] if adjacency is Adjacency.ADD_REMOVE else [far, across]
    moved = np.linalg.norm(multiplied(query, np.array([far, far])) - multiplied(query, np.array(neighbour)))
    assert 0.95 * query.sensitivity < moved <= query.sensitivity


def test_a_second_moment_is_the_sum_of_outer_products_of_clipped_rows():
    rows = np.random.default_rng(0).normal(size=(3000, 3))
    rows[5] = np.nan
    query = second_moment(Adjacency.REPLACE_ONE, n=3000, norm=1.0)
    short = np.delete(rows, 5, axis=0)
    short /= np.maximum(1.0, np.linalg.norm(short, axis=1))[:, None]
    expected = short.T @ short
    above = np.triu_indices(3, 1)
    np.testing.assert_allclose(
        multiplied(query, rows), [*np.diag(expected), *(math.sqrt(2.0) * expected[above])], rtol=1e-12
    )
    assert np.linalg.norm(multiplied(query, rows)) == pytest.approx(np.linalg.norm(expected))


def test_noise_on_a_second_moment_is_that_of_its_event():
    query = SecondMoment(PublicTable(100, Adjacency.ADD_REMOVE), "second moment", 150, 1.0)
    release = plan_sums([query], Guarantee(1.0, 1e-6))
    noise = released(release, [lambda: [np.zeros((100, 150))]], 100).answers[0]
    # Five standard errors of a deviation from 11 325 numbers: a false alarm in 2 million runs.
    assert abs(noise.std() / release.calibrated.deviations[0] - 1.0) < 5.0 / math.sqrt(2 * noise.size)
    assert epsilon_of(release.event, 1e-6, Adjacency.ADD_REMOVE) <= 1.0


@given(tables)
@settings(max_examples=80, deadline=None)
def test_moments_of_a_row_are_bounded_whatever_it_holds(table):
    (moments,) = moments_of(np.array(table), LOW, HIGH)
    assert np.isfinite(moments).all()
    by_column = moments.reshape(len(table), 2, 3)
    assert (np.linalg.norm(by_column, axis=1) <= 1.0 + 1e-9).all()
    assert (np.abs(by_column).sum(axis=1) <= 1.25 + 1e-9).all()


def test_a_cell_of_a_value_is_the_one_that_holds_it_and_a_missing_value_has_none():
    edges = (np.array([0.0, 1.0]), np.array([5.0]))
    (cells,) = cells_of(np.array([[-3.0, 5.0], [0.0, np.nan], [np.inf, -np.inf]]), edges)
    np.testing.assert_array_equal(cells, [[0, 1], [1, -1], [2, 0]])


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", [adjacency.value for adjacency in ADJACENCIES])
@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda one: f"{type(one).__name__}-{one.delta:g}")
def test_no_hostile_row_moves_what_a_transformer_asks_for_further_than_declared(transformer, adjacency, exact):
    transformer.set_params(adjacency=adjacency, n=N)
    table = [*HOSTILE, *map(tuple, made_up_rows(0))][:N]
    transformer.fit(np.array(table))
    before = list(exact)
    for other in HOSTILE:
        for neighbour in neighbours(table, other, Adjacency.parse(adjacency)):
            exact.clear()
            transformer.fit(np.array(neighbour))
            for (a, bound, kind), (b, same, _) in zip(before, exact, strict=True):
                assert bound == same
                assert np.linalg.norm(a - b, ord=1 if kind == "Laplace" else 2) <= bound


@pytest.mark.parametrize("adjacency", [adjacency.value for adjacency in ADJACENCIES])
@pytest.mark.parametrize(
    ("transformer", "rows"),
    [
        (TRANSFORMERS[0], [LOW, HIGH]),
        (TRANSFORMERS[2], [LOW, HIGH]),
        (TRANSFORMERS[3], [LOW, HIGH]),
        (TRANSFORMERS[4], [LOW, HIGH]),
        (TRANSFORMERS[6], [(9.0, 0.0, 0.0), (0.0, 9.0, 0.0)]),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_sensitivity_of_a_transformer_five_per_cent_smaller_would_be_wrong(transformer, rows, adjacency, exact):
    first, second = np.array(rows, dtype=float)
    tables = {
        "replace_one": [np.array([first] * 5), np.array([*[first] * 4, second])],
        "add_remove": [np.array([first] * 5), np.array([first] * 4)],
    }[adjacency]
    for table in tables:
        transformer.set_params(adjacency=adjacency, n=5, delta=min(transformer.delta, 1e-6)).fit(table)
    half = len(exact) // 2
    (a, bound, kind), (b, _, _) = exact[0], exact[half]
    assert 0.95 * bound < np.linalg.norm(a - b, ord=1 if kind == "Laplace" else 2) <= bound


def test_the_l1_norm_of_moments_five_per_cent_smaller_would_be_wrong(exact):
    middle = LOW + 0.75 * (HIGH - LOW)
    scaler = PrivateStandardScaler(1.0, 0.0, bounds=BOUNDS, adjacency="add_remove", n=5)
    for table in ([middle] * 5, [middle] * 4):
        scaler.fit(np.array(table))
    (a, bound, _), (b, _, _) = exact
    assert 0.95 * bound < np.abs(a - b).sum() <= bound


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda one: f"{type(one).__name__}-{one.delta:g}")
def test_what_becomes_of_a_row_does_not_depend_on_the_others_to_the_last_bit(transformer):
    X = made_up_rows(0)
    fitted = transformer.set_params(adjacency="replace_one", n=None).fit(X)
    together = fitted.transform(X)
    for place in (0, 7, N - 1):
        np.testing.assert_array_equal(fitted.transform(X[place : place + 1])[0], together[place])
    np.testing.assert_array_equal(fitted.transform(X[1:]), together[1:])


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda one: f"{type(one).__name__}-{one.delta:g}")
def test_a_transformer_keeps_nothing_that_noise_did_not_pass(transformer, monkeypatch):
    """With the same noisy sums two tables that have nothing in common leave the same bytes behind."""
    monkeypatch.setattr(Noise, "release", lambda self, answer, sensitivity: np.linspace(3.0, 90.0, answer.size))
    transformer.set_params(adjacency="replace_one", n=None)
    left = [pickle.dumps(transformer.fit(made_up_rows(seed))) for seed in (0, 3)]
    assert left[0] == left[1]
    wanted = transformer.transform(made_up_rows(1))
    np.testing.assert_array_equal(pickle.loads(left[0]).transform(made_up_rows(1)), wanted)


def a_pipeline(**parameters):
    return make_private_pipeline(
        PrivateStandardScaler(bounds=BOUNDS),
        Normalizer(),
        PrivateLogisticRegression(classes=[0, 1], solver=DPGD(n_steps=3)),
        **{"epsilon": 1.0, "delta": 1e-6, **parameters},
    )


def test_a_pipeline_keeps_nothing_that_noise_did_not_pass(monkeypatch):
    monkeypatch.setattr(Noise, "release", lambda self, answer, sensitivity: np.linspace(0.5, 0.6, answer.size))
    rng = np.random.default_rng(0)
    left = []
    for seed in (0, 3):
        frame = pd.DataFrame(made_up_rows(seed), columns=["a", "b", "c"])
        if seed:
            frame.iloc[5], frame.iloc[6, 1] = np.nan, np.inf
        pipe = a_pipeline().set_output(transform="pandas")
        pipe[-1].row_warnings = False
        left.append(pickle.dumps(pipe.fit(frame, rng.integers(0, 2, N))))
    assert left[0] == left[1]
    assert pickle.loads(left[0])[-1].feature_names_in_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("epsilon", [0.2, 3.0])
def test_the_steps_of_a_pipeline_together_keep_its_guarantee_and_waste_little(adjacency, epsilon):
    plan = a_pipeline(epsilon=epsilon, adjacency=adjacency.value).plan(50_000, 3)
    assert 0.97 * epsilon < epsilon_of(plan.event, 1e-6, adjacency) <= epsilon
    assert sum(plan.epsilons.values()) > epsilon  # each alone; a share of the precision is more than a share of ε
    assert plan.privacy.certified_epsilon <= epsilon
    assert not plan.privacy.for_release


def test_the_noise_that_a_pipeline_adds_is_the_noise_of_its_event(exact):
    pipe = a_pipeline()
    plan = pipe.plan(N, 3)
    pipe.fit(made_up_rows(0), np.arange(N) % 2)
    assert pipe.event_ == plan.event
    sums = plan.steps["privatestandardscaler"]
    assert len(exact) == 1 + 3
    assert exact[0][1] == sums.calibrated.plan.planned[0].query.sensitivity
    assert pipe[-1].event_ == plan.final.event
    assert pipe[0].event_ == sums.event


@pytest.mark.parametrize(
    "row", [(np.nan, 0.0, 0.0), (np.inf, 1e308, -np.inf), (-5.0, -5.0, -5.0), (1e308, 1e308, 1e308)]
)
def test_no_value_makes_a_pipeline_fail_and_a_row_that_a_public_step_cannot_take_is_missing(row):
    def picky(X):
        if (X < -4.0).any():
            raise RuntimeError("a value that I do not take")
        return np.log(X + 5.0)

    X = np.random.default_rng(0).random((60, 3))
    X[7] = row
    pipe = make_private_pipeline(
        FunctionTransformer(picky), Normalizer(), PrivatePCA(row_norm=1.0), PrivateLogisticRegression(classes=[0, 1]),
        epsilon=1.0, delta=1e-3, random_state=0,
    )  # fmt: skip
    pipe[-1].row_warnings = False
    pipe.fit(X, np.arange(60) % 2)
    assert np.isfinite(pipe[-1].coef_).all()
    after = through(FunctionTransformer(picky), X, X[:4])
    assert after.shape == (60, 3)
    np.testing.assert_array_equal(after[:7], picky(X[:7]))
    assert np.isnan(through(Normalizer(), after, X[:4])[7]).all() or row[0] == 1e308


def test_a_public_step_warns_of_no_value():
    """Neither of one that nobody declared, nor of what numpy cannot compute."""
    job = OneHotEncoder(categories=[["", "b", "c"]], handle_unknown="ignore", drop="first")
    frame = pd.DataFrame({"job": ["b", "c"] * 30})
    frame.loc[7, "job"] = "an unknown one"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        after = through(job, frame, tried("job", job, made_up(frame)))
        noisy = FunctionTransformer(warns_of_what_is_negative)
        through(noisy, np.array([[1.0], [-1.0]]), tried("log", noisy, made_up(np.ones((2, 1)))))
    assert not caught
    assert after.toarray()[7].tolist() == [0.0, 0.0]


def warns_of_what_is_negative(X):
    if (X < 0.0).any():
        warnings.warn("a negative value", stacklevel=1)
    return np.log(X)


def test_a_function_that_looks_across_the_table_is_refused_before_a_row_is_read():
    centred = FunctionTransformer(lambda X: X - X.mean(axis=0))
    pipe = make_private_pipeline(centred, PrivateLogisticRegression(classes=[0, 1]), epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidParameterError, match="does not map each row independently"):
        pipe.plan(100, 3)


@pytest.mark.parametrize(
    "across",
    [
        lambda X: np.where(np.isnan(X), np.nanmean(X, axis=0), X),
        lambda X: X[~np.isnan(X).any(axis=1)],
        lambda X: np.unique(X, axis=0),
        lambda X: X[:, ~np.isnan(X).any(axis=0)],
    ],
    ids=["means for what is missing", "rows dropped", "copies dropped", "columns dropped"],
)
def test_a_function_that_looks_across_the_table_only_when_values_are_missing_or_repeated_is_refused(across):
    step = FunctionTransformer(across)
    pipe = make_private_pipeline(step, PrivateLogisticRegression(classes=[0, 1]), epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidParameterError, match="does not map each row independently"):
        pipe.plan(100, 3)


@pytest.mark.parametrize(
    "across",
    [
        lambda F: F[["age"]].ffill(),
        lambda F: F.dropna()[["age"]],
        lambda F: pd.get_dummies(F["job"]),
        lambda F: F["job"].isna().cumsum().to_frame(),
    ],
    ids=["filled", "dropped", "dummies", "counted"],
)
def test_functions_of_frames_are_tried_with_missing_values_and_other_texts(across):
    frame = pd.DataFrame({"age": [1.0] * 100, "job": ["b"] * 100})
    with pytest.raises(InvalidParameterError, match="does not map each row independently"):
        tried("step", FunctionTransformer(across), made_up(frame))


@pytest.mark.parametrize(
    "step",
    [
        FunctionTransformer(lambda X: np.where(np.isnan(X), 0.5, X)),
        FunctionTransformer(lambda X: X.astype(int)),
        FunctionTransformer(np.log, validate=True),
        SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True),
        PolynomialFeatures(2),
        Normalizer(),
        Binarizer(),
        make_union(Normalizer(), AdditiveChi2Sampler()),
        make_column_transformer((Normalizer(), [0, 1]), ("passthrough", [2])),
    ],
    ids=lambda step: type(step).__name__,
)
@pytest.mark.parametrize("form", [np.array, pd.DataFrame])
def test_steps_that_treat_every_row_by_itself_pass_the_trial(step, form):
    assert tried("step", step, made_up(form(np.ones((5, 3))))).shape[0] == 4


def test_one_text_does_not_change_what_becomes_of_other_rows():
    """A column of texts that all happen to look like numbers stays one of texts."""
    job = OneHotEncoder(categories=[["1", "2"]], handle_unknown="ignore", sparse_output=False)
    step = make_column_transformer((job, ["job"]), ("passthrough", ["age"]))
    frame = pd.DataFrame({"age": [0.5, np.nan, 0.5], "job": ["1", "2", "1"]})
    like = tried("step", step, made_up(frame))
    before = through(step, frame, like)
    frame.loc[0, "job"] = "smith"
    np.testing.assert_array_equal(through(step, frame, like)[1:], before[1:])


def test_a_row_that_a_step_drops_is_missing_and_how_many_there_are_is_not_said():
    """The made-up rows hold no negative value, so the trial cannot know."""
    step = FunctionTransformer(lambda X: X[~(X < 0.0).any(axis=1)])
    X = np.random.default_rng(0).random((60, 3))
    X[[7, 31]] *= -1.0
    after = through(step, X, tried("step", step, made_up(X)))
    assert np.isnan(after).all(axis=1).nonzero()[0].tolist() == [7, 31]
    np.testing.assert_array_equal(np.delete(after, [7, 31], axis=0), np.delete(X, [7, 31], axis=0))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: second_moment(Adjacency.REPLACE_ONE, norm=0.0),
        lambda: SecondMoment(PublicTable(10, Adjacency.REPLACE_ONE), "x", 0, 1.0),
        lambda: SecondMoment(PublicTable(10, Adjacency.REPLACE_ONE), "x", 5000, 1.0),
        lambda: multiplied(second_moment(Adjacency.REPLACE_ONE), np.zeros((10, 2))),
    ],
)
def test_a_second_moment_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidParameterError):
        wrong()
