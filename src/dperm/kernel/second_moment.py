"""How `SecondMoment` is added up."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from dperm.errors import InvalidParameterError
from dperm.kernel.answers.hessian import to_vector
from dperm.kernel.bounded_sums import adds, clipped, weighted
from dperm.kernel.units import UnitRows
from dperm.mechanisms.second_moment import SecondMoment
from dperm.mechanisms.setting import summation_block

Array = NDArray[np.float64]

# By one thread: a seeded result does not depend on the machine's number of them.
_BLAS = ThreadpoolController()


@adds(SecondMoment)
def multiplied(query: SecondMoment, rows: NDArray[Any], units: UnitRows | None = None) -> Array:
    """Σ x xᵀ of clipped rows, as a vector that is as long as the matrix in the Frobenius norm."""
    if rows.shape[1] != query.width:
        raise InvalidParameterError(f"rows have {query.width} columns here, got {rows.shape[1]}.")
    at_once = summation_block(max(len(rows), 1))
    total = np.zeros((query.width, query.width))
    with _BLAS.limit(limits=1, user_api="blas"):
        for first in range(0, len(rows), at_once):
            chosen = slice(first, first + at_once)
            block = clipped(query.row, rows[chosen])
            total += block.T @ weighted(block, units, chosen)
    return to_vector(total)
