"""The empirical risk itself, for studies and benchmarks. It is not private: never publish it about sensitive rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.problem import Problem
from dperm.trusted.rows import Rows

Array = NDArray[np.float64]


def empirical_risk(problem: Problem, X: Any, y: Any, w: Array) -> float:
    """F^r(w) = (1/n) Σ f(w, z_i) + r(w) on the clipped rows, without noise.

    Parameters
    ----------
    problem : Problem
        Loss, regularizer and row bound.
    X, y : array-like
        Rows and numeric targets, as for `minimize`.
    w : array
        A coefficient vector.

    Notes
    -----
    This number is exact, hence not differentially private.
    """
    rows = Rows.from_table(X, y, problem)
    outputs, width = problem.loss.n_outputs, rows.table.shape[1]
    matrix = w.reshape(outputs, -1)
    with np.errstate(invalid="ignore"):
        margins = rows.scale[:, None] * np.asarray(rows.table @ matrix[:, :width].T)
    if problem.intercept:
        margins = margins + problem.intercept_value * matrix[:, width]
    counted = rows.weight > 0
    margin = margins[counted] if outputs > 1 else margins[counted, 0]
    values = problem.loss.value(margin, rows.target[counted], *problem.loss.parameters)
    return float((values * rows.weight[counted]).sum() / len(rows)) + problem.regularizer.value(w)
