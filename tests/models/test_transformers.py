"""Private transformers behave as scikit-learn's, and with much ε and many rows they learn what scikit-learn's learn."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from dperm import (
    Budget,
    BudgetExceededError,
    Guarantee,
    InvalidParameterError,
    LargeDeltaWarning,
    PrivateMinMaxScaler,
    PrivatePCA,
    PrivateQuantileTransformer,
    PrivateStandardScaler,
)
from dperm.accounting.composition import epsilon_of
from dperm.privacy.guarantee import Adjacency

pytestmark = pytest.mark.usefixtures("own_folders")

N = 20_000
BOUNDS = [(0.0, 100.0), (-1000.0, 9000.0), (0.0, 1.0)]
MUCH = {"epsilon": 1000.0, "delta": 1e-6}
TRANSFORMERS = [
    PrivateStandardScaler(1.0, 1e-6, bounds=BOUNDS),
    PrivateMinMaxScaler(1.0, 1e-6, bounds=BOUNDS),
    PrivateQuantileTransformer(1.0, 1e-6, bounds=BOUNDS),
    PrivatePCA(1.0, 1e-6, row_norm=5000.0),
]
each = pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda one: type(one).__name__)


def rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(40, 8, n), rng.lognormal(6, 0.7, n) - 500.0, rng.random(n) ** 2])


# docs/sklearn.md says the same.
EXPLAINED = {"check_dtype_object": "a cell that is no number is a missing value; an error would be a leak"}


@each
def test_scikit_learns_own_checks_pass_but_for_the_explained_one(transformer):
    declared = {"row_norm": 10.0} if isinstance(transformer, PrivatePCA) else {"bounds": (-10.0, 10.0)}
    seeded = clone(transformer).set_params(random_state=0, **declared)  # repeatable, so that no check is left out
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(seeded, expected_failed_checks=EXPLAINED, on_fail=None, on_skip=None)
    assert [result["check_name"] for result in results if result["status"] == "failed"] == []
    assert [result["check_name"] for result in results if result["status"] == "skipped"] == ["check_array_api_input"]
    assert len(results) >= 40


def test_with_much_epsilon_the_scalers_are_scikit_learns():
    X = rows()
    ours, theirs = PrivateStandardScaler(**MUCH, bounds=BOUNDS, clip=None).fit(X), StandardScaler().fit(X)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-2)
    np.testing.assert_allclose(ours.scale_, theirs.scale_, rtol=1e-2)
    clipped = np.clip(X, *np.transpose(BOUNDS))
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), clipped, rtol=1e-9, atol=1e-9)
    assert np.abs(PrivateStandardScaler(**MUCH, bounds=BOUNDS).fit_transform(X)).max() == 3.0
    ends, exact = PrivateMinMaxScaler(**MUCH, bounds=BOUNDS).fit(X), MinMaxScaler().fit(clipped)
    widths = np.diff(BOUNDS)[:, 0]
    # A cell is at most 1/64 of the range wide.
    assert (np.abs(ends.data_min_ - exact.data_min_) <= widths / 64).all()
    assert (np.abs(ends.data_max_ - exact.data_max_) <= widths / 64).all()
    inside = ends.transform(X)
    assert inside.min() >= 0.0
    assert inside.max() <= 1.0
    np.testing.assert_allclose(ends.inverse_transform(inside), np.clip(X, ends.data_min_, ends.data_max_))


def test_with_much_epsilon_quantiles_and_components_are_scikit_learns():
    X = rows()
    ours = PrivateQuantileTransformer(**MUCH, bounds=BOUNDS).fit(X)
    theirs = QuantileTransformer(n_quantiles=1000).fit(X)
    assert np.abs(ours.transform(X) - theirs.transform(X)).max() < 0.1  # within a cell of the histogram
    assert np.abs(ours.transform(X) - theirs.transform(X)).mean() < 0.01
    normal = PrivateQuantileTransformer(**MUCH, bounds=BOUNDS, output_distribution="normal").fit(X)
    np.testing.assert_allclose(normal.transform(X).std(axis=0), 1.0, atol=0.1)
    assert np.abs(normal.inverse_transform(normal.transform(X)) - X).mean(axis=0)[0] < 1.0
    scaled = (X - X.mean(axis=0)) / X.std(axis=0) @ np.diag([1.0, 0.5, 0.2])
    ours, theirs = PrivatePCA(**MUCH, row_norm=20.0, n_components=2).fit(scaled), PCA(2).fit(scaled)
    np.testing.assert_allclose(np.abs((ours.components_ * theirs.components_).sum(axis=1)), 1.0, atol=1e-3)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=0.02)
    back = ours.inverse_transform(ours.transform(scaled))
    assert np.abs(back - theirs.inverse_transform(theirs.transform(scaled))).max() < 0.1
    assert ours.get_feature_names_out().tolist() == ["privatepca0", "privatepca1"]


@each
def test_a_transformer_is_cloned_named_and_pickled_as_any_other(transformer):
    X = pd.DataFrame(rows(n=2000), columns=["age", "income", "share"])
    before = transformer.get_params()
    fitted = clone(transformer).set_output(transform="pandas").fit(X)
    assert fitted.get_params() == before
    out = fitted.transform(X)
    assert isinstance(out, pd.DataFrame)
    assert list(out.columns) == list(fitted.get_feature_names_out())
    if not isinstance(transformer, PrivatePCA):
        assert list(out.columns) == ["age", "income", "share"]
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(fitted)).transform(X), out)
    with pytest.raises(InvalidParameterError, match="feature names"):
        fitted.transform(X[["share", "age", "income"]])
    with pytest.raises(NotFittedError):
        clone(transformer).transform(X)


@each
def test_missing_and_infinite_values_are_bounded_and_missing_ones_stay_missing(transformer):
    X = rows(n=2000)
    X[0], X[1, 0], X[2, 1] = np.nan, np.inf, -np.inf
    out = clone(transformer).fit_transform(X)
    assert np.isnan(out[0]).all()
    assert np.isfinite(out[3:]).all()
    if not isinstance(transformer, PrivatePCA):
        assert np.isfinite(out[1:]).all()


@each
def test_a_transformer_keeps_its_guarantee_and_says_so(transformer):
    for adjacency in Adjacency:
        fitted = clone(transformer).set_params(adjacency=adjacency.value, n=N).fit(rows())
        assert 0.99 < epsilon_of(fitted.event_, 1e-6, adjacency) <= 1.0
        assert fitted.privacy_.for_release
        assert f"adjacency {adjacency}" in str(fitted.privacy_)
    undeclared = clone(transformer).set_params(adjacency="add_remove").fit(rows())
    assert "n was read from the rows" in str(undeclared.privacy_)
    seeded = clone(transformer).set_params(random_state=3)
    assert not seeded.fit(rows()).privacy_.for_release
    one, other = (seeded.fit(rows()).transform(rows(1)) for _ in range(2))
    np.testing.assert_array_equal(one, other)


@each
def test_a_fit_is_reserved_before_a_row_is_read_and_settled_once(transformer, tmp_path, monkeypatch):
    budget = Budget.create("people", Guarantee(2.5, 1e-5), ledger=str(tmp_path / "ledger.db"))
    charged = clone(transformer).set_params(budget=budget)
    fitted = charged.fit(rows())
    (release,) = budget.account().releases
    assert release.fingerprint is not None
    assert fitted.ledger_entry_["number"] == release.number

    def crash(*arguments):
        raise RuntimeError("crashed")

    monkeypatch.setattr(type(transformer), "_learn", crash)
    with pytest.raises(RuntimeError) as caught:
        charged.fit(rows())
    assert "counts as spent" in caught.value.__notes__[0]
    assert not hasattr(charged, "privacy_")
    monkeypatch.undo()
    assert [release.fingerprint is None for release in budget.account().releases] == [False, True]
    with pytest.raises(BudgetExceededError):
        charged.set_params(epsilon=2.4).fit(rows())
    assert budget.account().spent <= 2.5


@pytest.mark.parametrize("transformer", TRANSFORMERS[:3], ids=lambda one: type(one).__name__)
def test_columns_without_bounds_are_passed_on_and_cost_nothing(transformer):
    X = rows(n=2000)
    X[3, 1] = np.nan
    some = clone(transformer).set_params(bounds=[BOUNDS[0], None, BOUNDS[2]], random_state=0).fit(X)
    alone = clone(transformer).set_params(bounds=[BOUNDS[0], BOUNDS[2]], random_state=0).fit(X[:, [0, 2]])
    out = some.transform(X)
    np.testing.assert_array_equal(out[:, 1], X[:, 1])
    np.testing.assert_array_equal(out[:, [0, 2]], alone.transform(X[:, [0, 2]]))
    np.testing.assert_array_equal(some.inverse_transform(out)[:, 1], X[:, 1])
    assert some.event_ == alone.event_
    assert "2 columns" in str(some.privacy_)


def test_a_column_without_spread_is_not_blown_up():
    X = np.full((N, 1), 40.0)
    scaler = PrivateStandardScaler(1.0, 1e-6, bounds=(0.0, 100.0), clip=None).fit(X)
    assert scaler.scale_[0] > 0.1
    assert np.abs(scaler.transform(X)).max() < 5.0


def test_without_rows_in_sight_the_declared_range_is_kept():
    # With a seed: noise alone is taken for rows in fewer than one fit of 100, and that is no error.
    scaler = PrivateMinMaxScaler(0.01, 1e-6, bounds=(-5.0, 5.0), random_state=0).fit(np.zeros((50, 1)))
    assert (scaler.data_min_[0], scaler.data_max_[0]) == (-5.0, 5.0)
    shares = PrivateQuantileTransformer(0.01, 1e-6, bounds=(-5.0, 5.0)).fit(np.zeros((50, 1)))
    assert (np.diff(shares.quantiles_[:, 0]) >= 0.0).all()
    assert shares.quantiles_[[0, -1], 0].tolist() == [-5.0, 5.0]


def test_a_range_that_is_too_wide_costs_little_where_histograms_are_fine_towards_its_ends():
    X = np.random.default_rng(0).uniform(20.0, 60.0, size=(N, 1))
    scaler = PrivateMinMaxScaler(1.0, 1e-6, bounds=(0.0, 1e5), random_state=0).fit(X)
    assert 10.0 < scaler.data_min_[0] <= 21.0
    assert 59.0 <= scaler.data_max_[0] < 100.0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (PrivateStandardScaler(), "bounds must be declared"),
        (PrivateMinMaxScaler(), "bounds must be declared"),
        (PrivateQuantileTransformer(), "bounds must be declared"),
        (PrivatePCA(), "row_norm must be declared"),
        (PrivateStandardScaler(bounds=[(0, 1)]), "one per column"),
        (PrivateStandardScaler(bounds=[None, None, None]), "one pair"),
        (PrivateStandardScaler(bounds=(None, 1)), "one pair"),
        (PrivateStandardScaler(bounds=5), "one pair"),
        (PrivateStandardScaler(bounds=(1, 1)), "low < high"),
        (PrivateStandardScaler(bounds=(0, np.nan)), "finite"),
        (PrivateStandardScaler(bounds=("a", "b")), "plain number"),
        (PrivateStandardScaler(bounds=(1e9, 1e9 + 1e-3)), "too close"),
        (PrivateStandardScaler(bounds=[(0, 1), (0, 1, 2)]), "one pair"),
        (PrivateStandardScaler(bounds=(0, 1), clip=0.0), "clip"),
        (PrivateStandardScaler(1e-9, bounds=(0, 1)), "epsilon must be at least"),
        (PrivateStandardScaler(bounds=(0, 1), n=5), "public n is the number of rows"),
        (PrivateStandardScaler(bounds=(0, 1), adjacency="both"), "adjacency"),
        (PrivateStandardScaler(bounds=(0, 1), budget="people"), "Budget"),
        (PrivateMinMaxScaler(bounds=(0, 1), feature_range=(1, 0)), "feature_range"),
        (PrivateMinMaxScaler(bounds=(0, 1), feature_range=1), "feature_range"),
        (PrivateQuantileTransformer(bounds=(0, 1), n_quantiles=1), "n_quantiles"),
        (PrivateQuantileTransformer(bounds=(0, 1), output_distribution="cauchy"), "output_distribution"),
        (PrivatePCA(row_norm=1.0, n_components=4), "n_components"),
        (PrivatePCA(row_norm=1.0, n_components=0.9), "n_components"),
        (PrivatePCA(1.0, 0.0, row_norm=1.0), "delta above 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(wrong, words):
    with pytest.raises(InvalidParameterError, match=words):
        wrong.fit(np.zeros((100, 3)))


@each
def test_sparse_rows_are_refused_and_a_large_delta_is_said(transformer):
    with pytest.raises(InvalidParameterError, match="toarray"):
        transformer.fit(sparse.csr_matrix(rows(n=50)))
    with pytest.warns(LargeDeltaWarning):
        clone(transformer).set_params(delta=0.01).fit(rows(n=200))
