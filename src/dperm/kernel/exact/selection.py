"""A choice among scores: the exponential mechanism and report-noisy-max with Laplace noise, both without rounding.

Only the index of the winner is decided here; a rounded score would change with what probability it wins.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dperm.errors import NoiseTooLargeError
from dperm.kernel import native
from dperm.kernel.exact.draws import accepts, laplace
from dperm.kernel.exact.rounding import add_laplace
from dperm.kernel.exact.words import Stream, next_word, place, rewind

Array = NDArray[np.float64]

# Scores are compared in units of 2⁻⁴⁰ of the scale; those that lie further than this below the best are raised to it.
_UNIT = 2.0**-40
_FURTHEST = 2.0**9


def exponential_choice(scores: Array, scale: float, sensitivity: float, stream: Stream) -> int:
    """Choose i with probability ∝ exp(score_i/scale): the one that wins with Gumbel noise of this scale on every score.

    Rounding moves a score by at most one unit. So that the choice is as private as one of real numbers, the scale is
    made larger by what two units add to the sensitivity: docs/proofs/exact.md.
    """
    per_scale = sensitivity / scale * (1.0 - 2.0**-50) - 2.0 * _UNIT
    if not per_scale > 0.0:
        raise NoiseTooLargeError("the noise on the scores is more than 10¹¹ times their sensitivity.")
    below_best = np.minimum((scores.max() - scores) / sensitivity * per_scale, _FURTHEST)
    exponents = np.rint(below_best / _UNIT).astype(np.int64)

    def again(exponent: int, counter: int, position: int) -> int:
        rewind(stream, counter, position)
        return int(accepts(exponent, lambda: next_word(stream)))

    return native.accepted_index(exponents, stream, again)


def laplace_choice(scores: Array, scale: float, sensitivity: float, stream: Stream) -> int:
    """The index of the largest score plus Laplace noise of this scale, which is drawn without regard to sensitivity."""
    start = place(stream)
    noisy = scores.copy()
    add_laplace(noisy, scale, stream)
    best = np.flatnonzero(noisy == noisy.max())
    if best.size == 1:  # rounding keeps the order, so the real number is the largest too
        return int(best[0])
    rewind(stream, *start)
    return _largest(scores, scale, stream)


def _largest(scores: Array, scale: float, stream: Stream) -> int:
    """The same by rational numbers: all are drawn, and given more digits until the largest one is known."""
    drawn = [laplace(lambda: int(next_word(stream))) for _ in range(scores.size)]
    while True:
        low, high = zip(
            *(
                [Fraction(float(score)) + Fraction(scale) * end for end in number.ends()]
                for score, number in zip(scores, drawn, strict=True)
            ),
            strict=True,
        )
        best = max(range(scores.size), key=low.__getitem__)
        open_ones = [i for i in range(scores.size) if i != best and high[i] >= low[best]]
        if not open_ones:
            return best
        for i in (best, *open_ones):
            drawn[i].extend()
