"""The answer to `LocalGradientQuery`."""

from dperm.kernel.answers import Array, Asked, answers
from dperm.mechanisms.local_gradient import LocalGradientQuery


@answers(LocalGradientQuery)
def noisy_local_gradient(query: LocalGradientQuery, asked: Asked, w: Array) -> Array:
    """The mean gradient, every row's part clipped to what is possible at w."""
    exact = asked.sums.gradient(w, query.record_bound_at(w)) / asked.setting.n
    asked.advance(1)
    return asked.noise.release(exact, query.sensitivity_at(w))
