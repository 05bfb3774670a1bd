"""Noise: drawn and added here. Nothing computed from rows leaves `trusted/` by any other way.

Randomness comes from a cryptographic generator, keyed by the operating system unless a seed is given.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from randomgen import ChaCha

from dperm.accounting.events import Event, NotPrivate
from dperm.errors import InvalidParameter
from dperm.mechanisms.plan import CalibratedPlan, PlannedQuery
from dperm.trusted.compiling import compile_kernel

Array = NDArray[np.float64]

# What `Randomness` draws from, for the privacy statement.
GENERATOR = "ChaCha20"


@compile_kernel
def _add(exact, drawn):  # type: ignore[no-untyped-def]
    return exact + drawn


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise of one planned query: its distribution, its privacy cost, and the only way to release an answer.

    Parameters
    ----------
    item : PlannedQuery
        The query, how often it may be asked, and its noise relative to the plan's.
    calibrated : CalibratedPlan
        Has the plan's noise multiplier; None there is the explicit way to run without noise or privacy.
    randomness : Randomness
        Where noise is drawn.
    """

    item: PlannedQuery
    calibrated: CalibratedPlan
    randomness: "Randomness"

    # Turns an exact number and drawn noise into what may be released, in compiled loops and elsewhere.
    join: ClassVar[Any] = staticmethod(_add)

    @property
    def distribution(self) -> str:
        """How the noise is distributed."""
        return self.item.query.distribution

    @property
    def multiplier(self) -> float | None:
        """The noise's scale over the sensitivity; None without noise."""
        multiplier = self.calibrated.noise_multiplier
        return None if multiplier is None else self.item.multiplier(multiplier)

    @property
    def event(self) -> Event:
        """What all answers to the query cost with this noise."""
        multiplier = self.calibrated.noise_multiplier
        return NotPrivate() if multiplier is None else self.item.event(multiplier)

    def release(self, exact: Array, sensitivity: float) -> Array:
        """What may be released: the exact answer plus noise for this sensitivity."""
        return self._pass(exact, self.distribution, self.calibrated.sigma(self.item, sensitivity))

    def release_hidden(self, exact: Array, distribution: str, scale: float) -> Array:
        """The same with noise whose scale the mechanism fixes, and whose cost is part of its event."""
        return self._pass(exact, distribution, scale)

    def release_steps(
        self, loop: Callable[[Any, Array], tuple[Array, Array]], shape: tuple[int, int], sensitivity: float
    ) -> tuple[Array, Array]:
        """Run a compiled loop of steps in which every direction is joined with its row of drawn noise.

        Parameters
        ----------
        loop : callable
            Takes `join` and the drawn noise; returns iterates and directions.
        shape : tuple
            Number of steps, and of coefficients.
        sensitivity : float
            Of the mean in one step.
        """
        return loop(self.join, self._draw(shape, self.distribution, self.calibrated.sigma(self.item, sensitivity)))

    def _pass(self, exact: Array, distribution: str, scale: float) -> Array:
        return np.asarray(self.join.py_func(exact, self._draw(exact.shape, distribution, scale)))

    def _draw(self, shape: tuple[int, ...], distribution: str, scale: float) -> Array:
        if self.calibrated.noise_multiplier is None:
            return np.zeros(shape)
        return scale * self.randomness.unit_noise(distribution, shape)


@dataclass(frozen=True, eq=False)
class Randomness:
    """Independent streams of one fit, made anew for every fit and never stored with a model.

    Attributes
    ----------
    noise : Generator
        Adds noise.
    sampling : Generator
        Picks batches.
    public_coin : Generator
        For choices that are public anyway, such as which iterate to return.
    seeded : bool
        Whether somebody who knows the seed could take the noise off again.
    """

    noise: np.random.Generator
    sampling: np.random.Generator
    public_coin: np.random.Generator
    seeded: bool

    def unit_noise(self, distribution: str, shape: tuple[int, ...]) -> Array:
        """Noise of scale 1; of shape (m, p) the same numbers as m draws of shape (p,), one after the other.

        "Gaussian", "Laplace" and "Gumbel" are independent numbers. "Gamma" is one vector of density ∝ exp(−‖b‖₂), which
        has a uniformly random direction and a Gamma-distributed length.
        """
        if distribution == "Gaussian":
            return self.noise.standard_normal(shape)
        if distribution == "Gamma":
            normal = self.noise.standard_normal(shape)
            return np.asarray(normal * (self.noise.standard_gamma(normal.size) / np.linalg.norm(normal)))
        if distribution == "Laplace":
            return self.noise.laplace(size=shape)
        if distribution == "Gumbel":
            exponential = -np.log(1.0 - self.noise.random(shape))
            # Small ones win. 53 random bits end at 2⁻⁵³, where G = 37, which is not rare among 2p draws in T steps.
            small = exponential < 2.0**-20
            exponential[small] += 2.0**-53 * (1.0 - self.noise.random(np.count_nonzero(small)))
            return np.asarray(-np.log(exponential))
        raise InvalidParameter(f"there is no noise of the distribution {distribution!r}.")

    @classmethod
    def from_random_state(cls, random_state: Any) -> "Randomness":
        """Fresh operating-system keys for None, else streams derived from the seed."""
        if random_state is None:
            bits = [ChaCha(key=secrets.randbits(256)) for _ in range(3)]
        else:
            bits = [ChaCha(child) for child in np.random.SeedSequence(seed_from(random_state)).spawn(3)]
        noise, sampling, public_coin = (np.random.Generator(stream) for stream in bits)
        return cls(noise, sampling, public_coin, seeded=random_state is not None)


def check_random_state(random_state: Any) -> None:
    """Raise unless it is None, a whole number of 0 or above, a RandomState or a Generator, as in scikit-learn."""
    if random_state is None:
        return
    whole = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if not isinstance(random_state, (np.random.RandomState, np.random.Generator)) and not (whole and random_state >= 0):
        raise InvalidParameter(
            f"random_state must be None, a whole number of 0 or above, or a generator, got {random_state!r}."
        )


def seed_from(random_state: Any) -> int:
    """Read a seed, drawing it from the generator if it is one."""
    check_random_state(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(0, 2**63 - 1))
    return int(random_state)
