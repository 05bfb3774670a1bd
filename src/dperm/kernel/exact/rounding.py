"""x + scale · Z, correctly rounded: the float64 nearest to the real number, whatever the digits that were not drawn."""

from fractions import Fraction

import numba
import numpy as np

from dperm.kernel.compiling import compile_exact, compile_with_fallback
from dperm.kernel.exact.compiled_draws import UNDECIDED, draw_exponential, draw_gaussian
from dperm.kernel.exact.digits import Number
from dperm.kernel.exact.draws import gaussian, laplace
from dperm.kernel.exact.words import Stream, next_word, place, rewind

# Beyond these sizes products of two halves could overflow, or lose what lies below the smallest float.
_SMALLEST, _LARGEST = 2.0**-900, 2.0**900


@compile_with_fallback
def add_gaussian(values, scale, stream):  # type: ignore[no-untyped-def]
    """Replace every value by the rounded value + scale · Z, Z a standard Gaussian; a scale of 0 changes nothing."""
    if scale > 0.0:
        for i in range(values.size):
            counter, position = place(stream)
            k, first = draw_gaussian(stream)
            total, decided = _rounded_sum(values[i], scale, k, first, stream)
            if not decided:
                with numba.objmode(total="float64"):
                    total = sum_with_gaussian(values[i], scale, stream, counter, position)
            values[i] = total


@compile_with_fallback
def add_laplace(values, scale, stream):  # type: ignore[no-untyped-def]
    """The same with noise of the density exp(−|t|)/2."""
    if scale > 0.0:
        for i in range(values.size):
            counter, position = place(stream)
            k, first = draw_exponential(stream)
            total, decided = _rounded_sum(values[i], scale, k, first, stream)
            if not decided:
                with numba.objmode(total="float64"):
                    total = sum_with_laplace(values[i], scale, stream, counter, position)
            values[i] = total


@compile_exact
def _rounded_sum(value, scale, k, first, stream):  # type: ignore[no-untyped-def]
    """Round value ± scale · (k + x), the first digit of x given; and whether that could be decided."""
    if k == UNDECIDED:
        return 0.0, False
    if next_word(stream) >> np.uint32(31):
        scale = -scale
    low, high = sum_ends(value, scale, k, first, next_word(stream), next_word(stream))
    return low, low == high


@compile_exact
def sum_ends(value, scale, k, first, second, third):  # type: ignore[no-untyped-def]
    """Floats between which the rounded value + scale · (k + x) lies, three digits of x given and all others open.

    Sums and products are split into what floats hold exactly and a rest (Dekker 1971, Knuth 1969), whose error has a
    known bound: docs/proofs/exact.md. They are far apart where the numbers are too large or too small for that.
    """
    size = abs(scale)
    if not (_SMALLEST < size < _LARGEST and abs(value) < _LARGEST and k < 2**20):
        return -np.inf, np.inf
    # k + x = large + small + (less than 2⁻⁸⁵), with 20 + 32 and 32 + 21 bits: both are exact.
    large = k + first * 2.0**-32
    small = second * 2.0**-64 + (third >> np.uint32(11)) * 2.0**-85
    product = scale * large
    product_rest = _rest_of_product(scale, large, product)
    total = value + product
    part = total - value
    total_rest = (value - (total - part)) + (product - part)
    further = scale * small
    rest = (total_rest + product_rest) + further
    # Two roundings in `rest`, one in `further`, one in each end below; and the digits that are open.
    error = 2.0**-50 * (abs(total_rest) + abs(product_rest) + abs(further)) + 2.0**-83 * size
    return total + (rest - error), total + (rest + error)


@compile_exact
def _rest_of_product(a, b, product):  # type: ignore[no-untyped-def]
    """a·b − fl(a·b), exactly."""
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@compile_exact
def _halves(a):  # type: ignore[no-untyped-def]
    big = 134217729.0 * a  # 2²⁷ + 1
    high = big - (big - a)
    return high, a - high


def sum_with_gaussian(value: float, scale: float, stream: Stream, counter: int, position: int) -> float:
    """Draw and round again from the words that did not decide, in rational arithmetic and with all digits it takes."""
    rewind(stream, counter, position)
    return rounded_sum(value, scale, gaussian(lambda: int(next_word(stream))))


def sum_with_laplace(value: float, scale: float, stream: Stream, counter: int, position: int) -> float:
    """The same for Laplace noise."""
    rewind(stream, counter, position)
    return rounded_sum(value, scale, laplace(lambda: int(next_word(stream))))


def rounded_sum(value: float, scale: float, drawn: Number) -> float:
    """The rounded value + scale · drawn."""
    while len(drawn.part.digits) < 3:  # as many as the compiled code takes
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
