"""The verdict of a plan: what it says follows from public numbers, and what it says is so."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss

from dperm import (
    Number,
    PrivateHuberRegression,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegression,
    Schema,
)
from dperm.datasets.adult import load_adult
from dperm.plan.verdict import Verdict
from dperm.problem import L2Ball
from dperm.schema import Classes
from dperm.solvers import DPObjective

MODELS = (PrivateLogisticRegression, PrivateLinearRegression, PrivateHuberRegression)


@pytest.mark.parametrize("model", MODELS)
def test_the_word_goes_from_hopeless_to_small_as_rows_are_added(model):
    order = ["hopeless", "large", "small"]
    words = [model(1.0, 1e-6, row_norm=1.0).plan(n, 10).verdict.word for n in (5, 500, 5000, 500_000)]
    assert words == sorted(words, key=order.index)
    assert (words[0], words[-1]) == ("hopeless", "small")


WEAK = [
    PrivateLogisticRegression(0.3),
    PrivateLogisticRegression(0.3, 0.0),
    PrivateLogisticRegression(0.3, classes=range(5)),
    PrivateLogisticRegression(2.0),
    PrivateLinearRegression(2.0, row_norm=1.0),
]


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("model", WEAK, ids=repr)
def test_noise_is_small_from_the_named_n_and_epsilon_on_and_not_much_earlier(model, adjacency):
    model.set_params(adjacency=adjacency)
    verdict = model.plan(1000, 10).verdict
    assert verdict.word in ("hopeless", "large")
    assert model.plan(verdict.small_n, 10).verdict.word == "small"
    assert model.plan(math.floor(0.9 * verdict.small_n), 10).verdict.word != "small"
    if verdict.small_epsilon is not None:
        epsilon = model.epsilon
        assert model.set_params(epsilon=verdict.small_epsilon).plan(1000, 10).verdict.word == "small"
        assert model.set_params(epsilon=0.9 * verdict.small_epsilon).plan(1000, 10).verdict.word != "small"
        model.set_params(epsilon=epsilon)


def test_no_epsilon_is_advised_that_promises_nothing():
    verdict = PrivateLogisticRegression(0.1).plan(10, 100).verdict
    assert verdict.small_epsilon is None
    assert verdict.small_n > 10
    assert "ε = " not in str(verdict)


def test_private_ranges_leave_less_for_the_solver():
    def schema(age):
        return Schema({"age": age, "height": Number((0, 3))}, Classes("goal", [0, 1]), n=4000)

    public = PrivateLogisticRegression(schema=schema(Number((0, 100)))).plan().verdict
    private = PrivateLogisticRegression(schema=schema(Number("private"))).plan().verdict
    assert private.most > public.most


def test_what_cannot_be_predicted_is_said_to_be_unknown():
    assert PrivateLogisticRegression(noise=None).plan(100, 5).verdict.word == "exact"
    paper = PrivateLogisticRegression(noise="paper").plan(100, 5).verdict
    assert (paper.word, str(paper)) == (
        "unknown",
        "unknown: predictions exist only for certified noise and the accountant pld",
    )


@pytest.mark.parametrize(
    ("model", "part"),
    [
        (PrivatePoissonRegression(row_norm=1.0), "the loss poisson"),
        (PrivateLinearSVC(), "the loss"),
        (PrivateLogisticRegression(penalty="l1"), "the penalty l1"),
        (PrivateLogisticRegression(domain=L2Ball(3.0)), "the domain l2_ball"),
        (PrivateLogisticRegression(solver="dp-gd"), "the solver dp-gd"),
        (PrivateLogisticRegression(solver=DPObjective(ridge=9.0)), "the solver dp-objective"),
        (PrivateLinearRegression(delta=0.0, row_norm=1.0), "the solver dp-objective"),
        (PrivateLogisticRegression(weight_bound=3.0), "weighted rows"),
    ],
    ids=repr,
)
def test_nothing_is_said_of_fits_whose_predictions_did_not_hold(model, part):
    verdict = model.plan(100_000, 5).verdict
    assert verdict.word == "unknown"
    assert math.isnan(verdict.most)
    assert str(verdict).startswith(f"unknown: what noise costs with {part}")


def test_a_verdict_is_one_line_of_english():
    small = Verdict("small", 0.052)
    assert str(small) == (
        "noise is expected to cost up to 5.2 % of the loss of a constant predictor; useful if the columns explain more"
    )
    assert "up to 0.1 % of" in str(replace(small, most=1e-9))
    large = Verdict("large", 0.44, 12_345, 4.04)
    assert str(large) == (
        "noise is expected to cost up to 44 % of the loss of a constant predictor; up to 10 % from about "
        "n = 12 000 rows or ε = 4"
    )
    assert str(replace(large, most=1.0)).startswith("noise is expected to cost all, or more, of the loss")
    assert str(replace(large, small_n=None, small_epsilon=None)).endswith(
        "; neither more rows nor an ε up to 10 would make it small"
    )
    assert str(replace(large, word="hopeless")).startswith("hopeless: the noise hides whatever the columns explain; ")


def test_a_plan_prints_its_statement_and_its_verdict():
    plan = PrivateLogisticRegression().plan(1000, 54)
    *statement, verdict = str(plan).splitlines()
    assert statement == str(plan.privacy).splitlines()
    assert verdict == f"verdict:    {plan.verdict}"


def weak_table(n, p):
    rng = np.random.default_rng(3)
    w = rng.normal(size=p)
    X = rng.normal(size=(n + 5000, p))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (rng.random(n + 5000) < 1.0 / (1.0 + np.exp(-5.0 * X @ w / np.linalg.norm(w)))).astype(int)
    return X[:n], y[:n], X[n:], y[n:]


def losses(model, rows, labels, n_fits):
    """What fits lose to noise, and what the columns explain, both over the loss of the best constant predictor."""
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    constant = -(shares * np.log(shares)).sum()
    exact = clone(model).set_params(noise=None).fit(rows, labels)
    best = log_loss(labels, exact.predict_proba(rows))
    fits = [model.set_params(random_state=seed).fit(rows, labels) for seed in range(n_fits)]
    lost = [(log_loss(labels, fit.predict_proba(rows)) - best) / constant for fit in fits]
    return np.median(lost), (constant - best) / constant


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 4.0])
def test_noise_costs_no_more_than_the_verdict_says_and_hopeless_is_a_constant_predictor(epsilon):
    X, y, _, _ = weak_table(1000, 10)
    model = PrivateLogisticRegression(epsilon, 1e-5, classes=[0, 1])
    verdict = model.plan(1000, 10).verdict
    lost, explained = losses(model, X, y, 9)
    assert lost <= verdict.most
    if verdict.word == "hopeless":
        assert lost > 0.9 * explained
    assert (verdict.word == "hopeless") == (epsilon == 0.02)


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_is_worse_than_the_mean_is_not_called_useful():
    rng = np.random.default_rng(1)
    X, counts = rng.uniform(-1, 1, (2000, 3)) / 2, np.minimum(rng.negative_binomial(1, 0.2, 2000), 60)
    model = PrivatePoissonRegression(1.0, 1e-5, target_bound=60.0, row_norm=1.0, random_state=0)
    assert model.fit(X, counts).score(X, counts) < 0.0
    assert "useful" not in str(model.plan(2000, 3).verdict)


@pytest.mark.long
def test_adult_loses_what_its_verdict_says():
    schema, train, _ = load_adult()
    model = PrivateLogisticRegression(1.0, 1e-5, schema=schema, random_state=0).fit(train)
    found, verdict = model.diagnose(train), model.plan().verdict
    lost = found.excess_risk / found.constant_risk
    assert 0.1 * verdict.most <= lost <= verdict.most
