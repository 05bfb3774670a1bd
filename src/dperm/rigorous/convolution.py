"""Many mechanisms together: their losses on one grid, added up by a Fourier transform of balls."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flint import acb, arb

from dperm.rigorous.balls import Bound, least_epsilon
from dperm.rigorous.pairs import Array, Pair

Parts = list[tuple[Pair, int]]

# What is cut off, relative to δ.
_CUT = 2.0**-30

# At most so many points of a curve are evaluated.
_MOST_DOTS = 8000


@dataclass(frozen=True)
class Shape:
    """About what the sum of the losses looks like, in floats: to choose a grid by, never part of a bound.

    Attributes
    ----------
    low, high : float
        The sum is hardly ever outside.
    order : float
        The λ at which P(sum > high) ≤ E e^{λ(sum − high)} is smallest.
    tilt : float
        The same where the tail is about δ: e^{λ loss} weighs what counts.
    variance : float
        Of the sum, or less where it is less so weighted.
    rough : list of (losses, masses)
        Of each part.
    """

    low: float
    high: float
    order: float
    tilt: float
    variance: float
    rough: list[tuple[Array, Array]]


def shape_of(parts: Parts, delta: float) -> Shape:
    """What the sum looks like where its tail is about δ."""
    faint = delta * _CUT
    count = sum(times for _, times in parts)
    rough = [pair.rough(max(faint / count, 1e-290)) for pair, _ in parts]
    plain = _variance(parts, rough, 0.0)
    orders = np.geomspace(1e-3, 1e4, 400) / math.sqrt(plain)
    upward, downward = np.zeros(400), np.zeros(400)
    for (losses, masses), (_, times) in zip(rough, parts, strict=True):
        kept = masses > 0.0
        log_masses = np.log(masses[kept])
        for sign, total in ((1.0, upward), (-1.0, downward)):
            exponents = log_masses + sign * orders[:, None] * losses[kept]
            largest = exponents.max(axis=1)
            total += times * (largest + np.log(np.exp(exponents - largest[:, None]).sum(axis=1)))
    highs = (upward - math.log(faint)) / orders
    lows = -(downward - math.log(faint)) / orders
    tilt = float(orders[int(np.argmin((upward - math.log(delta)) / orders))])
    variance = max(min(_variance(parts, rough, tilt), plain), 0.01 * plain)
    best = int(np.argmin(highs))
    return Shape(float(lows.max()), float(highs[best]), float(orders[best]), tilt, variance, rough)


def _variance(parts: Parts, rough: list[tuple[Array, Array]], order: float) -> float:
    total = 0.0
    for (losses, masses), (_, times) in zip(rough, parts, strict=True):
        weights = tilted(losses, masses, order)
        total += times * float(weights @ (losses - weights @ losses) ** 2)
    return total


def tilted(losses: Array, masses: Array, order: float) -> Array:
    """Masses times e^{order · loss}, with the sum 1."""
    with np.errstate(divide="ignore"):
        exponents = np.log(masses) + order * losses
    weights = np.exp(exponents - exponents.max())
    return np.asarray(weights / weights.sum())


def cells_needed(parts: Parts, shape: Shape, share: float) -> int:
    """How many cells make the grid add about this share to the variance: a power of two."""
    count = sum(times for _, times in parts)
    width = math.sqrt(6.0 * share * shape.variance / count)
    return int(2 ** math.ceil(math.log2(max(1024.0, (shape.high - shape.low) / width))))


def composed_bound(parts: Parts, shape: Shape, delta: float, cells: int) -> Bound:
    """ε of all together at this δ on a grid of so many cells, rounded up.

    Parameters
    ----------
    parts : list of (Pair, int)
        What ran, and how often.
    shape : Shape
        From `shape_of`.
    delta : float
        The δ to evaluate at.
    cells : int
        A power of two.
    """
    found = least_epsilon(composed_delta(parts, shape, cells), delta)
    return Bound(found.epsilon, found.radius, cells)


def composed_delta(parts: Parts, shape: Shape, cells: int) -> Callable[[float], arb]:
    """δ of all together at an ε ≥ 0, on a grid of so many cells, rounded up; parameters as of `composed_bound`."""
    margin = 0.01 * (shape.high - shape.low)
    width = 1.04 * (shape.high - shape.low) / cells
    first = math.floor((shape.low - margin) / width)
    size = arb(width)
    lost, transform, log_tail = arb(0), [acb(1)] * (cells // 2 + 1), -arb(shape.order) * (first + cells) * size
    for (pair, times), (losses, masses) in zip(parts, shape.rough, strict=True):
        stretch = 6.0 * _dot_share(cells) * shape.variance / (times * len(parts))
        dots = _dots(losses, tilted(losses, masses, shape.tilt), masses, stretch, width)
        on_grid, infinite = pair.masses(dots, size)
        lost += times * infinite
        log_tail += times * _moment(on_grid, arb(shape.order) * size).log()
        values = [acb(0)] * cells
        for cell, mass in on_grid.items():
            values[cell % cells] += mass
        transform = [
            total * (value if times == 1 else value**times)
            for total, value in zip(transform, acb.dft(values), strict=False)
        ]
    # Sums beyond the last cell come back at the first: they count as lost. Those below the first come back at the last.
    lost += log_tail.exp().min(arb(1))
    mirrored = [value.conjugate() for value in transform[-2:0:-1]]
    sums = [value.real for value in acb.dft(transform + mirrored, inverse=True)]
    ordered = [sums[cell % cells] for cell in range(first, first + cells)]
    return _delta_of(ordered, first, size, lost)


def _dot_share(cells: int) -> float:
    """The share of the variance that evaluating curves at dots may add: less where the grid is finer."""
    return min(2e-5, 0.1 / cells)


def _dots(losses: Array, weights: Array, masses: Array, stretch: float, width: float) -> list[int]:
    """Cells to evaluate a law at: closer together where losses count for more.

    Dots that are g apart add about g²/6 to the variance of what is between them. For a given total the fewest dots have
    g in proportion to the density to the power −1/3.
    """
    first, last = math.floor(losses[0] / width) - 1, math.ceil(losses[-1] / width) + 1
    gaps = np.maximum(np.diff(losses), 0.0)
    heights = np.maximum(weights, masses / masses.sum())
    roots = np.cbrt(np.maximum(heights[1:], heights[:-1]) / np.maximum(gaps, 1e-300))
    factor = math.sqrt(stretch / float(roots @ gaps))
    per_loss = np.clip(roots / factor, 200.0 / (width * (last - first)), 1.0 / width)
    numbers = np.append(0.0, np.cumsum(per_loss * gaps))
    numbers *= min(1.0, _MOST_DOTS / numbers[-1])
    places = np.interp(np.arange(numbers[-1]), numbers, losses)
    return sorted({first, last, *np.floor(places / width).astype(int).tolist()})


def _moment(masses: dict[int, arb], exponent: arb) -> arb:
    """Σ mass · e^{exponent · cell}."""
    return sum((mass * (exponent * cell).exp() for cell, mass in masses.items()), arb(0))


def _delta_of(masses: list[arb], first: int, width: arb, lost: arb) -> Callable[[float], arb]:
    """Σ mass (1 − e^{ε − loss})₊ + lost, at every ε."""
    start = max(0, -first)
    above, against = arb(0), arb(0)
    sums = []
    shrunk, factor = (-width * (first + len(masses) - 1)).exp(), width.exp()
    for mass in reversed(masses[start:]):
        above += mass
        against += mass * shrunk
        shrunk *= factor
        sums.append((above, against))
    sums.reverse()
    begin, size = first + start, float(width)

    def delta_at(epsilon: float) -> arb:
        place = max(math.ceil(epsilon / size) - 1, begin)
        while place * width < arb(epsilon):
            place += 1
        if place - begin >= len(sums):
            return lost
        total, inverse = sums[place - begin]
        return total - arb(epsilon).exp() * inverse + lost

    return delta_at
