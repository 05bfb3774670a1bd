"""Answers with Gaussian noise: their exact curve, and the pair of laws behind it."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from flint import arb

from dperm.verify.rigorous.balls import normal
from dperm.verify.rigorous.pairs import Array, TailPair, normal_masses


def composed_mu(multipliers: Iterable[tuple[float, int]], moved: int) -> arb:
    """μ of all together: m √(Σ k/ν²), with m records moved between adjacent tables."""
    return moved * sum((arb(count) / arb(multiplier) ** 2 for multiplier, count in multipliers), arb(0)).sqrt()


def gaussian_delta(mu: arb, epsilon: arb) -> arb:
    """Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)."""
    return normal(mu / 2 - epsilon / mu) - epsilon.exp() * normal(-mu / 2 - epsilon / mu)


@dataclass(frozen=True)
class GaussianPair(TailPair):
    """N(μ, 1) against N(0, 1); the loss is normal with mean μ²/2 and variance μ²."""

    mu: arb

    def tails(self, loss: arb) -> tuple[arb, arb]:
        """P(loss > …) under either law."""
        return normal(self.mu / 2 - loss / self.mu), normal(-self.mu / 2 - loss / self.mu)

    def rough(self, faint: float) -> tuple[Array, Array]:
        """Losses and their masses, in floats."""
        mu = float(self.mu)
        edges = np.linspace(-1.0, 1.0, 601) * np.sqrt(-2.0 * np.log(faint))
        middles = 0.5 * (edges[1:] + edges[:-1])
        return mu * middles + 0.5 * mu**2, normal_masses(edges)
