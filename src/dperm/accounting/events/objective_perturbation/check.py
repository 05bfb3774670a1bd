"""The minimiser of an objective with a random Gaussian linear term, by theorem 5 of its proof."""

import bisect
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb
from scipy.special import ndtr

from dperm.rigorous.balls import normal
from dperm.rigorous.checks import Curves, Run, checks
from dperm.rigorous.pairs import CurvePair

# Tangents of the determinant's cost that are tried, and pieces that the tail of the loss is divided into.
_TANGENTS, _PIECES = 96, 600


@checks("objective perturbation")
def enter(run: Run, count: int, **numbers: Any) -> None:
    """By its curve."""
    run.add(Curves, ObjectivePair(**numbers, replace_one=run.replace_one), count)


@dataclass(frozen=True)
class _Tangent:
    """What the determinant costs at most where the row's slope is 0, and where it is at its bound."""

    flat: arb
    steep: arb


@dataclass(frozen=True)
class ObjectivePair(CurvePair):
    """One minimiser. The numbers are those of its event.

    Its loss, given the past, exceeds m with probability at most T(m) = Σ P(κ'Z + κ'²/2 > m − s') over pairs (κ', s')
    that depend on a tangent, of which every m may have its own.
    """

    noise_multiplier: float
    log_jacobian: float
    monotone: bool
    remainder: float
    sigmoidal: bool
    slope_share: float
    replace_one: bool

    @cached_property
    def _tangents(self) -> list[_Tangent]:
        flat = arb(self.log_jacobian)
        if not (self.sigmoidal and self.monotone):
            return [_Tangent(flat, flat)]
        ratio, share, tangents = 4 * flat.expm1(), arb(self.slope_share), []
        for place in range(1, _TANGENTS + 1):
            touching = share * place / _TANGENTS
            inside = ratio * touching * (1 - touching)
            height, slope = (1 + inside).log(), ratio * (1 - 2 * touching) / (1 + inside)
            tangents.append(_Tangent(height - touching * slope, height + (share - touching) * slope))
        return tangents

    def _shifts(self, tangent: _Tangent) -> list[tuple[int, arb, arb]]:
        """How often, κ' and s'."""
        kappa = 1 / arb(self.noise_multiplier)
        if not self.replace_one:
            return [(1 if self.monotone else 2, kappa, tangent.steep)]
        if self.monotone:
            return [(1, 2 * kappa, tangent.steep), (1, kappa, tangent.steep), (1, kappa, tangent.flat)]
        return [(2, 2 * kappa, tangent.steep), (2, arb(2).sqrt() * kappa, tangent.steep)]

    def reach(self, faint: float) -> float:
        """The least over tangents of what the determinant and the Gaussian do together."""
        kappa = (2.0 if self.replace_one else 1.0) / self.noise_multiplier
        cost = min(max(float(tangent.flat), float(tangent.steep)) for tangent in self._tangents)
        return self.remainder + cost + 0.5 * kappa**2 + kappa * math.sqrt(-2.0 * math.log(faint))

    def delta(self, epsilon: arb) -> arb:
        """e^t ∫ e^{−m} min(1, T(m)) dm over m > t, t = ε less the remainder; for t < 0, 1 − e^t (1 − that at 0)."""
        t = epsilon - arb(self.remainder)
        starts, chosen, beyond = self._integrals
        if not t >= 0:
            return (1 - t.exp() * (1 - beyond[0])).min(arb(1))
        place = max(0, bisect.bisect_left(starts, float(t), key=float) - 1)
        while place < len(starts) and not starts[place] >= t:
            place += 1
        if place == len(starts):
            return (t.exp() * self._until_infinity(chosen[-1], t)).min(arb(1))
        return (t.exp() * (self._piece(chosen[place - 1], t, starts[place]) + beyond[place])).min(arb(1))

    @cached_property
    def _integrals(self) -> tuple[list[arb], list["_Tangent | None"], list[arb]]:
        """Starts, the tangent for the m between one and the next, and ∫ e^{−m} min(1, T(m)) dm from each start on."""
        end = self.reach(1e-70)
        starts = [arb(end * place / _PIECES) for place in range(_PIECES + 1)]
        chosen = self._choose([float(start) for start in starts])
        beyond = [self._until_infinity(chosen[-1], starts[-1])]
        for start, stop, tangent in reversed(list(zip(starts, starts[1:], chosen, strict=False))):
            beyond.append(beyond[-1] + self._piece(tangent, start, stop))
        return starts, chosen, beyond[::-1]

    def _piece(self, tangent: "_Tangent | None", start: arb, stop: arb) -> arb:
        """∫ e^{−m} min(1, T(m)) dm between two m, by one tangent."""
        piece = (-start).exp() - (-stop).exp()
        if tangent is not None and tangent.flat <= start:
            piece = piece.min(self._until_infinity(tangent, start) - self._until_infinity(tangent, stop))
        return piece

    def _until_infinity(self, tangent: _Tangent | None, start: arb) -> arb:
        """∫ e^{−m} T(m) dm from here on: Σ e^{−s'} (e^{−u} Φ(κ'/2 − u/κ') − Φ(−κ'/2 − u/κ')), u = start − s'."""
        if tangent is None:
            return (-start).exp()
        total = arb(0)
        for times, kappa, cost in self._shifts(tangent):
            u = start - cost
            part = (-u).exp() * normal(kappa / 2 - u / kappa) - normal(-kappa / 2 - u / kappa)
            total += times * (-cost).exp() * part
        return total

    def _choose(self, starts: list[float]) -> list[_Tangent | None]:
        """For each start the tangent with about the least tail a little beyond it; None where there is none."""
        m = np.array(starts)
        later = m + 0.5 * np.append(np.diff(m), 0.0)
        best = np.ones(m.size)
        chosen: list[_Tangent | None] = [None] * m.size
        for tangent in self._tangents:
            tail = np.zeros(m.size)
            for times, kappa, cost in self._shifts(tangent):
                shift = float(kappa)
                tail += times * ndtr(0.5 * shift - (later - float(cost)) / shift)
            tail[m < float(tangent.flat.upper())] = np.inf
            for place in np.flatnonzero(tail < best):
                chosen[place] = tangent
            best = np.minimum(best, tail)
        return chosen
