"""The privacy that the printed noise gives, by accounting, and a run of Algorithm 3 as printed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.plan.options import FitOptions
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers import Solver

Array = NDArray[np.float64]

# The paper's δ, and Covertype's columns.
DELTA, P = 1e-3, 54


@dataclass(frozen=True)
class Cost:
    """The privacy that the printed noise of a method gives, and how much more it needs: the c of its formula."""

    problem: Problem
    solver: Solver
    n: int
    epsilon: float

    def run(self) -> dict[str, Any]:
        """Account for it; nothing is fitted."""
        common: dict[str, Any] = {"guarantee": Guarantee(self.epsilon, DELTA), "solver": self.solver}
        printed = FitOptions(self.problem, noise="paper", **common).plan(self.n, P)
        needed = FitOptions(self.problem, noise="certified", **common).plan(self.n, P)
        return {
            "steps": printed.calibrated.plan.n_steps,
            "certified_delta": printed.statement.certified_delta,
            "sigma": printed.statement.sigma,
            "constant": (needed.statement.sigma / printed.statement.sigma) ** 2,
        }


@dataclass(frozen=True)
class LiteralAccMD:
    """One step of Algorithm 3 as printed on two adjacent tables, with many draws of noise."""

    n: int = 1_000
    draws: int = 50

    def run(self) -> dict[str, Any]:
        """How far apart the outputs on both tables are, and how far noise moves them."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(self.n, 3))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = np.where(X[:, 0] > 0, 1.0, -1.0)
        changed = y.copy()
        changed[0] = -changed[0]
        outputs = [[literal_accmd(X, one, 1, 1.0, rng) for _ in range(self.draws)] for one in (y, changed)]
        spread = max(float(np.ptp(np.array(one), axis=0).max()) for one in outputs)
        return {"apart": float(np.linalg.norm(outputs[0][0] - outputs[1][0])), "spread": spread}


def literal_accmd(X: Array, y: Array, n_steps: int, sigma: float, rng: np.random.Generator) -> Array:
    """Algorithm 3 as printed, for the logistic loss on rows of norm 1 and the l2 ball of radius 1: L = ¼, ‖C‖ = 2."""
    smoothness, diameter = 0.25, 2.0
    out = z = np.zeros(X.shape[1])
    for k in range(n_steps):
        alpha = (k + 2) / (4.0 * smoothness)
        r = 1.0 / (2.0 * alpha * smoothness)
        x = r * z + (1.0 - r) * out
        gradient = -(X.T @ (y / (1.0 + np.exp(y * (X @ x))))) / len(y)
        out = _into_ball(x - gradient / (smoothness * diameter**2))  # the exact gradient
        z = _into_ball(z - alpha * (gradient + sigma * rng.normal(size=z.size)))
    return out


def _into_ball(w: Array) -> Array:
    return w / max(1.0, float(np.linalg.norm(w)))
