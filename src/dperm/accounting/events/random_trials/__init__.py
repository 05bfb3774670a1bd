"""The best of a random number of trials, each of which may be any of some mechanisms with a private score."""

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from dperm.accounting.curve import ROUNDING, Curve, PureCurve, SmallerOf
from dperm.accounting.events.base import Event, SingleEvent
from dperm.accounting.events.composed import check_event
from dperm.accounting.events.one_of import scale_of, total_pure_epsilon
from dperm.accounting.events.plain_data import event_from_list, event_to_list
from dperm.accounting.events.pure import Pure
from dperm.accounting.privacy_loss import LossDistribution
from dperm.privacy.guarantee import Adjacency
from dperm.validation import positive


@dataclass(frozen=True)
class RandomTrials(SingleEvent):
    """The best of K independent trials, K geometric: after every trial the run stops with probability γ.

    Only what the best trial released is released, never how many there were (docs/proofs/selection.md).

    Attributes
    ----------
    trial : Event
        What one trial costs, whichever candidate it tries, with its score.
    stop : float
        γ, the probability that a trial is the last; 1/γ trials are expected.
    """

    trial: Event
    stop: float

    name: ClassVar[str] = "random trials"

    def __post_init__(self) -> None:
        """In the form that plain data have."""
        check_event(self.trial)
        if not 0.0 < positive("stop", self.stop) <= 1.0:
            raise ValueError("stop")
        object.__setattr__(self, "trial", event_from_list(event_to_list(self.trial)))

    def numbers(self) -> dict[str, Any]:
        """The events of a trial, and γ."""
        return {"trial": event_to_list(self.trial), "stop": self.stop}

    @classmethod
    def from_numbers(cls, trial: object, stop: object) -> Self:  # type: ignore[override]
        """Read plain data."""
        return cls(event_from_list(trial), positive("stop", stop))

    @property
    def pure_epsilon(self) -> float | None:
        """Three times that of a trial."""
        known = total_pure_epsilon(self.trial)
        return None if known is None else 3.0 * known * (1.0 + 4.0 * ROUNDING)

    def scale(self, adjacency: Adjacency) -> float:
        """That of a Gaussian which costs as much at the same δ, about."""
        return 3.0 * scale_of(self.trial, adjacency)

    def curve(self, adjacency: Adjacency) -> Curve:
        """By theorem 2; of pure trials it is also a pure mechanism."""
        curve, pure = trials_curve(self, adjacency), self.pure_epsilon
        return curve if pure is None else SmallerOf(curve, PureCurve(pure))

    def loss(self, adjacency: Adjacency, width: float) -> LossDistribution:
        """From the curve, unless that has a kink."""
        pure = self.pure_epsilon
        return super().loss(adjacency, width) if pure is None else Pure(pure).loss(adjacency, width)


@dataclass(frozen=True)
class TrialsCurve(Curve):
    """δ(ε) = δ_trial(ε − shift)/γ.

    Parameters
    ----------
    trial : Curve
        Of one trial.
    stop : float
        γ.
    shift : float
        2 ln(e^t + δ_trial(t)(1 − γ)/γ) for any t ≥ 0, rounded up.
    """

    trial: Curve
    stop: float
    shift: float

    @property
    def reaches_zero(self) -> bool:  # type: ignore[override]
        """Whether that of a trial does."""
        return self.trial.reaches_zero

    @property
    def tolerance(self) -> float | None:
        """That of a trial."""
        return self.trial.tolerance

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        left = (epsilon - self.shift) * (1.0 - ROUNDING)
        return 1.0 if left < 0.0 else min(1.0, self.trial.delta(left) / self.stop * (1.0 + ROUNDING))


# Kept, because the shift takes a search.
@functools.lru_cache(maxsize=64)
def trials_curve(event: RandomTrials, adjacency: Adjacency) -> TrialsCurve:
    """δ(ε) of all trials together, without the bound by a pure ε."""
    from dperm.accounting.composition import curve_of  # which imports the events

    trial, odds = curve_of(event.trial, adjacency), (1.0 - event.stop) / event.stop
    return TrialsCurve(trial, event.stop, _least_shift(trial, odds, scale_of(event.trial, adjacency)))


def _least_shift(trial: Curve, odds: float, scale: float) -> float:
    """About the smallest of the shifts; each of them gives a bound."""

    def shift(place: float) -> float:
        return 2.0 * math.log(math.exp(place) + odds * trial.delta(place)) * (1.0 + ROUNDING)

    places = np.concatenate([[0.0], np.geomspace(0.05, 20.0, 40) * scale])
    tried = [shift(place) for place in places.tolist() if place < 300.0]
    best = int(np.argmin(tried))
    low, high = places[max(best - 1, 0)], places[min(best + 1, len(tried) - 1)]
    finer = [shift(place) for place in np.linspace(low, high, 33).tolist()]
    ends = [shift(trial.epsilon(0.0))] if trial.reaches_zero else []  # of a pure trial: twice its ε
    return min((*tried, *finer, *ends))
