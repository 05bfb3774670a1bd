"""How long a plan takes to calibrate, and how much of ε it leaves unused."""

import time

import numpy as np

from dperm import Guarantee, Problem
from dperm.accounting.calibration import calibrate
from dperm.accounting.composition import epsilon_of
from dperm.mechanisms import GradientQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Logistic

ROUNDS = 7
CASES = [
    ("1 Gaussian", 1.0, 1, 0.010),
    ("1 000 000 Gaussians", 1.0, 1_000_000, 0.010),
    ("100 000 sampled, q = 0.005", 0.005, 100_000, 2.0),
    ("100 000 sampled, q = 0.0005", 0.0005, 100_000, 2.0),
    ("100 000 sampled, q = 0.05", 0.05, 100_000, 2.0),
]


def main() -> None:
    """Print one line per plan, adjacency and guarantee."""
    constants = Problem(Logistic(), L2(0.01)).constants(54)
    for name, rate, count, limit in CASES:
        for adjacency in Adjacency:
            for guarantee in (Guarantee(0.2, 1e-3), Guarantee(1.0, 1e-6), Guarantee(8.0, 1e-6)):
                query = GradientQuery(Setting(constants, 200_000, adjacency), rate)
                plan = Plan("benchmark", (PlannedQuery(query, count),), {})
                seconds = []
                for _ in range(ROUNDS):
                    began = time.perf_counter()
                    calibrated = calibrate(plan, guarantee)
                    seconds.append(time.perf_counter() - began)
                used = epsilon_of(calibrated.event(), guarantee.delta, adjacency) / guarantee.epsilon
                middle = float(np.median(seconds))
                print(
                    f"{name:<28} {adjacency.value:<12} ε = {guarantee.epsilon:<4g} median {1e3 * middle:8.1f} ms "
                    f"(max {1e3 * max(seconds):8.1f})   ε used {100 * used:.2f} %"
                    f"   target ≤ {1e3 * limit:.0f} ms: {'met' if middle <= limit else 'MISSED'}"
                )


if __name__ == "__main__":
    main()
