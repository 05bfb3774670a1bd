"""The answer to `SlopeSizeQuery`."""

from dperm.kernel.answers import Array, Asked, answers
from dperm.mechanisms.slope_size import SlopeSizeQuery, share_of


@answers(SlopeSizeQuery)
def noisy_slope_size(query: SlopeSizeQuery, asked: Asked, w: Array, numbers: Array) -> Array:
    """The mean slope and the mean size of slopes, every row's part clipped to the share."""
    exact = asked.sums.slopes(w, share_of(numbers)) / asked.setting.n
    asked.advance(1)
    return asked.noise.release(exact, query.sensitivity_at(w, numbers))
