"""How many releases of a kind fit into a budget, if each may be chosen in view of the last and if all are fixed."""

from collections.abc import Callable

from dperm import Guarantee, L1Ball, Logistic, Problem
from dperm.accounting.composition import epsilon_of
from dperm.accounting.events import Composed, Event, Pure
from dperm.accounting.filter import Filter
from dperm.accounting.guarantee import Adjacency
from dperm.planning.options import FitOptions

BUDGET = Guarantee(3.0, 1e-5)
ONE = Guarantee(0.4, 1e-6)
MOST = 400


def fit(solver: str) -> Event:
    """What one fit at ε = 0.4, δ = 1e-6 costs."""
    domain = {"domain": L1Ball(5.0)} if solver == "talwar-frank-wolfe" else {}
    return FitOptions(Problem(Logistic(), **domain), guarantee=ONE, solver=solver).plan(50_000, 30).event  # type: ignore[arg-type]


def most(fits: Callable[[int], bool]) -> int:
    """The largest number for which it holds."""
    low, high = 1, 2
    while high < MOST and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def main() -> None:
    """Print the table."""
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
    rule, adjacency = Filter.of(BUDGET), Adjacency.REPLACE_ONE
    budget = f"budget ε = {BUDGET.epsilon:g}, δ = {BUDGET.delta:g}, {adjacency}"
    print(f"{budget}; each release alone ε = 0.4 at δ = 1e-6; α = {rule.order}")
    print("| releases | each may be chosen in view of the last | all fixed in advance |\n|---|---|---|")
    for name, turn in kinds.items():
        looks = most(lambda n: rule.epsilon((turn * n)[:n], adjacency) <= BUDGET.epsilon)  # noqa: B023
        fixed = most(lambda n: epsilon_of(Composed((turn * n)[:n]), BUDGET.delta, adjacency) <= BUDGET.epsilon)  # noqa: B023
        print(f"| {name} | {looks} | {fixed} |", flush=True)


if __name__ == "__main__":
    main()
