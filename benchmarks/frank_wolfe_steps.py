"""How good the default number of steps of private Frank–Wolfe is, against the best in hindsight. Ten minutes or so."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm import FitOptions, Guarantee, Problem, minimize
from dperm.problem import L1Ball, Logistic, Squared
from dperm.solvers import DPAccMD, TalwarFrankWolfe
from dperm.unsafe import empirical_risk

Array = NDArray[np.float64]

SEEDS, EPSILONS = 5, (0.3, 1.0, 5.0)
STEPS = tuple(2**k for k in range(8))


def dense(n: int, p: int, relevant: int, radius: float, squared: bool) -> tuple[Problem, Array, Array]:
    """Rows of ±1 in all columns, of which a few matter."""
    rng = np.random.default_rng(n + p)
    X = rng.choice([-1.0, 1.0], size=(n, p))
    truth = np.zeros(p)
    truth[:relevant] = radius / relevant * rng.choice([-1.0, 1.0], relevant)
    margins = X @ truth
    if squared:
        y = np.clip(margins + 0.3 * rng.normal(size=n), -radius, radius)
    else:
        y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)
    loss = Squared(target_bound=radius) if squared else Logistic()
    return Problem(loss, domain=L1Ball(radius), row_norm=math.sqrt(p) * 1.001, entry_bound=1.0), X, y


def thin(bounded_entries: bool) -> tuple[Problem, sparse.csr_matrix, Array]:
    """Rows of ±1 in twenty of 2000 columns, of which ten matter; or the same rows scaled to norm 1."""
    n, p, radius = 10_000, 2_000, 4.5
    rng = np.random.default_rng(p)
    columns = np.hstack([np.tile(np.arange(10), (n, 1)), 10 + rng.integers(0, p - 10, (n, 10))])
    signs = rng.choice([-1.0, 1.0], size=columns.shape)
    X = sparse.csr_matrix((signs.ravel(), columns.ravel(), np.arange(0, 20 * n + 1, 20)), shape=(n, p))
    X.sum_duplicates()
    truth = np.zeros(p)
    truth[:10] = radius / 10 * rng.choice([-1.0, 1.0], 10)
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-(X @ truth))), 1.0, -1.0)
    if bounded_entries:
        return Problem(Logistic(), domain=L1Ball(radius), row_norm=math.sqrt(21), entry_bound=1.0), X, y
    return Problem(Logistic(), domain=L1Ball(20.0)), X / math.sqrt(20), y


def main() -> None:
    """Print the excess at the default T, at the T of the bound, and at the best T."""
    cases = {
        "±1, logistic, n = 5000, p = 500, radius 3": dense(5000, 500, 5, 3.0, squared=False),
        "±1, logistic, n = 5000, p = 500, radius 10": dense(5000, 500, 5, 10.0, squared=False),
        "±1, logistic, n = 20000, p = 200, radius 1": dense(20_000, 200, 3, 1.0, squared=False),
        "±1, squared, n = 5000, p = 1000, radius 1": dense(5000, 1000, 5, 1.0, squared=True),
        "±1, squared, n = 5000, p = 500, radius 4": dense(5000, 500, 5, 4.0, squared=True),
        "sparse, entries bounded, radius 4.5": thin(bounded_entries=True),
        "sparse, norm bounded, radius 20": thin(bounded_entries=False),
    }
    ratios: dict[str, list[float]] = {"default": [], "bound": []}
    for name, (problem, X, y) in cases.items():
        n, p = X.shape
        least = minimize(problem, X, y, guarantee=None, noise=None, solver=DPAccMD(n_steps=1500)).w
        best, constants = empirical_risk(problem, X, y, least), problem.constants(p)
        for epsilon in EPSILONS:
            guarantee = Guarantee(epsilon, 1e-6)

            def excess(n_steps: int, case: tuple = (problem, X, y, best, guarantee)) -> float:  # type: ignore[type-arg]
                problem, X, y, best, guarantee = case
                solver = TalwarFrankWolfe(n_steps=n_steps)
                fits = (
                    minimize(problem, X, y, guarantee=guarantee, solver=solver, random_state=s) for s in range(SEEDS)
                )
                return float(np.median([empirical_risk(problem, X, y, fit.w) - best for fit in fits]))

            planned = FitOptions(problem, guarantee=guarantee, solver=TalwarFrankWolfe()).plan(n, p)
            default = planned.calibrated.plan.n_steps
            # Where 2Γ/(T + 2) + g ln V is least: there the noise is g = (its scale at the default T) · √(T/default).
            noise = planned.statement.sigma / math.sqrt(default) * math.log(constants.n_vertices)
            bound = min(1000, round((4.0 * constants.curvature / noise) ** (2.0 / 3.0)))
            grid = {steps: excess(steps) for steps in STEPS}
            least_steps = min(grid, key=grid.__getitem__)
            found = {"default": excess(default), "bound": excess(bound)}
            for kind, value in found.items():
                ratios[kind].append(value / grid[least_steps])
            print(
                f"{name}, ε = {epsilon:g}: default T = {default} {found['default']:.4f}, the bound's T = {bound} "
                f"{found['bound']:.4f}, best T = {least_steps} {grid[least_steps]:.4f}",
                flush=True,
            )
    for kind, values in ratios.items():
        print(f"{kind}: {min(values):.1f} to {max(values):.1f} times the best, median {np.median(values):.1f}")


if __name__ == "__main__":
    main()
