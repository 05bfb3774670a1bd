"""The answer to `GradientQuery`."""

from dperm.kernel.answers import Array, Asked, answers
from dperm.mechanisms.gradient import GradientQuery


@answers(GradientQuery)
def noisy_gradient(query: GradientQuery, asked: Asked, w: Array) -> Array:
    """The mean gradient over all rows, or over a sample of them."""
    exact = asked.sums.gradient(w, rate=query.sampling_rate) / (query.sampling_rate * asked.setting.n)
    asked.advance(1)
    constant = asked.noise.calibrated.constant
    return asked.noise.release(exact, query.sensitivity if constant else query.sensitivity_at(w))
