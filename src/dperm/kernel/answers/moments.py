"""The answer to `MomentsQuery`."""

from threadpoolctl import ThreadpoolController

from dperm.kernel.answers.base import Array, Asked, answers
from dperm.kernel.answers.hessian import to_matrix, to_vector
from dperm.mechanisms import MomentsQuery

# Added up by one thread, so that a seeded result does not depend on the machine's number of them.
_BLAS = ThreadpoolController()


@answers(MomentsQuery)
def noisy_moments(query: MomentsQuery, asked: Asked) -> Array:
    """The mean of z zᵀ, as a symmetric matrix."""
    with _BLAS.limit(limits=1, user_api="blas"):
        exact = asked.sums.moments(query.target_scale, query.bound) / asked.setting.n
    asked.advance(1)
    return to_matrix(asked.noise.release(to_vector(exact), query.sensitivity), exact.shape[0])
