"""The sum of many privacy losses on one grid, by Fourier transforms whose rounding is bounded.

The proof is in docs/proofs/composition.md. Masses are multiplied by e^{λ loss} before they are transformed and divided
by it afterwards, so that rounding is small relative to the δ that is asked for, however small that is.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import fft, ifft

from dperm.accounting.curve import Array
from dperm.accounting.privacy_loss import LossDistribution

_UNIT = 2.0**-53

# A complex product is off by at most √5 units, and so is a level of a transform: an addition and at most one
# multiplication by a root of unity that is itself off by at most 1.5 units.
_PRODUCT = math.sqrt(5.0) * _UNIT
_LEVEL = 5.0 * _UNIT

# What is cut off is smaller than what counts by this power of e.
_CUT = 30.0

# `mass_rounding` covers so much for every loss; where more of its mass is missing, that counts as lost.
_MISSING = 8.0 * _UNIT

_FEW_CELLS, _MOST_CELLS = 2**14, 2**23
_BLOCKS = 4000
_TINY = 1e-290


def transform_error(cells: int) -> float:
    """How far a transform of this many cells, a power of two, is off at most, for inputs whose sizes add up to 1."""
    return math.expm1(math.log2(cells) * math.log1p(_LEVEL))


@dataclass(frozen=True)
class _Part:
    """One loss: masses at the cells from `first` on, the mass of an infinite loss, and how often it is added."""

    masses: Array
    first: int
    lost: float
    count: int

    def blocks(self) -> tuple[Array, Array, Array]:
        """Fewer cells, finer where the mass is: masses, mean cells and variances, to choose by."""
        size, mode = self.masses.size, int(self.masses.argmax())
        steps = np.rint(100.0 * np.sinh(np.linspace(0.0, math.asinh(size / 100.0), _BLOCKS // 2))).astype(int)
        edges = np.unique(np.clip(np.concatenate([mode - steps, mode + steps]), 0, size - 1))
        cells = np.arange(size, dtype=np.float64)
        masses, first, second = (np.add.reduceat(self.masses * cells**power, edges) for power in (0, 1, 2))
        kept = masses > 0.0
        means = first[kept] / masses[kept]
        return masses[kept], self.first + means, np.maximum(second[kept] / masses[kept] - means**2, 0.0)

    def log_moment(self, exponent: float) -> float:
        """Ln E e^{exponent · cell} of as many, rounded up."""
        with np.errstate(divide="ignore"):
            exponents = np.log(self.masses) + exponent * (self.first + np.arange(self.masses.size))
        largest = float(exponents.max())
        rounding = _UNIT * (
            16.0 + 2.0 * self.masses.size + 4.0 * (745.0 + float(np.abs(exponents[self.masses > 0.0]).max()))
        )
        return self.count * (largest + math.log(float(np.exp(exponents - largest).sum())) + rounding)


@dataclass(frozen=True)
class _Tilted:
    """Suffix sums of the masses times e^{−λ(loss − centre)}, and of those times e^{−(loss − centre)}."""

    order: float
    centre: float
    first: int
    scale: float  # what e^{λ loss} had to be divided by, relative to the centre: a logarithm
    above: Array
    against: Array
    rounding: float  # relative to e^{scale − λ(ε − centre)}
    relative: float
    beyond: float


class LossSum:
    """Losses of several mechanisms, each several times, added up. It is asked as a distribution of dp-accounting is.

    Every answer is an upper bound, given the masses: all rounding is counted in.

    Parameters
    ----------
    losses : sequence of (distribution, int)
        On the same grid, with how often each of them is added.
    width : float
        Of a cell.
    """

    def __init__(self, losses: Sequence[tuple[LossDistribution, int]], width: float) -> None:
        # Under add_remove a pair of laws for each direction; the numbers have no public name in dp-accounting 0.6.
        sides = ["_pmf_remove"] if all(loss._symmetric for loss, _ in losses) else ["_pmf_remove", "_pmf_add"]
        self._directions = [
            _Direction([_part(getattr(loss, side), times) for loss, times in losses], width) for side in sides
        ]

    def get_delta_for_epsilon(self, epsilon: float) -> float:
        """δ at this ε: that of the worse direction."""
        return max(direction.delta(epsilon) for direction in self._directions)

    def get_epsilon_for_delta(self, delta: float) -> float:
        """The smallest ε at this δ: that of the worse direction; infinite if there is none."""
        return max(direction.epsilon(delta) for direction in self._directions)


def _part(pmf: LossDistribution, count: int) -> _Part:
    dense = pmf.to_dense_pmf()
    masses, lost = np.maximum(dense._probs, 0.0), float(dense._infinity_mass)
    missing = 1.0 - lost - math.fsum(masses)
    if missing > _MISSING:  # masses that rounding has spoiled
        lost += missing
    return _Part(masses, int(dense._lower_loss), lost, count)


class _Direction:
    """All losses in one direction between neighbouring datasets."""

    def __init__(self, parts: list[_Part], width: float) -> None:
        self._parts, self._width = parts, width
        self._count = sum(part.count for part in parts)
        never = math.fsum(part.count * math.log1p(-part.lost) if part.lost < 1.0 else -math.inf for part in parts)
        self._lost = -math.expm1(never) * (1.0 + 1e-12)
        blocks = [part.blocks() for part in parts]
        spread = sum(part.count * _variance(*block) for part, block in zip(parts, blocks, strict=True))
        positive = np.geomspace(0.02, 2e3, 48) / (max(math.sqrt(spread), 1.0) * width)
        self._orders = np.concatenate([-positive[::-1], [0.0], positive])
        # About ln E e^{λ sum} and the mean under that weight, to choose λ and the window by.
        self._moments, self._means = np.zeros(self._orders.size), np.zeros(self._orders.size)
        for part, (masses, means, variances) in zip(parts, blocks, strict=True):
            for place, exponent in enumerate(self._orders * width):
                exponents = np.log(masses) + exponent * means + np.log1p(0.5 * exponent**2 * variances)
                largest = exponents.max()
                weights = np.exp(exponents - largest)
                total = weights.sum()
                self._moments[place] += part.count * (largest + math.log(total))
                self._means[place] += part.count * width * float(weights @ means) / total
        self._top = width * sum(part.count * (part.first + part.masses.size - 1) for part in parts)
        zero = self._orders.size // 2
        spans = np.array([high - low for low, high in map(self._ends, range(zero, self._orders.size))]) / width
        self._usable = np.append(np.zeros(zero, dtype=bool), spans <= max(4.0 * spans[0], _FEW_CELLS))
        self._tilted = functools.lru_cache(maxsize=4)(self._make)

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        if epsilon >= self._top:
            return min(1.0, self._lost)
        return self._delta_by(self._best(epsilon), epsilon)

    def epsilon(self, delta: float) -> float:
        """Where δ comes down to this."""
        if delta <= self._lost:
            return math.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            bounds = np.where(self._usable, (self._moments - math.log(delta)) / self._orders, np.inf)
        bounds[self._orders <= 0.0] = np.inf
        place = int(np.argmin(bounds))
        found: dict[int, float] = {}
        while (
            place not in found
        ):  # every order gives a bound; one that is the best where it leads to is asked by `delta`
            found[place] = epsilon = self._epsilon_by(place, delta)
            place = self._best(epsilon)
        return max(epsilon, found[place])

    def _best(self, epsilon: float) -> int:
        """The order with the smallest bound on P(sum > ε) of those that do not need a far wider window than none."""
        return int(np.argmin(np.where(self._usable, self._moments - self._orders * epsilon, np.inf)))

    def _epsilon_by(self, place: int, delta: float) -> float:
        low, high = 0.0, min(self._top, max(self._width, float(self._means[place])))
        if self._delta_by(place, low) <= delta:
            return 0.0
        while high < self._top and self._delta_by(place, high) > delta:
            low, high = high, min(self._top, 2.0 * high)
        while high - low > 1e-13 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._delta_by(place, middle) > delta else (low, middle)
        return high

    def _delta_by(self, place: int, epsilon: float) -> float:
        """δ at this ε, by the masses that were tilted by this order."""
        if epsilon >= self._top:
            return min(1.0, self._lost)
        tilted, width = self._tilted(place), self._width
        if tilted.order > 0.0 and epsilon < tilted.first * width:  # sums below the window are in the wrong place
            return self._delta_by(self._orders.size // 2, epsilon)
        cell = max(math.floor(epsilon / width) - tilted.first, 0)
        while (cell + tilted.first) * width <= epsilon:
            cell += 1
        above, against = (float(sums[min(cell, sums.size - 1)]) for sums in (tilted.above, tilted.against))
        shrunk = math.exp(min(epsilon - tilted.centre, 700.0)) * against
        inside = max(0.0, above - shrunk) + 4.0 * _UNIT * tilted.above.size * (abs(above) + abs(shrunk))
        factor = math.exp(min(tilted.scale, 700.0))
        rounding = tilted.rounding * math.exp(min(tilted.scale - tilted.order * (epsilon - tilted.centre), 700.0))
        return min(1.0, inside * factor * (1.0 + tilted.relative) + rounding + tilted.beyond + self._lost)

    def _make(self, place: int) -> _Tilted:
        order, width, centre = float(self._orders[place]), self._width, float(self._means[place])
        first, cells, beyond = self._window(place)
        product, size, ratio, log_scale, relative = np.ones(cells, dtype=np.complex128), np.zeros(cells), 0.0, 0.0, 0.0
        for part in self._parts:
            masses, log_total, error = _tilt(part, order, width)
            folded = np.bincount((part.first + np.arange(masses.size)) % cells, masses, cells)
            off = transform_error(cells) * float(masses.sum()) * (1.0 + 1e-10)
            values = fft(folded.astype(np.complex128))
            product *= _power(values, part.count)
            sizes = np.abs(values) * (1.0 + 1e-15) + off
            size += part.count * np.log(sizes)
            ratio = ratio + part.count * off / sizes
            log_scale += part.count * log_total
            relative += part.count * error
        size = np.exp(size)
        errors = size * (ratio + 1.01 * _PRODUCT * self._count)
        sums = np.roll(ifft(product).real, -(first % cells))
        squares, ones = (1.0 / max(-math.expm1(-power * order * width), 1.0 / cells) for power in (2.0, 1.0))
        rounding = math.sqrt(squares * float(errors @ errors) / cells)
        rounding += ones * (transform_error(cells) + _UNIT) * float(size.sum()) / cells
        losses = (first + np.arange(cells)) * width - centre
        kept = (order * losses >= -600.0) & (losses >= -600.0)  # no ε is below 0
        begin = int(np.argmax(kept))
        weights = sums[begin:] * np.exp(-order * losses[begin:])
        above, against = (np.cumsum(each[::-1])[::-1] for each in (weights, weights * np.exp(-losses[begin:])))
        relative += _UNIT * (16.0 + 4.0 * (abs(log_scale) + order * float(np.abs(losses).max()) + order * abs(centre)))
        return _Tilted(
            order, centre, first + begin, log_scale - order * centre, above, against, 1.02 * rounding + _TINY,
            math.expm1(relative), beyond,
        )  # fmt: skip

    def _ends(self, place: int) -> tuple[float, float]:
        """Between what the sum nearly always is, also when it is weighted by e^{λ sum}."""
        order, moment = self._orders[place], self._moments[place]
        level = moment - order * self._means[place]
        first, zero = slice(0, place), self._orders.size // 2
        low = float((-(self._moments[first] - moment + _CUT) / (order - self._orders[first])).max())
        plain = slice(max(place, zero + 1), None)
        high = float(((self._moments[plain] - level + _CUT) / self._orders[plain]).min())
        if place + 1 < self._orders.size:
            later = slice(max(place, zero) + 1, None)
            weighted = (self._moments[later] - moment + _CUT) / (self._orders[later] - order)
            high = max(high, float(weighted.min()))
        else:
            high = self._top
        return low, min(high, self._top)

    def _window(self, place: int) -> tuple[int, int, float]:
        """The first cell, how many there are, and a bound on the probability of sums beyond the last."""
        width, (low, high) = self._width, self._ends(place)
        first, last = math.floor(low / width) - 1, math.ceil(high / width) + 1
        cells = 2 ** max(10, math.ceil(math.log2(last - first + 1)))
        if cells > _MOST_CELLS:
            raise OverflowError("the grid would have too many cells")
        end = (first + cells) * width
        if end > self._top:
            return first, cells, 0.0
        orders = self._orders[self._orders > 0.0]
        best = float(orders[int(np.argmin(self._moments[self._orders > 0.0] - orders * end))])
        moment = math.fsum(part.log_moment(best * width) for part in self._parts)
        return first, cells, math.exp(min(moment - best * end + 1e-9 * (1.0 + abs(best * end)), 0.0))


def _tilt(part: _Part, order: float, width: float) -> tuple[Array, float, float]:
    """Masses times e^{order · loss} over about their sum, its logarithm, and how far off each is, relatively."""
    with np.errstate(divide="ignore"):
        exponents = np.log(part.masses) + order * width * (part.first + np.arange(part.masses.size))
    largest = float(exponents.max())
    log_total = largest + math.log(float(np.exp(exponents - largest).sum()))
    reach = order * width * max(abs(part.first), abs(part.first + part.masses.size))
    return np.exp(exponents - log_total), log_total, _UNIT * (16.0 + 4.0 * (reach + abs(log_total) + 745.0))


def _power(values: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """By squaring, so that every product is one of two numbers."""
    result, square = None, values
    while True:
        if count & 1:
            result = square if result is None else result * square
        count >>= 1
        if not count:
            return square if result is None else result
        square = square * square


def _variance(masses: Array, means: Array, variances: Array) -> float:
    weights = masses / masses.sum()
    return float(weights @ ((means - weights @ means) ** 2 + variances))
