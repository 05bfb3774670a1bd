"""How much more noise a unit of many rows needs than one row, for objective perturbation.

    python benchmarks/unit_noise.py

Noise multipliers of calibrated plans, over that of the same solver where rows are protected one by one. Nothing is
random: ε = 1, δ = 1e-5, n = 20 000. Adding up rows of weight 1 and multiplying the noise by k would cost k.
"""

from dperm import Guarantee, Problem
from dperm.accounting.calibration import calibrate
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Huber, L2Ball, Logistic, Softmax, Squared
from dperm.solvers import DPObjective, DPRegression, DPSoftmax, KiferObjective

N, GUARANTEE = 20_000, Guarantee(1.0, 1e-5)
ROWS = (2, 5, 10, 50, None)

CASES = [
    ("logistic, dp-objective, 54 columns", Problem(Logistic()), DPObjective(), 54),
    ("the same, 20", Problem(Logistic()), DPObjective(), 20),
    ("squared on a ball, kifer-objective, 20", Problem(Squared(), domain=L2Ball(5.0)), KiferObjective(), 20),
    ("Huber, dp-regression, 20", Problem(Huber()), DPRegression(), 20),
    ("softmax of 5 classes, dp-softmax, 54", Problem(Softmax(5)), DPSoftmax(), 54),
]


def multiplier(problem, solver, columns, adjacency, unit):
    """Noise over the sensitivity, as calibrated."""
    setting = Setting(problem.constants(columns), N, adjacency, unit)
    return calibrate(solver.plan(setting, GUARANTEE), GUARANTEE).noise_multiplier


def main():
    """Print the table."""
    print("| | adjacency | one row | k = " + " | ".join(str(k) for k in ROWS[:-1]) + " | any number |")
    print("|---|---|---|" + "---|" * len(ROWS))
    for name, problem, solver, columns in CASES:
        for adjacency in Adjacency:
            one = multiplier(problem, solver, columns, adjacency, None)
            units = [PrivacyUnit("person", k, "average" if k is None else "limit") for k in ROWS]
            more = [multiplier(problem, solver, columns, adjacency, unit) / one for unit in units]
            print(f"| {name} | {adjacency.value} | {one:.3f} | " + " | ".join(f"{each:.3f}" for each in more) + " |")


if __name__ == "__main__":
    main()
