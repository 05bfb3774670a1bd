"""Pipelines under one guarantee: planned, refused, charged once, and fitted as scikit-learn fits them."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler

from dperm import (
    Budget,
    BudgetExceededError,
    Guarantee,
    InvalidParameterError,
    NoiseTooLargeError,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePCA,
    PrivatePipeline,
    PrivateStandardScaler,
    make_private_pipeline,
)
from dperm.accounting.composition import epsilon_of
from dperm.ledger.rule import event_text
from dperm.pipelines.public_step import through
from dperm.pipelines.public_steps import made_up, tried
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.statement import PrivacyStatement

pytestmark = pytest.mark.usefixtures("own_folders")

N = 4000
BOUNDS = [(0.0, 100.0), (0.0, 10_000.0)]


def rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal([40.0, 3000.0], [10.0, 800.0], size=(n, 2))
    return X, (X[:, 0] / 10.0 + X[:, 1] / 800.0 > 7.75).astype(int)


def model(**parameters):
    return PrivateLogisticRegression(classes=[0, 1], row_norm=1.5, **parameters)


def pipeline(*between, **parameters):
    steps = (PrivateStandardScaler(bounds=BOUNDS), *between, model())
    return make_private_pipeline(*steps, **{"epsilon": 1.0, "delta": 1e-6, **parameters})


def test_a_pipeline_learns_predicts_and_is_one_release():
    X, y = rows()
    pipe = pipeline(PolynomialFeatures(2, include_bias=False))
    plan = pipe.plan(N, 2)
    before = pipe.get_params()
    assert pipe.fit(X, y) is pipe
    assert pipe.score(X, y) > 0.9
    assert pipe.predict_proba(X).shape == (N, 2)
    assert pipe.event_ == plan.event
    assert 0.95 < epsilon_of(pipe.event_, 1e-6, Adjacency.REPLACE_ONE) <= 1.0
    assert pipe.privacy_.for_release
    assert len(pipe.privacy_.parts) == 2
    assert PrivacyStatement.from_dict(pipe.privacy_.to_dict()) == pipe.privacy_
    assert {name: str(value) for name, value in pipe.get_params().items()} == {
        name: str(value) for name, value in before.items()
    }
    assert pipe["privatelogisticregression"].coef_.shape == (1, 5)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(pipe)).predict(X), pipe.predict(X))
    again = clone(pipe)
    with pytest.raises(NotFittedError):
        again.predict(X)
    assert again.fit(X, y).privacy_ == pipe.privacy_


def test_a_step_alone_says_that_the_guarantee_is_the_pipelines():
    X, y = rows()
    pipe = pipeline().fit(X, y)
    for step in (pipe[0], pipe[-1]):
        assert not step.privacy_.for_release
        assert "one step of a pipeline" in str(step.privacy_)
    first = pipe[:-1]
    assert type(first) is Pipeline
    assert first.transform(X).shape == (N, 2)


def test_shares_follow_the_stated_rule_and_can_be_set():
    plan = pipeline().plan(N, 2)
    wide = pipeline(shares={"privatestandardscaler": 0.5}).plan(N, 2)
    noise = [one.steps["privatestandardscaler"].calibrated.deviations[0] for one in (plan, wide)]
    assert noise[0] / noise[1] == pytest.approx(5**0.5, rel=1e-3)  # a tenth of the precision against half of it
    assert wide.final.event != plan.final.event
    many = make_private_pipeline(
        *[PrivatePCA(row_norm=1.0) for _ in range(4)], PrivateLinearRegression(row_norm=1.0), epsilon=1.0, delta=1e-6
    )
    assert sum(many._shares().values()) == pytest.approx(0.5)
    for wrong in ({"other": 0.1}, {}, [0.1], {"privatestandardscaler": 1.0}, {"privatestandardscaler": -0.1}):
        with pytest.raises(InvalidParameterError, match="share"):
            pipeline(shares=wrong).plan(N, 2)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_a_pipeline_is_charged_once_and_settled_once(adjacency, tmp_path):
    X, y = rows()
    budget = Budget.create("people", Guarantee(1.05, 1e-6), adjacency, ledger=str(tmp_path / "ledger.db"))
    pipe = pipeline(budget=budget, adjacency=adjacency, n=N).fit(X, y)
    (release,) = budget.account().releases
    assert event_text(release.event) == event_text(pipe.event_)
    assert release.fingerprint is not None
    assert pipe.ledger_entry_["number"] == release.number
    assert pipe[-1].budget is None
    with pytest.raises(BudgetExceededError):
        pipe.fit(X, y)
    assert len(budget.account().releases) == 1


def test_a_crash_between_the_steps_counts_as_spent(tmp_path, monkeypatch):
    X, y = rows()
    budget = Budget.create("people", Guarantee(3.0, 1e-5), ledger=str(tmp_path / "ledger.db"))

    def crash(*arguments, **named):
        raise RuntimeError("crashed")

    monkeypatch.setattr(PrivateLogisticRegression, "fit", crash)
    pipe = pipeline(budget=budget)
    with pytest.raises(RuntimeError) as caught:
        pipe.fit(X, y)
    assert "counts as spent" in caught.value.__notes__[0]
    assert not hasattr(pipe, "privacy_")
    assert pipe[-1].epsilon == 1.0  # its own parameters are back
    (release,) = budget.account().releases
    assert release.fingerprint is None


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((StandardScaler(), model()), "dperm.PrivateStandardScaler"),
        ((PCA(2), model()), "dperm.PrivatePCA"),
        ((SimpleImputer(), model()), "strategy='constant'"),
        ((SelectKBest(), model()), "l1 penalty"),
        ((OneHotEncoder(), model()), "categories"),
        ((TfidfVectorizer(), model()), "HashingVectorizer"),
        ((make_column_transformer((StandardScaler(), [0])), model()), "without noise"),
        ((make_column_transformer(("drop", [0]), remainder=StandardScaler()), model()), "without noise"),
        ((PrivateStandardScaler(bounds=BOUNDS), LogisticRegression()), "dperm.PrivateLogisticRegression"),
        ((PrivateStandardScaler(bounds=BOUNDS),), "last step must be a dperm model"),
        ((PrivateStandardScaler(2.0, bounds=BOUNDS), model()), "epsilon=2.0 set: all steps share"),
        ((PrivateStandardScaler(bounds=BOUNDS), model(n=7)), "n=7 set: all steps share"),
        ((PrivateStandardScaler(bounds=BOUNDS), model(random_state=7)), "random_state=7 set: all steps share"),
        ((PrivateStandardScaler(bounds=BOUNDS), model(noise=None)), "certified noise"),
        ((PrivateStandardScaler(), model()), "bounds must be declared"),
        ((PrivateStandardScaler(bounds=BOUNDS), PrivateLogisticRegression()), "classes must be declared"),
    ],
)
def test_steps_that_do_not_belong_into_a_private_pipeline_are_refused_before_anything_is_spent(steps, words, tmp_path):
    budget = Budget.create("people", Guarantee(3.0, 1e-5), ledger=str(tmp_path / "ledger.db"))
    with pytest.raises(InvalidParameterError, match=words):
        make_private_pipeline(*steps, epsilon=1.0, delta=1e-6, budget=budget).fit(*rows())
    assert not budget.account().releases


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"epsilon": 0.0}, InvalidParameterError),
        ({"epsilon": 1e-5}, NoiseTooLargeError),
        ({"n": N + 1}, InvalidParameterError),
        ({"adjacency": "both"}, InvalidParameterError),
        ({"budget": "people"}, InvalidParameterError),
        ({"random_state": "seed"}, InvalidParameterError),
    ],
)
def test_wrong_numbers_are_refused(parameters, error):
    with pytest.raises(error):
        pipeline(**parameters).fit(*rows())


def test_wrong_tables_are_refused_before_anything_is_spent(tmp_path):
    X, y = rows()
    budget = Budget.create("people", Guarantee(3.0, 1e-5), ledger=str(tmp_path / "ledger.db"))
    pipe = pipeline(budget=budget)
    for table, target in ((X, None), (X, y[:-1]), (X[:, :1], y), (X[:, 0], y), (X[:, 0].tolist(), y), ("rows", y)):
        with pytest.raises(InvalidParameterError):
            pipe.fit(table, target)
    with pytest.raises(InvalidParameterError, match="does not pass parameters"):
        pipe.fit(X, y, sample_weight=np.ones(N))
    assert not budget.account().releases


def test_a_seed_makes_it_repeatable_and_not_for_release():
    X, y = rows()
    one, other = (pipeline(random_state=5).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one[-1].coef_, other[-1].coef_)
    assert one.privacy_.seeded
    assert not one.privacy_.for_release
    assert "n was read" in str(pipeline(adjacency="add_remove").fit(X, y).privacy_)


def test_pure_epsilon_takes_laplace_noise_in_the_scaler():
    X, y = rows()
    pipe = pipeline(delta=0.0, epsilon=4.0).fit(X, y)
    assert epsilon_of(pipe.event_, 0.0, Adjacency.REPLACE_ONE) <= 4.0
    assert "Laplace" in pipe.privacy_.parts[0]


@pytest.mark.long
def test_public_steps_work_on_frames_and_texts():
    X, y = rows()
    frame = pd.DataFrame(X, columns=["age", "income"]).assign(job=np.where(y == 1, "smith", "clerk"))
    public = make_column_transformer(
        (FunctionTransformer(lambda F: F / [100.0, 10_000.0]), ["age", "income"]),
        (OneHotEncoder(categories=[["clerk", "smith"]], handle_unknown="ignore", sparse_output=False), ["job"]),
    )
    pipe = make_private_pipeline(public, model(), epsilon=1.0, delta=1e-6).fit(frame, y)
    assert pipe.score(frame, y) > 0.9
    frame.loc[3, ["age", "job"]] = [np.nan, None]
    assert pipe.fit(frame, y)[-1].coef_.shape == (1, 4)
    mixed = make_column_transformer(("passthrough", ["age", "income"]), public.transformers[1][1:])
    scaler = PrivateStandardScaler(bounds=[*BOUNDS, None, None])
    both = make_private_pipeline(mixed, scaler, model(), epsilon=1.0, delta=1e-6).fit(frame, y)
    assert both.score(frame.drop(index=3), np.delete(y, 3)) > 0.9
    texts = ["good day" if label else "bad night" for label in y]
    words = make_private_pipeline(HashingVectorizer(n_features=32), model(), epsilon=1.0, delta=1e-6).fit(texts, y)
    assert words.score(texts, y) > 0.9
    assert words.fit([None, *texts[1:]], y)[-1].n_features_in_ == 32


@pytest.mark.parametrize("values", [["Alice Smith 1970", "Zoe"], [1970, 1985]])
def test_a_step_that_fails_on_made_up_rows_shows_no_value_of_the_table(values):
    """The categories of a column may have been read from its rows."""
    frame = pd.DataFrame({"who": pd.Series([values[place % 2] for place in range(N)], dtype="category")})

    def fails(rows):
        raise ValueError(f"cannot take {rows.iloc[0, 0]!r}")

    with pytest.raises(InvalidParameterError, match=r"fails on synthetic rows.*ValueError") as caught:
        make_private_pipeline(FunctionTransformer(fails), model(), epsilon=1.0, delta=1e-6).fit(frame, rows()[1])
    assert caught.value.__context__ is None
    assert not any(str(value) in str(caught.value) for value in values)


@pytest.mark.parametrize("values", [["clerk", "smith"], [1, 2]])
def test_columns_of_categories_are_encoded_without_their_list(values):
    y = rows()[1]
    frame = pd.DataFrame({"job": pd.Series([values[label] for label in y], dtype="category")})
    seen = []

    def looks(part):
        seen.append(part.iloc[0, 0])
        return part

    public = Pipeline([
        ("looks", FunctionTransformer(looks)),
        ("encode", OneHotEncoder(categories=[values], handle_unknown="ignore", sparse_output=False)),
    ])  # fmt: skip
    pipe = make_private_pipeline(public, model(), epsilon=1.0, delta=1e-6).fit(frame, y)
    assert seen[0] not in values  # made up
    assert pipe.score(frame, y) > 0.9


@pytest.mark.long
def test_texts_that_a_vectorizer_cannot_take_do_not_make_a_wide_table_dense():
    """Of 2^20 columns, 5 GB for these rows if it were dense."""
    texts = ["good day", None, "bad night"] * 200
    words = HashingVectorizer()
    tracemalloc.start()
    after = through(words, texts, tried("words", words, made_up(texts)))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1e9
    assert after.shape == (600, 2**20)
    assert np.isnan(after.data).sum() == 200
    assert np.isnan(after[1::3].data).all()
    np.testing.assert_array_equal(after[::3].data, words.transform(texts[::3]).data)


def test_a_row_of_numbers_that_is_missing_stays_so_in_a_sparse_table():
    y = rows(n=400)[1]
    step = make_column_transformer(
        (OneHotEncoder(categories=[[0, 1]], handle_unknown="ignore"), [0]), sparse_threshold=1.0
    )
    coefficients = []
    for value in (np.nan, np.inf):
        table = y[:, None].astype(float)
        table[7] = value
        after = through(step, table, tried("job", step, made_up(table)))
        assert np.isnan(after[7].data).all()
        np.testing.assert_array_equal(np.delete(after.toarray(), 7, axis=0), np.eye(2)[np.delete(y, 7)])
        steps = step, model(row_warnings=False)
        pipe = make_private_pipeline(*steps, epsilon=1.0, delta=1e-3, random_state=0).fit(table, y)
        coefficients.append(pipe[-1].coef_)
    np.testing.assert_array_equal(*coefficients)


def test_names_of_columns_lists_and_pictures_work_as_in_scikit_learn():
    X, y = rows()
    frame = pd.DataFrame(X, columns=["age", "income"])
    pipe = pipeline(PolynomialFeatures(2, include_bias=False)).set_output(transform="pandas").fit(frame, y)
    assert list(pipe[:-1].transform(frame).columns) == ["age", "income", "age^2", "age income", "income^2"]
    assert list(pipe[-1].feature_names_in_) == list(pipe[:-1].get_feature_names_out())
    assert "PrivateStandardScaler" in pipe._repr_html_()
    assert "epsilon=1.0" not in repr(pipe)  # a default, as scikit-learn prints it
    assert pipeline().fit(X.tolist(), y.tolist()).score(X, y) > 0.9


def test_a_pipeline_needs_no_private_transformer_and_takes_steps_that_do_nothing():
    X, y = rows()
    scaled = FunctionTransformer(lambda rows: rows / [100.0, 10_000.0])
    pipe = PrivatePipeline([("scale", scaled), ("none", "passthrough"), ("model", model())], delta=1e-6).fit(X, y)
    assert epsilon_of(pipe.event_, 1e-6, Adjacency.REPLACE_ONE) <= 1.0
    assert "model: dp-objective" in str(pipe.privacy_)
