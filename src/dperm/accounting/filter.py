"""A privacy filter: what an adaptive analyst may release from a dataset.

The proofs are in docs/proofs/filter.md. Everything here is an upper bound.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from dperm.accounting.composition import curve_of, epsilon_of
from dperm.accounting.curve import Array, Curve, gaussian_epsilon
from dperm.accounting.divergence import renyi_divergence
from dperm.accounting.events import Event, Gaussian
from dperm.accounting.events.gaussian import composed_mu
from dperm.privacy.guarantee import SMALLEST_DELTA, Adjacency, Guarantee
from dperm.validation import count, nonnegative, positive

# Addition: releases take their promised δ in full up to a half of the budget's, a quarter of it from there up to all of
# it, and halves of a spare beyond. One that promises all of δ takes five eighths of it, with which ε = 1 and a pure
# ε = 0.5 after it cost no more than 1.5.
_FULL, _PART, _SPARE = 0.5, 0.25, 0.01

# The share of δ for Gaussians alone where the first release is Gaussian. Rényi divergences have the rest.
_GAUSSIAN = 0.265

# Relative padding of sums and roots.
_ROUNDING = 1e-12

# Of Rényi divergences.
_LARGEST_ORDER = 10**8

# Another machine may round the last digits of a share differently.
_LAST_DIGITS = 1e-9


@dataclass(frozen=True)
class Charge:
    """A release as a budget counts it.

    Attributes
    ----------
    event : Event
        What runs.
    delta : float
        The δ of its promise; addition counts its ε at this δ.
    """

    event: Event
    delta: float


@dataclass(frozen=True)
class Filter:
    """The rules of a budget, fixed when it is made: a release may run if one of them allows it.

    Each rule has a share of δ, so that all together keep the budget's δ.

    Attributes
    ----------
    guarantee : Guarantee
        What all releases together keep.
    full : float
        The share of δ up to which promises are added up at their own δ.
    part : float
        How much of their δ they take from there on, up to all of the budget's δ.
    spare : float
        The share of δ that is kept for promises beyond that.
    order, renyi : int, float
        An order α of Rényi divergences, and how much divergence all releases together may have, if the first of them
        is not Gaussian.
    gaussian : float
        The share of δ for Gaussians alone, if the first release is Gaussian.
    order_after_gaussian, renyi_after_gaussian : int, float
        As `order` and `renyi`, if the first release is Gaussian.
    """

    guarantee: Guarantee
    full: float
    part: float
    spare: float
    order: int
    renyi: float
    gaussian: float
    order_after_gaussian: int
    renyi_after_gaussian: float

    @classmethod
    def of(cls, guarantee: Guarantee) -> "Filter":
        """The filter of a budget, from its ε and δ alone."""
        return _filter_of(guarantee)

    @classmethod
    def from_numbers(
        cls, guarantee: Guarantee, full: object, part: object, spare: object, order: object, renyi: object,
        gaussian: object, order_after_gaussian: object, renyi_after_gaussian: object,
    ) -> "Filter":  # fmt: skip
        """Read what `numbers` gave; anything degenerate, and rules that together take more than δ, raise ValueError."""
        shares = [positive("share", share) for share in (full, part, spare, gaussian)]
        orders = count("order", order), count("order", order_after_gaussian)
        if max(shares) > 1.0 or min(orders) < 2:
            raise ValueError("filter")
        limits = nonnegative("renyi", renyi), nonnegative("renyi", renyi_after_gaussian)
        rest = _beside_addition(shares[0], shares[1], shares[2])
        _check_limit(guarantee, rest, orders[0], limits[0])
        _check_limit(guarantee, rest - shares[3], orders[1], limits[1])
        return cls(guarantee, shares[0], shares[1], shares[2], orders[0], limits[0], shares[3], orders[1], limits[1])

    def numbers(self) -> dict[str, Any]:
        """All but the guarantee, ready for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "guarantee"}

    def epsilon(self, charges: Sequence[Charge], adjacency: Adjacency) -> float:
        """What these releases, in this order, count for: they are within the budget if it is at most the budget's ε.

        Parameters
        ----------
        charges : sequence of Charge
            All releases, the oldest first; each may have been chosen after seeing those before it.
        adjacency : Adjacency
            The neighbouring relation.
        """
        if not charges:
            return 0.0
        delta = self.guarantee.delta
        bounds = [self._pure(charges), self._renyi(charges, adjacency), self._gaussian(charges, adjacency)]
        if len(charges) == 1:  # it was chosen before there was anything to look at
            bounds.append(epsilon_of(charges[0].event, delta, adjacency))
        elif delta > 0.0:
            own, others = self._added(charges, adjacency, min(bounds))
            bounds.append(with_pure(charges[0].event, own, others, adjacency))
        return min(bounds)

    def left(self, charges: Sequence[Charge], adjacency: Adjacency) -> float:
        """ε of a further release with δ = 0 that fits, whatever it is; others may fit that are larger."""
        if not charges:
            return self.guarantee.epsilon
        bounds = [self._pure(charges), self._renyi(charges, adjacency)]
        own, others = self._added(charges, adjacency, min(bounds))
        bounds.append(epsilon_of(charges[0].event, own, adjacency) + others)
        return max(0.0, self.guarantee.epsilon - min(bounds))

    def _pure(self, charges: Sequence[Charge]) -> float:
        """The sum of their ε, if all are pure."""
        leaves = [leaf for charge in charges for leaf in charge.event.leaves()]
        known = [times * leaf.pure_epsilon for leaf, times in leaves if leaf.pure_epsilon is not None]
        return math.fsum(known) if len(known) == len(leaves) else math.inf

    def _renyi(self, charges: Sequence[Charge], adjacency: Adjacency) -> float:
        """By the divergence of all of them."""
        order, allowed = self.order, self.renyi
        if _is_gaussian(charges[0]):
            order, allowed = self.order_after_gaussian, self.renyi_after_gaussian
        if allowed == 0.0:
            return math.inf
        leaves = (leaf for charge in charges for leaf in charge.event.leaves())
        divergence = math.fsum(times * renyi_divergence(leaf, order, adjacency) for leaf, times in leaves)
        return divergence * (1.0 + _ROUNDING) + (self.guarantee.epsilon - allowed)

    def _gaussian(self, charges: Sequence[Charge], adjacency: Adjacency) -> float:
        """By Σμ², if all are Gaussian."""
        if self.guarantee.delta == 0.0 or not all(map(_is_gaussian, charges)):
            return math.inf
        leaves = [leaf for charge in charges for leaf in charge.event.leaves()]
        return gaussian_epsilon(composed_mu(leaves, adjacency), self.gaussian * self.guarantee.delta)

    def _added(self, charges: Sequence[Charge], adjacency: Adjacency, enough: float) -> tuple[float, float]:
        """The δ that the first release takes, and Σε of the others, each at the δ that it takes.

        Nobody needs the sum if it is beyond `enough`.
        """
        deltas = self._taken([charge.delta for charge in charges])
        others = 0.0
        for charge, delta in zip(charges[1:], deltas[1:], strict=True):
            others += epsilon_of(charge.event, delta, adjacency)
            if others > enough:
                return deltas[0], math.inf
        return deltas[0], others * (1.0 + _ROUNDING)

    def _taken(self, promised: Sequence[float]) -> list[float]:
        """The δ that releases with these promises take."""
        delta, before, found = self.guarantee.delta, 0.0, []
        spare = self.spare * delta
        for own in promised:
            in_full = min(own, max(0.0, self.full * delta - before))
            in_part = min(own - in_full, max(0.0, delta - before - in_full))
            taken = in_full + self.part * in_part
            if own > in_full + in_part:
                spare *= 0.5
                taken += spare
            before, taken = before + own, min(own, taken)
            found.append(taken if taken >= SMALLEST_DELTA else 0.0)
        return found


def with_pure(event: Event, delta: float, others: float, adjacency: Adjacency) -> float:
    """ε at this δ of a release and of anything after it that is differentially private with a pure ε of `others`.

    Parameters
    ----------
    event : Event
        The release.
    delta : float
        The δ to evaluate at.
    others : float
        The pure ε of what follows, chosen after seeing the release or not.
    adjacency : Adjacency
        The neighbouring relation.
    """
    alone = epsilon_of(event, delta, adjacency)
    added = (alone + others) * (1.0 + _ROUNDING)
    if others == 0.0 or delta == 0.0 or not math.isfinite(added):
        return added
    curve, likely = curve_of(event, adjacency), 1.0 / (1.0 + math.exp(-others))

    def excess(epsilon: float) -> float:
        """What follows is at worst a randomized response."""
        worse, better = _delta(curve, epsilon - others), _delta(curve, epsilon + others)
        return (likely * worse + (1.0 - likely) * better) * (1.0 + _ROUNDING) - delta

    if not excess(alone) > 0.0 > excess(added):
        return added
    root = float(brentq(excess, alone, added, xtol=1e-13, rtol=1e-13))
    return next((root + pad for pad in (1e-11, 1e-9, 1e-7) if excess(root + pad) <= 0.0), added)


def _delta(curve: Curve, epsilon: float) -> float:
    """δ(ε), at negative ε too: there it is 1 − e^ε + e^ε δ(−ε) of the other direction."""
    return curve.delta(epsilon) if epsilon >= 0.0 else math.exp(epsilon) * curve.delta(-epsilon) - math.expm1(epsilon)


def _is_gaussian(charge: Charge) -> bool:
    return all(isinstance(leaf, Gaussian) for leaf, _ in charge.event.leaves())


@functools.lru_cache(maxsize=64)
def _filter_of(guarantee: Guarantee) -> Filter:
    if guarantee.delta == 0.0:
        return Filter(guarantee, 1.0, 1.0, 1.0, 2, 0.0, 1.0, 2, 0.0)
    rest = _beside_addition(_FULL, _PART, _SPARE)
    alone, beside = renyi_limit(guarantee, rest), renyi_limit(guarantee, rest - _GAUSSIAN)
    return Filter(guarantee, _FULL, _PART, _SPARE, *alone, _GAUSSIAN, *beside)


def _beside_addition(full: float, part: float, spare: float) -> float:
    """The share of δ that addition leaves to the other rules."""
    return 1.0 - (full + part * (1.0 - full) + spare)


def _check_limit(guarantee: Guarantee, share: float, order: int, limit: float) -> None:
    """Raise ValueError if this much divergence takes more than its share of δ: R ≤ ε + (ln(vδ) − ln C)/(α − 1).

    The shares may be those of another version. With δ = 0 there is nothing to share, and no divergence is allowed.
    """
    if limit == 0.0:  # the rule is not used
        sound = guarantee.delta == 0.0 or share >= -_LAST_DIGITS
    elif guarantee.delta == 0.0 or share <= 0.0 or order > _LARGEST_ORDER:
        sound = False
    else:
        sound = limit <= float(_limits(guarantee, share, np.array([float(order)]))[0]) + _LAST_DIGITS / order
    if not sound:
        raise ValueError("filter")


def renyi_limit(guarantee: Guarantee, share: float) -> tuple[int, float]:
    """The order at which the most Gaussian releases fit, whose divergence grows as α, and the divergence that fits.

    Parameters
    ----------
    guarantee : Guarantee
        What all releases together keep.
    share : float
        The share of δ for this rule.
    """
    orders = np.unique(np.geomspace(2.0, _LARGEST_ORDER, 4000).astype(np.int64)).astype(np.float64)
    limits = _limits(guarantee, share, orders)
    best = int(np.argmax(limits / orders))
    return int(orders[best]), max(0.0, float(limits[best]) * (1.0 - _ROUNDING))


def _limits(guarantee: Guarantee, share: float, orders: Array) -> Array:
    """The divergence of each order that takes just this share of δ."""
    log_delta = math.log(share) + math.log(guarantee.delta)
    return np.asarray(guarantee.epsilon + (log_delta - _log_constant(orders)) / (orders - 1.0))


def _log_constant(order: Array) -> Array:
    """Ln of the largest (1 − 1/r) r^{1−α} over r ≥ 1: (1 − 1/α)^α/(α − 1)."""
    return np.asarray(order * np.log1p(-1.0 / order) - np.log(order - 1.0))
