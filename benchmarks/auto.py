"""What solver="auto" reaches, untuned: excess empirical risk of logistic regression against two yardsticks.

    python benchmarks/auto.py cells     against E** (and E*), and what tuned DP-SGD was measured to reach
    python benchmarks/auto.py grid      against every other solver at its defaults, in 144 cells

E* is the risk of one exact Gaussian release of the gradient at the optimum; E** the same after the best further ridge,
which only an oracle knows. DPERM_DATA names a folder with a9a.npz (Adult, binarised); without it a9a is left out.
Medians over seeds. The figures of Opacus 1.6.0 and jax-privacy 2.0.0 are recorded, not run here: same rows, δ and
adjacency, learning rate, batch, epochs and clipping tuned on the same data without privacy.
"""

import argparse
import functools
import math
import os
import statistics
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from dperm import FitOptions, Guarantee, LargeDeltaWarning, Problem, minimize
from dperm.accounting.curve import gaussian_mu
from dperm.datasets.covertype import load_covertype
from dperm.problem import L2, Logistic
from dperm.solvers import SOLVERS
from dperm.unsafe import empirical_risk

# Data, λ, and for every ε the best of the recorded figures, None where there is none.
CELLS: list[tuple[str, float, dict[float, float | None]]] = [
    ("synthA", 1e-4, {0.1: 6.4e-4, 0.2: 1.9e-4, 0.5: 3.2e-5, 1.0: 4.6e-6, 2.0: 2.9e-6}),
    ("synthA", 1e-2, {0.1: 1.2e-4, 0.2: 4.7e-5, 0.5: 8.6e-6, 1.0: 2.5e-6, 2.0: 7.5e-7}),
    ("synthB", 1e-4, {0.1: 1.1e-2, 0.2: 8.2e-3, 0.5: 2.9e-3, 1.0: 7.8e-4, 2.0: 2.3e-4}),
    ("synthB", 1e-2, {0.1: 1.9e-3, 0.2: 1.1e-3, 0.5: 2.6e-4, 1.0: 1.1e-4, 2.0: 5.5e-5}),
    ("a9a", 1e-4, {0.1: 2.2e-2, 0.2: 2.0e-2, 0.5: 4.9e-3, 1.0: 1.8e-3, 2.0: 8.3e-4}),
    ("a9a", 1e-2, {0.1: 4.1e-3, 0.2: None, 0.5: None, 1.0: 1.9e-4, 2.0: 1.4e-4}),
    ("covertype", 1e-2, {0.2: None, 0.5: None, 1.0: None}),
    ("covertype", 1e-3, {0.2: None, 0.5: None, 1.0: None}),
    ("covertype", 1e-4, {0.2: None, 0.5: None, 1.0: None}),
    ("covertype", 0.0, {0.2: None, 0.5: None, 1.0: None}),
]
GRID_EPSILONS, GRID_STRENGTHS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0), (0.0, 1e-4, 1e-2)
# Full-batch descent takes seconds per fit: one seed, and left out where it would take more passes than this.
SLOW, MOST_PASSES = {"dp-gd", "dp-agd"}, 1000.0
OTHERS = ("kifer-objective", "dp-svrg", "dp-svrg++", "dp-katyusha", "dp-newton", "dp-gd", "dp-agd")


class Cell:
    """A table with a problem: its optimum, and its yardsticks for every guarantee."""

    def __init__(self, name: str, strength: float) -> None:
        self.X, self.y, self.delta = load(name)
        self.problem = Problem(Logistic(), L2(strength)) if strength else Problem(Logistic())
        # Without a regularizer a ridge of 3e-8 changes the least risk by about 1e-6 here.
        self.optimum = empirical_risk(self.problem, self.X, self.y, self._minimiser(max(strength, 3e-8)))
        self._curve: list[tuple[float, float]] = []
        for ridge in np.geomspace(max(strength, 3e-7), 0.1, 24):
            w = self._minimiser(float(ridge))
            probability = expit(self.X @ w)
            curvature = (self.X * (probability * (1.0 - probability))[:, None]).T @ self.X / len(self.y)
            inverse = np.linalg.inv(curvature + ridge * np.eye(w.size))
            noise = 0.5 * np.trace(inverse @ (curvature + strength * np.eye(w.size)) @ inverse) / len(self.y) ** 2
            self._curve.append((empirical_risk(self.problem, self.X, self.y, w) - self.optimum, float(noise)))

    def _minimiser(self, strength: float) -> Any:
        ridge = Problem(Logistic(), L2(strength))
        return minimize(ridge, self.X, self.y, guarantee=None, noise=None, solver="kifer-objective").w

    def yardsticks(self, epsilon: float, adjacency: str) -> tuple[float, float]:
        """E* and E**."""
        moved = {"add_remove": 1.0, "replace_one": 2.0}[adjacency]
        scale = (moved / gaussian_mu(Guarantee(epsilon, self.delta))) ** 2
        risks = [bias + scale * noise for bias, noise in self._curve]
        return risks[0], min(risks)

    def takes(self, solver: str, epsilon: float, adjacency: str) -> bool:
        """Whether the solver takes the problem, in a time that one may wait for."""
        if SOLVERS[solver]().refusal(self.problem) is not None:
            return False
        if solver not in SLOW:
            return True
        guarantee = Guarantee(epsilon, self.delta)
        plan = (
            FitOptions(self.problem, guarantee=guarantee, solver=solver, adjacency=adjacency)
            .plan(*self.X.shape)
            .calibrated.plan
        )
        return plan.passes <= MOST_PASSES

    def excess(self, solver: str, epsilon: float, adjacency: str, seeds: int) -> list[float]:
        """Excess risks, one a seed."""
        guarantee = Guarantee(epsilon, self.delta)
        return [
            empirical_risk(
                self.problem,
                self.X,
                self.y,
                minimize(
                    self.problem, self.X, self.y, guarantee=guarantee, solver=solver, adjacency=adjacency,
                    n=len(self.y), random_state=seed,
                ).w,
            )
            - self.optimum
            for seed in range(seeds)
        ]  # fmt: skip


@functools.lru_cache(maxsize=1)
def load(name: str) -> tuple[Any, Any, float]:
    """Rows of norm at most 1, targets ±1, and the δ that goes with them."""
    if name == "covertype":
        data = load_covertype(n_train=200_000)
        return data.X, data.y, 1e-3
    if name == "a9a":
        stored = np.load(Path(os.environ["DPERM_DATA"]) / "a9a.npz")
        ones = np.ones(stored["train_indices"].size)
        table = sparse.csr_array(
            (ones, stored["train_indices"], stored["train_indptr"]), shape=tuple(stored["train_shape"])
        )
        return table.toarray() / math.sqrt(14.0), stored["train_y"].astype(float), 1e-5
    n, p, seed = {"synthA": (200_000, 54, 1), "synthB": (30_000, 100, 2)}[name]
    rng = np.random.default_rng(seed)
    w = rng.normal(size=p)
    w *= 5.0 / np.linalg.norm(w)
    X = rng.normal(size=(n, p))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X *= rng.uniform(size=n)[:, None] ** 0.25
    return X, np.where(rng.uniform(size=n) < expit(X @ w), 1.0, -1.0), 1e-5


def cells(seeds: int) -> None:
    """Against E* and E**, add_remove."""
    print(f"| data, λ | ε | auto | quartiles | E* | E** | auto / E** | auto / tuned | solver |\n{'|---' * 9}|")
    for name, strength, recorded in CELLS:
        if not available(name):
            continue
        cell = Cell(name, strength)
        for epsilon, tuned in recorded.items():
            risks = cell.excess("auto", epsilon, "add_remove", seeds)
            low, middle, high = (float(x) for x in np.quantile(risks, [0.25, 0.5, 0.75]))
            single, oracle = cell.yardsticks(epsilon, "add_remove")
            single = single if strength else math.nan  # tr(H⁻¹) says nothing of a Hessian that is nearly singular
            guarantee = Guarantee(epsilon, cell.delta)
            chosen = (
                FitOptions(cell.problem, guarantee=guarantee, adjacency="add_remove").plan(*cell.X.shape).solver.name
            )
            print(
                f"| {name}, {strength:g} | {epsilon:g} | {middle:.2e} | {low:.1e} … {high:.1e} | {single:.1e} "
                f"| {oracle:.1e} | {middle / oracle:.2f} | {'–' if tuned is None else f'{middle / tuned:.2f}'} "
                f"| {chosen} |",
                flush=True,
            )


def grid(seeds: int) -> None:
    """Against every other solver at its defaults."""
    print(f"| data, λ, adjacency | ε | auto | best other | its excess | auto / best |\n{'|---' * 6}|")
    worst = 0.0
    for name in ("synthB", "a9a", "covertype", "synthA"):
        for strength in GRID_STRENGTHS if available(name) else ():
            cell = Cell(name, strength)
            for adjacency in ("add_remove", "replace_one"):
                for epsilon in GRID_EPSILONS:
                    taken = [solver for solver in OTHERS if cell.takes(solver, epsilon, adjacency)]
                    auto = statistics.median(cell.excess("auto", epsilon, adjacency, seeds))
                    others = {
                        solver: statistics.median(
                            cell.excess(solver, epsilon, adjacency, 1 if solver in SLOW else seeds)
                        )
                        for solver in taken
                    }
                    best = min(others, key=lambda solver: others[solver])
                    worst = max(worst, auto / others[best])
                    print(
                        f"| {name}, {strength:g}, {adjacency} | {epsilon:g} | {auto:.2e} | {best} "
                        f"| {others[best]:.2e} | {auto / others[best]:.2f} |",
                        flush=True,
                    )
    print(f"\nauto is at most {worst:.2f} times the best other solver")


def available(name: str) -> bool:
    """Whether the data is there; one line says so if not."""
    if name != "a9a" or (Path(os.environ.get("DPERM_DATA", "")) / "a9a.npz").is_file():
        return True
    print("a9a is left out: DPERM_DATA does not name a folder with a9a.npz.")
    return False


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["cells", "grid"])
    parser.add_argument("--seeds", type=int, default=10)
    chosen_part = parser.parse_args()
    warnings.simplefilter("ignore", LargeDeltaWarning)
    {"cells": cells, "grid": grid}[chosen_part.part](chosen_part.seeds)
