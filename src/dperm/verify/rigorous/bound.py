"""ε of a list of accounting events, as a model file holds them: plain data in, an upper bound out."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from flint import arb

from dperm.verify.rigorous.balls import NO_BOUND, Bound, least_epsilon, precision_for, working
from dperm.verify.rigorous.choice import GaussianCurve, GridCurve, KnownCurve, OneOfPair, PureCurve, TrialsPair
from dperm.verify.rigorous.concentrated import ConcentratedPair, concentrated_delta
from dperm.verify.rigorous.convolution import Parts, cells_needed, composed_bound, shape_of
from dperm.verify.rigorous.gaussian import GaussianPair, composed_mu, gaussian_delta
from dperm.verify.rigorous.objective import ObjectivePair
from dperm.verify.rigorous.pairs import Pair
from dperm.verify.rigorous.pure import PurePair
from dperm.verify.rigorous.sampled import AddedRecord, RemovedRecord, ReplacedRecord, draw_probability
from dperm.verify.rigorous.selection import SelectionPair, can_recur
from dperm.verify.rigorous.softmax import SoftmaxPair
from dperm.verify.rigorous.unit import UnitPair

# One kind of event with its numbers in order, so that equal ones can be counted together.
Leaf = tuple[str, tuple[tuple[str, Any], ...]]

# A sampled answer with less noise shows a record that is drawn; its loss is too wide for a grid.
_BARE = 0.02

# Selections that are one block; what more of them take is composed on a grid.
_LARGEST_BLOCK = 256

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
        Which two tables cannot be told apart.
    promised : float
        The ε that is promised.
    """
    with working(precision_for(delta) + max(0, math.ceil(math.log2(sum(event["count"] for event in events))))):
        best = NO_BOUND
        for bound in _bounds(_Events(events, adjacency == "replace_one", delta), delta, promised):
            if bound.epsilon < best.epsilon:
                best = bound
            if best.epsilon <= promised:
                break
    return best


def _counted(events: list[dict[str, Any]]) -> Counter[Leaf]:
    leaves: Counter[Leaf] = Counter()
    for event in events:
        numbers = {name: value for name, value in event.items() if name not in ("mechanism", "count")}
        # Events within events are told apart by their text.
        plain = {name: json.dumps(value) if isinstance(value, list) else value for name, value in numbers.items()}
        leaves[event["mechanism"], tuple(sorted(plain.items()))] += event["count"]
    return leaves


class _Events:
    """The events by kind, as they are needed for one adjacency, and about this δ."""

    def __init__(self, events: list[dict[str, Any]], replace_one: bool, delta: float) -> None:
        self.moved = 2 if replace_one else 1
        self.delta = delta
        self.gaussians: list[tuple[float, int]] = []
        self.sampled: list[tuple[float, float, int]] = []
        self.pure: list[tuple[float, int]] = []
        self.rhos: list[tuple[float, int]] = []
        self.ranges: list[tuple[float, int]] = []
        # Of each of which the curve is known: minimisers, choices.
        self.curves: list[tuple[ObjectivePair | SoftmaxPair | UnitPair | OneOfPair | TrialsPair, int]] = []
        self.not_private = False
        for (kind, pairs), count in _counted(events).items():
            numbers = dict(pairs)
            if kind == "gaussian" or (kind == "sampled gaussian" and numbers["sampling_probability"] == 1.0):
                self.gaussians.append((numbers["noise_multiplier"], count))
            elif kind == "sampled gaussian":
                self.sampled.append((numbers["sampling_probability"], numbers["noise_multiplier"], count))
            elif kind == "pure":
                self.pure.append((numbers["epsilon"], count))
            elif kind == "zcdp":
                self.rhos.append((numbers["rho"], count))
            elif kind == "bounded range":
                self.ranges.append((numbers["epsilon"], count))
            elif kind == "objective perturbation":
                self.curves.append((ObjectivePair(**numbers, replace_one=replace_one), count))
            elif kind == "softmax perturbation":
                self.curves.append((SoftmaxPair(**numbers, replace_one=replace_one), count))
            elif kind == "unit perturbation":
                self.curves.append((UnitPair(**numbers, replace_one=replace_one), count))
            elif kind == "one of":
                each = [_Events(events, replace_one, delta) for events in json.loads(numbers["alternatives"])]
                self.not_private |= any(one.not_private for one in each)
                known = [total for one in each if (total := one.pure_total) is not None]
                pure = max(known, key=lambda ball: float(ball.upper())) if len(known) == len(each) else None
                self.curves.append((OneOfPair(tuple(one.curve() for one in each), pure), count))
            elif kind == "random trials":
                trial = _Events(json.loads(numbers["trial"]), replace_one, numbers["stop"] * delta)
                self.not_private |= trial.not_private
                self.curves.append((TrialsPair(trial.curve(), numbers["stop"], trial.pure_total), count))
            else:
                self.not_private = True

    @property
    def kinds(self) -> list[str]:
        """Which kinds there are."""
        names = ("gaussians", "sampled", "pure", "rhos", "ranges", "curves")
        return [name for name in names if getattr(self, name)]

    @property
    def pure_total(self) -> arb | None:
        """Σ of the pure ε, None if there is something without one; a range holds 0, so no loss is beyond its length."""
        chosen = [
            count * pair.pure
            for pair, count in self.curves
            if isinstance(pair, OneOfPair | TrialsPair) and pair.pure is not None
        ]
        if self.gaussians or self.sampled or self.rhos or self.not_private or len(chosen) < len(self.curves):
            return None
        return sum((count * arb(epsilon) for epsilon, count in self.pure + self.ranges), sum(chosen, arb(0)))

    def curve(self) -> KnownCurve:
        """δ of all of it at every ε, in closed form or else on a grid."""
        kinds = self.kinds
        if kinds == ["gaussians"]:
            return GaussianCurve(self.mu)
        if kinds == ["curves"] and [count for _, count in self.curves] == [1]:
            return self.curves[0][0]
        pure = self.pure_total
        if pure is not None and (kinds == ["pure"] or self.delta == 0.0):
            return PureCurve(pure)
        if kinds == ["ranges"]:
            blocks = self.selections()
            if isinstance(blocks[0][0], SelectionPair) and [times for _, times in blocks] == [1]:
                return blocks[0][0]
        return GridCurve(self.directions(), self.delta)

    @property
    def mu(self) -> arb:
        """μ of all Gaussians together."""
        return composed_mu(self.gaussians, self.moved)

    @property
    def rho(self) -> arb | None:
        """Σρ, None if there is something without a ρ."""
        if self.sampled or self.curves:
            return None
        total = sum((count * arb(rho) for rho, count in self.rhos), arb(0))
        total += sum((count * arb(epsilon) ** 2 / 2 for epsilon, count in self.pure), arb(0))
        total += sum((count * arb(epsilon) ** 2 / 8 for epsilon, count in self.ranges), arb(0))
        return total + self.mu**2 / 2

    def selections(self) -> Parts:
        """All selections as blocks of equal ones: a range is also one of any larger length."""
        if not self.ranges:
            return []
        length, total = max(epsilon for epsilon, _ in self.ranges), sum(count for _, count in self.ranges)
        blocks, rest = divmod(total, _LARGEST_BLOCK)
        sizes = [(size, times) for size, times in ((_LARGEST_BLOCK, blocks), (rest, 1)) if size * times > 0]
        if not all(can_recur(length, size) for size, _ in sizes):
            return [(ConcentratedPair(arb(epsilon) ** 2 / 8), count) for epsilon, count in self.ranges]
        return [(SelectionPair(length, size), times) for size, times in sizes]

    def directions(self) -> list[Parts]:
        """What is composed on a grid, once for every direction between adjacent tables that makes a difference."""
        both: Parts = [(PurePair(epsilon), count) for epsilon, count in self.pure]
        both += [(ConcentratedPair(arb(rho)), count) for rho, count in self.rhos]
        both += self.selections()
        both += self.curves
        if self.gaussians:
            both.append((GaussianPair(self.mu), 1))
        if not self.sampled:
            return [both]
        kinds: list[Callable[[float, float], Pair]] = (
            [ReplacedRecord] if self.moved == 2 else [RemovedRecord, AddedRecord]
        )
        return [both + [(kind(rate, noise), count) for rate, noise, count in self.sampled] for kind in kinds]


def _bounds(events: _Events, delta: float, promised: float) -> Iterator[Bound]:
    """The bounds that there are, the cheapest first."""
    kinds = events.kinds
    if events.not_private:
        return
    pure = events.pure_total if kinds else None
    if pure is not None:
        yield _pure_bound(pure, delta)
        if kinds == ["pure"] and sum(count for _, count in events.pure) == 1:
            return
    if delta == 0.0:
        return
    if kinds == ["gaussians"]:
        mu = events.mu
        yield least_epsilon(lambda epsilon: gaussian_delta(mu, arb(epsilon)), delta)
        return
    if kinds == ["curves"] and [count for _, count in events.curves] == [1]:
        pair = events.curves[0][0]
        yield least_epsilon(lambda epsilon: pair.delta(arb(epsilon)), delta)
        return
    if kinds == ["ranges"]:
        blocks = events.selections()
        if isinstance(blocks[0][0], SelectionPair) and [times for _, times in blocks] == [1]:
            selected = blocks[0][0]
            yield least_epsilon(lambda epsilon: selected.delta(arb(epsilon)), delta)
            return
    rho = events.rho
    if rho is not None and (events.rhos or kinds in (["pure"], ["ranges"])):
        yield least_epsilon(lambda epsilon: concentrated_delta(rho, arb(epsilon)), delta)
        if kinds == ["rhos"]:
            return
    yield from _on_grids(events, delta, promised)


def _on_grids(events: _Events, delta: float, promised: float) -> Iterator[Bound]:
    """All on one grid after the other; samples with hardly any noise by the probability that they draw a record."""
    bare = [(rate, count) for rate, noise, count in events.sampled if noise < _BARE]
    if bare:
        drawn = draw_probability(bare)
        events.sampled = [item for item in events.sampled if item[1] >= _BARE]
        delta = math.nextafter(float(((arb(delta) - drawn) / (1 - drawn)).lower()), 0.0)
        if delta <= 0.0:
            return
        if events.kinds in ([], ["gaussians"]):
            mu = events.mu
            yield least_epsilon(lambda epsilon: gaussian_delta(mu, arb(epsilon)), delta) if events.kinds else Bound(0.0)
            return
    directions = [(parts, shape_of(parts, delta)) for parts in events.directions()]
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
