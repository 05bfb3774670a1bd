"""Mechanisms with a pure ε: randomized response is the worst of them."""

from dataclasses import dataclass

import numpy as np
from flint import arb

from dperm.rigorous.checks import Group, Run, checks
from dperm.rigorous.convolution import Parts
from dperm.rigorous.pairs import Array, Masses, Pair, split_atom


@checks("pure")
def enter(run: Run, count: int, epsilon: float) -> None:
    """By its ε."""
    run.add(Pures, epsilon, count)


class Pures(Group[float]):
    """The ε of each."""

    only_pure = True

    @property
    def pure(self) -> arb:
        """Σε."""
        return sum((count * arb(epsilon) for epsilon, count in self.items), arb(0))

    @property
    def rho(self) -> arb:
        """Σε²/2."""
        return sum((count * arb(epsilon) ** 2 / 2 for epsilon, count in self.items), arb(0))

    def directions(self) -> list[Parts]:
        """Randomized responses."""
        return [[(PurePair(epsilon), count) for epsilon, count in self.items]]


@dataclass(frozen=True)
class PurePair(Pair):
    """The loss is ε with probability e^ε/(1 + e^ε), and else −ε."""

    epsilon: float

    def masses(self, cells: list[int], width: arb) -> Masses:
        """Two atoms, each between two cells."""
        masses: dict[int, arb] = {}
        loss = arb(self.epsilon)
        for place in (loss, -loss):
            for cell, mass in split_atom(1 / (1 + (-place).exp()), place, width).items():
                masses[cell] = masses.get(cell, arb(0)) + mass
        return masses, arb(0)

    def rough(self, faint: float) -> tuple[Array, Array]:
        """Losses and their masses, in floats."""
        losses = np.array([-self.epsilon, self.epsilon])
        return losses, 1.0 / (1.0 + np.exp(-losses))
