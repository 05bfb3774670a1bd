"""The paper's variance-reduced methods on Covertype: excess risk and passes, against DP-GD, in one run.

A pass is n per-example gradients. E* is the excess risk of one exact Gaussian release of the gradient at the optimum
(paper/studies/reference.py). Everything runs at its defaults, unless a column says otherwise.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from dperm import FitOptions, Guarantee, LargeDeltaWarning, Problem, minimize
from dperm.accounting.curve import gaussian_mu
from dperm.datasets.covertype import load_covertype
from dperm.paper import PrintedSVRG
from dperm.paper.studies.reference import logistic_optimum, single_release_risk
from dperm.problem import L2, ElasticNet, GroupL2, Logistic
from dperm.solvers import DPGD, DPSVRG, DPKatyusha, DPSVRGPlusPlus
from dperm.unsafe import empirical_risk

DELTA, SEEDS, N = 1e-3, 10, 200_000
EPSILONS = (0.2, 0.5, 1.0)
# DP-GD's number of steps is chosen with knowledge of the outcome, by the median of three seeds.
STEPS_TRIED = {1e-2: (60, 100, 160, 250), 1e-3: (400, 700, 1100, 1700)}
# Excess risk of the best method that is known for λ = 0, accelerated gradient descent at a tuned number of steps.
BEST_KNOWN = {0.2: 2.1e-3, 1.0: 5.8e-4}


class Study:
    """One problem on the same rows: excess risks over seeds."""

    def __init__(self, problem: Problem, X: Any, y: Any, best: float) -> None:
        self.problem, self.X, self.y, self.best = problem, X, y, best

    def excess(self, solver: Any, epsilon: float, seeds: int = SEEDS, **more: Any) -> tuple[Any, float, float]:
        """Excess risks, passes and median seconds of a fit."""
        guarantee = Guarantee(epsilon, DELTA)
        common = {"guarantee": guarantee, "solver": solver, "adjacency": "add_remove", **more}
        passes = FitOptions(self.problem, **common).plan(N, self.X.shape[1]).passes
        risks, seconds = [], []
        for seed in range(seeds):
            began = time.perf_counter()
            w = minimize(self.problem, self.X, self.y, n=N, random_state=seed, **common).w
            seconds.append(time.perf_counter() - began)
            risks.append(empirical_risk(self.problem, self.X, self.y, w) - self.best)
        return np.asarray(risks), passes, float(np.median(seconds))

    def best_gradient_descent(self, epsilon: float, tried: tuple[int, ...]) -> tuple[int, Any]:
        """DP-GD under composition at the T that turns out best."""

        def solver(steps: int) -> DPGD:
            return DPGD(n_steps=steps, accounting="composition")

        best = min(tried, key=lambda steps: np.median(self.excess(solver(steps), epsilon, 3)[0]))
        return best, self.excess(solver(best), epsilon)[0]


def line(name: str, risks: Any, unit: float, passes: float, seconds: float | None = None) -> None:
    """Print one method."""
    low, middle, high = np.percentile(risks / unit, [25, 50, 75])
    timing = "" if seconds is None else f"   {seconds:5.2f} s"
    print(f"  {name:<34} {middle:9.3g} ({low:.3g} … {high:.3g})   {passes:7.1f} passes{timing}", flush=True)


def strongly_convex(data: Any) -> None:
    """Ridge logistic regression at two strengths."""
    for strength in (1e-2, 1e-3):
        problem = Problem(Logistic(), L2(strength))
        optimum = logistic_optimum(data.X, data.y, strength)
        study = Study(problem, data.X, data.y, empirical_risk(problem, data.X, data.y, optimum))
        for epsilon in EPSILONS:
            unit = single_release_risk(problem, data.X, optimum, 1.0, gaussian_mu(Guarantee(epsilon, DELTA)))
            print(f"λ = {strength:g}, ε = {epsilon:g}: excess over E* = {unit:.2e}")
            risks, passes, seconds = study.excess(DPSVRG(), epsilon)
            line("dp-svrg, anchored", risks, unit, passes, seconds)
            line("dp-katyusha", *with_unit(study.excess(DPKatyusha(), epsilon), unit))
            line("dp-svrg, SVRG-BB steps", *with_unit(study.excess(DPSVRG(barzilai_borwein=True), epsilon), unit))
            line("dp-svrg, printed step, certified", *with_unit(study.excess(PrintedSVRG(), epsilon), unit))
            steps, gradient_descent = study.best_gradient_descent(epsilon, STEPS_TRIED[strength])
            line(f"dp-gd, composition, best T = {steps}", gradient_descent, unit, steps)
            ratio = np.median(gradient_descent) / np.median(risks)
            print(f"  dp-gd at its best / dp-svrg: risk {ratio:.2f}, passes {steps / passes:.1f}")


def with_unit(measured: tuple[Any, float, float], unit: float) -> tuple[Any, float, float, float]:
    """Arguments of `line` from those of `Study.excess`."""
    risks, passes, seconds = measured
    return risks, unit, passes, seconds


def not_strongly_convex(data: Any) -> None:
    """No regularizer: DP-SVRG++ against DP-GD at equal passes."""
    problem = Problem(Logistic())
    optimum = logistic_optimum(data.X, data.y, 0.0)
    study = Study(problem, data.X, data.y, empirical_risk(problem, data.X, data.y, optimum))
    for epsilon in EPSILONS:
        print(f"λ = 0, ε = {epsilon:g}: excess risk")
        risks, passes, seconds = study.excess(DPSVRGPlusPlus(), epsilon)
        line("dp-svrg++, anchored", risks, 1.0, passes, seconds)
        equal = DPGD(n_steps=round(passes), accounting="composition")
        gradient_descent, steps, seconds = study.excess(equal, epsilon, 5)
        line("dp-gd at equal passes", gradient_descent, 1.0, steps, seconds)
        print(f"  dp-gd / dp-svrg++: {np.median(gradient_descent) / np.median(risks):.1f}")
        if epsilon in BEST_KNOWN:
            print(f"  dp-svrg++ / best known ({BEST_KNOWN[epsilon]:.1e}): {np.median(risks) / BEST_KNOWN[epsilon]:.2f}")


def composite(data: Any) -> None:
    """Non-smooth regularizers with a ridge: the composite optimum within the same factors."""
    groups = ((0, 1, 2), (3, 4, 5), (6, 7, 8, 9), tuple(range(10, 14)), tuple(range(14, data.X.shape[1])))
    penalties: dict[str, Callable[[], Any]] = {
        "l1 (elastic net)": lambda: ElasticNet(0.011, 1.0 / 11.0),
        "groups and ridge": lambda: GroupL2(0.003, groups, ridge=0.01),
    }
    for name, penalty in penalties.items():
        problem = Problem(Logistic(), penalty())
        optimum = minimize(problem, data.X, data.y, guarantee=None, noise=None, solver="dp-gd").w
        active = np.flatnonzero(optimum)
        study = Study(problem, data.X, data.y, empirical_risk(problem, data.X, data.y, optimum))
        for epsilon in EPSILONS:
            # As if the zeros were known: only the other coordinates can be wrong.
            mu = gaussian_mu(Guarantee(epsilon, DELTA))
            unit = single_release_risk(problem, data.X[:, active], optimum[active], 1.0, mu)
            zeros = optimum.size - active.size
            print(f"{name}, ε = {epsilon:g}: excess over E* = {unit:.2e}, {zeros} of {optimum.size} are zero")
            line("dp-svrg, anchored", *with_unit(study.excess(DPSVRG(), epsilon), unit))


def printed_loop(data: Any) -> None:
    """The paper's own setting: seconds of a fit, and what is certified."""
    problem = Problem(Logistic(), L2(1e-2))
    solver = DPSVRG(n_epochs=15, n_inner=5000)
    optimum = logistic_optimum(data.X, data.y, 1e-2)
    study = Study(problem, data.X, data.y, empirical_risk(problem, data.X, data.y, optimum))
    for epsilon in EPSILONS:
        fit = FitOptions(
            problem, guarantee=Guarantee(epsilon, DELTA), solver=solver, adjacency="add_remove", noise="paper"
        ).plan(N, data.X.shape[1])
        study.excess(solver, epsilon, 1, noise="paper")  # compiles
        risks, passes, seconds = study.excess(solver, epsilon, noise="paper")
        print(
            f"as printed, T = 15, m = 5000, batch 1, ε = {epsilon:g}: certified δ = {fit.statement.certified_delta:.3f}"
        )
        line("dp-svrg, noise='paper'", risks, 1.0, passes, seconds)


def main() -> None:
    """Print one block per question."""
    warnings.simplefilter("ignore", LargeDeltaWarning)  # the paper's δ
    data = load_covertype(N)
    print(f"Covertype, n = {N}, δ = {DELTA:g}, add_remove, median (quartiles) of {SEEDS} seeds")
    printed_loop(data)
    composite(data)
    not_strongly_convex(data)
    strongly_convex(data)


if __name__ == "__main__":
    main()
