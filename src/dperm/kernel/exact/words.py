"""ChaCha20 (Bernstein 2008; RFC 8439) as a stream of digits for native code.

A loop cannot ask a bit generator of another library for a word without losing more time than the word takes. So the
block function is in cpp/sums.hpp, many blocks at a time; `tests/kernel/test_exact_words.py` compares it with the RFC's
test vectors.
"""

import secrets

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.native import long_words, next_word, place, refill

__all__ = ["Stream", "fresh_key", "long_words", "next_word", "place", "put_back", "rewind", "stream_of"]

# A stream is one array, which native code passes on at no cost: ChaCha's input block (constants, key, counter,
# nonce), the index of the next unused word, and the words that were made last.
Stream = NDArray[np.uint32]

COUNTER, _NONCE, POSITION, _WORDS = 12, 14, 16, 17

# Blocks that are made at once; from 32 on that is about 3 ns a word.
LANES = 32
_END = _WORDS + 16 * LANES
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4")


def stream_of(key: Stream, nonce: tuple[int, int] = (0, 0)) -> Stream:
    """A stream from a key of eight words and a nonce of two; no pair of them may be used for two purposes."""
    stream = np.zeros(_END, np.uint32)
    stream[:4], stream[4:COUNTER], stream[_NONCE:POSITION] = _CONSTANTS, key, nonce
    refill(stream)
    stream[POSITION] = _WORDS
    return stream


def fresh_key() -> Stream:
    """256 bits from the operating system."""
    return np.frombuffer(secrets.token_bytes(32), dtype=np.uint32)


def put_back(stream: Stream) -> None:
    """Undo the last `next_word`."""
    stream[POSITION] -= 1


def rewind(stream: Stream, counter: int, position: int) -> None:
    """Go back to where the stream was: its words come again."""
    before = (int(counter) - LANES) % 2**64
    stream[COUNTER], stream[COUNTER + 1] = before % 2**32, before >> 32
    refill(stream)
    stream[POSITION] = position
