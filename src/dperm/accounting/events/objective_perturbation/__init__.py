"""The minimiser of an objective with a random Gaussian linear term (docs/proofs/objective_perturbation.md)."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from dperm.accounting.curve import FINE_GRID, ROUNDING, Array, Curve, gaussian_delta, two_sided_delta
from dperm.accounting.events.base import Parts, SingleEvent, counted
from dperm.privacy.guarantee import Adjacency

# From so many on they are composed on a grid, which is tighter and faster. Up to so many the other way is at hand where
# δ is too small for the grid; it takes time in proportion to the square.
_MANY, _TOO_MANY = 4, 33

# Tangents that are tried for the determinant of a sigmoidal loss, and cells that a privacy loss is rounded up to.
_TANGENTS, _GRID = 32, 2000
# Where on the grid all tangents are compared, to find those that matter in between; and for each of its points the
# first of these that is not before it.
_KNOTS = np.linspace(0, _GRID, 50).astype(int)
_NEXT_KNOT = np.searchsorted(_KNOTS, np.arange(_GRID + 1)).clip(1)

_FAINT = 1e-12


@dataclass(frozen=True)
class ObjectivePerturbation(SingleEvent):
    """The minimiser of an objective with a random Gaussian linear term.

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
        Whether a row's ℓ''‖x‖² is at most 4β t(1 − t) where its gradient is t times the largest, before clipping.
    slope_share : float
        The share of their bound that slopes are clipped at; the noise multiplier is relative to what is left.
    """

    noise_multiplier: float
    log_jacobian: float
    monotone: bool
    remainder: float
    sigmoidal: bool = False
    slope_share: float = 1.0

    name: ClassVar[str] = "objective perturbation"

    def scale(self, adjacency: Adjacency) -> float:
        """That of the Gaussian alone."""
        return float(adjacency.records_moved / self.noise_multiplier)

    def curve(self, adjacency: Adjacency) -> Curve:
        """By the tails of the loss where every loss may have its own tangent, else in closed form."""
        return TailCurve((self,), adjacency) if self.sigmoidal else TangentCurve(self, adjacency)

    @classmethod
    def composed(cls, parts: Parts, adjacency: Adjacency) -> Curve | None:
        """The curve of a few of them; `TailCurve` takes too long for many."""
        together = counted(parts)
        known = [(leaf, count) for leaf, count in together if isinstance(leaf, cls)]
        if len(known) < len(together) or sum(count for _, count in known) >= _TOO_MANY:
            return None
        events = tuple(leaf for leaf, count in known for _ in range(count))
        if len(events) > 1:
            return TailCurve(events, adjacency)
        return OneMinimiser(events, adjacency) if events[0].sigmoidal else TangentCurve(events[0], adjacency)

    @classmethod
    def grid_is_tighter(cls, parts: Parts, n_releases: int) -> bool:
        """Whether there are many."""
        return sum(count for _, count in parts) >= _MANY

    def determinant_costs(self) -> tuple[tuple[float, float], ...]:
        """What the change of variables costs where the row's slope is 0, and at its bound; every pair will do.

        For a sigmoidal loss every tangent is a bound that keeps the proof's convexity (theorem 4).
        """
        if not self.sigmoidal:
            return ((self.log_jacobian, self.log_jacobian),)
        return determinant_costs(self.log_jacobian, self.slope_share)

    def loss_tail(self, adjacency: Adjacency) -> Callable[[Array], Array]:
        """P(loss > m) at the m of a grid, as the least of the bounds that the determinant's costs give."""
        mu = (1.0 + ROUNDING) / self.noise_multiplier
        flats, steeps = np.array(self.determinant_costs()).T

        def shifted(m: Array, cost: Array, shift: float) -> Array:
            return np.asarray(ndtr(0.5 * shift - (m - cost) / shift))

        def bound(m: Array, flat: Array, steep: Array) -> Array:
            if adjacency is Adjacency.ADD_REMOVE:
                total = shifted(m, steep, mu) * (1.0 if self.monotone else 2.0)
            elif self.monotone:
                total = shifted(m, steep, 2.0 * mu) + shifted(m, steep, mu) + shifted(m, flat, mu)
            else:
                total = 2.0 * (shifted(m, steep, 2.0 * mu) + shifted(m, steep, math.sqrt(2.0) * mu))
            return np.where(m >= flat, np.minimum(total, 1.0), 1.0)

        def tail(m: Array) -> Array:
            # All tangents are compared at a few m. The best one moves steadily with m, so in between those around the
            # best at both ends will do: every tangent is a bound, so one that is missed only makes the answer larger.
            best = bound(m[_KNOTS], flats[:, None], steeps[:, None]).argmin(axis=0)
            ends = np.stack([best[_NEXT_KNOT - 1], best[_NEXT_KNOT]])
            first, last = (ends.min(axis=0) - 1).clip(0), (ends.max(axis=0) + 1).clip(max=flats.size - 1)
            counts = last - first + 1
            begins = np.cumsum(counts) - counts
            tangent = np.arange(counts.sum()) - np.repeat(begins - first, counts)
            bounds = bound(np.repeat(m, counts), flats[tangent], steeps[tangent])
            return np.minimum.reduceat(bounds, begins) * (1.0 + 1e-9)

        return tail

    def loss_reach(self, adjacency: Adjacency) -> float:
        """A loss that is hardly ever exceeded."""
        shift = adjacency.records_moved / self.noise_multiplier
        return min(max(costs) for costs in self.determinant_costs()) + 0.5 * shift**2 + 10.0 * shift


# Kept, because a search for noise asks for it at every step.
@functools.lru_cache(maxsize=64)
def determinant_costs(
    log_jacobian: float, slope_share: float, rank: int = 1, tangents: int = _TANGENTS
) -> tuple[tuple[float, float], ...]:
    """For a sigmoidal loss, the values of tangents where slopes are 0, and where they are at their bound.

    At t times the largest gradient the cost is at most r ln(1 + 4(β/Λ) t(1 − t)/r), concave in t, for Hessians of rank
    r: 1 for a row, and what a unit's rows make of it (docs/proofs/units.md).
    """
    ratio = 4.0 * math.expm1(log_jacobian / rank)
    touching = slope_share * np.linspace(0.0, 1.0, tangents + 1)[1:]
    inside = ratio * touching * (1.0 - touching)
    height, slope = rank * np.log1p(inside), rank * ratio * (1.0 - 2.0 * touching) / (1.0 + inside)
    padding = ROUNDING * (1.0 + height + np.abs(slope))
    flat, steep = height - touching * slope + padding, height + (slope_share - touching) * slope + padding
    return tuple(zip(flat.tolist(), steep.tolist(), strict=True))


@dataclass(frozen=True)
class TangentCurve(Curve):
    """δ(ε) of one minimiser by theorems 2 and 4, with the best of the tangents for each ε."""

    event: ObjectivePerturbation
    adjacency: Adjacency

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        event, best = self.event, 1.0
        mu = (1.0 + ROUNDING) / event.noise_multiplier
        for at_none, at_all in event.determinant_costs():
            flat, steep = ((epsilon - event.remainder - cost) * (1.0 - ROUNDING) for cost in (at_none, at_all))
            if flat < 0.0 or steep < 0.0:
                continue
            if self.adjacency is Adjacency.ADD_REMOVE:
                delta = gaussian_delta(mu, steep) if event.monotone else two_sided_delta(mu, steep)
            elif event.monotone:
                # The corners of [0, G] × [0, G]: both rows' gradients together, and each of them alone.
                delta = gaussian_delta(2.0 * mu, steep) + gaussian_delta(mu, steep) + gaussian_delta(mu, flat)
            else:
                # The corners of [−G, G] × [−G, G] are two pairs ±v with ‖v₁‖² + ‖v₂‖² = 4G².
                delta = two_sided_delta(2.0 * mu, steep) + two_sided_delta(math.sqrt(2.0) * mu, steep)
            best = min(best, delta)
        return best


@dataclass(frozen=True)
class TailCurve(Curve):
    """δ(ε) of several minimisers, each of which may depend on what those before it released (theorem 5)."""

    events: tuple[ObjectivePerturbation, ...]
    adjacency: Adjacency

    # Where δ is so small that rounding on the grid could matter.
    beats_grid_below: ClassVar[float] = 1e-10

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        total, sums, beyond, remainder = _convolved_tails(self.events, self.adjacency)
        above = sums > epsilon - remainder
        inside = float(total[above] @ -np.expm1(epsilon - remainder - sums[above]))
        return min(1.0, (inside + beyond) * (1.0 + 1e-9) + 1e-18)


class OneMinimiser(TailCurve):
    """δ(ε) of one minimiser: by its tails, on a grid; below what that can tell, with one tangent for all losses."""

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        on_grid = super().delta(epsilon)
        if on_grid > _FAINT:
            return on_grid
        return min(on_grid, TangentCurve(self.events[0], self.adjacency).delta(epsilon))

    def epsilon(self, delta: float, points: int = FINE_GRID) -> float:
        """ε at this δ: on the grid alone where that can tell it."""
        return TailCurve(self.events, self.adjacency).epsilon(delta) if delta > _FAINT else super().epsilon(delta)


# Kept, because a calibrated plan is asked for its ε and its δ again by anyone who states them.
@functools.lru_cache(maxsize=32)
def _convolved_tails(
    events: tuple[ObjectivePerturbation, ...], adjacency: Adjacency
) -> tuple[Array, Array, float, float]:
    """Masses of the sum of the losses, where they sit, the mass beyond all of them, and the remainders' ε.

    Given the past, the privacy loss of each is at most a random variable whose tail is known. Their distributions are
    rounded up to a grid and convolved.
    """
    tails = [event.loss_tail(adjacency) for event in events]
    width = max(event.loss_reach(adjacency) for event in events) / _GRID
    losses = np.arange(_GRID + 1) * np.float64(width)
    total: Array = np.ones(1)
    beyond = 0.0
    for tail in tails:
        above = np.minimum.accumulate(tail(losses))  # P(loss > m)
        mass = -np.diff(above, prepend=1.0)  # of (m − width, m], counted at m
        total, beyond = np.convolve(total, mass), beyond + float(above[-1])
    remainder = math.fsum(event.remainder for event in events) * (1.0 + ROUNDING)
    return total, np.asarray(width * np.arange(total.size)), beyond, remainder
