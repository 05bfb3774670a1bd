"""The answer to `DifferenceQuery`."""

from dperm.mechanisms import DifferenceQuery
from dperm.trusted.answers.base import Array, Asked, answers


@answers(DifferenceQuery)
def noisy_difference(query: DifferenceQuery, asked: Asked, w: Array, anchor: Array) -> Array:
    """The mean difference over a sample, every row's part clipped to what is possible between w and the anchor."""
    total = asked.sums.difference(w, anchor, query.record_bound_at(w, anchor), query.sampling_rate)
    asked.advance(1)
    return asked.noise.release(total / (query.sampling_rate * asked.setting.n), query.sensitivity_at(w, anchor))
