"""Poisson sampling within a block of rows, and how many steps' batches are drawn at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.trusted.exact.skips import take_cells
from dperm.trusted.exact.words import Stream

Indices = NDArray[np.intp]

# Numbers that the batches and the results of many steps may hold.
_NUMBERS_AT_ONCE = 1_000_000


@dataclass(frozen=True, eq=False)
class Batches:
    """Row numbers within one block for consecutive steps: step t takes rows[edges[t]:edges[t + 1]]."""

    rows: Indices
    edges: Indices


def draw_batches(n_rows: int, rate: float, n_steps: int, sampling: Stream) -> Batches:
    """Every row of a block in every step's batch independently with probability `rate`, exactly.

    Rows are in rising order, so that equal batches are added up in the same order.
    """
    chosen = take_cells(n_steps * n_rows, rate, sampling)
    return Batches(chosen % max(n_rows, 1), np.searchsorted(chosen, n_rows * np.arange(n_steps + 1)))


def steps_at_once(n_steps: int, numbers_per_step: float) -> Iterator[int]:
    """Cut steps into pieces that need about as much memory as a piece may."""
    largest = max(1, int(_NUMBERS_AT_ONCE / numbers_per_step))
    for first in range(0, n_steps, largest):
        yield min(largest, n_steps - first)
