"""The answer to `SecondMoment`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError
from dperm.kernel.adding import clipped, weighted
from dperm.kernel.answers import Array, answers
from dperm.kernel.symmetric import by_one_thread, to_vector
from dperm.kernel.units import UnitRows
from dperm.mechanisms.second_moment import SecondMoment
from dperm.mechanisms.setting import summation_block


@answers(SecondMoment)
def multiplied(query: SecondMoment, rows: NDArray[Any], units: UnitRows | None = None) -> Array:
    """Σ x xᵀ of clipped rows, as a vector that is as long as the matrix in the Frobenius norm."""
    if rows.shape[1] != query.width:
        raise InvalidParameterError(f"rows have {query.width} columns here, got {rows.shape[1]}.")
    at_once = summation_block(max(len(rows), 1))
    total = np.zeros((query.width, query.width))
    with by_one_thread():
        for first in range(0, len(rows), at_once):
            chosen = slice(first, first + at_once)
            block = clipped(query.row, rows[chosen])
            total += block.T @ weighted(block, units, chosen)
    return to_vector(total)
