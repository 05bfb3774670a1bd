"""Any mechanisms together: each becomes a privacy loss on one grid, and losses add up (docs/proofs/composition.md)."""

import functools
import math
from collections import Counter
from collections.abc import Callable

import numpy as np
from dp_accounting import dp_event
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as distributions
from numpy.typing import NDArray

from dperm.accounting.events import ObjectivePerturbationDpEvent, PureDpEvent, leaves, releases
from dperm.accounting.gaussian import gaussian_delta
from dperm.accounting.guarantee import Adjacency
from dperm.accounting.loss_grid import LARGEST_GRID, RELATION, interval, loss_range
from dperm.accounting.profiles import composed_objective_profile, objective_delta, pure_delta, rho_of, zcdp_deltas
from dperm.errors import InvalidParameter

Array = NDArray[np.float64]

# Relative padding of sums.
_ROUNDING = 1e-12

# Where a curve is below this, its mechanism counts as lost; as much is cut off at every convolution.
_FAINT = 1e-17
_CUT = 1e-16

# A grid of width h adds up to h²/4, about h²/6, to the variance of each loss. This width, relative to the root mean
# square of the losses, adds less than 1e-4 of it. A curve is evaluated at so many points, or fewer.
_WIDTH = 0.02
_DOTS = 250

# What rounding may take off one curve when it becomes masses: they telescope, so it is some units of the last place.
_CURVE_ROUNDING = 16.0 * 2.0**-53


def atoms_of(event: dp_event.DpEvent, adjacency: Adjacency) -> tuple[tuple[dp_event.DpEvent, int], ...]:
    """The mechanisms that are composed, equal ones counted together.

    All Gaussians are one, exactly. A release, that is a top-level part which is itself a composition, runs from its
    start to its end without looking at what others release meanwhile: if it is concentrated, its ρ is added up. All
    else is taken mechanism by mechanism, which is right whatever they depend on.
    """
    precision, counts = 0.0, Counter[dp_event.DpEvent]()
    for part in releases(event):
        mechanisms = list(leaves(part))
        if isinstance(part, dp_event.ComposedDpEvent) and _is_concentrated(mechanisms):
            rho = math.fsum(count * rho_of(leaf, adjacency) for leaf, count in mechanisms)
            mechanisms = [(dp_event.ZCDpEvent(rho * (1.0 + _ROUNDING)), 1)]
        for leaf, count in mechanisms:
            if isinstance(leaf, dp_event.GaussianDpEvent):
                precision += count / leaf.noise_multiplier**2
            else:
                counts[leaf] += count
    if precision:
        counts[dp_event.GaussianDpEvent(1.0 / math.sqrt(precision * (1.0 + _ROUNDING)))] += 1
    return tuple(sorted(counts.items(), key=repr))  # in one order, so that the order of releases does not matter


def _is_concentrated(mechanisms: list[tuple[dp_event.DpEvent, int]]) -> bool:
    """Whether ρ is known for all, and is the only price of some."""
    concentrated = dp_event.ZCDpEvent | dp_event.GaussianDpEvent | PureDpEvent
    return all(isinstance(leaf, concentrated) for leaf, _ in mechanisms) and any(
        isinstance(leaf, dp_event.ZCDpEvent) for leaf, _ in mechanisms
    )


# Kept, because a ledger is asked for its ε and its δ, again and again.
@functools.lru_cache(maxsize=32)
def composed_loss(
    atoms: tuple[tuple[dp_event.DpEvent, int], ...], adjacency: Adjacency, points: int
) -> distributions.PrivacyLossDistribution:
    """The privacy loss of all together: an upper bound in both directions, but for rounding in the convolutions.

    Parameters
    ----------
    atoms : tuple of (DpEvent, int)
        From `atoms_of`.
    adjacency : Adjacency
        Named, as everywhere.
    points : int
        As of `pld_epsilon`, for what is sampled.
    """
    width = _width(atoms, adjacency, points)
    # Powers of a discretised loss may overflow where it is repeated millions of times: an error, never a nan.
    with np.errstate(over="raise", invalid="raise"):
        losses = [_loss(leaf, adjacency, width) for leaf, _ in atoms]
        losses = [
            loss if count == 1 else loss.self_compose(count, _CUT)
            for loss, (_, count) in zip(losses, atoms, strict=True)
        ]
        while len(losses) > 1:  # in pairs: the shorter the arrays, the faster
            pairs = [first.compose(second, _CUT) for first, second in zip(losses[::2], losses[1::2], strict=False)]
            losses = pairs + (losses[-1:] if len(losses) % 2 else [])
    return losses[0]


def convolution_rounding(atoms: tuple[tuple[dp_event.DpEvent, int], ...]) -> float:
    """What rounding in the convolutions may take off δ: as for sampled answers, with a count for each."""
    return 8.0 * 2.0**-53 * (1000 + sum(count for _, count in atoms))


def _width(atoms: tuple[tuple[dp_event.DpEvent, int], ...], adjacency: Adjacency, points: int) -> float:
    """Width of the grid: what the sampled answers need, and what all others do beside the whole variance."""
    variance, others, needed, widest = 0.0, 0, math.inf, 0.0
    for leaf, count in atoms:
        scale = _scale(leaf, adjacency)
        variance += count * scale**2
        if isinstance(leaf, dp_event.PoissonSampledDpEvent):
            needed = min(needed, interval(leaf, count, adjacency, points))
            widest = max(widest, loss_range(leaf, adjacency))
        else:
            others += count
            widest = max(widest, 10.0 * scale + 0.5 * scale**2)
    if others:
        needed = min(needed, _WIDTH * math.sqrt(variance / others))
    return max(needed, widest / LARGEST_GRID)


def _scale(leaf: dp_event.DpEvent, adjacency: Adjacency) -> float:
    """About the standard deviation of one loss."""
    match leaf:
        case PureDpEvent():
            return float(leaf.epsilon)
        case dp_event.ZCDpEvent():
            return math.sqrt(2.0 * leaf.rho)
        case dp_event.PoissonSampledDpEvent():
            return float(leaf.sampling_probability * adjacency.records_moved / leaf.event.noise_multiplier)
        case dp_event.GaussianDpEvent() | ObjectivePerturbationDpEvent():
            return float(adjacency.records_moved / leaf.noise_multiplier)
    raise InvalidParameter("these mechanisms cannot be priced together.")


def _loss(leaf: dp_event.DpEvent, adjacency: Adjacency, width: float) -> distributions.PrivacyLossDistribution:
    if isinstance(leaf, dp_event.PoissonSampledDpEvent):
        return distributions.from_gaussian_mechanism(
            leaf.event.noise_multiplier,
            value_discretization_interval=width,
            sampling_prob=leaf.sampling_probability,
            neighboring_relation=RELATION[adjacency],
        )
    if isinstance(leaf, PureDpEvent):
        # Its curve has one kink; the grid has points on both sides of it.
        below = math.floor(leaf.epsilon / width)
        cells = np.unique([0, max(below - 1, 0), below, below + 1, below + 2])
        deltas = np.array([pure_delta(leaf.epsilon, epsilon) for epsilon in (cells * width).tolist()])
    else:
        curve = _curve(leaf, adjacency)
        reach = _reach(curve, _scale(leaf, adjacency))
        stride = max(1, round(reach / (_DOTS * width)))
        cells = stride * np.arange(math.ceil(reach / (stride * width)) + 1)
        deltas = curve(cells * np.float64(width))
    return loss_of_curve(cells, deltas, width)


def _curve(leaf: dp_event.DpEvent, adjacency: Adjacency) -> Callable[[Array], Array]:
    """δ at many ε, for one mechanism and both directions."""
    if isinstance(leaf, dp_event.ZCDpEvent):
        rho = rho_of(leaf, adjacency)
        return lambda epsilons: zcdp_deltas(rho, epsilons)
    delta: Callable[[float], float]
    if isinstance(leaf, dp_event.GaussianDpEvent):
        mu = adjacency.records_moved / leaf.noise_multiplier * (1.0 + _ROUNDING)
        delta = functools.partial(gaussian_delta, mu)
    elif leaf.sigmoidal:
        delta = composed_objective_profile((leaf,), adjacency)
    else:
        delta = functools.partial(objective_delta, leaf, adjacency=adjacency)
    return lambda epsilons: np.array([delta(epsilon) for epsilon in epsilons.tolist()])


def _reach(curve: Callable[[Array], Array], scale: float) -> float:
    """An ε from which on δ is faint."""
    while True:
        tried = scale * np.linspace(1.0, 32.0, 32)
        faint = curve(tried) <= _FAINT
        if faint.any():
            return float(tried[faint.argmax()])
        scale *= 32.0


def loss_of_curve(cells: NDArray[np.int64], deltas: Array, width: float) -> distributions.PrivacyLossDistribution:
    """The privacy loss whose curve is the largest that is possible below these points, in both directions.

    Parameters
    ----------
    cells : array of int
        0 = c_0 < c_1 < …: the points are at ε = c_i · width.
    deltas : array
        Upper bounds on δ there, for both directions.
    width : float
        Of the grid.
    """
    epsilons, deltas = cells * width, np.minimum.accumulate(np.minimum(deltas, 1.0))
    corners = _convex_corners(epsilons.tolist(), deltas.tolist())
    cells, epsilons, heights = cells[corners], epsilons[corners], deltas[corners]
    if corners[0] != 0:  # the line from (−1, 1) passes above δ(0): what it has at e^ε = 1
        shrunk = math.exp(-epsilons[0])
        first = 1.0 - 2.0 * (1.0 - heights[0]) * shrunk / (1.0 + shrunk)
        cells, epsilons, heights = np.append(0, cells), np.append(0.0, epsilons), np.append(first, heights)
    gaps, falls = np.minimum(np.diff(epsilons), 700.0), np.diff(heights)
    # e^ε times the slopes on both sides of each corner after the first; their difference is its mass.
    before, after = falls / -np.expm1(-gaps), np.append((falls / np.expm1(gaps))[1:], 0.0)
    masses = np.maximum(after - before, 0.0)
    lost = float(heights[-1]) + _CURVE_ROUNDING
    furthest = int(cells[-1])
    probabilities = np.zeros(2 * furthest + 1)
    probabilities[furthest + cells[1:]] = masses
    probabilities[furthest - cells[1:]] = masses * np.exp(-epsilons[1:])
    probabilities[furthest] = max(0.0, 1.0 - float(heights[-1]) - float(probabilities.sum()))
    return distributions.PrivacyLossDistribution(
        pld_pmf.DensePLDPmf(width, -furthest, probabilities, min(lost, 1.0), True)
    )


def _convex_corners(epsilons: list[float], deltas: list[float]) -> list[int]:
    """Which points are corners of the greatest convex minorant in e^ε, together with the point (−1, 1) on the left."""
    kept: list[int] = []

    def rises(third: int) -> bool:
        """Whether the slope grows at the last point that was kept."""
        second = kept[-1]
        if len(kept) > 1:
            left = (deltas[second] - deltas[kept[-2]]) / -math.expm1(epsilons[kept[-2]] - epsilons[second])
        else:
            left = (deltas[second] - 1.0) / (1.0 + math.exp(-epsilons[second]))
        return left < (deltas[third] - deltas[second]) / math.expm1(min(epsilons[third] - epsilons[second], 700.0))

    for index in range(len(epsilons)):
        while kept and not rises(index):
            kept.pop()
        kept.append(index)
    return kept
