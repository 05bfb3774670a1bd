"""Poisson sampling without rounding: how many rows are passed over until the next one that is taken."""

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import count

import numpy as np
from numpy.typing import NDArray

from dperm.kernel import native
from dperm.kernel.exact.digits import WIDTH, Uniform, Word
from dperm.kernel.exact.words import Stream, next_word

Indices = NDArray[np.intp]

# Longer skips are made of several: after this many the count starts again.
_LONGEST_SKIP = 1024


def take_cells(n_cells: int, rate: float, stream: Stream) -> Indices:
    """Every one of n cells with probability `rate`, a float that is taken as exact, independently; in rising order."""
    if rate == 1.0:
        return np.arange(n_cells)
    thresholds, cell, taken = _first_digits(rate), 0, []
    while cell < n_cells:
        expected = rate * (n_cells - cell)
        room = np.empty(int(expected + 6.0 * expected**0.5) + 16, np.intp)
        n_taken, cell, decided = native.take_cells(n_cells, cell, thresholds, stream, room)
        taken.append(room[:n_taken])
        if not decided:
            passed = skip(rate, lambda: int(next_word(stream)))
            if passed < _LONGEST_SKIP and cell + passed < n_cells:
                taken.append(np.array([cell + passed], np.intp))
            cell += passed + (passed < _LONGEST_SKIP)
    return np.concatenate(taken) if taken else np.empty(0, np.intp)


def skip(rate: float, word: Word, width: int = WIDTH) -> int:
    """How many cells are passed over, the longest skip at most: j or more with probability (1 − rate)^j."""
    drawn = Uniform(word, width)
    first, last = 0, _LONGEST_SKIP
    while first < last:
        middle = (first + last) // 2
        if drawn.is_below(_power(rate, middle + 1)):
            first = middle + 1
        else:
            last = middle
    return first


def _power(rate: float, exponent: int) -> Iterator[tuple[Fraction, Fraction]]:
    """Ever closer bounds of (1 − rate)^exponent."""
    for bits in (128 * 2**i for i in count()):
        low, high = power_ends(rate, exponent, bits)
        yield Fraction(low, 2**bits), Fraction(high, 2**bits)


def power_ends(rate: float, exponent: int, bits: int) -> tuple[int, int]:
    """Integers between which (1 − rate)^exponent · 2^bits lies, by squaring, rounded down and up."""
    base = 1 - Fraction(rate)
    square_low, square_high = int(base * 2**bits), int(base * 2**bits) + 1
    low = high = 2**bits
    while exponent:
        if exponent % 2:
            low, high = (low * square_low) >> bits, ((high * square_high) >> bits) + 1
        square_low, square_high = (square_low**2) >> bits, ((square_high**2) >> bits) + 1
        exponent //= 2
    return low, high


@lru_cache(64)
def _first_digits(rate: float) -> NDArray[np.uint32]:
    """Of (1 − rate)^j for j = 1 … _LONGEST_SKIP: first digits."""
    bits, digits = 192, []
    base_low = int((1 - Fraction(rate)) * 2**bits)
    low = high = 2**bits
    for _ in range(_LONGEST_SKIP):
        low, high = (low * base_low) >> bits, ((high * (base_low + 1)) >> bits) + 1
        if low >> (bits - 32) != high >> (bits - 32):
            raise ArithmeticError("192 bits do not tell the first digit of a power.")
        digits.append(low >> (bits - 32))
    return np.array(digits, np.uint32)
