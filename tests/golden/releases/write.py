"""Writes the golden files: one small release of every kind, with noise from the operating system.

They were written once and are never written again: a later version must verify them as they are. A new kind gets
a file of its own: `python tests/golden/releases/write.py NAME`.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.preprocessing import PolynomialFeatures

from dperm import (
    Amount,
    Category,
    Classes,
    Number,
    PrivacyUnit,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMinMaxScaler,
    PrivateMLPClassifier,
    PrivatePCA,
    PrivateQuantileTransformer,
    PrivateSearch,
    PrivateStandardScaler,
    Schema,
    make_private_pipeline,
    private_evaluate,
    rows_per_unit,
    save_model,
)
from dperm.problem import L2

FOLDER = Path(__file__).parent
N = 400
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RNG.uniform(18, 90, N),
        "job": RNG.choice(["clerk", "smith"], N),
        "rich": RNG.choice(["no", "yes"], N),
        "pay": RNG.uniform(1, 1000, N),
        "who": np.arange(N) // 2,
    }
)
X, Y, THREE = TABLE[["age", "pay"]].to_numpy() / 1000.0, TABLE["rich"], np.arange(N) % 3
CLASSES = {"classes": ["no", "yes"]}
RICH = Classes("rich", ["no", "yes"])
JOB = Category(["clerk", "smith"])


def logistic(solver, **more):
    return PrivateLogisticRegression(2.0, 1e-6, **CLASSES, penalty=L2(0.1), solver=solver, **more).fit(X, Y)


def searched(method):
    search = PrivateSearch(
        PrivateLogisticRegression(**CLASSES), {"penalty": [0.1, 0.01]}, epsilon=2.0, delta=1e-6, method=method,
        noisy_trials=True,
    )  # fmt: skip
    return search.fit(X, Y).best_estimator_


def by_schema():
    schema = Schema({"age": Number((18, 90)), "job": JOB}, RICH, unit=PrivacyUnit("who", 2))
    return PrivateLogisticRegression(2.0, 1e-6, schema=schema).fit(TABLE)


def private_ranges():
    schema = Schema({"age": Number("private", within=(0, 150))}, RICH, n=N)
    return PrivateLogisticRegression(4.0, 1e-6, schema=schema).fit(TABLE)


def intervals():
    schema = Schema({"age": Number((18, 90), encode="linear"), "job": JOB}, Amount("pay", (1, 1000), transform="log"))
    return PrivateLinearRegression(2.0, 1e-6, schema=schema, intervals=True).fit(TABLE)


def pipeline():
    scaler, poly = PrivateStandardScaler(bounds=(0, 1)), PolynomialFeatures(2, include_bias=False)
    return make_private_pipeline(scaler, poly, PrivateLogisticRegression(**CLASSES), epsilon=2.0, delta=1e-6).fit(X, Y)


RELEASES = {
    "gradient-descent": lambda: logistic("dp-gd"),
    "stochastic-descent": lambda: logistic("dp-sgd"),
    "objective-perturbation": lambda: logistic("dp-objective", adjacency="add_remove", n=N),
    "variance-reduced": lambda: logistic("dp-svrg"),
    "pure": lambda: PrivateLogisticRegression(2.0, 0.0, **CLASSES, penalty=0.1).fit(X, Y),
    "softmax": lambda: PrivateLogisticRegression(2.0, 1e-6, classes=[0, 1, 2]).fit(X, THREE),
    "least-squares": lambda: PrivateLinearRegression(2.0, 1e-6, row_norm=1.5).fit(X, X[:, 1]),
    "network": lambda: PrivateMLPClassifier(2.0, 1e-6, **CLASSES, hidden_layer_sizes=(3,)).fit(X, Y),
    "schema-and-unit": by_schema,
    "private-ranges": private_ranges,
    "intervals": intervals,
    "search": lambda: searched("composition"),
    "random-trials": lambda: searched("random-trials"),
    "evaluation": lambda: private_evaluate(logistic("dp-gd"), X, Y, epsilon=1.5),
    "evaluation-of-numbers": lambda: private_evaluate(RELEASES["least-squares"](), X, X[:, 1], epsilon=1.5, delta=1e-6),
    "standard-scaler": lambda: PrivateStandardScaler(1.0, 1e-6, bounds=(0, 1)).fit(X),
    "min-max-scaler": lambda: PrivateMinMaxScaler(1.0, 0.0, bounds=[(0, 1), None]).fit(X),
    "quantiles": lambda: PrivateQuantileTransformer(1.0, 1e-6, bounds=(0, 1), n_quantiles=5).fit(X),
    "pca": lambda: PrivatePCA(1.0, 1e-6, row_norm=1.0, n_components=1).fit(X),
    "pipeline": pipeline,
    "rows-per-unit": lambda: rows_per_unit(TABLE["who"], "who", epsilon=0.5),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or RELEASES:
        if not (FOLDER / f"{name}.json").exists():
            save_model(RELEASES[name](), FOLDER / f"{name}.json")
