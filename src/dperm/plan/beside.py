"""A part of a release planned with what other parts leave of one guarantee."""

import math
from collections.abc import Callable
from typing import TypeVar

from dperm.accounting.composition import delta_of, epsilon_of
from dperm.accounting.curve import gaussian_epsilon, gaussian_mu
from dperm.accounting.events import Composed, Event
from dperm.errors import NoiseTooLargeError
from dperm.plan.release_plan import ReleasePlan
from dperm.privacy.guarantee import SMALLEST_EPSILON, Adjacency, Guarantee

PlanT = TypeVar("PlanT", bound=ReleasePlan)

# How often the part is planned again for a little less, at most.
_MOST_PLANS = 30


def share_of(guarantee: Guarantee, share: float) -> Guarantee:
    """The guarantee of a part that takes this share of the precision (of μ², or of a pure ε); δ stays the same.

    Parts whose shares add up to 1 keep about the whole guarantee together: `plan_beside` makes sure of it.
    """
    if guarantee.delta == 0.0:
        return Guarantee(max(share * guarantee.epsilon, SMALLEST_EPSILON), 0.0)
    mu = math.sqrt(share) * gaussian_mu(guarantee)
    return Guarantee(max(gaussian_epsilon(mu, guarantee.delta), SMALLEST_EPSILON), guarantee.delta)


def plan_beside(
    others: Event, guarantee: Guarantee, adjacency: Adjacency, plan: Callable[[Guarantee], PlanT],
    first: Guarantee | None = None,
) -> PlanT:  # fmt: skip
    """The plan of a part that, together with the others, keeps the whole guarantee; found again and again for less.

    Parameters
    ----------
    others : Event
        What all other parts cost.
    guarantee : Guarantee
        What must hold of everything together.
    adjacency : Adjacency
        The neighbouring relation.
    plan : callable
        Plans the part for a guarantee of its own; calibrated, not run.
    first : Guarantee, optional
        What to plan the part for at first: about what the others leave. By default everything.

    Raises
    ------
    NoiseTooLargeError
        If the others leave nothing.
    """
    spent = epsilon_of(others, guarantee.delta, adjacency)
    left = guarantee if first is None else first
    for _ in range(_MOST_PLANS):
        if not (spent < guarantee.epsilon and left.epsilon > SMALLEST_EPSILON):
            break
        planned = plan(left)
        together = Composed((others, planned.event))
        excess = epsilon_of(together, guarantee.delta, adjacency) - guarantee.epsilon
        if excess <= 0.0 and delta_of(together, guarantee.epsilon, adjacency) <= guarantee.delta:
            return planned
        less = left.epsilon - max(1.02 * excess, 1e-3 * left.epsilon)
        left = Guarantee(max(less, 0.5 * left.epsilon, SMALLEST_EPSILON), left.delta)
    raise NoiseTooLargeError(
        f"epsilon = {guarantee.epsilon:g} leaves nothing for the last part: the others alone cost {spent:.4g}."
    )
