"""What a search of scikit-learn's costs, said before its first fit."""

import copy
import math
from contextlib import suppress
from typing import Any

from sklearn.model_selection import ParameterGrid

from dperm.accounting.events import Event
from dperm.errors import DpermError
from dperm.ledger.accounts import Account, rounded_down, rounded_up
from dperm.ledger.rule import event_text, one_release
from dperm.models.charged import has_budget
from dperm.models.wrappers import Step, folds_of, walk
from dperm.privacy.guarantee import Adjacency, Guarantee

NOT_COVERED = (
    "No guarantee covers the scores on validation rows, nor the choice based on them; PrivateSearch does both with "
    "noise."
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
    account: Account = first.budget.account()
    adjacency = Adjacency.parse(first.adjacency)

    def spent(*texts: tuple[str, float]) -> float:
        return account.rule.epsilon(texts, adjacency)

    further: list[tuple[str, float]] = []
    for step in members:
        on_folds, on_all = _fits_of(search, step, steps[1].fits or 1, shape)
        further += on_folds
        # Which candidate will be fitted once more is not known: the one that adds most.
        before = (*account.texts, *further)
        dearest = max(on_all, key=lambda fit: spent(*before, fit))
        further += [dearest] * ((step.fits or 0) - len(on_folds))
    alone, needed = spent(*further), spent(*account.texts, *further)
    enough = f"all of it would have spent about ε = {rounded_up(needed)}"
    if needed > account.guarantee.epsilon:
        enough = "which is not enough: fits will be refused, and scikit-learn scores them as NaN"
    return (
        f"{name} fits {type(first).__name__} {len(further)} times, together about ε = {rounded_up(alone)} at "
        f"δ = {account.guarantee.delta:g} ({adjacency}), and every fit is charged to the budget "
        f"{first.budget.dataset!r}, of which at least ε = {rounded_down(account.left)} of "
        f"{account.guarantee.epsilon:g} is left; {enough}. {NOT_COVERED}"
    )


def _fits_of(
    search: Any, step: Step, searched: int, shape: tuple[int, ...] | None
) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:  # fmt: skip
    """The events, as texts, and the δ of all fits on folds, and those that every candidate would have on all rows."""
    inner = (step.fits or 0) // searched  # a wrapper between the search and the member may fit it several times
    candidates, folds = _candidates(search, step), folds_of(search.cv) or 1
    each = inner * (searched - bool(search.refit)) // len(candidates)
    on_folds, on_all = (
        [(event_text(_event_of(candidate, shape, parts)), float(candidate.delta)) for candidate in candidates]
        for parts in (folds, math.inf)
    )
    return [text for text in on_folds for _ in range(each)], on_all


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
    unit = getattr(member, "unit", None) or getattr(getattr(member, "schema", None), "unit", None)
    if unit is None or member.n is not None:  # how many units the folds have is not known here
        with suppress(DpermError, TypeError, ValueError):
            rows, width = shape or (0, 0)
            event: Event = member.plan(None if member.n is not None else rows - int(rows // folds), width).event
            return event
    return one_release(Guarantee(member.epsilon, member.delta), Adjacency.parse(member.adjacency))
