"""The minimiser of a softmax objective with a random Gaussian linear term, by theorem 2 of its proof."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flint import arb

from dperm.rigorous.balls import gaussian_delta, normal
from dperm.rigorous.checks import Curves, Run, checks
from dperm.rigorous.pairs import CurvePair

# Halvings by which the start of the sum is found, from an ε that is far beyond it.
_HALVINGS = 60


@checks("softmax perturbation")
def enter(run: Run, count: int, **numbers: Any) -> None:
    """By its curve."""
    run.add(Curves, SoftmaxPair(**numbers, replace_one=run.replace_one), count)


@dataclass(frozen=True)
class SoftmaxPair(CurvePair):
    """One minimiser. The numbers are those of its event.

    Its loss, given the past, exceeds m ≥ s with probability at most T(m) = Σ P(κ'Z + κ'²/2 > m − s) over the corners of
    one row's simplex, or of the product of two, κ' their length over σ and s what the determinant costs.
    """

    noise_multiplier: float
    log_jacobian: float
    n_classes: int
    remainder: float
    replace_one: bool

    @cached_property
    def _corners(self) -> list[tuple[int, arb]]:
        """How many, and κ'."""
        wrong, kappa = self.n_classes - 1, 1 / arb(self.noise_multiplier)
        if not self.replace_one:
            return [(wrong, kappa)]
        # Rows x and −x of one class: the corners of one class are opposite, others are 60° from that.
        found = [(wrong**2 - wrong, arb(3).sqrt() * kappa), (wrong, 2 * kappa), (2 * wrong, kappa)]
        return [(times, length) for times, length in found if times]

    def reach(self, faint: float) -> float:
        """Of the longest corner, with the probability divided among all of them."""
        kappa = (2.0 if self.replace_one else 1.0) / self.noise_multiplier
        times = sum(number for number, _ in self._corners)
        rare = math.sqrt(-2.0 * math.log(faint) + 2.0 * math.log(times))
        return self.remainder + self.log_jacobian + 0.5 * kappa**2 + kappa * rare

    def delta(self, epsilon: arb) -> arb:
        """The sum of Gaussian curves, or the chord to it from (−1, 1) in e^ε: the curve holds in both directions."""
        cost = arb(self.remainder) + arb(self.log_jacobian)
        start, at_start = self._start
        if epsilon - cost >= start:
            return self._sum(epsilon - cost).min(arb(1))
        return (1 - (1 - at_start) * (1 + epsilon.exp()) / (1 + (start + cost).exp())).min(arb(1))

    def _sum(self, t: arb) -> arb:
        return sum((times * gaussian_delta(kappa, t) for times, kappa in self._corners), arb(0))

    @cached_property
    def _start(self) -> tuple[arb, arb]:
        """About the t ≥ 0 at which the chord touches the sum, and the sum there; any t gives a bound."""
        low, high = 0.0, self.reach(1e-3)
        shrunk = (-arb(self.remainder) - arb(self.log_jacobian)).exp()
        for _ in range(_HALVINGS):
            middle = arb(0.5 * (low + high))
            slope = arb(0)
            for times, kappa in self._corners:
                slope += times * (normal(kappa / 2 - middle / kappa) + shrunk * normal(-kappa / 2 - middle / kappa))
            low, high = (low, float(middle)) if slope <= 1 else (float(middle), high)
        return arb(high), self._sum(arb(high)).min(arb(1))
