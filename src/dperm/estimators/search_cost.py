"""What many fits cost together, and what a search of scikit-learn's says before the first of them."""

from typing import Any

from sklearn.model_selection import ParameterGrid

from dperm.accounting.composition import epsilon_of
from dperm.accounting.events import Composed, Repeated
from dperm.accounting.guarantee import Adjacency, Guarantee
from dperm.accounting.ledger.accounts import event_text, one_release, rounded_down, rounded_up
from dperm.estimators.charged import has_budget
from dperm.estimators.wrappers import Step, walk

NOT_COVERED = (
    "No guarantee covers the scores on validation rows, nor the choice that is made by them; PrivateSearchCV does both "
    "with noise."
)


def composed_epsilon(fits: list[tuple[Guarantee, int]], adjacency: Adjacency) -> tuple[float, float]:
    """About what ε fits cost together, at the largest of their δ, and that δ: each as if it were one Gaussian release.

    Parameters
    ----------
    fits : list of (Guarantee, int)
        What each promises, and how many there are.
    adjacency : Adjacency
        Of all of them.
    """
    delta = max(guarantee.delta for guarantee, _ in fits)
    together = Composed(tuple(Repeated(one_release(guarantee, adjacency), count) for guarantee, count in fits))
    return epsilon_of(together, delta, adjacency), delta


def search_cost(search: Any, first: Any) -> str:
    """What a search around an estimator with a budget would cost, and what that does not cover.

    Parameters
    ----------
    search : BaseSearchCV
        Around the estimator.
    first : estimator
        With a budget: the search's own, or the first of those that it holds.
    """
    members = [step for step in walk(search) if has_budget(step.estimator)]
    name = type(search).__name__
    if not members or any(step.fits is None for step in members):
        return (
            f"{name} fits {type(first).__name__} more often than can be told beforehand, each time with "
            f"ε = {first.epsilon:g}, and every fit is charged to the budget {first.budget.dataset!r}. {NOT_COVERED}"
        )
    fits = [fit for step in members for fit in _fits_of(search, step)]
    adjacency = Adjacency.parse(first.adjacency)
    epsilon, delta = composed_epsilon(fits, adjacency)
    return (
        f"{name} fits {type(first).__name__} {sum(count for _, count in fits)} times, together about "
        f"ε = {rounded_up(epsilon)} at δ = {delta:g} ({adjacency}), and every fit is charged to the budget "
        f"{first.budget.dataset!r}: {_left(first.budget, fits, adjacency)}. {NOT_COVERED}"
    )


def _left(budget: Any, fits: list[tuple[Guarantee, int]], adjacency: Adjacency) -> str:
    account = budget.account()
    left = f"at least ε = {rounded_down(account.left)} of {account.guarantee.epsilon:g} is left"
    before = tuple(event_text(release.event) for release in account.releases)
    further = tuple(event_text(one_release(guarantee, adjacency)) for guarantee, count in fits for _ in range(count))
    needed = account.rule.epsilon((*before, *further), adjacency)
    if needed <= account.guarantee.epsilon:
        return f"{left}, and all of it would have spent about ε = {rounded_up(needed)}"
    return f"{left}, which is not enough, so fits will be refused and scikit-learn will score them as NaN"


def _fits_of(search: Any, step: Step) -> list[tuple[Guarantee, int]]:
    """Every fit's guarantee; candidates may differ in it."""
    grid, member, fits = getattr(search, "param_grid", None), step.estimator, step.fits or 0
    place = step.name.removeprefix("estimator").removeprefix("__")
    prefix = f"{place}__" if place else ""
    if grid is None or prefix + "epsilon" not in {key for candidate in ParameterGrid(grid) for key in candidate}:
        return [(Guarantee(member.epsilon, member.delta), fits)]
    chosen = [candidate.get(prefix + "epsilon", member.epsilon) for candidate in ParameterGrid(grid)]
    each, once_more = divmod(fits, len(chosen))
    found = [(Guarantee(epsilon, member.delta), each) for epsilon in chosen]
    return [*found, (Guarantee(max(chosen), member.delta), once_more)] if once_more else found
