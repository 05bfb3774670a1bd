"""Rényi accounting: looser than the rest and computed by other code, so that a mistake in either shows."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from dperm.accounting.curve import Array
from dperm.privacy.guarantee import Adjacency

if TYPE_CHECKING:
    from dperm.accounting.events import Event, SingleEvent


def has_renyi_bound(event: "Event") -> bool:
    """Whether `rdp_epsilon` knows all that ran."""
    return all(leaf.has_renyi_bound for leaf, _ in event.leaves())


def rdp_epsilon(event: "Event", delta: float, adjacency: Adjacency) -> float:
    """ε at this δ by Rényi accounting."""
    return renyi_epsilon(tuple(event.leaves()), delta, adjacency)


def renyi_epsilon(parts: "Iterable[tuple[SingleEvent, int]]", delta: float, adjacency: Adjacency) -> float:
    """The same for single events with their counts."""
    from dp_accounting import rdp

    parts = tuple(parts)
    orders = np.concatenate([np.arange(2, 64), [80, 96, 128, 192, 256, 384, 512]])
    if not any(leaf.is_sampled for leaf, _ in parts):  # for samples the series at fractional orders need not converge
        orders = np.concatenate([1 + np.arange(1, 10) / 10.0, orders])
    while True:
        divergences = np.zeros(orders.size)
        for leaf, count in parts:
            divergences += leaf.renyi(orders, count, adjacency)
        epsilon, order = rdp.rdp_privacy_accountant.compute_epsilon(orders, divergences, delta)
        if order < orders[-1] or orders[-1] > 1e5:
            return float(epsilon)
        # The best order lies at the edge.
        orders = np.concatenate([orders, orders[-1] * np.array([1.5, 2.0, 3.0, 4.0])])


def renyi_divergences(dp_event: Any, count: int, orders: Array) -> Array:
    """dp-accounting's divergences of this many answers, for tables with and without a record."""
    from dp_accounting import NeighboringRelation, rdp

    accountant = rdp.RdpAccountant(orders, NeighboringRelation.ADD_OR_REMOVE_ONE)
    return np.asarray(accountant.compose(dp_event, count).rdp)
