"""The draws of `draws.py` by first digits alone, compiled.

−1 says that these do not decide: then `draws.py` draws again from the same words. A first digit has 32 bits, so that
happens about once in 10⁸ draws.
"""

import numpy as np

from dperm.kernel.compiling import compile_exact
from dperm.kernel.exact.draws import cumulative_ends
from dperm.kernel.exact.words import next_word

UNDECIDED = -1

_UINT = np.uint32
_LAST = 2**32 - 1


def _first_digits() -> tuple[int, ...]:
    """Of the cumulative probabilities of k, until they are too near to 1 to be told from it by a first digit."""
    digits: list[int] = []
    while not digits or digits[-1] < _LAST:
        low, high = (int(end * 2**32) for end in cumulative_ends(len(digits), 256))
        if low != high:
            raise ArithmeticError("256 bits do not tell the first digit of a cumulative probability.")
        digits.append(low)
    return tuple(digits)


_CUMULATIVE = _first_digits()


@compile_exact
def draw_gaussian(stream):  # type: ignore[no-untyped-def]
    """The whole part of |Z| and the first digit of the rest."""
    while True:
        drawn, k = next_word(stream), 0
        while drawn > _CUMULATIVE[k]:
            k += 1
        if drawn == _CUMULATIVE[k]:
            return UNDECIDED, drawn
        x, left = next_word(stream), k + 1
        while left > 0:
            accepted = _algorithm_b(stream, k, x)
            if accepted == UNDECIDED:
                return UNDECIDED, x
            if accepted == 0:
                break
            left -= 1
        if left == 0:
            return k, x


@compile_exact
def draw_exponential(stream):  # type: ignore[no-untyped-def]
    """The whole part of E and the first digit of the rest."""
    k = 0
    while True:
        x = next_word(stream)
        even = _falls_evenly(stream, x)
        if even == UNDECIDED:
            return UNDECIDED, x
        if even == 1:
            return k, x
        k += 1


@compile_exact
def draw_acceptance(stream, exponent):  # type: ignore[no-untyped-def]
    """1 with probability exp(−exponent · 2⁻⁴⁰), else 0."""
    for _ in range(exponent >> 40):
        even = _falls_evenly(stream, next_word(stream))
        if even != 0:
            return UNDECIDED if even == UNDECIDED else 0
    # The fraction has 40 bits: a first digit, and 8 bits more.
    fraction, drawn = np.uint64(exponent & 0xFFFFFFFFFF) << np.uint64(24), next_word(stream)
    first = _UINT(fraction >> np.uint64(32))
    if drawn == first:
        return UNDECIDED
    if drawn > first:
        return 1
    even = _falls_evenly(stream, drawn)
    return UNDECIDED if even == UNDECIDED else 1 - even


@compile_exact
def _falls_evenly(stream, x):  # type: ignore[no-untyped-def]
    even = 1
    while True:
        u = next_word(stream)
        if u == x:
            return UNDECIDED
        if u > x:
            return even
        x, even = u, 1 - even


@compile_exact
def _algorithm_b(stream, k, x):  # type: ignore[no-untyped-def]
    y, even = x, 1
    while True:
        z = next_word(stream)
        if z == y:
            return UNDECIDED
        if z > y:
            return even
        kind = _below(stream, 2 * k + 2)
        if kind < 1:
            return even if kind == 0 else UNDECIDED
        if kind == 1:
            r = next_word(stream)
            if r == x:
                return UNDECIDED
            if r > x:
                return even
        y, even = z, 1 - even


@compile_exact
def _below(stream, bound):  # type: ignore[no-untyped-def]
    product = np.uint64(next_word(stream)) * np.uint64(bound)
    kind = product >> np.uint64(32)
    if (product + np.uint64(bound) - np.uint64(1)) >> np.uint64(32) != kind:
        return UNDECIDED
    return np.int64(kind)
