"""What adaptively chosen selections of bounded range cost: by the recursion, by ρ, and a lower bound. A minute."""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from dperm import Guarantee, Problem
from dperm.accounting.calibration import calibrate
from dperm.accounting.composition import epsilon_of
from dperm.accounting.curve import ConcentratedCurve
from dperm.accounting.events import BoundedRange, Repeated
from dperm.plan.options import FitOptions
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L1Ball, Logistic
from dperm.solvers import SupportDescent, TalwarFrankWolfe

DELTA = 1e-6


def beforehand(length: float, count: int, epsilon: float) -> float:
    """δ of the best adversary who chooses one two-outcome selection for all steps (Dong, Durfee and Rogers 2020)."""
    lost, best = np.arange(count + 1), 0.0
    for t in np.linspace(0.0, length, 801)[1:-1]:
        likely = math.exp(t) * math.expm1(length - t) / math.expm1(length)
        losses = count * t - lost * length
        best = max(best, float(binom.pmf(lost, count, 1.0 - likely) @ np.maximum(0.0, -np.expm1(epsilon - losses))))
    return best


def at_given_noise(target: float, count: int) -> None:
    """ε before, now, and the lower bound, at the range at which the cost was `target` before."""
    rho = brentq(lambda log_rho: ConcentratedCurve(math.exp(log_rho)).epsilon(DELTA) - target, -20.0, 3.0)
    length = math.sqrt(8.0 * math.exp(rho) / count)
    now = epsilon_of(Repeated(BoundedRange(length), count), DELTA, Adjacency.REPLACE_ONE)
    lower = brentq(lambda epsilon: beforehand(length, count, epsilon) - DELTA, 0.2 * now, now, xtol=1e-5)
    print(
        f"| {count} | {target:g} | {now:.4f} | {lower:.4f} | {target / lower - 1:.1%} | {now / lower - 1:.2%} |",
        flush=True,
    )


def at_given_guarantee(name: str, solver: TalwarFrankWolfe | SupportDescent, guarantee: Guarantee) -> None:
    """The noise multiplier of a whole fit, against that by the sum of ρ."""
    problem = Problem(Logistic(), domain=L1Ball(5.0), row_norm=math.sqrt(300.0), entry_bound=1.0)
    plan = FitOptions(problem, guarantee=guarantee, solver=solver).plan(10_000, 20_000).calibrated.plan
    now = calibrate(plan, guarantee).noise_multiplier
    assert now is not None
    rho = sum(count * (leaf.zcdp_rho(plan.adjacency) or math.nan) for leaf, count in plan.event(1.0).leaves())

    def too_much(log_noise: float) -> float:
        return ConcentratedCurve(rho * math.exp(-2.0 * log_noise)).epsilon(guarantee.delta) - guarantee.epsilon

    before = math.exp(brentq(too_much, -5.0, 15.0, xtol=1e-9))
    print(
        f"| {name} | {guarantee.epsilon:g} | {plan.n_steps} | {before:.4g} | {now:.4g} | {1 - now / before:.1%} |",
        flush=True,
    )


def main() -> None:
    """Print both tables."""
    print("| k | ε before | ε now | lower | before above lower | now above lower |\n|---|---|---|---|---|---|")
    for target in (0.5, 1.0, 4.0):
        for count in (5, 25, 100, 1000):
            at_given_noise(target, count)
    print("\n| fit | ε | answers | multiplier before | now | less noise |\n|---|---|---|---|---|---|")
    for epsilon in (0.5, 1.0, 4.0):
        guarantee = Guarantee(epsilon, DELTA)
        at_given_guarantee("Frank–Wolfe", TalwarFrankWolfe(), guarantee)
        vertices = SupportDescent(selection="vertices", n_vertices=20, n_steps=30, selection_share=0.5)
        at_given_guarantee("support descent, 20 vertices, 30 gradients", vertices, guarantee)


if __name__ == "__main__":
    main()
