"""What a mechanism is: it owns its sensitivity, its sampling and its event, so that they cannot disagree."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.events import Event, Gaussian, PoissonSampledGaussian, Pure
from dperm.errors import InvalidParameterError
from dperm.mechanisms.setting import Setting, TableFacts, summation_slack
from dperm.validation import finite, positive

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Mechanism(ABC):
    """What may be released: a frozen dataclass, one folder each, that owns its sensitivity and its event.

    `noise_multiplier` is always the noise's scale over the sensitivity under the setting's adjacency. Gaussian
    events want it relative to one record's contribution and apply the adjacency themselves, so
    every mechanism converts in `event` and nowhere else.

    Attributes
    ----------
    setting : TableFacts
        The public facts that the mechanism rests on.
    distribution : str
        How the noise is distributed: a word for the privacy statement.
    n_steps : int
        How many steps, planned in advance, one answer takes.
    """

    setting: TableFacts

    # Without annotations, so that they are no fields; a mechanism that makes one a field without a default of its own
    # declares it with `field()`.
    distribution = "Gaussian"
    n_steps = 1

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """How far what is hidden moves between adjacent tables, given the batch, in the norm that the noise is for."""

    @property
    def gradients_per_row(self) -> float:
        """Expected number of gradients that the answer takes of every row; infinite where that is not public."""
        return 0.0

    @abstractmethod
    def event(self, noise_multiplier: float) -> Event:
        """What one answer costs."""


@dataclass(frozen=True)
class Query(Mechanism):
    """What a solver may ask of the oracle about a problem; the module `answer` in its folder answers it.

    Attributes
    ----------
    setting : Setting
        The problem's constants, the public n and the adjacency.
    sampling_rate : float
        Every row is in a batch with this probability.
    n_points : int
        At how many released points it is asked.
    takes_step_size : bool
        Whether it is asked with a step size, which is public.
    """

    setting: Setting

    sampling_rate = 1.0
    n_points = 1
    takes_step_size = False

    @property
    def point_sizes(self) -> tuple[int, ...]:
        """How many numbers each point has: as many as there are coefficients, unless a mechanism says otherwise."""
        return (self.setting.constants.dimension,) * self.n_points

    def sensitivity_at(self, *points: Array) -> float:
        """The sensitivity at released points: at most `sensitivity`."""
        return self.sensitivity

    @property
    def gradients_per_row(self) -> float:
        """One, unless a mechanism says otherwise."""
        return 1.0


def check_sampling_rate(rate: float) -> None:
    """Refuse degenerate sampling: q = 0 would look like no privacy cost."""
    if not 0.0 < finite("sampling_rate", rate) <= 1.0:
        raise InvalidParameterError(f"sampling_rate must lie in (0, 1], got {rate!r}.")


def sampled_gaussian(setting: Setting, rate: float, noise_multiplier: float) -> Event:
    """A Gaussian release over a Poisson sample, with the multiplier relative to one record."""
    per_record = positive("noise multiplier", noise_multiplier) * setting.adjacency.records_moved
    return Gaussian(per_record) if rate == 1.0 else PoissonSampledGaussian(rate, per_record)


def whole_change(mechanism: Mechanism, noise_multiplier: float) -> Event:
    """A release whose sensitivity is the whole change between neighbouring datasets, with Gaussian or Laplace noise."""
    positive("noise multiplier", noise_multiplier)
    if mechanism.distribution == "Laplace":
        return Pure(1.0 / noise_multiplier * (1.0 + 1e-15))
    # Events want the noise relative to one record, and double it under replace_one; the sensitivity has that in it.
    return Gaussian(noise_multiplier * mechanism.setting.adjacency.records_moved)


# What an exact minimisation can be relied on to solve within its steps (kernel/minimiser.py).
LARGEST_CONDITION = 1e7

# A strong convexity that is more times L than this rounds the loss, and the noise with it, away.
LARGEST_PULL = 1e8


def smallest_tolerance(setting: Setting) -> float:
    """The shortest subgradient that a minimisation may be asked for: eight times what rounding does to a mean gradient.

    A sum of gradients is off by at most half of slack · G (docs/proofs/gradient.md).
    """
    return 4.0 * summation_slack(setting) * setting.constants.lipschitz / setting.n


def why_not_solvable(setting: Setting, tolerance: float, strong_convexity: float) -> str | None:
    """Why a minimisation might fail on one table and not on the next, or None: that it failed would show."""
    if not tolerance < math.inf:
        return "no finite tolerance covers the rounding of a minimiser here."
    if not tolerance >= smallest_tolerance(setting):
        return f"a tolerance of {tolerance:g} is below what rounding allows here, {smallest_tolerance(setting):.3g}."
    if strong_convexity > LARGEST_PULL * setting.smoothness:
        return (
            f"a strong convexity of {strong_convexity:.3g} with L = {setting.smoothness:.3g} rounds the loss away; "
            f"take at most {LARGEST_PULL * setting.smoothness:.3g}."
        )
    if setting.smoothness + strong_convexity > LARGEST_CONDITION * strong_convexity:
        return (
            f"with a strong convexity of {strong_convexity:.3g} and L = {setting.smoothness:.3g} the minimiser cannot "
            f"be solved for exactly on every table; it takes at least {setting.smoothness / LARGEST_CONDITION:.3g}."
        )
    return None


def check_solvable(setting: Setting, tolerance: float, strong_convexity: float) -> None:
    """Refuse a minimisation that might fail on one table and not on the next."""
    reason = why_not_solvable(setting, positive("tolerance", tolerance), strong_convexity)
    if reason is not None:
        raise InvalidParameterError(reason)


def check_minimiser(method: str, setting: Setting) -> None:
    """Refuse problems on which exact minimisation or descent is not known to be stable."""
    if not setting.constants.convex:
        raise InvalidParameterError(f"{method} needs a convex loss.")
    if not setting.constants.exact_prox:
        raise InvalidParameterError(
            f"{method} needs an exact proximal step, which this regularizer does not have on this domain."
        )
