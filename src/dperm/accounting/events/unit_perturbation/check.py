"""The minimiser of a perturbed objective where all rows of a unit may differ, as docs/proofs/units.md has it."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray
from scipy.special import erfcx

from dperm.rigorous.balls import normal
from dperm.rigorous.checks import Curves, Run, checks
from dperm.rigorous.pairs import CurvePair

# Tangents of the determinant's cost that are tried, and steps by which the best line for each is found.
_TANGENTS, _STEPS = 192, 30


@checks("unit perturbation")
def enter(run: Run, count: int, **numbers: Any) -> None:
    """By its curve."""
    run.add(Curves, UnitPair(**numbers, replace_one=run.replace_one), count)


@dataclass(frozen=True)
class _Corner:
    """So many corners of where two rows' gradients may lie, how long over σ, and if the row of D is at its end."""

    times: int
    length: arb
    at_the_end: bool


@dataclass(frozen=True)
class UnitPair(CurvePair):
    """One minimiser. The numbers are those of its event.

    Its loss ℒ, given the past, has E(ℒ − m)₊ ≤ Σ E(κ'Z + κ'²/2 + s' − m)₊ over the corners of a pair of rows, for every
    tangent with a value of at most m at 0. And 1 − e^{t − l} ≤ (l − m)₊/(1 + y) for m = t − y + ln(1 + y).
    """

    noise_multiplier: float
    log_jacobian: float
    rank: int
    n_outputs: int
    monotone: bool
    remainder: float
    sigmoidal: bool
    slope_share: float
    replace_one: bool

    @cached_property
    def _corners(self) -> list[_Corner]:
        kappa = 1 / arb(self.noise_multiplier)
        # Of one row, in each of its directions: the softmax has one for each wrong class, a slope that turns has two.
        directions = self.n_outputs - 1 if self.n_outputs > 1 else 1 if self.monotone else 2
        if not self.replace_one:
            return [_Corner(directions, kappa, True)]
        if self.n_outputs == 1 and not self.monotone:
            return [_Corner(2, 2 * kappa, True), _Corner(2, arb(2).sqrt() * kappa, True)]
        across = directions * (directions - 1)  # those of rows x and −x that are not opposite are 60° from it
        found = [_Corner(directions, 2 * kappa, True), _Corner(across, arb(3).sqrt() * kappa, True)]
        found += [_Corner(directions, kappa, True), _Corner(directions, kappa, False)]
        return [corner for corner in found if corner.times > 0]

    @cached_property
    def _tangents(self) -> list[tuple[arb, arb]]:
        """Values at slope 0 and at the bound, of tangents to r ln(1 + 4β/(rΛ) t(1 − t)); or the constant bound."""
        constant, rank = arb(self.log_jacobian), self.rank
        if not (self.sigmoidal and self.monotone and self.n_outputs == 1):
            return [(constant, constant)]
        ratio, share, found = 4 * (constant / rank).expm1(), arb(self.slope_share), []
        for place in range(1, _TANGENTS + 1):
            at = share * place / _TANGENTS
            inside = ratio * at * (1 - at)
            height, slope = rank * (1 + inside).log(), rank * ratio * (1 - 2 * at) / (1 + inside)
            found.append((height - at * slope, height + (share - at) * slope))
        return found

    def reach(self, faint: float) -> float:
        """Of the longest corner, with the probability divided among all of them."""
        kappa = max(float(corner.length) for corner in self._corners)
        times = sum(corner.times for corner in self._corners)
        cost = min(max(float(none), float(all_)) for none, all_ in self._tangents)
        rare = math.sqrt(-2.0 * math.log(faint) + 2.0 * math.log(times))
        return self.remainder + cost + 0.5 * kappa**2 + kappa * rare

    def delta(self, epsilon: arb) -> arb:
        """E(ℒ − m)₊/(1 + y), with a tangent and a y that floats have chosen; 1 where no tangent is low enough."""
        t = epsilon - arb(self.remainder)
        tangent, y = self._choice(float(t))
        none, at_bound = self._tangents[tangent]
        m = t - arb(y) + arb(y).log1p()
        if not m >= none:
            return arb(1)
        total = arb(0)
        for corner in self._corners:
            z = (m - (at_bound if corner.at_the_end else none)) / corner.length - corner.length / 2
            density = (-z * z / 2).exp() / (2 * arb.pi()).sqrt()
            total += corner.times * corner.length * (density - z * normal(-z))
        return (total / (1 + arb(y))).min(arb(1))

    def _choice(self, t: float) -> tuple[int, float]:
        """Which tangent, and which y, are about the best for this t."""
        none, at_bound = self._as_floats
        room = t - none
        usable = np.flatnonzero(room > 0.0)
        if not usable.size:
            return int(room.argmax()), 0.0
        none, at_bound, room = none[usable], at_bound[usable], room[usable]
        most = np.maximum(room, np.sqrt(2.0 * room)) * (1.0 - 1e-9)
        y = np.zeros_like(room)
        least, chosen = math.inf, (int(usable[0]), 0.0)
        for _ in range(_STEPS):
            # In logarithms, less that of the largest density, since δ may be smaller than any float.
            logs, means = self._stop_loss(t - y + np.log1p(y), none, at_bound)
            found = logs - np.log1p(y)
            if found.min() < least:
                least, place = float(found.min()), int(found.argmin())
                chosen = int(usable[place]), float(y[place])
            y = np.minimum(means, most)
        return chosen

    def _stop_loss(
        self, m: NDArray[np.float64], none: NDArray[np.float64], at_bound: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """About ln E(ℒ − m)₊ as it is bounded, and E(ℒ − m | ℒ > m)."""
        rows = []
        for corner in self._corners:
            length = float(corner.length)
            z = (m - (at_bound if corner.at_the_end else none)) / length - 0.5 * length
            # Φ(−z)/φ(z), up to where that is larger than any float.
            mills = math.sqrt(math.pi / 2.0) * erfcx(np.maximum(z, -30.0) / math.sqrt(2.0))
            excess = np.maximum(1.0 - z * mills, 1e-300)
            rows.append((-0.5 * z * z, corner.times * length * excess, corner.times * mills))
        logs, above, beyond = (np.array(each) for each in zip(*rows, strict=True))
        top = logs.max(axis=0)
        weights = np.exp(logs - top)
        stop_loss, tail = (weights * above).sum(axis=0), (weights * beyond).sum(axis=0)
        return np.log(stop_loss) + top, stop_loss / tail

    @cached_property
    def _as_floats(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        none, at_bound = zip(*self._tangents, strict=True)
        return np.array([float(each) for each in none]), np.array([float(each) for each in at_bound])
