"""ε of a list of accounting events, as a model file holds them: plain data in, an upper bound out."""

import math
from collections.abc import Iterator
from typing import Any

from flint import arb

from dperm.rigorous.balls import NO_BOUND, Bound, least_epsilon, precision_for, working
from dperm.rigorous.checks import NoBoundError, Run
from dperm.rigorous.concentrated import concentrated_delta
from dperm.rigorous.convolution import cells_needed, composed_bound, shape_of

# What the first grid may add to the variance, and the most cells of the last.
_SHARE, _MOST_CELLS = 1e-3, 2**18

# A first bound that is so much above the promise is not refined: a finer grid takes off less.
_HOPELESS = 1.01


def rigorous_bound(events: list[dict[str, Any]], delta: float, adjacency: str, promised: float) -> Bound:
    """An upper bound on ε at this δ, on finer grids until it is at most what is promised, or the finest is reached.

    Parameters
    ----------
    events : list of dict
        What `dperm.accounting.events.event_to_list` writes.
    delta : float
        The δ to evaluate at.
    adjacency : {"replace_one", "add_remove"}
        Neighbouring relation: one record replaced, or one added/removed.
    promised : float
        The ε that is promised.
    """
    with working(precision_for(delta) + max(0, math.ceil(math.log2(sum(event["count"] for event in events))))):
        best = NO_BOUND
        try:
            run = Run(events, adjacency == "replace_one", delta)
        except NoBoundError:
            return best
        for bound in _bounds(run, delta, promised):
            if bound.epsilon < best.epsilon:
                best = bound
            if best.epsilon <= promised:
                break
    return best


def _bounds(run: Run, delta: float, promised: float) -> Iterator[Bound]:
    """The bounds that there are, the cheapest first."""
    only, pure, rho = run.only, run.pure, run.rho
    if pure is not None:
        yield _pure_bound(pure, delta)
        if only is not None and only.only_pure and sum(count for _, count in only.items) == 1:
            return
    if delta == 0.0:
        return
    known = None if only is None else only.closed_form()
    if known is not None:
        yield least_epsilon(lambda epsilon: known.delta(arb(epsilon)), delta)
        return
    if rho is not None and (only is not None or any(group.only_rho for group in run.groups.values())):
        yield least_epsilon(lambda epsilon: concentrated_delta(rho, arb(epsilon)), delta)
        if only is not None and only.only_rho:
            return
    found = run.without_bare()
    if found is not None:
        drawn, others = found
        left = math.nextafter(float(((arb(delta) - drawn) / (1 - drawn)).lower()), 0.0)
        if left > 0.0:
            yield from _bounds(others, left, promised) if others.groups else [Bound(0.0)]
        return
    yield from _on_grids(run, delta, promised)


def _on_grids(run: Run, delta: float, promised: float) -> Iterator[Bound]:
    """All on one grid after the other."""
    directions = [(parts, shape_of(parts, delta)) for parts in run.directions()]
    cells = min(_MOST_CELLS, max(cells_needed(parts, shape, _SHARE) for parts, shape in directions))
    hopeless = _HOPELESS * promised
    while cells <= _MOST_CELLS:
        bounds = [composed_bound(parts, shape, delta, cells) for parts, shape in directions]
        largest = max(bounds, key=lambda bound: bound.epsilon)
        yield largest
        if largest.epsilon > hopeless:
            return
        cells *= 4
        # A grid that is four times finer takes off about a sixteenth of what the one before did; certainly not as much.
        hopeless = promised + 0.25 * (largest.epsilon - promised)


def _pure_bound(total: arb, delta: float) -> Bound:
    """Where (e^total − e^ε)/(1 + e^total) is δ: at total + ln(1 − δ(1 + e^{−total}))."""
    inside = 1 - arb(delta) * (1 + (-total).exp())
    place = (total + inside.log()).max(arb(0)) if inside > 0 else arb(0)
    epsilon = float(place.upper())
    while not arb(epsilon) >= place:
        epsilon = math.nextafter(epsilon, math.inf)
    return Bound(epsilon, float(place.rad()) + (epsilon - float(place.mid())))
