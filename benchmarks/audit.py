"""Which attack notices which broken mechanism, with how many fits, and how often a right one is accused.

Every broken mechanism of `tests/audit/broken` (logistic regression on 60 rows of 3 columns, ε = 4, δ = 1e-5) is
audited by one attack at a time at confidence 95 %, with twice as many fits each time until it is caught with every
seed. The right mechanisms are audited by all attacks at once.

`python benchmarks/audit.py [seeds] [audits of right mechanisms] [units]`, by default 3 and 60. With "units", those that
protect rows where units are promised (60 units), and right mechanisms that protect units.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from audit.broken import BROKEN, BROKEN_UNITS
from dperm import FitOptions, Guarantee, Problem
from dperm.audit import audit_plan
from dperm.audit.plan import ATTACKS
from dperm.problem import L2, Logistic
from dperm.solvers import DPGD, DPSVRG

FITS = {"replay": (20,), "black-box": (25, 50, 100, 200, 400), "low-bits": (25, 50, 100)}


def needed(broken, attack, seeds):
    """The smallest number of fits with which every seed catches it, as text; a dash if none does."""
    with broken.change():
        plan = broken.plan()
        for fits in FITS[attack]:
            results = [audit_plan(plan, attacks=[attack], fits=fits, random_state=seed) for seed in range(seeds)]
            if not any(result.kept for result in results):
                return str(max(result.fits for result in results))
            if attack == "low-bits" and results[0].attacks[0].epsilon is None:
                break
    return "–"


def main(seeds, audits, units=False):
    """Print the table, and the number of false accusations."""
    suite = BROKEN_UNITS if units else BROKEN
    width = max(len(broken.name) for broken in suite)
    print(f"{'broken mechanism':<{width}}  {'solver':<20}" + "".join(f"{attack:>12}" for attack in ATTACKS))
    for broken in suite:
        row = [needed(broken, attack, seeds) for attack in ATTACKS]
        name = broken.plan().solver.name
        print(f"{broken.name:<{width}}  {name:<20}" + "".join(f"{fits:>12}" for fits in row), flush=True)
    accused, total = 0, 0
    for solver in (DPGD(accounting="composition"), DPSVRG()):
        unit = suite[0].unit
        options = FitOptions(Problem(Logistic(), L2(0.1)), guarantee=Guarantee(4.0, 1e-5), solver=solver, unit=unit)
        for seed in range(audits // 2):
            accused += not audit_plan(options.plan(60, 3), fits=100, random_state=seed).kept
            total += 1
    print(f"\nright mechanisms accused at confidence 95 %: {accused} of {total} audits")


if __name__ == "__main__":
    given = [int(number) for number in sys.argv[1:] if number != "units"]
    main(*given, *(3, 60)[len(given) :], units="units" in sys.argv)
