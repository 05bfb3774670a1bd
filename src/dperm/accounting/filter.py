"""A filter: what may be released from a dataset by an analyst who chooses each release in view of the results before.

The proofs are in docs/proofs/filter.md. Everything here is an upper bound.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from dperm.accounting.composition import epsilon_of
from dperm.accounting.curve import Array, gaussian_epsilon, gaussian_mu
from dperm.accounting.events import Event, Gaussian
from dperm.accounting.events.gaussian import composed_mu
from dperm.accounting.guarantee import SMALLEST_DELTA, Adjacency, Guarantee
from dperm.validation import count, nonnegative, positive

# The share of δ that Gaussians alone may use where the first release is Gaussian; what is left lets others follow.
_GAUSSIAN_SHARE = 0.95

# Relative padding of sums of divergences.
_ROUNDING = 1e-12

# Cells of the upper sum that decides how much may follow Gaussians.
_CELLS = 20_000

# So many standard deviations are summed up; what lies beyond is added as it is.
_FURTHEST = 17.0


@dataclass(frozen=True)
class Filter:
    """The rule by which a budget is checked, fixed when the budget is made.

    Attributes
    ----------
    guarantee : Guarantee
        What all releases together keep.
    order : int
        The order α of the Rényi divergences.
    renyi : float
        How much divergence all releases together may have, if the first of them is not Gaussian.
    gaussian_share : float
        The share of δ that Gaussians may use as long as there is nothing else.
    renyi_after_gaussian : float
        How much divergence all releases together may have, if the first of them is Gaussian.
    """

    guarantee: Guarantee
    order: int
    renyi: float
    gaussian_share: float
    renyi_after_gaussian: float

    @classmethod
    def of(cls, guarantee: Guarantee) -> "Filter":
        """The filter of a budget, from its ε and δ alone."""
        return _filter_of(guarantee)

    @classmethod
    def from_numbers(
        cls, guarantee: Guarantee, order: object, renyi: object, gaussian_share: object, renyi_after_gaussian: object
    ) -> "Filter":
        """Read what `numbers` gave; anything degenerate raises ValueError."""
        if count("order", order) < 2 or not 0.0 < positive("gaussian_share", gaussian_share) <= 1.0:
            raise ValueError("filter")
        limits = nonnegative("renyi", renyi), nonnegative("renyi_after_gaussian", renyi_after_gaussian)
        return cls(guarantee, count("order", order), limits[0], positive("gaussian_share", gaussian_share), limits[1])

    def numbers(self) -> dict[str, Any]:
        """All but the guarantee, ready for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "guarantee"}

    def epsilon(self, releases: Sequence[Event], adjacency: Adjacency) -> float:
        """What these releases, in this order, count for: they are within the budget if it is at most the budget's ε.

        Parameters
        ----------
        releases : sequence of Event
            All releases, the oldest first; each may have been chosen in view of those before it.
        adjacency : Adjacency
            Named, as everywhere.
        """
        if not releases:
            return 0.0
        total, delta = self.guarantee.epsilon, self.guarantee.delta
        leaves = [leaf for release in releases for leaf in release.leaves()]
        bounds = []
        if len(releases) == 1:  # it was chosen before there was anything to look at
            bounds.append(epsilon_of(releases[0], delta, adjacency))
        pure = [leaf.pure_epsilon for leaf, _ in leaves]
        known = [epsilon * times for epsilon, (_, times) in zip(pure, leaves, strict=True) if epsilon is not None]
        if len(known) == len(leaves):
            bounds.append(math.fsum(known))
        if delta == 0.0:
            return min(bounds, default=math.inf)
        first_is_gaussian = _is_gaussian(releases[0])
        if first_is_gaussian and all(map(_is_gaussian, releases)):
            bounds.append(gaussian_epsilon(composed_mu(leaves, adjacency), self.gaussian_share * delta))
        allowed = self.renyi_after_gaussian if first_is_gaussian else self.renyi
        if allowed > 0.0:
            divergence = math.fsum(times * leaf.renyi_divergence(self.order, adjacency) for leaf, times in leaves)
            bounds.append(divergence * (1.0 + _ROUNDING) + (total - allowed))
        return min(bounds, default=math.inf)


def _is_gaussian(release: Event) -> bool:
    return all(isinstance(leaf, Gaussian) for leaf, _ in release.leaves())


@functools.lru_cache(maxsize=64)
def _filter_of(guarantee: Guarantee) -> Filter:
    if guarantee.delta == 0.0:
        return Filter(guarantee, 2, 0.0, 1.0, 0.0)
    epsilon, log_delta = guarantee.epsilon, math.log(guarantee.delta)
    orders = np.unique(np.geomspace(2.0, 1e8, 4000).astype(np.int64)).astype(np.float64)
    # The most Gaussian releases, whose divergence grows as α.
    best = int(np.argmax((epsilon + (log_delta - _log_constant(orders)) / (orders - 1.0)) / orders))
    order = int(orders[best])
    alone = float(epsilon + (log_delta - _log_constant(orders)[best]) / (order - 1.0)) * (1.0 - _ROUNDING)
    if alone <= 0.0 or _GAUSSIAN_SHARE * guarantee.delta < SMALLEST_DELTA:
        return Filter(guarantee, order, max(alone, 0.0), 1.0, 0.0)
    precision = gaussian_mu(Guarantee(epsilon, _GAUSSIAN_SHARE * guarantee.delta)) ** 2
    low, high = 0.0, alone
    for _ in range(30):
        middle = 0.5 * (low + high)
        kept = delta_of_either(guarantee.epsilon, precision, middle, order) <= guarantee.delta
        low, high = (middle, high) if kept else (low, middle)
    return Filter(guarantee, order, alone, _GAUSSIAN_SHARE, low)


def _log_constant(order: Array | float) -> Array:
    """Ln of the largest (1 − 1/r) r^{1−α} over r ≥ 1: (1 − 1/α)^α/(α − 1)."""
    return np.asarray(order * np.log1p(-1.0 / order) - np.log(order - 1.0))


def delta_of_either(epsilon: float, precision: float, divergence: float, order: int) -> float:
    """δ at ε where Gaussians alone may spend `precision`, and all together, with others, `divergence` at this order.

    Parameters
    ----------
    epsilon : float
        ε.
    precision : float
        The largest Σμ².
    divergence : float
        The largest sum of Rényi divergences.
    order : int
        Their order α.
    """
    most = min(precision, 2.0 * divergence / order)  # the Gaussians after which others may still follow
    root, tilt = math.sqrt(most), (order - 1.0) * math.sqrt(most)
    z = np.linspace(-_FURTHEST, tilt + _FURTHEST, _CELLS + 1)
    losses = root * z + 0.5 * most
    log_constant = float(_log_constant(float(order)))
    log_others = log_constant + (order - 1.0) * (divergence - 0.5 * order * most - epsilon + losses)
    worse = np.maximum(
        _gaussian_deltas(math.sqrt(precision - most), epsilon - losses), np.exp(np.minimum(log_others, 700.0))
    )
    # Both rise with the loss: each cell counts with its right end.
    inside = float(np.diff(ndtr(z)) @ worse[1:]) + float(ndtr(z[0]) * worse[0])
    all_others = math.exp(log_constant + (order - 1.0) * (divergence - epsilon))
    beyond = float(ndtr(-z[-1])) + all_others * float(ndtr(-_FURTHEST))
    return (inside + beyond) * (1.0 + 1e-9)


def _gaussian_deltas(mu: float, epsilons: Array) -> Array:
    """`gaussian_delta` at many ε, negative ones too; its padding is small beside that of the sum."""
    if mu == 0.0:
        return np.asarray(-np.expm1(np.minimum(epsilons, 0.0)))
    first, second = log_ndtr(0.5 * mu - epsilons / mu), epsilons + log_ndtr(-0.5 * mu - epsilons / mu)
    return np.asarray(np.exp(first) * -np.expm1(np.minimum(second - first, 0.0)))
