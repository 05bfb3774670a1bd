"""Noise: drawn and added here. Nothing computed from rows leaves `kernel/` by any other way.

What leaves is the correctly rounded value of the ideal mechanism, to the last bit: docs/proofs/exact.md. Randomness
comes from ChaCha20, keyed by the operating system unless a seed is given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.events import Event, NotPrivate
from dperm.errors import InvalidParameterError
from dperm.kernel.exact.radial import add_radial
from dperm.kernel.exact.rounding import add_gaussian, add_laplace
from dperm.kernel.exact.selection import exponential_choice, laplace_choice
from dperm.kernel.exact.words import Stream, fresh_key, stream_of
from dperm.kernel.sampling import Sampling
from dperm.mechanisms.plan import CalibratedPlan, Planned

Array = NDArray[np.float64]

# What `Randomness` draws from, for the privacy statement.
GENERATOR = "ChaCha20"


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise of one planned query: its distribution, its privacy cost, and the only way to release an answer.

    Parameters
    ----------
    item : Planned
        The query, how often it may be asked, and its noise relative to the plan's.
    calibrated : CalibratedPlan
        Has the plan's noise multiplier; None there is the explicit way to run without noise or privacy.
    randomness : Randomness
        Where noise is drawn.
    """

    item: Planned
    calibrated: CalibratedPlan
    randomness: "Randomness"

    # Each turns a vector of exact numbers, in place, into what may be released, given a scale and a stream of random
    # words. A scale of 0 is a run without noise. "Gamma" is one vector of density ∝ exp(−‖b‖₂), the others are
    # independent numbers.
    adders: ClassVar[dict[str, Any]] = {"Gaussian": add_gaussian, "Laplace": add_laplace, "Gamma": add_radial}
    # Each gives the index of the largest of some scores after noise, given a scale, the sensitivity and a stream.
    choosers: ClassVar[dict[str, Any]] = {"Gumbel": exponential_choice, "Laplace": laplace_choice}

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
        return self._add(exact, self.distribution, self._scale(sensitivity))

    def release_hidden(self, exact: Array, distribution: str, scale: float) -> Array:
        """The same with noise whose scale the mechanism fixes, and whose cost is part of its event."""
        return self._add(exact, distribution, 0.0 if self.calibrated.noise_multiplier is None else scale)

    def release_steps(
        self, loop: Callable[[Any, float, Stream], tuple[Array, Array]], sensitivity: float
    ) -> tuple[Array, Array]:
        """Run a compiled loop of steps that adds noise to every direction.

        Parameters
        ----------
        loop : callable
            Takes the compiled function that adds noise in place, the scale and the stream of random words; returns
            iterates and directions.
        sensitivity : float
            Of the mean in one step.
        """
        return loop(self.adders[self.distribution], self._scale(sensitivity), self.randomness.noise)

    def choose(self, scores: Array, sensitivity: float) -> int:
        """The index of the largest score after noise, which alone may be released."""
        scale = self._scale(sensitivity)
        if scale == 0.0:
            return int(scores.argmax())
        return int(self.choosers[self.distribution](scores, scale, sensitivity, self.randomness.noise))

    def _scale(self, sensitivity: float) -> float:
        return 0.0 if self.calibrated.noise_multiplier is None else self.calibrated.sigma(self.item, sensitivity)

    def _add(self, exact: Array, distribution: str, scale: float) -> Array:
        released = np.array(exact, dtype=np.float64)
        self.adders[distribution](released.reshape(-1), scale, self.randomness.noise)
        return released


@dataclass(frozen=True, eq=False)
class Randomness:
    """Independent streams of one fit, new for every fit and never stored with a model.

    Attributes
    ----------
    noise : Stream
        Adds noise.
    sampling : Sampling
        Picks batches.
    unit_key : array of eight words
        Picks which rows of a unit are used.
    public_coin : Generator
        For choices that are public anyway, such as which iterate to return.
    seeded : bool
        Whether somebody who knows the seed could take the noise off again.
    """

    noise: Stream
    sampling: Sampling
    unit_key: Stream
    public_coin: np.random.Generator
    seeded: bool

    @classmethod
    def from_random_state(cls, random_state: Any) -> "Randomness":
        """Fresh operating-system keys for None, else streams derived from the seed."""
        if random_state is None:
            sampling = Sampling(fresh_key())
            return cls(stream_of(fresh_key()), sampling, fresh_key(), np.random.default_rng(), seeded=False)
        noise, sampling_seed, public_coin, units = np.random.SeedSequence(seed_from(random_state)).spawn(4)
        keys = [child.generate_state(8).astype(np.uint32) for child in (noise, sampling_seed, units)]
        return cls(stream_of(keys[0]), Sampling(keys[1]), keys[2], np.random.default_rng(public_coin), seeded=True)


def check_random_state(random_state: Any) -> None:
    """Raise unless it is None, a non-negative integer, a RandomState or a Generator, as in scikit-learn."""
    if random_state is None:
        return
    whole = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if not isinstance(random_state, (np.random.RandomState, np.random.Generator)) and not (whole and random_state >= 0):
        raise InvalidParameterError(
            f"random_state must be None, a non-negative integer or a Generator, got {random_state!r}."
        )


def seed_from(random_state: Any) -> int:
    """Read a seed, drawing it from the generator if it is one."""
    check_random_state(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(0, 2**63 - 1))
    return int(random_state)
