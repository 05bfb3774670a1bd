"""x + scale · Z, correctly rounded: the float64 nearest to the real number, whatever the digits that were not drawn."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dperm.kernel import native
from dperm.kernel.exact.digits import Number
from dperm.kernel.exact.draws import gaussian, laplace
from dperm.kernel.exact.words import Stream, next_word, rewind

Array = NDArray[np.float64]
Again = Callable[[float, float, int, int], float]


def add_gaussian(values: Array, scale: float, stream: Stream) -> None:
    """Replace every value by the rounded value + scale · Z, Z a standard Gaussian; a scale of 0 changes nothing."""
    native.add_noise(True, values, scale, stream, _gaussian_again(stream))


def add_laplace(values: Array, scale: float, stream: Stream) -> None:
    """The same with noise of the density exp(−|t|)/2."""
    native.add_noise(False, values, scale, stream, _laplace_again(stream))


def _gaussian_again(stream: Stream) -> Again:
    """Draws and rounds again from words that did not decide, in rational arithmetic and with all digits it takes."""

    def again(value: float, scale: float, counter: int, position: int) -> float:
        rewind(stream, counter, position)
        return rounded_sum(value, scale, gaussian(lambda: next_word(stream)))

    return again


def _laplace_again(stream: Stream) -> Again:
    def again(value: float, scale: float, counter: int, position: int) -> float:
        rewind(stream, counter, position)
        return rounded_sum(value, scale, laplace(lambda: next_word(stream)))

    return again


# For loops in native code that add noise themselves: whether it is Gaussian, and what draws again.
AGAIN = {add_gaussian: (True, _gaussian_again), add_laplace: (False, _laplace_again)}


def rounded_sum(value: float, scale: float, drawn: Number) -> float:
    """The rounded value + scale · drawn."""
    while len(drawn.part.digits) < 3:  # as many as native code takes
        drawn.extend()
    while True:
        low, high = (rounded(Fraction(value) + Fraction(scale) * end) for end in drawn.ends())
        if low == high:
            return low
        drawn.extend()


def rounded(number: Fraction) -> float:
    """The nearest float, to even in a tie; infinite beyond the largest."""
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
