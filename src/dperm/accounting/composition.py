"""What events cost together: by the tightest bound that one of them knows, or on one grid for all of them.

The proofs are in docs/proofs/composition.md. Everything here is an upper bound.
"""

import contextlib
import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dperm.accounting.curve import FINE_GRID, Curve, GaussianCurve
from dperm.accounting.events import ZCDP, Composed, Event, SingleEvent
from dperm.accounting.events.base import Parts, concentrated_curve, counted
from dperm.accounting.events.composed import check_event
from dperm.accounting.events.sampled.curve import draw_probability
from dperm.accounting.loss_sum import LossSum
from dperm.accounting.privacy_loss import LARGEST_GRID, NO_GRID, mass_rounding
from dperm.privacy.guarantee import Adjacency
from dperm.remembered import remembered

# Relative padding of sums.
_ROUNDING = 1e-12

# A grid of width h adds up to h²/4, about h²/6, to the variance of each loss. This width, relative to the root mean
# square of the losses, adds less than 1e-4 of it.
_WIDTH = 0.02


def epsilon_of(event: Event, delta: float, adjacency: Adjacency, points: int = FINE_GRID) -> float:
    """ε at this δ by the tightest bound that applies; infinite for what is not private.

    Infinite as well for sampled answers with hardly any noise, unless δ is above the probability of a draw.

    Parameters
    ----------
    event : Event
        What ran.
    delta : float
        The δ to evaluate at.
    adjacency : Adjacency
        The neighbouring relation.
    points : int
        About how many points discretise the narrowest privacy loss at most, where a grid is needed.
    """
    check_event(event)
    return _epsilon_of(event, delta, adjacency, points)


# Kept, because a noise that was found is evaluated again, and then stated.
@remembered(256)
def _epsilon_of(event: Event, delta: float, adjacency: Adjacency, points: int) -> float:
    return curve_of(event, adjacency).epsilon(delta, points)


def delta_of(event: Event, epsilon: float, adjacency: Adjacency) -> float:
    """δ at this ε by the tightest bound that applies; 1 for what is not private."""
    return curve_of(event, adjacency).delta(epsilon)


def curve_of(event: Event, adjacency: Adjacency) -> Curve:
    """The privacy curve of all that ran: what one of the classes knows about all of it, or else a mixture on a grid."""
    check_event(event)
    parts = tuple(event.leaves())
    if not parts:
        return GaussianCurve(0.0)
    for kind in _kinds(parts):
        curve = kind.composed(parts, adjacency)
        if curve is not None and not kind.grid_is_tighter(parts, len(event.releases())):
            return curve
    return MixtureCurve(event, adjacency)


def _kinds(parts: Parts) -> Iterable[type[SingleEvent]]:
    return dict.fromkeys(type(leaf) for leaf, _ in parts)


@dataclass(frozen=True)
class MixtureCurve(Curve):
    """Events of several classes, or many that are better composed on a grid: the least of all bounds that apply.

    Parameters
    ----------
    event : Event
        What ran.
    adjacency : Adjacency
        The neighbouring relation.
    """

    event: Event
    adjacency: Adjacency

    @property
    def reaches_zero(self) -> bool:  # type: ignore[override]
        """Whether all of it is pure."""
        return all(leaf.pure_epsilon is not None for leaf, _ in self.event.leaves())

    @property
    def tolerance(self) -> float:
        """Samples need a coarser grid."""
        return 2e-3 if any(leaf.is_sampled for leaf, _ in self.event.leaves()) else 2e-5

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        drawn = self._drawn_bare
        if drawn:
            rest = delta_of(self.event.without(lambda leaf: leaf.drawn_bare > 0.0), epsilon, self.adjacency)
            return min(1.0, (drawn + (1.0 - drawn) * rest) * (1.0 + 1e-15))
        atoms, delta = atoms_of(self.event, self.adjacency), 1.0
        with contextlib.suppress(*NO_GRID):
            on_grid = composed_loss(atoms, self.adjacency, FINE_GRID).get_delta_for_epsilon(epsilon)
            delta = min(1.0, max(0.0, on_grid) + mass_rounding(_total(atoms)))
        closed = self._without_grid()
        if closed is not None and delta < closed.beats_grid_below:
            delta = min(delta, closed.delta(epsilon))
        shift, rest_curve = self._pure_and_rest()
        if shift and shift <= epsilon and not isinstance(rest_curve, MixtureCurve):
            delta = min(delta, rest_curve.delta(math.nextafter(epsilon - shift, -1.0)))
        return delta

    def epsilon(self, delta: float, points: int = FINE_GRID) -> float:
        """ε at this δ."""
        closed = self._without_grid()
        if delta == 0.0:
            together = self._pure_and_rest()[0] if self.reaches_zero else math.inf
            return together if closed is None else min(together, closed.epsilon(delta))
        drawn = self._drawn_bare
        if drawn:
            left = (delta - drawn) / (1.0 - drawn) * (1.0 - 1e-12) if drawn < 1.0 else 0.0
            rest = self.event.without(lambda leaf: leaf.drawn_bare > 0.0)
            return epsilon_of(rest, left, self.adjacency, points) if left > 0.0 else math.inf
        atoms = atoms_of(self.event, self.adjacency)
        left, epsilon = delta - mass_rounding(_total(atoms)), math.inf
        if left > 0.0:
            with contextlib.suppress(*NO_GRID):
                loss = composed_loss(atoms, self.adjacency, points)
                epsilon = loss.get_epsilon_for_delta(left)
        if closed is not None and delta < closed.beats_grid_below:
            epsilon = min(epsilon, closed.epsilon(delta))
        shift, rest_curve = self._pure_and_rest()
        if shift and not isinstance(rest_curve, MixtureCurve):
            epsilon = min(epsilon, math.nextafter(shift + rest_curve.epsilon(delta, points), math.inf))
        return epsilon

    def _without_grid(self) -> Curve | None:
        """A bound for all of it that needs no grid: where all is of one class its own, else by ρ."""
        parts = tuple(self.event.leaves())
        kinds = list(_kinds(parts))
        return (
            kinds[0].composed(parts, self.adjacency) if len(kinds) == 1 else concentrated_curve(parts, self.adjacency)
        )

    @property
    def _drawn_bare(self) -> float:
        """The probability that a record is drawn by samples with hardly any noise."""
        bare = [(leaf, count) for leaf, count in self.event.leaves() if leaf.drawn_bare]
        return draw_probability([(leaf.drawn_bare, count) for leaf, count in counted(bare)])

    def _pure_and_rest(self) -> tuple[float, Curve]:
        """ε of all pure mechanisms one after the other, and the curve of what else ran."""
        pure = [(leaf.pure_epsilon, count) for leaf, count in self.event.leaves()]
        total = math.fsum(count * epsilon for epsilon, count in pure if epsilon is not None)
        rest = self.event.without(lambda leaf: leaf.pure_epsilon is not None)
        return total * (1.0 + _ROUNDING), curve_of(rest, self.adjacency)


def atoms_of(event: Event, adjacency: Adjacency) -> tuple[tuple[SingleEvent, int], ...]:
    """The events that are composed on the grid, equal ones counted together.

    All Gaussians are one, exactly. A release, that is a top-level part which is itself a composition, runs from its
    start to its end without looking at what others release meanwhile: if it is concentrated, its ρ is added up, and its
    selections of bounded range are one block. All else is taken event by event, which is right whatever they depend on.
    """
    together: dict[tuple[type[SingleEvent], int | None], list[tuple[SingleEvent, int]]] = {}
    for number, release in enumerate(event.releases()):
        parts, is_block = list(release.leaves()), isinstance(release, Composed)
        rho = _rho_of_release(parts, adjacency) if is_block else None
        for leaf, count in parts if rho is None else [(ZCDP(rho), 1)]:
            block = number if is_block and leaf.in_blocks else None
            together.setdefault((type(leaf), block), []).append((leaf, count))
    atoms = [atom for (kind, _), parts in together.items() for atom in kind.merged(parts)]
    return tuple(sorted(atoms, key=repr))  # in one order, so that the order of releases does not matter


def _rho_of_release(parts: Parts, adjacency: Adjacency) -> float | None:
    """Σρ, if ρ is known for all of it and is all that is known for some of it."""
    rhos = [(leaf.zcdp_rho(adjacency), count) for leaf, count in parts]
    known = [count * rho for rho, count in rhos if rho is not None]
    if len(known) < len(rhos) or not any(leaf.only_concentrated for leaf, _ in parts):
        return None
    return math.fsum(known) * (1.0 + _ROUNDING)


# Kept, because a ledger is asked for its ε and its δ, again and again.
@functools.lru_cache(maxsize=32)
def composed_loss(atoms: tuple[tuple[SingleEvent, int], ...], adjacency: Adjacency, points: int) -> LossSum:
    """The privacy loss of all together: an upper bound in both directions, given the masses of each.

    Parameters
    ----------
    atoms : tuple of (SingleEvent, int)
        From `atoms_of`.
    adjacency : Adjacency
        The neighbouring relation.
    points : int
        As of `epsilon_of`, for what is sampled.
    """
    width = _width(atoms, adjacency, points)
    with np.errstate(over="raise", invalid="raise"):  # an error, never a nan that compares as it likes
        return LossSum([loss for leaf, count in atoms for loss in leaf.losses(count, adjacency, width)], width)


def _width(atoms: Parts, adjacency: Adjacency, points: int) -> float:
    """Width of the grid: what some events need, and what all others do beside the whole variance."""
    variance, others, needed, widest = 0.0, 0, math.inf, 0.0
    for leaf, count in atoms:
        variance += count * leaf.scale(adjacency) ** 2
        widest = max(widest, leaf.loss_range(adjacency))
        width = leaf.grid_width(count, adjacency, points)
        if width is None:
            others += count
        else:
            needed = min(needed, width)
    if others:
        needed = min(needed, _WIDTH * math.sqrt(variance / others))
    return max(needed, widest / LARGEST_GRID)


def _total(atoms: Parts) -> int:
    return sum(count for _, count in atoms)
