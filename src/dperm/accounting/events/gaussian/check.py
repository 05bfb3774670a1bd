"""Answers with Gaussian noise: their exact curve, and the pair of laws behind it."""

from dataclasses import dataclass

import numpy as np
from flint import arb

from dperm.rigorous.balls import normal
from dperm.rigorous.checks import Group, Run, checks
from dperm.rigorous.convolution import Parts
from dperm.rigorous.curves import GaussianCurve
from dperm.rigorous.pairs import Array, TailPair, normal_masses


@checks("gaussian")
def enter(run: Run, count: int, noise_multiplier: float) -> None:
    """All of them together are one."""
    run.add(Gaussians, noise_multiplier, count)


class Gaussians(Group[float]):
    """Noise multipliers ν of answers with Gaussian noise."""

    @property
    def mu(self) -> arb:
        """μ of all together: m √(Σ k/ν²), with m records moved between adjacent tables."""
        precision = sum((arb(count) / arb(multiplier) ** 2 for multiplier, count in self.items), arb(0))
        return (2 if self.replace_one else 1) * precision.sqrt()

    @property
    def rho(self) -> arb:
        """μ²/2."""
        return self.mu**2 / 2

    def closed_form(self) -> GaussianCurve:
        """Exact."""
        return GaussianCurve(self.mu)

    def directions(self) -> list[Parts]:
        """One pair of laws."""
        return [[(GaussianPair(self.mu), 1)]]


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
