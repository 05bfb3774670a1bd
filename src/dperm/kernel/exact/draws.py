"""Exact draws, in the words of the papers: Gaussian (Karney 2016, algorithm N) and exponential (von Neumann 1951).

`cpp/draws.hpp` does the same with first digits alone and comes here when they do not decide. Both take the same
words in the same order. Proof: docs/proofs/exact.md.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import count
from math import ceil, floor

from dperm.kernel.exact.digits import WIDTH, Number, Uniform, Word


def gaussian(word: Word, width: int = WIDTH) -> Number:
    """A standard Gaussian number."""
    while True:
        drawn = Uniform(word, width)
        k = next(k for k in count() if drawn.is_below(_cumulative(k)))  # N1 and N2: k with probability ∝ exp(−k²/2)
        x = Uniform(word, width)  # N3
        if all(_algorithm_b(k, x, word) for _ in range(k + 1)):  # N4
            return Number(k, x, _sign(word, width))  # N5


def laplace(word: Word, width: int = WIDTH) -> Number:
    """A number of the density exp(−|t|)/2."""
    drawn = exponential(word, width)
    return Number(drawn.whole, drawn.part, _sign(word, width))


def exponential(word: Word, width: int = WIDTH) -> Number:
    """A number of the density exp(−t), t > 0."""
    for k in count():
        x = Uniform(word, width)
        if _falls_evenly(x, word):
            return Number(k, x)
    raise AssertionError


def accepts(exponent: int, word: Word, width: int = WIDTH) -> bool:
    """True with probability exp(−exponent · 2⁻⁴⁰), for an integer exponent of 0 or above."""
    for _ in range(exponent >> 40):
        # The first number of a falling sequence that begins at 1 always lies below it.
        if _falls_evenly(Uniform(word, width), word):
            return False
    fraction = Fraction(exponent % 2**40, 2**40)
    drawn = Uniform(word, width)
    return not drawn.is_below(_fixed(fraction)) or not _falls_evenly(drawn, word)


def _falls_evenly(x: Uniform, word: Word) -> bool:
    """Whether x > u₁ > u₂ > … holds an even number of times before it fails: true with probability exp(−x)."""
    for n in count():
        u = Uniform(word, x.width)
        if not u < x:
            return n % 2 == 0
        x = u
    raise AssertionError


def _algorithm_b(k: int, x: Uniform, word: Word) -> bool:
    """True with probability exp(−x(2k + x)/(2k + 2)): a falling sequence goes on with probability (2k + x)/(2k + 2)."""
    y = x
    for n in count():
        z = Uniform(word, x.width)
        if not z < y:
            return n % 2 == 0
        kind = below(2 * k + 2, word, x.width)
        if kind == 0 or (kind == 1 and not Uniform(word, x.width) < x):
            return n % 2 == 0
        y = z
    raise AssertionError


def below(bound: int, word: Word, width: int = WIDTH) -> int:
    """A uniformly random integer of 0 … bound − 1."""
    drawn = Uniform(word, width)
    while True:
        low, high = (end * bound for end in drawn.ends())
        if high <= int(low) + 1:  # the upper end itself is not reached
            return int(low)
        drawn.extend()


def _sign(word: Word, width: int) -> int:
    return -1 if word() >> (width - 1) else 1


def _fixed(number: Fraction) -> Iterator[tuple[Fraction, Fraction]]:
    while True:
        yield number, number


def _cumulative(k: int) -> Iterator[tuple[Fraction, Fraction]]:
    """Ever closer bounds of Σ_{j ≤ k} exp(−j²/2) / Σ_{j ≥ 0} exp(−j²/2)."""
    for bits in (64 * 2**i for i in count()):
        yield cumulative_ends(k, bits)


@cache
def cumulative_ends(k: int, bits: int) -> tuple[Fraction, Fraction]:
    """The same with bounds that are about 2^−bits apart."""
    parts = _density_ends(bits)
    unit = Fraction(1, 2**bits)
    below = [sum(part[end] for part in parts[: k + 1]) for end in (0, 1)]
    above = [sum(part[end] for part in parts[k + 1 :]) for end in (0, 1)]
    # What lies beyond the last part is less than a unit.
    return Fraction(below[0]) / (below[0] + above[1] + unit), Fraction(below[1]) / (below[1] + above[0])


@cache
def _density_ends(bits: int) -> list[tuple[Fraction, Fraction]]:
    """Bounds of exp(−j²/2) for j = 0, 1, … until the rest of them adds up to less than 2^−bits."""
    # Partial sums of an alternating series of falling terms lie on both sides of its limit, exp(−1/2).
    partial, term = [Fraction(1), Fraction(1, 2)], Fraction(1, 2)
    for n in count(2):
        term /= 2 * n
        partial.append(partial[-1] + (term if n % 2 == 0 else -term))
        if term < Fraction(1, 2 ** (bits + 16)):
            break
    low, high = sorted(partial[-2:])
    parts = []
    for j in count():
        parts.append(_on_grid(low ** (j * j), high ** (j * j), bits + 32))
        # The terms fall by more than half from one to the next.
        if j > 1 and 2 * high ** ((j + 1) ** 2) < Fraction(1, 2**bits):
            return parts
    raise AssertionError


def _on_grid(low: Fraction, high: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Both ends moved outwards to multiples of 2^−bits: fractions of other denominators add up slowly."""
    unit = 2**bits
    return Fraction(floor(low * unit), unit), Fraction(ceil(high * unit), unit)
