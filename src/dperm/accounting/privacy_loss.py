"""A privacy curve as a privacy loss on a grid, which adds up under composition (docs/proofs/composition.md).

The distributions are those of dp-accounting, which takes a second to import: only what needs one imports it.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.curve import Array, Curve
from dperm.privacy.guarantee import Adjacency

# dp-accounting has no types.
LossDistribution = Any

# What a grid of privacy losses raises that overflows, or that would need numbers beyond those of a float.
NO_GRID = (ArithmeticError, ValueError, TypeError)

# The most points that a grid may have.
LARGEST_GRID = 300_000

# Where a curve is below this, its mechanism counts as lost.
_FAINT = 1e-17

# What rounding on a grid may leave of a curve however large ε is.
_LARGEST_FLOOR = 1e-9

# A curve is evaluated at this many points, or fewer.
_DOTS = 250

# What rounding may take off one curve when it becomes masses: they telescope, so it is some units of the last place.
_CURVE_ROUNDING = 16.0 * 2.0**-53


def relation(adjacency: Adjacency) -> Any:
    """The adjacency in dp-accounting's words."""
    from dp_accounting import NeighboringRelation

    if adjacency is Adjacency.REPLACE_ONE:
        return NeighboringRelation.REPLACE_ONE
    return NeighboringRelation.ADD_OR_REMOVE_ONE


def mass_rounding(count: int) -> float:
    """What rounding may take off δ when this many curves become masses: measured as count · 2⁻⁵³, padded eightfold."""
    return 8.0 * 2.0**-53 * (1000 + count)


def gaussian_loss_range(noise_multiplier: float, adjacency: Adjacency) -> float:
    """About how wide one (sampled) Gaussian's privacy loss is: little noise makes it wide."""
    noise = noise_multiplier / adjacency.records_moved
    return float(1.0 / (2.0 * noise**2) + 10.0 / noise)


def gaussian_grid_width(noise_multiplier: float, count: int, adjacency: Adjacency, points: int) -> float:
    """The width that a (sampled) Gaussian needs: a share of its loss, or more where many repetitions allow it.

    Rounding up on intervals of width h adds about 2·count·h² to ε: with h² = 1/(points·count), 2/points.
    """
    wide = gaussian_loss_range(noise_multiplier, adjacency)
    return min(max(wide / points, math.sqrt(1.0 / (points * count))), wide / 1000.0)


def discretised(curve: Curve, scale: float, width: float) -> LossDistribution:
    """The privacy loss of a curve, evaluated as far as it is not faint.

    Parameters
    ----------
    curve : Curve
        Of one mechanism.
    scale : float
        About the standard deviation of its loss.
    width : float
        Of the grid.
    """
    reach = _reach(curve, scale)
    stride = max(1, round(reach / (_DOTS * width)))
    cells = stride * np.arange(math.ceil(reach / (stride * width)) + 1)
    return loss_of_curve(cells, curve.deltas(cells * np.float64(width)), width)


def _reach(curve: Curve, scale: float) -> float:
    """An ε from which on δ is faint, or does not fall any further: what is left of it then counts as lost."""
    while math.isfinite(32.0 * scale):
        tried = scale * np.linspace(1.0, 32.0, 32)
        deltas = curve.deltas(tried)
        faint = deltas <= _FAINT
        if deltas[-1] <= _LARGEST_FLOOR and curve.delta(32.0 * 32.0 * scale) >= deltas[-1]:
            faint |= deltas <= 1.001 * deltas[-1]  # a curve that was itself composed on a grid ends at its rounding
        if faint.any():
            return float(tried[faint.argmax()])
        scale *= 32.0
    raise OverflowError("the curve never comes down to nothing")


def loss_of_curve(cells: NDArray[np.int64], deltas: Array, width: float) -> LossDistribution:
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
    from dp_accounting.pld.pld_pmf import DensePLDPmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    epsilons, deltas = cells * width, np.minimum.accumulate(np.minimum(deltas, 1.0))
    corners = convex_corners(epsilons.tolist(), deltas.tolist())
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
    return PrivacyLossDistribution(DensePLDPmf(width, -furthest, probabilities, min(lost, 1.0), True))


def convex_corners(epsilons: list[float], deltas: list[float]) -> list[int]:
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
