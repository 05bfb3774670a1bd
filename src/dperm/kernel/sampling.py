"""Poisson sampling within blocks of rows, and how many steps' batches are drawn at once.

Every block of rows draws its batch of a step from a stream of its own, keyed by the fit, the step and the block's index
in the table. So a block that is computed a second time, after a worker was lost, draws the same rows again.

Where rows are protected by unit, units are drawn: by the fit and the step alone, so that every block draws the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.exact.skips import take_cells
from dperm.kernel.exact.words import Stream, stream_of
from dperm.kernel.units import Members

Indices = NDArray[np.intp]

# Numbers that the batches and the results of many steps may hold.
_NUMBERS_AT_ONCE = 1_000_000


@dataclass(frozen=True, eq=False)
class Batches:
    """Row numbers within one block for consecutive steps: step t takes rows[edges[t]:edges[t + 1]]."""

    rows: Indices
    edges: Indices


@dataclass(frozen=True, eq=False, repr=False)
class Sample:
    """Every row independently with probability `rate`, exactly.

    Attributes
    ----------
    key : array of eight words
        Of the fit.
    step : int
        Tells the samples of one fit apart.
    rate : float
        Taken as exact.
    """

    key: Stream
    step: int
    rate: float

    def batches(self, n_rows: int, place: int, n_steps: int = 1) -> Batches:
        """The rows of a block, given its position in the table, for one step or for several with one draw.

        They are in rising order, so that equal batches are added up in the same order.
        """
        chosen = take_cells(n_steps * n_rows, self.rate, stream_of(self.key, (self.step, place)))
        return Batches(chosen % max(n_rows, 1), np.searchsorted(chosen, n_rows * np.arange(n_steps + 1)))

    def batches_by_unit(self, members: Members, n_steps: int = 1) -> Batches:
        """The rows of a block whose units are drawn, all of a unit's rows or none of them."""
        if n_steps == 1:
            chosen = _units_of_step(self.key.tobytes(), self.step, self.rate, members.n)
        else:
            chosen = take_cells(n_steps * members.n, self.rate, stream_of(self.key, (self.step, 0)))
        rows, counts = members.rows_of(chosen % max(members.n, 1))
        taken = np.concatenate([[0], np.cumsum(counts)])
        return Batches(rows, taken[np.searchsorted(chosen, members.n * np.arange(n_steps + 1))])


@lru_cache(2)
def _units_of_step(key: bytes, step: int, rate: float, n: int) -> Indices:
    """Drawn once for all blocks of this process."""
    return take_cells(n, rate, stream_of(np.frombuffer(key, np.uint32), (step, 0)))


class Sampling:
    """The samples of one fit, one after another.

    Parameters
    ----------
    key : array of eight words
        Used for nothing else.
    """

    def __init__(self, key: Stream) -> None:
        self._key, self._step = key, 0

    def next(self, rate: float) -> Sample:
        """A sample that is independent of all before it."""
        self._step += 1
        return Sample(self._key, self._step, rate)


def steps_at_once(n_steps: int, numbers_per_step: float) -> Iterator[int]:
    """Cut steps into pieces that need about as much memory as a piece may."""
    largest = max(1, int(_NUMBERS_AT_ONCE / numbers_per_step))
    for first in range(0, n_steps, largest):
        yield min(largest, n_steps - first)
