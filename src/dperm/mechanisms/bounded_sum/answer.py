"""The answer to `BoundedSum`."""

from typing import Any

from numpy.typing import NDArray

from dperm.kernel.adding import clipped, in_blocks
from dperm.kernel.answers import Array, answers
from dperm.kernel.units import UnitRows
from dperm.mechanisms.bounded_sum import BoundedSum


@answers(BoundedSum)
def added(query: BoundedSum, vectors: NDArray[Any], units: UnitRows | None = None) -> Array:
    """The sum of vectors that are clipped to their bound."""
    return in_blocks(query.size, vectors, units, lambda block: clipped(query, block))
