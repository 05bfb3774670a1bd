"""x + scale · b for a vector b of the density ∝ exp(−‖b‖₂), every coordinate correctly rounded.

b has a uniformly random direction, that of a Gaussian vector g, and a Gamma(p)-distributed length, the sum of p
exponential numbers: b = (E₁ + … + E_p) g/‖g‖.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dperm.kernel import native
from dperm.kernel.exact.digits import Number
from dperm.kernel.exact.draws import exponential, gaussian
from dperm.kernel.exact.words import Stream, next_word, place, rewind

Array = NDArray[np.float64]

# Bits of the part of a number, as native code draws them, and more of them for a quotient.
_BITS = 96
_MORE_BITS = 64


def add_radial(values: Array, scale: float, stream: Stream) -> None:
    """Replace the values by the rounded values + scale · b; a scale of 0 changes nothing."""
    if scale == 0.0:
        return
    start, p = place(stream), values.size
    whole, parts, signs = np.empty(2 * p, np.int64), np.empty((2 * p, 3), np.uint32), np.ones(2 * p, np.int64)
    total = None
    if native.draw_parts(whole, parts, signs, stream):
        sizes = [
            (k << _BITS) | (a << 64) | (b << 32) | c
            for k, (a, b, c) in zip(whole.tolist(), parts.tolist(), strict=True)
        ]
        total = _rounded(values, scale, signs.tolist(), sizes, _BITS)
    if total is None:  # some digits did not decide
        rewind(stream, *start)
        total = _from_numbers(values, scale, stream)
    values[:] = total


def _from_numbers(values: Array, scale: float, stream: Stream) -> list[float]:
    """The same draws with all digits that it takes."""

    def word() -> int:
        return int(next_word(stream))

    numbers: list[Number] = []
    for i in range(2 * values.size):
        numbers.append((gaussian if i < values.size else exponential)(word))
        while len(numbers[-1].part.digits) < 3:
            numbers[-1].extend()
    while True:
        longest = max(len(number.part.digits) for number in numbers)
        for number in numbers:
            while len(number.part.digits) < longest:
                number.extend()
        bits = 32 * longest
        sizes = [int(min(abs(end) for end in number.ends()) * 2**bits) for number in numbers]
        total = _rounded(values, scale, [number.sign for number in numbers], sizes, bits)
        if total is not None:
            return total
        numbers[0].extend()


def _rounded(values: Array, scale: float, signs: list[int], sizes: list[int], bits: int) -> list[float] | None:
    """Round values + scale · b in integer arithmetic; None if the unknown digits of the numbers leave that open.

    A number lies in [size, size + 1) · 2^−bits.
    """
    p = values.size
    directions, lengths = sizes[:p], sizes[p:]
    norm_low = math.isqrt(sum(g * g for g in directions))
    norm_high = math.isqrt(sum((g + 1) * (g + 1) for g in directions)) + 1
    length_low, length_high = sum(lengths), sum(lengths) + p
    if norm_low == 0:
        return None
    scale_top, scale_bottom = float(scale).as_integer_ratio()
    total = []
    for value, sign, g in zip(values.tolist(), signs[:p], directions, strict=True):
        top, bottom = value.as_integer_ratio()
        low = (length_low * g << _MORE_BITS) // norm_high
        high = -((-length_high * (g + 1) << _MORE_BITS) // norm_low)
        below = bottom * scale_bottom << (bits + _MORE_BITS)
        fixed = top * scale_bottom << (bits + _MORE_BITS)
        ends = {_quotient(fixed + sign * end * scale_top * bottom, below) for end in (low, high)}
        if len(ends) != 1:
            return None
        total.append(ends.pop())
    return total


def _quotient(top: int, bottom: int) -> float:
    """Correctly rounded, as Python's division of integers is; infinite beyond the largest float."""
    try:
        return top / bottom
    except OverflowError:
        return math.inf if top > 0 else -math.inf
