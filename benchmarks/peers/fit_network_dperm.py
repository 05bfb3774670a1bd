"""A network by dperm, with or without a hidden layer, or a linear model: at their defaults, add_remove."""

import math
import time
import warnings
from typing import Any

import jax  # noqa: F401 - dperm loads it late, and imports are not to count as memory
from network_job import Fitted, Rows, run

from dperm import (  # the same
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMLPClassifier,
    PrivateMLPRegressor,
)


def estimator(rows: Rows, hidden: int, linear: bool, **common: Any) -> Any:
    """The estimator for this table: public numbers only, and nothing tuned."""
    common |= {"adjacency": "add_remove", "n": len(rows.y)}
    if rows.n_classes:
        common["classes"] = list(range(rows.n_classes))
        if linear:
            return PrivateLogisticRegression(row_norm=rows.row_norm, **common)
        return PrivateMLPClassifier(hidden_layer_sizes=(hidden,) if hidden else (), **common)
    common["target_bound"] = 1.0
    if linear:
        return PrivateLinearRegression(row_norm=rows.row_norm, **common)
    return PrivateMLPRegressor(hidden_layer_sizes=(hidden,) if hidden else (), **common)


def fit(
    rows: Rows, *, hidden: int, epsilon: float, delta: float, seed: int, timed: bool = False, linear: bool = False
) -> Fitted:  # fmt: skip
    """Predictions of the released model. If it is timed, a first fit warms up and no seed is given, as in a release."""
    model = estimator(rows, hidden, linear, epsilon=epsilon, delta=delta, random_state=None if timed else seed)
    plan = model.plan(*rows.X.shape)
    if timed:
        model.fit(rows.X, rows.y)
    began = time.perf_counter()
    model.fit(rows.X, rows.y)
    seconds = time.perf_counter() - began
    released = {"released": model.predict(rows.X_test)}
    if not math.isfinite(plan.passes):  # a minimiser of a noisy objective, which takes as many passes as it needs
        return Fitted(released, [])
    batch = len(rows.y) * plan.passes / plan.calibrated.plan.n_steps
    return Fitted(released, [seconds / plan.passes], plan.passes, batch, warm=timed)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    run(fit)
