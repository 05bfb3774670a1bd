"""The answer to `MomentsQuery`."""

from dperm.kernel.answers import Array, Asked, answers
from dperm.kernel.symmetric import by_one_thread, to_matrix, to_vector
from dperm.mechanisms.moments import MomentsQuery


@answers(MomentsQuery)
def noisy_moments(query: MomentsQuery, asked: Asked) -> Array:
    """The mean of z zᵀ, as a symmetric matrix."""
    with by_one_thread():
        exact = asked.sums.moments(query.target_scale, query.bound) / asked.setting.n
    asked.advance(1)
    return to_matrix(asked.noise.release(to_vector(exact), query.sensitivity), exact.shape[0])
