"""Mechanisms of which ρ is known and nothing else."""

import math
from dataclasses import dataclass

from flint import arb

from dperm.rigorous.pairs import CurvePair


@dataclass(frozen=True)
class ConcentratedPair(CurvePair):
    """A mechanism that is ρ-zero-concentrated differentially private."""

    rho: arb

    def delta(self, epsilon: arb) -> arb:
        """By the best order α."""
        return concentrated_delta(self.rho, epsilon)

    def reach(self, faint: float) -> float:
        """Where the Gaussian with this ρ is faint, and a little more."""
        rho = float(self.rho)
        return rho + 2.2 * math.sqrt(-rho * math.log(faint))


def concentrated_delta(rho: arb, epsilon: arb) -> arb:
    """exp((α − 1)(αρ − ε)) (1 − 1/α)^α/(α − 1) at an α > 1 near the best; every α gives a bound."""
    less_one = arb(_best_order(float(rho), float(epsilon)))
    alpha = 1 + less_one
    exponent = less_one * (alpha * rho - epsilon) + alpha * (less_one / alpha).log() - less_one.log()
    return exponent.exp().min(arb(1))


def _best_order(rho: float, epsilon: float) -> float:
    """α − 1 where the exponent is least: its derivative (1 + 2a)ρ − ε − ln(1 + 1/a) grows with a."""
    low, high = -25.0, math.log(max(1.0, (epsilon + 1.0) / (2.0 * rho)))
    for _ in range(60):
        middle = 0.5 * (low + high)
        less_one = math.exp(middle)
        if (1.0 + 2.0 * less_one) * rho > epsilon + math.log1p(1.0 / less_one):
            high = middle
        else:
            low = middle
    return math.exp(high)
