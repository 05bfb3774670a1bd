"""How many releases of a kind fit into a budget, and what histories cost beside the sum of their promises.

1. Releases of one kind, each chosen in view of the last, and all fixed in advance.
2. A fit of Adult with all of the budget's δ, then an evaluation with δ = 0, on five budgets.
3. A thousand random histories: what the ledger charges over the sum of the promised ε.
"""

import math
from collections.abc import Callable

import numpy as np

from dperm import Guarantee, PrivateLogisticRegression, Problem
from dperm.accounting.composition import epsilon_of
from dperm.accounting.events import Composed, Event, Pure
from dperm.accounting.filter import Charge, Filter, renyi_limit
from dperm.datasets.adult import load_adult
from dperm.plan.options import FitOptions
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L1Ball, Logistic

BUDGET = Guarantee(3.0, 1e-5)
ONE = Guarantee(0.4, 1e-6)
MOST = 400
REPLACE_ONE = Adjacency.REPLACE_ONE


def fit(solver: str, guarantee: Guarantee = ONE) -> Event:
    """What one fit costs."""
    domain = {"domain": L1Ball(5.0)} if solver == "talwar-frank-wolfe" else {}
    return FitOptions(Problem(Logistic(), **domain), guarantee=guarantee, solver=solver).plan(50_000, 30).event  # type: ignore[arg-type]


def most(fits: Callable[[int], bool]) -> int:
    """The largest number for which it holds."""
    low, high = 1, 2
    while high < MOST and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def counts() -> None:
    """How many releases of each kind fit."""
    gaussian, objective, sampled = fit("dp-gd"), fit("dp-objective"), fit("dp-sgd")
    kinds = {
        "Gaussian (dp-gd)": [gaussian],
        "objective perturbation (dp-objective)": [objective],
        "sampled (dp-sgd)": [sampled],
        "noisy choices (talwar-frank-wolfe)": [fit("talwar-frank-wolfe")],
        "pure ε = 0.4": [Pure(0.4)],
        "objective, Gaussian, sampled in turn": [objective, gaussian, sampled],
        "Gaussian, objective, sampled in turn": [gaussian, objective, sampled],
    }
    rule = Filter.of(BUDGET)
    budget = f"budget ε = {BUDGET.epsilon:g}, δ = {BUDGET.delta:g}, {REPLACE_ONE}"
    print(f"{budget}; each release alone ε = 0.4 at δ = 1e-6; α = {rule.order}, {rule.order_after_gaussian}")
    print("| releases | adaptive | non-adaptive | by addition |\n|---|---|---|---|")
    for name, turn in kinds.items():
        charges = [Charge(event, 0.0 if isinstance(event, Pure) else ONE.delta) for event in turn]
        looks = most(lambda n: rule.epsilon((charges * n)[:n], REPLACE_ONE) <= BUDGET.epsilon)  # noqa: B023
        fixed = most(lambda n: epsilon_of(Composed((turn * n)[:n]), BUDGET.delta, REPLACE_ONE) <= BUDGET.epsilon)  # noqa: B023
        print(f"| {name} | {looks} | {fixed} | {math.floor(BUDGET.epsilon / ONE.epsilon)} |", flush=True)


def fit_and_evaluation() -> None:
    """What ε = 1 and ε = 0.5 cost on budgets of different size; also by one Rényi divergence with all of δ."""
    model = PrivateLogisticRegression(1.0, 1e-5, schema=load_adult().schema)
    charges = [Charge(model.plan(32_561).event, 1e-5), Charge(Composed([Pure(0.31), Pure(0.165), Pure(0.025)]), 0.0)]
    print("\n| budget ε | by Rényi divergence with all of δ | by this filter |\n|---|---|---|")
    for epsilon in (1.6, 2.0, 3.0, 5.0, 10.0):
        guarantee = Guarantee(epsilon, 1e-5)
        order, limit = renyi_limit(guarantee, 1.0)
        leaves = [leaf for charge in charges for leaf in charge.event.leaves()]
        divergence = sum(times * leaf.renyi_divergence(order, REPLACE_ONE) for leaf, times in leaves)
        charged = Filter.of(guarantee).epsilon(charges, REPLACE_ONE)
        print(f"| {epsilon:g} | {divergence + epsilon - limit:.3f} | {charged:.4f} |", flush=True)


def history(pool: list[Event], deltas: list[float], rng: np.random.Generator) -> list[Charge]:
    """Releases drawn from a pool of fits and evaluations, with these δ."""
    drawn = [pool[place] for place in rng.integers(len(pool), size=len(deltas))]
    return [
        Charge(event, 0.0 if isinstance(event, Pure) else delta) for event, delta in zip(drawn, deltas, strict=True)
    ]


def against_addition() -> None:
    """Charged over the sum of the promised ε, for histories of one to eight releases on budgets of ε = 0.5 to 12."""
    solvers = ("dp-objective", "dp-gd", "dp-sgd", "talwar-frank-wolfe")
    pool = [fit(solver, Guarantee(epsilon, 1e-6)) for solver in solvers for epsilon in (0.2, 0.5, 1.0, 2.0)]
    pool += [Pure(epsilon) for epsilon in (0.1, 0.2, 0.5, 1.0)]
    print("\n| δ of the promises | histories | median | 95 % | largest | above 1 |\n|---|---|---|---|---|---|")
    for name, most_delta in (("at most δ/2 together", 0.5e-5), ("at most δ together", 1e-5), ("δ each", None)):
        rng, ratios = np.random.default_rng(0), []
        for _ in range(1000):
            guarantee, size = Guarantee(float(rng.uniform(0.5, 12.0)), 1e-5), int(rng.integers(1, 9))
            deltas = [1e-5] * size if most_delta is None else (rng.dirichlet(np.ones(size)) * most_delta).tolist()
            charges = history(pool, deltas, rng)
            promised = math.fsum(epsilon_of(charge.event, charge.delta, REPLACE_ONE) for charge in charges)
            ratios.append(Filter.of(guarantee).epsilon(charges, REPLACE_ONE) / promised)
        found = np.array(ratios)
        middle, high = np.quantile(found, [0.5, 0.95])
        above = np.mean(found > 1.0 + 1e-9)
        print(f"| {name} | {found.size} | {middle:.3f} | {high:.3f} | {found.max():.3f} | {above:.1%} |", flush=True)


def main() -> None:
    """Print the tables."""
    counts()
    fit_and_evaluation()
    against_addition()


if __name__ == "__main__":
    main()
