"""Rows that are held out of a fit: which they are, and the coins of a search."""

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError
from dperm.kernel.exact.words import Stream, long_words
from dperm.kernel.units import Membership

Indices = NDArray[np.intp]

# A coin is a word of 64 bits, so that every probability of at least 2⁻¹¹ that a float holds is met exactly.
RAREST = 2.0**-11


def two_parts(
    n_rows: int, slots: int, train_slots: int, stream: Stream, membership: Membership | None = None
) -> tuple[Indices, Indices]:  # fmt: skip
    """The rows to fit on and the rows to score on: every row has a random position among `slots`, the first train.

    With as many slots as rows that is a random permutation. What one row holds, or whether it is there, changes nothing
    about where the others go: docs/proofs/selection.md. With units, every unit has a place of its own, and all of its
    rows go there; rows of no unit go nowhere.

    Parameters
    ----------
    n_rows : int
        Of the table.
    slots, train_slots : int
        Public; there are at most as many rows, or units, as slots.
    stream : Stream
        Of random words.
    membership : Membership, optional
        Whose every row is.
    """
    n_found = n_rows if membership is None else membership.n
    if n_found > slots:
        raise InvalidParameterError("there are more rows than places for them.")
    places = _permutation(slots, stream)[:n_found]
    if membership is not None:
        places = np.append(places, -1)[membership.numbers]
    return np.flatnonzero((places >= 0) & (places < train_slots)), np.flatnonzero(places >= train_slots)


def _permutation(size: int, stream: Stream) -> NDArray[np.intp]:
    """Every order is as likely as every other: random words are sorted, and drawn again if two are equal."""
    while True:
        words = long_words(stream, size)
        order = np.argsort(words)
        if (np.diff(words[order]) > 0).all():
            return order


def stops(probability: float, stream: Stream) -> bool:
    """A coin with exactly this probability, which is at least 2⁻¹¹."""
    if not RAREST <= probability <= 1.0:
        raise InvalidParameterError(f"the probability of a coin must lie in [{RAREST:g}, 1].")
    return _word(stream) < int(probability * 2.0**64)


def one_place(size: int, stream: Stream) -> int:
    """A place below `size`, each as likely as the others up to 2⁻³²: which law it is makes no difference to privacy."""
    return _word(stream) % size


def _word(stream: Stream) -> int:
    return int(long_words(stream, 1)[0])
