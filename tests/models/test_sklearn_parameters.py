"""Parameters and methods that scikit-learn's users expect: starts, threads, logs, routing, storage, notebooks."""

import logging
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler

from contracts.solvers import example_of
from dperm import (
    Amount,
    Classes,
    InvalidParameterError,
    Number,
    PrivateHuberRegression,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMLPClassifier,
    PrivateMLPRegressor,
    PrivatePoissonRegression,
    Schema,
    UnsupportedProblemError,
    balanced_weights,
    save_model,
)
from dperm.files.model_file import read_content
from dperm.privacy.assumptions import assumptions
from dperm.privacy.statement import PrivacyStatement
from dperm.problem import L2Ball
from dperm.solvers import DPGD, SOLVERS
from dperm.verify.release import verify


def rows(n=400, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) / 3
    return X, (X[:, 0] > 0).astype(int)


MODEL = PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], random_state=0)


# --- Methods ---


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_probabilities_are_the_logarithms_and_stay_finite_where_a_probability_is_rounded_to_zero(n_classes):
    X, _ = rows()
    model = PrivateLogisticRegression(5.0, 1e-5, classes=list(range(n_classes)), random_state=0)
    model.fit(X, np.digitize(X[:, 0], [-0.2, 0.2][: n_classes - 1]))
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(model.predict_proba(X)), rtol=1e-9, atol=1e-12)
    model.coef_ *= 1e6
    far = model.predict_log_proba(X)
    assert np.isfinite(far).all()
    assert far.min() < -1000.0


def test_every_classifier_with_probabilities_has_their_logarithms():
    for kind in (PrivateLogisticRegression, PrivateMLPClassifier):
        assert hasattr(kind, "predict_proba")
        assert hasattr(kind, "predict_log_proba")
    assert not hasattr(PrivateLinearSVC, "predict_log_proba")


def test_partial_fit_is_not_there_and_says_why():
    assert not hasattr(MODEL, "partial_fit")
    with pytest.raises(AttributeError, match=r"a further release.*Budget"):
        MODEL.partial_fit(*rows())


def test_class_weights_from_public_frequencies_are_those_of_balanced_and_balanced_is_refused():
    from sklearn.utils.class_weight import compute_class_weight

    y = np.repeat([0, 1], [76, 24])
    theirs = compute_class_weight("balanced", classes=np.array([0, 1]), y=y)
    ours = balanced_weights({0: 0.76, 1: 0.24})
    np.testing.assert_allclose(list(ours.values()), theirs)
    X, labels = rows()
    assert clone(MODEL).set_params(class_weight=ours).fit(X, labels).privacy_.epsilon == 1.0
    with pytest.raises(InvalidParameterError, match="balanced_weights"):
        clone(MODEL).set_params(class_weight="balanced").fit(X, labels)


@pytest.mark.parametrize(
    "priors", [{}, {0: 1.0}, {0: 0.0, 1: 1.0}, {0: -1.0, 1: 2.0}, {0: 0.5, 1: 0.9}, {0: "many", 1: 0.1}, [0.2, 0.8]]
)
def test_frequencies_that_are_none_are_refused(priors):
    with pytest.raises(InvalidParameterError):
        balanced_weights(priors)


# --- A public start ---


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_solver_begins_at_the_start_or_refuses_it(solver):
    X, y = rows(n=100)
    kind = example_of(SOLVERS[solver])
    model = clone(MODEL).set_params(solver=kind, penalty=0.05, domain=L2Ball(4.0), fit_intercept=False)
    if kind.refusal(model._problem()) is not None:
        pytest.skip("it does not take logistic regression on a ball")
    if not kind.takes_start:
        with pytest.raises(UnsupportedProblemError, match="does not support start"):
            model.set_params(start=([[1.0, 0.0, 0.0]], [0.0])).fit(X, y)
        return
    one, two = (model.set_params(start=([[at, 1.0, -1.0]], [0.0])).fit(X, y).coef_ for at in (-2.0, 2.0))
    assert not np.array_equal(one, two)


STAY = DPGD(n_steps=1, step_size=1e-12, accounting="composition")


def test_a_start_is_in_the_units_of_the_estimator():
    X, y = rows()
    start = ([[0.5, -0.25, 0.125]], [0.3])
    fitted = clone(MODEL).set_params(solver=STAY, start=start, penalty=0.0, noise=None).fit(X, y)
    np.testing.assert_allclose(fitted.coef_, start[0], atol=1e-9)
    np.testing.assert_allclose(fitted.intercept_, start[1], atol=1e-9)
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=20.0 + 3.0 * X[:, 0])
    schema = Schema({name: Number((-1, 1), encode="linear") for name in "abc"}, Amount("y", (10, 40)))
    for kind in (PrivateLinearRegression, PrivateHuberRegression):
        model = kind(schema=schema, solver=STAY, start=([2.0, 0.0, 1.0], 25.0), penalty=0.0, noise=None)
        assert model.fit(frame).intercept_ == pytest.approx(25.0, abs=1e-6)
        np.testing.assert_allclose(model.coef_, [2.0, 0.0, 1.0], atol=1e-6)


def test_a_network_begins_at_released_weights():
    X, y = rows()
    first = PrivateMLPClassifier(classes=[0, 1], hidden_layer_sizes=(3,), random_state=0, delta=1e-5).fit(X, y)
    model = clone(first).set_params(solver=STAY, start=first.weights_, noise=None)
    again = model.fit(X, y)
    for name, array in first.weights_.items():
        np.testing.assert_allclose(again.weights_[name], array, atol=1e-9)


def test_the_statement_the_assumptions_and_the_file_know_of_the_start(tmp_path):
    X, y = rows()
    model = PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], start=(np.ones((1, 3)), np.zeros(1))).fit(X, y)
    assert model.privacy_.public_start
    assert "the starting point" in str(model.privacy_)
    save_model(model, tmp_path / "model.json")
    content = read_content(tmp_path / "model.json")
    assert content["parameters"]["start"] == [[[1.0, 1.0, 1.0]], [0.0]]
    assert any(
        "starting point of the fit is public" in sentence for sentence in assumptions(model.privacy_, None, None)
    )
    assert all(finding.holds for finding in verify(content))


@pytest.mark.parametrize(
    ("model", "parameters", "words"),
    [
        (MODEL, {"start": 3}, "finite numbers"),
        (MODEL, {"start": ([[1.0, np.nan, 0.0]], [0.0])}, "finite numbers"),
        (MODEL, {"start": (["secret"], [0.0])}, "finite numbers"),
        (MODEL, {"start": ([[1.0, 2.0]], [0.0])}, "3 column"),
        (MODEL, {"start": ([[1.0, 2.0, 3.0]], [1.0]), "fit_intercept": False}, "fit has none"),
        (MODEL, {"start": ([[1e30, 0.0, 0.0]], [0.0]), "solver": "dp-gd"}, "too far from 0"),
        (MODEL, {"start": ([[1e200, 0.0, 0.0]], [0.0]), "solver": "dp-sgd"}, "finite numbers"),
        (MODEL, {"n_jobs": 0}, "positive integer"),
        (MODEL, {"n_jobs": True}, "positive integer"),
        (MODEL, {"verbose": 3}, "0, 1 or 2"),
        (PrivateMLPRegressor(), {"start": {"layer0/kernel": [[1.0]]}}, "weights_"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused_in_a_sentence(model, parameters, words):
    X, y = rows()
    with pytest.raises(InvalidParameterError, match=words) as raised:
        clone(model).set_params(**parameters).fit(X, y)
    assert "secret" not in str(raised.value)


# --- Threads and logs ---


@pytest.mark.parametrize(
    "model", [MODEL, PrivateHuberRegression(1.0, 1e-6, random_state=0, solver=DPGD(n_steps=3), row_norm=1.0)]
)
def test_results_do_not_depend_on_the_number_of_threads(model):
    X, y = rows(n=20_000, p=40)  # enough for several pieces
    fits = [clone(model).set_params(n_jobs=n_jobs).fit(X, y) for n_jobs in (None, 1, 2, -1, 50)]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.coef_, fits[0].coef_)


class Lines(logging.Handler):
    """Keeps what was logged."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def logged(model, *table, **more):
    handler, logger = Lines(), logging.getLogger("dperm")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    try:
        model.fit(*table, **more)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return handler.lines


@pytest.mark.parametrize("solver", ["auto", "dp-sgd", "dp-newton"])
def test_the_log_has_public_facts_and_is_the_same_for_any_rows(solver):
    model = clone(MODEL).set_params(
        solver=solver, weight_bound=2.0, private_weights=True, row_warnings=False, random_state=None
    )
    X, y = rows()
    one = logged(clone(model), X, y, np.ones(400))
    hostile = np.full((400, 3), 123456.789)
    hostile[0] = np.nan
    two = logged(clone(model), hostile, np.full(400, 7), np.full(400, -3.25))
    assert one == two
    text = "\n".join(one)
    for words in ("ε = 1", "replace_one", "n = 400", "passes", "planned", "released"):
        assert words in text


def test_the_log_does_not_tell_what_was_read_from_the_rows():
    X, y = rows()
    undeclared = logged(PrivateLinearRegression(1.0, 1e-5, adjacency="add_remove", row_norm=1.0), X, y)
    assert "400" not in "\n".join(undeclared)
    with pytest.warns(UserWarning, match="classes were read"):
        lines = logged(PrivateLogisticRegression(1.0, 1e-5), X, y)
    assert "not logged" in lines[0]


def test_verbose_shows_nothing_a_bar_or_the_lines_of_the_log(capsys):
    X, y = rows()
    for level in (0, False, 1, True):
        clone(MODEL).set_params(verbose=level).fit(X, y)
        assert capsys.readouterr().err == ""  # the bar waits for two seconds, and for a terminal
    clone(MODEL).set_params(verbose=2).fit(X, y)
    assert "PrivateLogisticRegression: planned dp-objective" in capsys.readouterr().err


# --- Routing, storage, frames ---


def test_weights_are_routed_through_pipelines_and_searches():
    X, y = rows()
    weights = np.random.default_rng(1).uniform(0.0, 2.0, 400)
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(MODEL).set_params(weight_bound=2.0).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=False)
        pipeline = make_pipeline(FunctionTransformer(), model).fit(X, y, sample_weight=weights)
        alone = clone(model).fit(X, y, sample_weight=weights)
        np.testing.assert_array_equal(pipeline[-1].coef_, alone.coef_)
        search = GridSearchCV(model, {"epsilon": [1.0, 2.0]}, cv=2).fit(X, y, sample_weight=weights)
        assert search.best_estimator_.privacy_.weights == "public"
        with pytest.raises(InvalidParameterError, match="route sample_weight"):
            clone(model).set_fit_request(sample_weight=False).fit(X, y)


FORMATS = [
    sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array,
]  # fmt: skip


@pytest.mark.parametrize("storage", FORMATS)
def test_sparse_rows_of_every_kind_give_what_dense_rows_give(storage):
    X, y = rows()
    X[np.abs(X) < 0.2] = 0.0
    dense, thin = clone(MODEL).fit(X, y), clone(MODEL).fit(storage(X), y)
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-9, atol=1e-12)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_allclose(getattr(thin, method)(storage(X)), getattr(dense, method)(X), rtol=1e-6, atol=1e-9)
    assert thin.score(storage(X), y) == dense.score(X, y)
    assert thin.diagnose(storage(X), y).clipped == dense.diagnose(X, y).clipped
    counts = PrivatePoissonRegression(1.0, 1e-5, random_state=0, row_norm=1.0).fit(storage(X), y)
    assert counts.predict(storage(X)).shape == (400,)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_keep_their_names_and_set_output_of_a_pipeline_is_harmless(library):
    frames = pytest.importorskip(library)
    X, y = rows()
    frame = frames.DataFrame({name: X[:, place] for place, name in enumerate("abc")})
    model = clone(MODEL).fit(frame, frames.Series(y))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.coef_, clone(MODEL).fit(X, y).coef_)
    weighted = clone(MODEL).set_params(weight_bound=2.0).fit(frame, y, frames.Series(np.linspace(0.0, 2.0, 400)))
    assert weighted.privacy_.weights == "public"
    assert not hasattr(model, "set_output")  # it transforms nothing
    pipeline = make_pipeline(MaxAbsScaler(), clone(MODEL)).set_output(transform=library).fit(frame, y)
    assert pipeline[-1].feature_names_in_.tolist() == ["a", "b", "c"]
    assert pipeline.predict(frame).shape == (400,)


def test_diagnose_takes_the_weights_of_the_fit():
    X, y = rows()
    flipped = np.where(np.arange(400) < 200, y, 1 - y)
    weights = np.where(np.arange(400) < 200, 2.0, 0.0)
    model = clone(MODEL).set_params(weight_bound=2.0, epsilon=20.0).fit(X, flipped, weights)
    found = model.diagnose(X, flipped, weights)
    assert found.exact_risk < found.constant_risk
    assert found.exact_score > 0.9
    with pytest.raises(InvalidParameterError, match="route sample_weight"):
        model.diagnose(X, flipped)


# --- Notebooks ---


def test_a_statement_shows_its_promise_in_plain_words():
    X, y = rows()
    fitted = PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1]).fit(X, y)
    page = fitted.privacy_._repr_html_()
    assert "With one person&#x27;s row replaced by any other, no result becomes more than 2.72 times as likely" in page
    assert "Private, for release" in page
    assert "adjacency replace_one" in page
    for line in str(fitted.privacy_).splitlines()[1:]:
        assert line.split(":")[0].strip().capitalize() in page
    seeded = MODEL.fit(X, y).privacy_._repr_html_()
    assert "Not for release: the noise came from a seed" in seeded
    without = clone(MODEL).set_params(noise=None).fit(X, y).privacy_._repr_html_()
    assert "There is no guarantee" in without


def test_what_a_user_named_is_escaped():
    X, y = rows()
    labels = np.where(y == 1, "<script>alert(1)</script>", "no")
    page = (
        PrivateLogisticRegression(1.0, 1e-5, classes=["no", "<script>alert(1)</script>"]).fit(X, labels)._repr_html_()
    )
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_diagram_of_an_estimator_shows_the_guarantee_and_then_the_statement():
    X, y = rows()
    model = PrivateLogisticRegression(0.5, 1e-5, adjacency="add_remove", n=400, classes=[0, 1])
    before = model._repr_html_()
    assert "sk-top-container" in before
    assert "With one person&#x27;s row added or removed, no result becomes more than 1.65 times as likely" in before
    after = model.fit(X, y)._repr_html_()
    assert "Private, for release" in after
    assert "Mechanism" in after
    assert "must be" in PrivateLogisticRegression(epsilon=-1.0)._repr_html_()
    assert "there is no guarantee" in PrivateLogisticRegression(noise=None)._repr_html_()


def test_plans_and_joint_statements_have_a_page_too():
    plan = MODEL.plan(n=400, n_features=3)
    assert "nothing was fitted" in plan._repr_html_()
    assert "Verdict" in plan._repr_html_()
    page = PrivacyStatement(
        1.0, 1e-6, certified_epsilon=0.9, certified_delta=1e-7, adjacency="replace_one", n=100,
        parts=("the sum of ages",),
    )._repr_html_()  # fmt: skip
    assert "ages" in page
    assert "With one person" in page


def test_a_schemas_classes_and_weights_go_with_routing_and_html():
    X, y = rows()
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    schema = Schema({name: Number((-1, 1)) for name in "abc"}, Classes("y", [0, 1]))
    model = PrivateLogisticRegression(1.0, 1e-5, schema=schema, weight_bound=3.0, private_weights=True)
    assert replace(model.options(), n=400).problem.weight_bound == 3.0
    page = model.fit(frame, sample_weight=np.full(400, 9.0))._repr_html_()
    assert "weights, which are private, to [0, 3]" in page
