"""The verdict of a plan: what it says follows from public numbers, and what it says is so."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dperm import (
    DPGD,
    L1Ball,
    Number,
    PrivateHuberRegression,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegression,
    Schema,
)
from dperm.planning.verdict import Verdict
from dperm.schema import Classes

MODELS = (
    PrivateLogisticRegression,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateHuberRegression,
    PrivatePoissonRegression,
)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_the_word_goes_from_hopeless_to_useful_as_rows_are_added(model, delta):
    order = ["hopeless", "doubtful", "useful"]
    words = [model(1.0, delta, row_norm=1.0).plan(n, 10).verdict.word for n in (5, 50, 500, 5000, 50_000, 500_000)]
    assert words == sorted(words, key=order.index)
    assert (words[0], words[-1]) == ("hopeless", "useful")


WEAK = [
    PrivateLogisticRegression(0.3),
    PrivateLogisticRegression(0.3, solver="kifer-objective"),
    PrivateLogisticRegression(0.3, 0.0),
    PrivateLogisticRegression(0.3, classes=range(5)),
    PrivateLinearRegression(0.1, row_norm=1.0),
    PrivateLogisticRegression(0.3, penalty=None, domain=L1Ball(5.0), solver="dp-accmd"),
]


# Every model with one adjacency; `make test-slow` takes the other as well.
@pytest.mark.parametrize(
    ("model", "adjacency"),
    [
        pytest.param(model, adjacency, marks=[pytest.mark.slow] if (i + j) % 2 else [], id=f"{model!r}-{adjacency}")
        for i, model in enumerate(WEAK)
        for j, adjacency in enumerate(("replace_one", "add_remove"))
    ],
)
def test_it_is_useful_from_the_named_n_and_epsilon_on_and_not_much_earlier(model, adjacency):
    model.set_params(adjacency=adjacency)
    verdict = model.plan(60, 10).verdict
    assert verdict.word in ("hopeless", "doubtful")
    assert model.plan(verdict.useful_n, 10).verdict.word == "useful"
    assert model.plan(math.floor(0.9 * verdict.useful_n), 10).verdict.word != "useful"
    if verdict.useful_epsilon is not None:
        epsilon = model.epsilon
        assert model.set_params(epsilon=verdict.useful_epsilon).plan(60, 10).verdict.word == "useful"
        assert model.set_params(epsilon=0.9 * verdict.useful_epsilon).plan(60, 10).verdict.word != "useful"
        model.set_params(epsilon=epsilon)


def test_no_epsilon_is_advised_that_promises_nothing():
    verdict = PrivateLogisticRegression(0.1).plan(10, 100).verdict
    assert verdict.useful_epsilon is None
    assert verdict.useful_n > 10
    assert "ε = " not in str(verdict)


def test_private_ranges_leave_less_for_the_solver():
    def schema(age):
        return Schema({"age": age, "height": Number((0, 3))}, Classes("goal", [0, 1]), n=4000)

    public = PrivateLogisticRegression(schema=schema(Number((0, 100)))).plan().verdict
    private = PrivateLogisticRegression(schema=schema(Number("private"))).plan().verdict
    assert private.noise_cost > public.noise_cost


def test_what_cannot_be_predicted_is_said_to_be_unknown():
    assert PrivateLogisticRegression(noise=None).plan(100, 5).verdict.word == "exact"
    paper = PrivateLogisticRegression(noise="paper").plan(100, 5).verdict
    assert (paper.word, str(paper)) == (
        "unknown",
        "unknown: there are predictions for certified noise by the accountant pld only",
    )

    class Silent(DPGD):
        name = "silent"

        def expected_risk(self, setting, guarantee):
            return math.inf

    silent = PrivateLogisticRegression(solver=Silent()).plan(100, 5).verdict
    assert str(silent) == "unknown: silent does not predict what its noise costs"
    assert math.isnan(silent.noise_cost)


def test_a_verdict_is_one_line_of_english():
    useful = Verdict("useful", 0.002, 0.2)
    assert (
        str(useful) == "useful: noise is expected to add about 0.002 to the loss, 1 % of what predicting nothing costs"
    )
    assert str(replace(useful, noise_cost=1e-9)) == (
        "useful: noise is expected to add less than 0.0001 to the loss, less than 1 % of what predicting nothing costs"
    )
    hopeless = Verdict("hopeless", 2.5, 0.2, 12_345, 4.04)
    assert str(hopeless) == (
        "hopeless: noise is expected to cost 12 times what predicting nothing costs; it becomes useful from about "
        "n = 12 000 rows or from about ε = 4"
    )
    assert str(replace(hopeless, useful_n=None, useful_epsilon=None)).endswith(
        "; neither more rows nor an ε up to 10 would make it useful"
    )
    assert "cost 44 % of what" in str(Verdict("doubtful", 0.088, 0.2, 7, None))


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


@pytest.mark.parametrize(
    ("n", "epsilon", "word", "least", "most"),
    # With 5000 test rows chance is .5 ± .007. Without noise the accuracy is .75. Medians of 9 seeds.
    [(300, 0.02, "hopeless", 0.44, 0.56), (3000, 1.0, "useful", 0.7, 0.8)],
)
def test_hopeless_is_chance_and_useful_is_better(n, epsilon, word, least, most):
    X, y, X_test, y_test = weak_table(n, 10)
    model = PrivateLogisticRegression(epsilon, 1e-5, classes=[0, 1])
    assert model.plan(n, 10).verdict.word == word
    scores = [model.set_params(random_state=seed).fit(X, y).score(X_test, y_test) for seed in range(9)]
    assert least < np.median(scores) < most
