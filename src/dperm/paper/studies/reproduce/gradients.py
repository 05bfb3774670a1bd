"""Exact squared gradient norms of private fits on losses that are not convex; the rows are those of Covertype."""

import math
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.covertype import load_covertype
from dperm.errors import DpermError
from dperm.plan.minimize import minimize
from dperm.plan.options import FitOptions
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.problem.losses import FunctionLoss, Sigmoid
from dperm.solvers import Solver
from dperm.unsafe import empirical_gradient

Array = NDArray[np.float64]

SIGMOID, NETWORK = "sigmoid loss", "network"

# Every seed takes its rows from so many.
_POOL, _COLUMNS = 200_000, 54

# Of the network: units of its hidden layer, and the length to which gradients are clipped.
HIDDEN, CLIP = 8, 0.5


@lru_cache(maxsize=2)
def problem_of(kind: str) -> Problem:
    """The problem of this name."""
    if kind == SIGMOID:
        return Problem(Sigmoid())
    rng = np.random.default_rng(5)
    start = {"in": rng.normal(size=(_COLUMNS, HIDDEN)), "out": rng.normal(size=HIDDEN) / math.sqrt(HIDDEN)}
    return Problem(FunctionLoss(_network, start, clip=CLIP, n_classes=2))


def _network(params: Any, x: Any, y: Any) -> Any:
    """Logistic loss of a network of two layers; y is 0 or 1."""
    import jax.numpy as jnp

    return jnp.logaddexp(0.0, (1.0 - 2.0 * y) * (jnp.tanh(x @ params["in"]) @ params["out"]))


@dataclass(frozen=True)
class GradientNorm:
    """One private fit, and how steep F is where it ends.

    The result has ‖∇F‖² of what was released and of the start, the bound that the solver knows for it, the seconds of
    the fit and the per-example gradients that were planned. Without a fit ‖∇F‖² is None, and there is a reason.
    """

    kind: str
    n: int
    solver: Solver
    epsilon: float
    delta: float
    seed: int

    def run(self) -> dict[str, Any]:
        """Fit once."""
        problem, guarantee = problem_of(self.kind), Guarantee(self.epsilon, self.delta)
        X, y = _rows(self.n, self.seed)
        result: dict[str, Any] = {"square": None, "at_start": _square(problem, X, y, problem.start(_COLUMNS))}
        try:
            result["bound"], result["gradients"] = _planned(problem, self.n, guarantee, self.solver)
            began = time.perf_counter()
            w = minimize(problem, X, y, guarantee=guarantee, solver=self.solver, random_state=self.seed).w
        except DpermError as error:
            return result | {"reason": str(error)}
        return result | {"seconds": time.perf_counter() - began, "square": _square(problem, X, y, w)}


def _square(problem: Problem, X: Any, y: Array, w: Array) -> float:
    gradient = empirical_gradient(problem, X, y, w)
    return float(gradient @ gradient)


@lru_cache(maxsize=64)
def _planned(problem: Problem, n: int, guarantee: Guarantee, solver: Solver) -> tuple[float | None, float]:
    """The bound, where there is one, and the per-example gradients."""
    plan = FitOptions(problem, guarantee=guarantee, solver=solver).plan(n, _COLUMNS)
    bound = solver.gradient_bound(plan.setting, guarantee)
    return bound if math.isfinite(bound) else None, plan.passes * n


@lru_cache(maxsize=1)
def _pool() -> tuple[Any, Array]:
    data = load_covertype(_POOL)
    return data.X.astype(np.float32), data.y


@lru_cache(maxsize=2)
def _rows(n: int, seed: int) -> tuple[Any, Array]:
    """Some n rows; a larger n has those of a smaller one among its rows."""
    X, y = _pool()
    chosen = np.random.default_rng([4, seed]).permutation(_POOL)[:n]
    return X[chosen], y[chosen]
