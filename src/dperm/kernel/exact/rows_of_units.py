"""Which rows of a unit are used that has more than it may."""

import numpy as np

from dperm.kernel.compiling import compile_exact
from dperm.kernel.exact.words import next_word


@compile_exact
def leave_out(numbers, counts, limit, stream, unused):  # type: ignore[no-untyped-def]
    """Mark the rows that are not used: of a unit with more than `limit`, all but this many of them.

    A row is used with the probability of those that are still wanted among those that are left (Knuth's algorithm S,
    up to 2⁻⁵³): all choices are alike. Every row of such a unit takes two words of the stream.
    """
    left, wanted = counts.copy(), np.minimum(counts, limit)
    for row in range(numbers.size):
        unit = numbers[row]
        if unit < 0 or counts[unit] <= limit:
            continue
        word = (np.uint64(next_word(stream)) << np.uint64(21)) ^ np.uint64(next_word(stream) >> np.uint32(11))
        if np.float64(word) * 2.0**-53 * left[unit] < wanted[unit]:
            wanted[unit] -= 1
        else:
            unused[row] = True
        left[unit] -= 1
