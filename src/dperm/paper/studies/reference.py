"""References for excess risk, computed from the rows without noise: for studies only."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from dperm.errors import DpermError
from dperm.kernel.block import Block
from dperm.problem import Problem
from dperm.problem.domains import WholeSpace
from dperm.problem.losses import Logistic, Loss
from dperm.problem.regularizers import L2, NoRegularizer
from dperm.unsafe import empirical_risk

Array = NDArray[np.float64]

# `least_risk` is exact to about this, and an unregularized optimum has at most this slope.
_GAP = 1e-9
_SLOPE = 1e-9
_ROUNDS, _STEPS_A_ROUND = 5_000, 20


def logistic_optimum(X: Any, y: Array, strength: float) -> Array:
    """Minimiser of the ridge logistic risk, without intercept and without privacy.

    By scikit-learn; without a ridge, where lbfgs takes thousands of passes, by trust-region Newton steps.
    """
    if strength == 0.0:
        return _logistic_optimum_without_ridge(np.asarray(X, dtype=np.float64), y)
    model = LogisticRegression(C=1.0 / (strength * len(y)), fit_intercept=False, tol=1e-10, max_iter=10_000)
    return np.asarray(model.fit(X.astype(np.float64), y).coef_[0], dtype=np.float64)


def _logistic_optimum_without_ridge(X: Array, y: Array) -> Array:
    signed = X * y[:, None]

    def risk(w: Array) -> float:
        return float(np.logaddexp(0.0, -signed @ w).mean())

    def slope(w: Array) -> Array:
        return np.asarray(-signed.T @ expit(-signed @ w) / len(y))

    found = minimize(
        risk, np.zeros(X.shape[1]), jac=slope, hess=lambda w: _logistic_hessian(X, w), method="trust-exact",
        options={"gtol": _SLOPE, "max_trust_radius": 1e6, "maxiter": 500},
    )  # fmt: skip
    if not found.success:
        raise DpermError("the unregularized optimum was not found.")
    return np.asarray(found.x)


def least_risk(problem: Problem, X: Any, y: Array) -> float:
    """F^r(w*), without privacy.

    Parameters
    ----------
    problem : Problem
        A convex loss of one margin, without intercept. Its rows must not be longer than declared where scikit-learn
        can be asked: a logistic loss with a ridge or none, on the whole space.
    X, y : array
        Rows and numeric targets.

    Raises
    ------
    DpermError
        If accelerated proximal descent does not get there.
    """
    plain = isinstance(problem.regularizer, L2 | NoRegularizer) and isinstance(problem.domain, WholeSpace)
    if plain and isinstance(problem.loss, Logistic):
        optimum = logistic_optimum(X, y, problem.regularizer.strong_convexity)
        return empirical_risk(problem, X, y, optimum)
    loss = problem.loss
    if not isinstance(loss, Loss):
        raise DpermError(f"{loss.name} is not a loss of margins.")
    rows, constants = Block.from_table(X, y, problem), problem.constants(X.shape[1])
    columns = rows.table.T.tocsr() if hasattr(rows.table, "tocsr") else rows.table.T
    step = 1.0 / constants.smoothness

    def descended(w: Array) -> Array:
        slope = loss.derivative(rows.scale * (rows.table @ w), rows.target, *loss.parameters)
        return problem.prox(w - step * np.asarray(columns @ (rows.scale * slope)) / len(rows), step)

    w = ahead = problem.start(X.shape[1])
    momentum = 1.0
    for _ in range(_ROUNDS):
        for _ in range(_STEPS_A_ROUND):
            new = descended(ahead)
            if (ahead - new) @ (new - w) > 0:
                momentum = 1.0  # restart: the momentum points uphill
            grown = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
            ahead, w, momentum = new + (momentum - 1.0) / grown * (new - w), new, grown
        # F^r(w⁺) − F^r(w*) ≤ ‖G‖ ‖w − w*‖ with G = (w − w⁺)/step, and ‖w − w*‖ ≤ 2‖G‖/μ or the diameter.
        new = descended(w)
        mapping = float(np.linalg.norm(w - new)) / step
        far = 2.0 * mapping / constants.strong_convexity if constants.strong_convexity > 0.0 else math.inf
        if mapping * min(far, constants.diameter, 1e3) <= _GAP:
            return empirical_risk(problem, X, y, new)
    raise DpermError("the least risk was not found.")


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
    hessian = _logistic_hessian(X, optimum) + problem.regularizer.strong_convexity * np.eye(p)
    return float(0.5 * (sensitivity / (n * mu)) ** 2 * np.trace(np.linalg.inv(hessian)))


def _logistic_hessian(X: Array, w: Array) -> Array:
    """Of the mean logistic loss; it does not depend on the labels."""
    probability = expit(X @ w)
    return np.asarray((X * (probability * (1.0 - probability))[:, None]).T @ X / len(X))
