"""How finely privacy losses are discretised."""

import math

import dp_accounting
from dp_accounting import dp_event

from dperm.accounting.guarantee import Adjacency

RELATION = {
    Adjacency.REPLACE_ONE: dp_accounting.NeighboringRelation.REPLACE_ONE,
    Adjacency.ADD_REMOVE: dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
}

# Points in a discretised privacy loss: the accountant's own, a faster one to search with, and the most there may be.
FINE_GRID = 40_000
COARSE_GRID = 8_000
LARGEST_GRID = 300_000


def interval(leaf: dp_event.DpEvent, count: int, adjacency: Adjacency, points: int) -> float:
    """Width of the discretisation that a mechanism needs: a share of its loss, or more where many repetitions allow it.

    Rounding up on intervals of width h adds about 2·count·h² to ε: with h² = 1/(points·count), 2/points.
    """
    wide = loss_range(leaf, adjacency)
    return min(max(wide / points, math.sqrt(1.0 / (points * count))), wide / 1000.0)


def loss_range(leaf: dp_event.DpEvent, adjacency: Adjacency) -> float:
    """About how wide one (sampled) Gaussian's privacy loss is: little noise makes it wide."""
    noise = getattr(leaf, "event", leaf).noise_multiplier / adjacency.records_moved
    return float(1.0 / (2.0 * noise**2) + 10.0 / noise)
