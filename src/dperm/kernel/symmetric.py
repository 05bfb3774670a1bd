"""Symmetric matrices, added up by one thread and as vectors of the same length."""

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Array = NDArray[np.float64]

_BLAS = ThreadpoolController()

_ROOT_TWO = float(np.sqrt(2.0))


def by_one_thread() -> AbstractContextManager[Any]:
    """A block in which BLAS uses one thread: a seeded result does not depend on the machine's number of them."""
    return _BLAS.limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


def to_vector(matrix: Array) -> Array:
    """The upper triangle with √2 on what is off the diagonal: as long as the matrix in Frobenius norm."""
    above = np.triu_indices(matrix.shape[0], 1)
    return np.concatenate([np.diagonal(matrix), _ROOT_TWO * matrix[above]])


def to_matrix(vector: Array, size: int) -> Array:
    """Undo `to_vector`."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = vector[size:] / _ROOT_TWO
    return matrix + matrix.T + np.diag(vector[:size])
