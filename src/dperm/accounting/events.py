"""Accounting events that dp-accounting does not have, and all events as plain data. Each says all its price needs."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from dp_accounting import dp_event

from dperm.errors import InvalidParameter
from dperm.validation import count as whole
from dperm.validation import finite, nonnegative, positive, size


@dataclass(frozen=True)
class PureDpEvent(dp_event.DpEvent):  # type: ignore[misc]
    """A mechanism that is ε-differentially private with δ = 0, under the adjacency of its plan.

    Attributes
    ----------
    epsilon : float
        ε.
    """

    epsilon: float


@dataclass(frozen=True)
class ObjectivePerturbationDpEvent(dp_event.DpEvent):  # type: ignore[misc]
    """The minimiser of an objective with a random Gaussian linear term (docs/proofs/objective_perturbation.md).

    Attributes
    ----------
    noise_multiplier : float
        σ/G: the standard deviation of the linear term over one record's largest gradient.
    log_jacobian : float
        ln(1 + β/Λ): what the change of variables from the linear term to the minimiser can cost.
    monotone : bool
        Whether every row's slope keeps its sign.
    remainder : float
        ε of the output noise that hides how far the minimisation was from done.
    sigmoidal : bool
        Whether a row's ℓ''‖x‖² is at most 4β t(1 − t) where its gradient is t times the largest, before slopes are cut.
    slope_share : float
        The share of their bound that slopes are cut to; the noise multiplier is relative to what is left.
    """

    noise_multiplier: float
    log_jacobian: float
    monotone: bool
    remainder: float
    sigmoidal: bool = False
    slope_share: float = 1.0


def leaves(event: dp_event.DpEvent, count: int = 1) -> Iterator[tuple[dp_event.DpEvent, int]]:
    """Flatten compositions into single mechanisms with their counts."""
    if isinstance(event, dp_event.ComposedDpEvent):
        for part in event.events:
            yield from leaves(part, count)
    elif isinstance(event, dp_event.SelfComposedDpEvent):
        yield from leaves(event.event, count * event.count)
    else:
        yield event, count


def releases(event: dp_event.DpEvent) -> tuple[dp_event.DpEvent, ...]:
    """The top-level parts. A composition of one is that one, so that a fit costs in a ledger what it costs alone."""
    while isinstance(event, dp_event.ComposedDpEvent) and len(event.events) == 1:
        event = event.events[0]
    return tuple(event.events) if isinstance(event, dp_event.ComposedDpEvent) else (event,)


def without(event: dp_event.DpEvent, unwanted: Callable[[dp_event.DpEvent], bool]) -> dp_event.DpEvent:
    """The same composition without some of its single mechanisms."""
    if isinstance(event, dp_event.ComposedDpEvent):
        return dp_event.ComposedDpEvent([without(part, unwanted) for part in event.events])
    if isinstance(event, dp_event.SelfComposedDpEvent):
        return dp_event.SelfComposedDpEvent(without(event.event, unwanted), event.count)
    return dp_event.ComposedDpEvent([]) if unwanted(event) else event


def event_to_list(event: dp_event.DpEvent) -> list[dict[str, Any]]:
    """The single mechanisms with their counts, ready for JSON; `event_from_list` reads them back.

    Raises
    ------
    InvalidParameter
        If there is a mechanism that could not be read back as what it is.
    """
    return [{"mechanism": _NAMES.get(type(leaf)), **_numbers(leaf), "count": count} for leaf, count in leaves(event)]


def event_from_list(items: Any) -> dp_event.DpEvent:
    """Read what `event_to_list` wrote.

    Raises
    ------
    ValueError, KeyError, TypeError
        If it is not that: a name that is not known, a number that is missing, degenerate or not finite.
    """
    if not isinstance(items, list) or not items:
        raise ValueError("events")
    return dp_event.ComposedDpEvent([_from_dict(dict(item)) for item in items])


_NAMES: dict[type[dp_event.DpEvent], str] = {
    dp_event.GaussianDpEvent: "gaussian",
    dp_event.PoissonSampledDpEvent: "sampled gaussian",
    dp_event.ZCDpEvent: "zcdp",
    PureDpEvent: "pure",
    ObjectivePerturbationDpEvent: "objective perturbation",
    dp_event.NonPrivateDpEvent: "not private",
}


def _numbers(leaf: dp_event.DpEvent) -> dict[str, Any]:
    match leaf:
        case dp_event.GaussianDpEvent():
            return {"noise_multiplier": leaf.noise_multiplier}
        case dp_event.PoissonSampledDpEvent(event=dp_event.GaussianDpEvent()):
            multiplier = leaf.event.noise_multiplier
            return {"noise_multiplier": multiplier, "sampling_probability": leaf.sampling_probability}
        case dp_event.ZCDpEvent(xi=0):
            return {"rho": leaf.rho}
        case PureDpEvent() | ObjectivePerturbationDpEvent():
            return asdict(leaf)
        case dp_event.NonPrivateDpEvent():
            return {}
        case _:
            raise InvalidParameter(f"dperm has no price for the mechanism {type(leaf).__name__} as it stands here.")


def _from_dict(item: dict[str, Any]) -> dp_event.DpEvent:
    repeated, name = whole("count", item.pop("count")), item.pop("mechanism")
    event = _BUILDERS[name](**item)  # a field too many or too few raises
    return event if repeated == 1 else dp_event.SelfComposedDpEvent(event, repeated)


def _sampled(noise_multiplier: object, sampling_probability: object) -> dp_event.DpEvent:
    rate = finite("sampling_probability", sampling_probability)
    if not 0.0 < rate <= 1.0:
        raise ValueError("sampling_probability")
    return dp_event.PoissonSampledDpEvent(rate, _gaussian(noise_multiplier))


def _gaussian(noise_multiplier: object) -> dp_event.DpEvent:
    return dp_event.GaussianDpEvent(size("noise_multiplier", noise_multiplier))


def _objective(**values: Any) -> ObjectivePerturbationDpEvent:
    names = {field.name for field in fields(ObjectivePerturbationDpEvent)}
    flags = names & {"monotone", "sigmoidal"}
    if set(values) != names or not all(isinstance(values[name], bool) for name in flags):
        raise ValueError("objective perturbation")
    size("noise_multiplier", values["noise_multiplier"])
    for name in names - flags:
        nonnegative(name, values[name])
    if not 0.0 < values["slope_share"] <= 1.0:
        raise ValueError("slope_share")
    return ObjectivePerturbationDpEvent(**values)


_BUILDERS: dict[str, Callable[..., dp_event.DpEvent]] = {
    "gaussian": _gaussian,
    "sampled gaussian": _sampled,
    "zcdp": lambda rho: dp_event.ZCDpEvent(positive("rho", rho)),
    "pure": lambda epsilon: PureDpEvent(positive("epsilon", epsilon)),
    "objective perturbation": _objective,
    "not private": dp_event.NonPrivateDpEvent,
}
