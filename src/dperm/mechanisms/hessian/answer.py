"""The answers to `HessianQuery` and `SmallestEigenvalueQuery`."""

import numpy as np

from dperm.kernel.answers import Array, Asked, answers
from dperm.kernel.symmetric import by_one_thread, to_matrix, to_vector
from dperm.mechanisms.hessian import HessianQuery, SmallestEigenvalueQuery


@answers(HessianQuery)
def noisy_hessian(query: HessianQuery, asked: Asked, w: Array) -> Array:
    """The mean Hessian, as a symmetric matrix."""
    with by_one_thread():
        exact = to_vector(asked.sums.hessian(w) / asked.setting.n)
    asked.advance(1)
    # Noise on a vector of the same Frobenius norm is noise on the space of symmetric matrices.
    return to_matrix(asked.noise.release(exact, query.sensitivity), w.size)


@answers(SmallestEigenvalueQuery)
def noisy_eigenvalue(query: SmallestEigenvalueQuery, asked: Asked, w: Array) -> Array:
    """The smallest eigenvalue of the mean Hessian."""
    with by_one_thread():
        matrix = asked.sums.hessian(w) / asked.setting.n
        exact = np.asarray(np.linalg.eigvalsh(matrix)[:1], dtype=np.float64)
    asked.advance(1)
    return asked.noise.release(exact, query.sensitivity)
