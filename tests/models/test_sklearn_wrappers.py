"""What wrappers of scikit-learn cost: counted before a fit, and by the ledger after it. Pitfall 24."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    RandomForestClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import Normalizer, StandardScaler

from dperm import (
    Budget,
    BudgetExceededError,
    Guarantee,
    InvalidParameterError,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateStandardScaler,
    check_pipeline,
    make_private_pipeline,
)
from dperm.models.wrappers import CLASS_LIST

pytestmark = pytest.mark.usefixtures("own_folders")

N = 600
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)) / 3.0
Y = (X[:, 0] > 0).astype(int)
SEEDS = "anything: it seeds every member"
GRID = {"penalty": [0.1, 0.01]}


@pytest.fixture
def budget(tmp_path):
    return Budget.create("people", Guarantee(100.0, 1e-5), ledger=str(tmp_path / "ledger.db"))


def model(budget=None, **parameters):
    return PrivateLogisticRegression(0.5, 1e-6, classes=[0, 1], budget=budget, **parameters)


def regression(budget=None):
    return PrivateLinearRegression(0.5, 1e-6, budget=budget, row_norm=1.0)


def one_guarantee(budget=None):
    steps = PrivateStandardScaler(bounds=(-2, 2)), Normalizer(), PrivateLogisticRegression(classes=[0, 1])
    return make_private_pipeline(*steps, epsilon=0.5, delta=1e-6, budget=budget)


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize(
    ("wrapped", "fits"),
    [
        (lambda b: make_pipeline(Normalizer(), model(b)), 1),
        (lambda b: GridSearchCV(model(b), GRID, cv=3), 7),
        (lambda b: GridSearchCV(make_pipeline(Normalizer(), model(b)), {"normalizer__norm": ["l1", "l2"]}, cv=2), 5),
        (lambda b: GridSearchCV(CalibratedClassifierCV(model(b), cv=3), {"method": ["sigmoid", "isotonic"]}, cv=2), 15),
        (lambda b: RandomizedSearchCV(model(b), {"penalty": [0.1, 0.2, 0.3]}, n_iter=2, cv=2, refit=False), 4),
        (lambda b: CalibratedClassifierCV(model(b), cv=3), 3),
        (lambda b: CalibratedClassifierCV(model(b), cv=3, ensemble=False), 4),
        (lambda b: VotingClassifier([("a", model(b)), ("b", model(b, penalty=0.1))]), 2),
        (lambda b: StackingClassifier([("a", model(b))], final_estimator=model(b), cv=3), 5),
        (lambda b: SelectFromModel(model(b)), 1),
        (lambda b: one_guarantee(b), 1),
    ],
)
def test_the_fits_that_are_counted_beforehand_are_those_in_the_ledger(wrapped, fits, budget):
    estimator = wrapped(budget)
    assert check_pipeline(estimator).fits == fits
    estimator.fit(X, Y)
    assert len(budget.account().releases) == fits
    assert None not in [release.fingerprint for release in budget.account().releases]


def test_a_search_that_the_budget_does_not_cover_ends_where_it_is_spent(tmp_path):
    budget = Budget.create("people", Guarantee(1.0, 1e-5), ledger=str(tmp_path / "small.db"))
    search = GridSearchCV(model(budget), {"epsilon": [0.5, 0.9]}, cv=KFold(3), error_score="raise")
    with pytest.raises(BudgetExceededError):
        search.fit(X, Y)
    assert 0 < len(budget.account().releases) < 7
    assert budget.account().spent <= 1.0


def test_what_a_search_fits_in_a_pipeline_of_two_private_steps_is_charged_for_both(budget):
    pipe = make_pipeline(PrivateStandardScaler(0.5, 1e-6, bounds=(-2, 2), budget=budget), model(budget))
    search = GridSearchCV(pipe, {"privatelogisticregression__penalty": [0.1, 0.01]}, cv=2)
    assert check_pipeline(search).fits == 10
    search.fit(X, Y)
    assert len(budget.account().releases) == 10


def test_bagging_seeds_its_members_so_a_budget_refuses_them(budget):
    with pytest.raises(InvalidParameterError, match="a seeded fit is not private"):
        BaggingClassifier(model(budget), 2).fit(X, Y)
    assert not budget.account().releases


class Unknown(BaseEstimator):
    def __init__(self, estimator=None):
        self.estimator = estimator

    def fit(self, X, y=None):
        return self


@pytest.mark.parametrize(
    ("wrapped", "gaps"),
    [
        (lambda b: GridSearchCV(model(b), GRID), ["scores on validation rows", "the choice based on them"]),
        (lambda b: CalibratedClassifierCV(model(b)), ["the calibration map", CLASS_LIST]),
        (lambda b: VotingClassifier([("a", model(b)), ("b", model(b))]), [CLASS_LIST]),
        (lambda b: StackingClassifier([("a", model(b))]), [CLASS_LIST, "what scikit-learn's default"]),
        (lambda b: OneVsRestClassifier(model(b)), [CLASS_LIST]),
        (lambda b: BaggingClassifier(model(b)), [SEEDS, CLASS_LIST, "rows drawn several times"]),
        (lambda b: BaggingRegressor(regression(b), bootstrap=False, oob_score=True), [SEEDS, "the out-of-bag score"]),
        (lambda b: make_pipeline(StandardScaler(), model(b)), ["what it learns from the rows"]),
        (lambda b: make_union(Normalizer(), StandardScaler()), ["what it learns from the rows"]),
        (lambda b: make_column_transformer((StandardScaler(), [0])), ["what it learns from the rows"]),
        (
            lambda b: make_pipeline(
                make_column_transformer(("passthrough", [0]), remainder=StandardScaler()), model(b)
            ),
            ["what it learns from the rows"],
        ),
        (lambda b: TransformedTargetRegressor(), ["what scikit-learn's default"]),
        (lambda b: TransformedTargetRegressor(regression(b), transformer=StandardScaler()), ["what it learns"]),
        (lambda b: Unknown(model(b)), ["what it learns from the rows"]),
        (lambda b: RandomForestClassifier(), ["what it learns from the rows"]),
        (lambda b: PrivateLogisticRegression(), [CLASS_LIST]),
        (lambda b: model(noise=None), ["anything: noise=None"]),
        (lambda b: model(random_state=0), ["anything: it is seeded"]),
        (lambda b: model(adjacency="add_remove"), ["the number of rows"]),
        (lambda b: make_private_pipeline(StandardScaler(), model()), ["anything, as it is refused"]),
    ],
)
def test_what_no_guarantee_covers_is_named(wrapped, gaps, budget):
    check = check_pipeline(wrapped(budget))
    assert not check.is_private
    found = [gap for step in check.steps for gap in step.not_covered]
    assert len(found) == len(gaps)
    assert all(gap.startswith(wanted) for gap, wanted in zip(found, gaps, strict=True))
    assert "private: NO" in str(check)
    assert all(f"not covered: {gap}" in str(check) for gap in found)


def test_what_is_covered_is_private(budget):
    for estimator in (
        model(),
        make_pipeline(Normalizer(), model()),
        one_guarantee(),
        VotingRegressor([("a", regression(budget)), ("b", regression(budget))]),
        MultiOutputClassifier(model(budget)),
        TransformedTargetRegressor(regression(), func=np.log1p, inverse_func=np.expm1),
        StackingRegressor([("a", regression(budget))], final_estimator=regression(budget)),
        make_pipeline(PrivateStandardScaler(bounds=(-2, 2), budget=budget), model(budget)),
    ):
        check = check_pipeline(estimator)
        assert check.is_private, str(check)
        assert "private: yes" in str(check)


def test_fits_that_nobody_adds_up_are_not_private():
    check = check_pipeline(make_pipeline(PrivateStandardScaler(bounds=(-2, 2)), model()))
    assert not check.looking
    assert not check.is_private
    assert "nothing accounts for them together" in str(check)
    assert "2 fits, added up: ε = 1.5 at δ = 1.1e-05 (replace_one)" in str(check)
    mixed = make_pipeline(PrivateStandardScaler(bounds=(-2, 2), adjacency="add_remove", n=N), model())
    assert "different adjacencies" in check_pipeline(mixed).cost
    assert "no step adds noise" in check_pipeline(StandardScaler()).cost
    assert "depends on the table" in check_pipeline(MultiOutputClassifier(model())).cost


@pytest.mark.parametrize("wrong", [None, "pipe", StandardScaler, 3])
def test_what_is_no_estimator_is_refused(wrong):
    with pytest.raises(InvalidParameterError, match="check_pipeline takes an estimator"):
        check_pipeline(wrong)
