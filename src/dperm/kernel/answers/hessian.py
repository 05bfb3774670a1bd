"""The answers to `HessianQuery` and `SmallestEigenvalueQuery`."""

import numpy as np
from threadpoolctl import ThreadpoolController

from dperm.kernel.answers.base import Array, Asked, answers
from dperm.mechanisms import HessianQuery, SmallestEigenvalueQuery

# Hessians are added up by one thread: a seeded result does not depend on the machine's number of them.
_BLAS = ThreadpoolController()

_ROOT_TWO = float(np.sqrt(2.0))


@answers(HessianQuery)
def noisy_hessian(query: HessianQuery, asked: Asked, w: Array) -> Array:
    """The mean Hessian, as a symmetric matrix."""
    with _BLAS.limit(limits=1, user_api="blas"):
        exact = to_vector(asked.sums.hessian(w) / asked.setting.n)
    asked.advance(1)
    # Noise on a vector of the same Frobenius norm is noise on the space of symmetric matrices.
    return to_matrix(asked.noise.release(exact, query.sensitivity), w.size)


@answers(SmallestEigenvalueQuery)
def noisy_eigenvalue(query: SmallestEigenvalueQuery, asked: Asked, w: Array) -> Array:
    """The smallest eigenvalue of the mean Hessian."""
    with _BLAS.limit(limits=1, user_api="blas"):
        matrix = asked.sums.hessian(w) / asked.setting.n
        exact = np.asarray(np.linalg.eigvalsh(matrix)[:1], dtype=np.float64)
    asked.advance(1)
    return asked.noise.release(exact, query.sensitivity)


def to_vector(matrix: Array) -> Array:
    """The upper triangle with √2 on what is off the diagonal: as long as the matrix in Frobenius norm."""
    above = np.triu_indices(matrix.shape[0], 1)
    return np.concatenate([np.diagonal(matrix), _ROOT_TWO * matrix[above]])


def to_matrix(vector: Array, size: int) -> Array:
    """Undo `to_vector`."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = vector[size:] / _ROOT_TWO
    return matrix + matrix.T + np.diag(vector[:size])
