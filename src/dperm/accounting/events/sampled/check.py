"""Answers with Gaussian noise on a Poisson sample: a pair of laws for every direction."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from flint import arb

from dperm.rigorous.balls import normal
from dperm.rigorous.checks import Group, Run, checks
from dperm.rigorous.convolution import Parts
from dperm.rigorous.pairs import Array, TailPair, normal_masses

# An answer with less noise shows a record that is drawn; its loss is too wide for a grid.
_BARE = 0.02


@checks("sampled gaussian")
def enter(run: Run, count: int, sampling_probability: float, noise_multiplier: float) -> None:
    """With its sample; one of all rows has none."""
    if sampling_probability == 1.0:
        run.enter("gaussian", count, noise_multiplier=noise_multiplier)
    else:
        run.add(Samples, (sampling_probability, noise_multiplier), count)


class Samples(Group[tuple[float, float]]):
    """The rate and the noise multiplier of each."""

    def directions(self) -> list[Parts]:
        """A record is replaced; or removed, or added."""
        kinds = [ReplacedRecord] if self.replace_one else [RemovedRecord, AddedRecord]
        return [[(kind(rate, noise), count) for (rate, noise), count in self.items] for kind in kinds]

    def without_bare(self) -> tuple[arb, Self] | None:
        """1 − Π (1 − q)^k of those with hardly any noise: the probability that they draw a given record at all."""
        never, others = arb(1), type(self)(self.replace_one)
        for (rate, noise), count in self.items:
            if noise < _BARE:
                never *= (1 - arb(rate)) ** count
            else:
                others.items.append(((rate, noise), count))
        return None if len(others.items) == len(self.items) else (1 - never, others)


@dataclass(frozen=True)
class _Sampled(TailPair):
    """N(0, ν²) and N(±1, ν²) are what an answer is without and with the record.

    Parameters
    ----------
    rate : float
        q: the probability that a row is drawn.
    noise : float
        ν: the noise over the contribution of one record.
    """

    rate: float
    noise: float

    def _places(self, faint: float) -> Array:
        """Positions on the line between which nearly all mass is."""
        reach = self.noise * math.sqrt(-2.0 * math.log(faint))
        return np.linspace(-reach, 1.0 + reach, 1201)

    def _lift(self, places: Array) -> Array:
        """ln(1 − q + q e^{(2x − 1)/(2ν²)})."""
        exponent = (places - 0.5) / self.noise**2
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log1p(-self.rate), np.log(self.rate) + exponent))

    def _mixture(self, places: Array, centre: float) -> Array:
        """About the masses between these positions of a record that is drawn with probability q."""
        without, with_it = (normal_masses((places - moved) / self.noise) for moved in (0.0, centre))
        return (1.0 - self.rate) * without + self.rate * with_it

    def _lifted_to(self, height: arb) -> arb | None:
        """Where ln(1 − q + q e^{(2x − 1)/(2ν²)}) is this high; None if that is not certainly anywhere."""
        inside = height.expm1() + arb(self.rate)
        if not inside > 0:
            return None
        return arb(self.noise) ** 2 * (inside / arb(self.rate)).log() + arb(0.5)

    def _above(self, place: arb, centre: int) -> arb:
        """P(x > place) of a record that is drawn with probability q."""
        rate, noise = arb(self.rate), arb(self.noise)
        return (1 - rate) * normal(-place / noise) + rate * normal((centre - place) / noise)


class RemovedRecord(_Sampled):
    """(1 − q) N(0, ν²) + q N(1, ν²) against N(0, ν²)."""

    def tails(self, loss: arb) -> tuple[arb, arb]:
        """P(loss > …) under either law."""
        place = self._lifted_to(loss)
        if place is None:
            return _between_zero_and_one(self, loss)
        return self._above(place, 1), self._above(place, 0)

    def rough(self, faint: float) -> tuple[Array, Array]:
        """Losses and their masses, in floats."""
        places = self._places(faint)
        return self._lift(0.5 * (places[1:] + places[:-1])), self._mixture(places, 1.0)


class AddedRecord(_Sampled):
    """N(0, ν²) against (1 − q) N(0, ν²) + q N(1, ν²)."""

    def tails(self, loss: arb) -> tuple[arb, arb]:
        """P(loss > …) under either law."""
        place = self._lifted_to(-loss)
        if place is None:
            above, against = _between_zero_and_one(self, -loss)
            return 1 - above, 1 - against
        return 1 - self._above(place, 0), 1 - self._above(place, 1)

    def rough(self, faint: float) -> tuple[Array, Array]:
        """Losses and their masses, in floats."""
        places = self._places(faint)
        return (
            -self._lift(0.5 * (places[1:] + places[:-1]))[::-1],
            self._mixture(places, 0.0)[::-1],
        )


class ReplacedRecord(_Sampled):
    """(1 − q) N(0, ν²) + q N(1, ν²) against (1 − q) N(0, ν²) + q N(−1, ν²)."""

    def tails(self, loss: arb) -> tuple[arb, arb]:
        """P(loss > …) under either law; the loss grows with x and is l at ν²(l/2 + asinh z)."""
        rate, variance = arb(self.rate), arb(self.noise) ** 2
        z = (1 - rate) / rate * (loss / 2).sinh() * (1 / (2 * variance)).exp()
        place = variance * (loss / 2 + z.asinh())
        return self._above(place, 1), self._above(place, -1)

    def rough(self, faint: float) -> tuple[Array, Array]:
        """Losses and their masses, in floats."""
        places = self._places(faint)
        middles = 0.5 * (places[1:] + places[:-1])
        return self._lift(middles) - self._lift(-middles), self._mixture(places, 1.0)


def _between_zero_and_one(pair: _Sampled, height: arb) -> tuple[arb, arb]:
    """Both tails where a loss is at the least one that there is: 1, or anything where that is not certain."""
    if height.expm1() + arb(pair.rate) <= 0:
        return arb(1), arb(1)
    return arb(0.5, 0.5), arb(0.5, 0.5)
