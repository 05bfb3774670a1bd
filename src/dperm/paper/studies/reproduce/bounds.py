"""A row of the paper's tables: the method, the bounds that are claimed for it, and where they are looked at."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from dperm.accounting.curve import gaussian_mu
from dperm.privacy.guarantee import Guarantee
from dperm.solvers import Solver

DELTA = 1e-5
NOISES = {"certified": "certified", "published": "paper"}


@dataclass(frozen=True)
class Place:
    """Where it is measured; `log_delta` is the ln(1/δ) of the bounds."""

    n: int
    epsilon: float
    p: int
    log_delta: float = math.log(1.0 / DELTA)


Formula = Callable[[Place], float]


@dataclass(frozen=True)
class Row:
    """A row of a table: the method, and what the paper says of it.

    Parameters
    ----------
    label : str
        Who and what.
    solver : Solver
        The method.
    excess : tuple of callables
        The terms of the bound on its excess risk, other constants than the theorem's set to 1.
    gradients : tuple of callables
        The terms of its gradient complexity; none where the table has N/A.
    non_smooth : bool
        The table's last column.
    counted : str or callable
        The noise whose plan is counted, or the published number of gradients where a plan is cut short.
    outdone : bool
        Whether the paper says that its own method needs fewer gradients.
    pure : bool
        δ = 0: the method has no other noise.
    published : bool
        Whether the published noise is measured as well.
    seeds : int
        How often it is run; what takes long has fewer.
    """

    label: str
    solver: Solver
    excess: tuple[Formula, ...]
    gradients: tuple[Formula, ...]
    non_smooth: bool
    seeds: int
    counted: str | Formula = "certified"
    outdone: bool = False
    pure: bool = False
    published: bool = True

    @property
    def noises(self) -> dict[str, str]:
        """Names and modes of the noise that it is measured with."""
        return {name: mode for name, mode in NOISES.items() if self.published or mode == "certified"}

    def effective(self, place: Place, mode: str) -> Place:
        """The place with ε as the noise sees it.

        Published Gaussian noise is in proportion to √ln(1/δ)/ε, certified noise to 1/μ, where μ is what (ε, δ) allow;
        for δ = 0 it is 1/ε.
        """
        if mode == "paper" and not self.pure:
            return place
        if self.pure:
            return replace(place, log_delta=1.0)
        return replace(place, epsilon=gaussian_mu(Guarantee(place.epsilon, DELTA)), log_delta=1.0)


@dataclass(frozen=True)
class Axis:
    """One of n, ε and p, varied while the others stay; `scale` is what powers are taken of."""

    name: str
    places: tuple[Place, ...]
    scale: Formula
