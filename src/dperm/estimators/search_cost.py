"""What a search of scikit-learn's costs, said before its first fit."""

import copy
import math
from contextlib import suppress
from typing import Any

from sklearn.model_selection import ParameterGrid

from dperm.accounting.events import Event
from dperm.accounting.guarantee import Adjacency, Guarantee
from dperm.accounting.ledger.accounts import event_text, one_release, rounded_down, rounded_up
from dperm.errors import DpermError
from dperm.estimators.charged import has_budget
from dperm.estimators.wrappers import Step, folds_of, walk

NOT_COVERED = (
    "No guarantee covers the scores on validation rows, nor the choice that is made by them; PrivateSearchCV does both "
    "with noise."
)


def search_cost(search: Any, first: Any, shape: tuple[int, ...] | None) -> str:
    """What a search around an estimator with a budget would cost, and what that does not cover.

    Parameters
    ----------
    search : BaseSearchCV
        Around the estimator.
    first : estimator
        With a budget: the search's own, or the first of those that it holds.
    shape : tuple of int or None
        Of the table; without it every fit counts as one Gaussian release.
    """
    steps = list(walk(search))
    members = [step for step in steps if has_budget(step.estimator)]
    name = type(search).__name__
    if not members or any(step.fits is None for step in members):
        return (
            f"{name} fits {type(first).__name__} more often than can be told beforehand, each time with "
            f"ε = {first.epsilon:g}, and every fit is charged to the budget {first.budget.dataset!r}. {NOT_COVERED}"
        )
    fits = [fit for step in members for fit in _fits_of(search, step, steps[1].fits or 1, shape)]
    account, adjacency = first.budget.account(), Adjacency.parse(first.adjacency)
    before = tuple(event_text(release.event) for release in account.releases)
    further = tuple(text for event, count in fits for text in [event_text(event)] * count)
    alone, needed = (account.rule.epsilon(texts, adjacency) for texts in (further, (*before, *further)))
    enough = f"all of it would have spent about ε = {rounded_up(needed)}"
    if needed > account.guarantee.epsilon:
        enough = "which is not enough: fits will be refused, and scikit-learn scores them as NaN"
    return (
        f"{name} fits {type(first).__name__} {len(further)} times, together about ε = {rounded_up(alone)} at "
        f"δ = {account.guarantee.delta:g} ({adjacency}), and every fit is charged to the budget "
        f"{first.budget.dataset!r}, of which at least ε = {rounded_down(account.left)} of "
        f"{account.guarantee.epsilon:g} is left; {enough}. {NOT_COVERED}"
    )


def _fits_of(search: Any, step: Step, searched: int, shape: tuple[int, ...] | None) -> list[tuple[Event, int]]:
    """The event of every fit: of each candidate on the rows of a fold, and of the chosen one on all rows."""
    inner = (step.fits or 0) // searched  # a wrapper between the search and the member may fit it several times
    folds, refits = folds_of(search.cv) or 1, int(bool(search.refit))
    candidates = _candidates(search, step)
    every = inner * (searched - refits) // len(candidates)
    found = [(_event_of(candidate, shape, folds), every) for candidate in candidates]
    # Which one will be chosen is not known: the one with the largest ε.
    last = (_event_of(max(candidates, key=lambda one: float(one.epsilon)), shape, math.inf), inner)
    return [*found, last] if refits else found


def _candidates(search: Any, step: Step) -> list[Any]:
    """The estimator with the parameters of every candidate; as it is where these are drawn at random."""
    place = step.name.removeprefix("estimator").removeprefix("__")
    prefix, candidates = f"{place}__" if place else "", []
    for grid in ParameterGrid(getattr(search, "param_grid", {})):
        own = {name.removeprefix(prefix): value for name, value in grid.items() if name.startswith(prefix)}
        candidate = copy.copy(step.estimator)
        with suppress(ValueError):  # the parameter of another step, or a wrong one, which the fit will refuse
            candidate.set_params(**own)
        candidates.append(candidate)
    return candidates


def _event_of(member: Any, shape: tuple[int, ...] | None, folds: float) -> Event:
    """About what one fit costs, planned as if no step came before it; without a plan, as one Gaussian release."""
    with suppress(DpermError, TypeError, ValueError):
        rows, width = shape or (0, 0)
        event: Event = member.plan(None if member.n is not None else rows - int(rows // folds), width).event
        return event
    return one_release(Guarantee(member.epsilon, member.delta), Adjacency.parse(member.adjacency))
