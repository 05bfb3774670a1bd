"""Yardsticks for excess risk. They look at the rows without noise: for studies only."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from dperm.problem import Problem

Array = NDArray[np.float64]


def logistic_optimum(X: Array, y: Array, strength: float) -> Array:
    """Minimiser of the ridge logistic risk, by scikit-learn, without intercept and without privacy."""
    model = LogisticRegression(C=1.0 / (strength * len(y)), fit_intercept=False, tol=1e-10, max_iter=10_000)
    return np.asarray(model.fit(X, y).coef_[0], dtype=np.float64)


def single_release_risk(problem: Problem, X: Array, optimum: Array, sensitivity: float, mu: float) -> float:
    """E* = ½ (Δ/(nμ))² tr(H⁻¹): the excess risk of one exact Gaussian release of the gradient at the optimum.

    Parameters
    ----------
    problem : Problem
        Ridge logistic regression without intercept.
    X : array
        Rows.
    optimum : array
        The minimiser.
    sensitivity : float
        Δ of the gradient sum: G under add_remove, 2G under replace_one.
    mu : float
        The Gaussian-DP parameter that the guarantee allows.
    """
    n, p = X.shape
    probability = 1.0 / (1.0 + np.exp(-X @ optimum))
    curvature: Any = (X * (probability * (1.0 - probability))[:, None]).T @ X / n
    hessian = curvature + problem.regularizer.strong_convexity * np.eye(p)
    return float(0.5 * (sensitivity / (n * mu)) ** 2 * np.trace(np.linalg.inv(hessian)))
