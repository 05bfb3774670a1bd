"""Stochastic gradient methods on Covertype beside DP-SVRG: excess risk, passes and seconds; and n² steps as published.

A pass is n per-example gradients. E* is the excess risk of one exact Gaussian release of the gradient at the optimum
(paper/studies/reference.py). Settings are the defaults, but bassily-sgd is cut to 200 000 steps and 40 passes.
"""

import time
import warnings
from typing import Any

import numpy as np

from dperm import Guarantee, LargeDeltaWarning, Problem, minimize
from dperm.accounting.curve import gaussian_mu
from dperm.datasets.covertype import load_covertype
from dperm.paper.studies.reference import logistic_optimum, single_release_risk
from dperm.problem import L2, L2Ball, Logistic
from dperm.solvers import DPSGD, DPSVRG, BassilySGD, DPSVRGPlusPlus
from dperm.unsafe import empirical_risk
from svrg import DELTA, EPSILONS, N, Study, line, with_unit

SEEDS = 5
CUT = BassilySGD(max_steps=200_000, max_passes=40.0)


def strongly_convex(data: Any) -> None:
    """Ridge logistic regression, λ = 0.01."""
    problem = Problem(Logistic(), L2(1e-2))
    optimum = logistic_optimum(data.X, data.y, 1e-2)
    study = Study(problem, data.X, data.y, empirical_risk(problem, data.X, data.y, optimum))
    for epsilon in EPSILONS:
        unit = single_release_risk(problem, data.X, optimum, 1.0, gaussian_mu(Guarantee(epsilon, DELTA)))
        print(f"λ = 0.01, ε = {epsilon:g}: excess over E* = {unit:.2e}")
        for solver in (DPSGD(), CUT, DPSVRG()):
            line(solver.name, *with_unit(study.excess(solver, epsilon, SEEDS), unit))


def convex(data: Any) -> None:
    """No regularizer."""
    problem = Problem(Logistic())
    optimum = logistic_optimum(data.X, data.y, 0.0)
    study = Study(problem, data.X, data.y, empirical_risk(problem, data.X, data.y, optimum))
    for epsilon in EPSILONS:
        print(f"λ = 0, ε = {epsilon:g}: excess risk")
        for solver in (DPSGD(), CUT, DPSVRGPlusPlus()):
            line(solver.name, *with_unit(study.excess(solver, epsilon, SEEDS), 1.0))


def as_published(data: Any) -> None:
    """n² steps of one row each at n = 2000, with the published noise and with certified noise for the same steps."""
    n = 2000
    X, y = data.X[:n], data.y[:n]
    for problem in (Problem(Logistic(), L2(1e-2)), Problem(Logistic(), domain=L2Ball(10.0))):
        best = empirical_risk(problem, X, y, minimize(problem, X, y, guarantee=None, noise=None).w)
        start = empirical_risk(problem, X, y, np.zeros(X.shape[1])) - best
        for noise in ("paper", "certified"):
            solver = BassilySGD() if noise == "paper" else BassilySGD(n_steps=n**2, sampling_rate=1 / n)
            began = time.perf_counter()
            fit = minimize(problem, X, y, guarantee=Guarantee(1.0, DELTA), solver=solver, noise=noise, random_state=0)
            seconds = time.perf_counter() - began
            excess = empirical_risk(problem, X, y, fit.w) - best
            print(
                f"n = {n}, T = n², {problem.regularizer.name} on {problem.domain.name}, ε = 1, replace_one, "
                f"noise={noise!r}: {seconds:.0f} s, certified ε = {fit.privacy.certified_epsilon:.3f}, "
                f"excess {excess:.3g} (at w = 0: {start:.3g})",
                flush=True,
            )


def main() -> None:
    """Print one block per question."""
    warnings.simplefilter("ignore", LargeDeltaWarning)  # the paper's δ
    data = load_covertype(N)
    print(f"Covertype, n = {N}, δ = {DELTA:g}, add_remove, median (quartiles) of {SEEDS} seeds")
    strongly_convex(data)
    convex(data)
    as_published(data)


if __name__ == "__main__":
    main()
