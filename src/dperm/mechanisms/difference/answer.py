"""The answer to `DifferenceQuery`."""

from dperm.kernel.answers import Array, Asked, answers
from dperm.mechanisms.difference import DifferenceQuery


@answers(DifferenceQuery)
def noisy_difference(query: DifferenceQuery, asked: Asked, w: Array, anchor: Array) -> Array:
    """The mean difference over a sample, every row's part clipped to what is possible between w and the anchor."""
    bound, ball = query.record_bound_at(w, anchor), query.ball_smoothness
    total = asked.sums.difference(w, anchor, bound, query.sampling_rate, ball)
    asked.advance(1)
    return asked.noise.release(total / (query.sampling_rate * asked.setting.n), query.sensitivity_at(w, anchor))
