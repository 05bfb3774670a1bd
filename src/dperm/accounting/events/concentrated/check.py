"""Mechanisms of which ρ is known and nothing else."""

from flint import arb

from dperm.rigorous.checks import Group, Run, checks
from dperm.rigorous.concentrated import ConcentratedPair
from dperm.rigorous.convolution import Parts


@checks("zcdp")
def enter(run: Run, count: int, rho: float) -> None:
    """By its ρ."""
    run.add(Concentrated, rho, count)


class Concentrated(Group[float]):
    """The ρ of each."""

    only_rho = True

    @property
    def rho(self) -> arb:
        """Σρ."""
        return sum((count * arb(rho) for rho, count in self.items), arb(0))

    def directions(self) -> list[Parts]:
        """Each by its own."""
        return [[(ConcentratedPair(arb(rho)), count) for rho, count in self.items]]
