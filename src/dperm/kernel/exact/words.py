"""ChaCha20 (Bernstein 2008; RFC 8439) as a stream of digits for compiled code.

A compiled loop cannot ask a bit generator of another library for a word without losing more time than the word takes.
So the block function is here, many blocks at a time; `tests/kernel/test_exact_words.py` compares it with the RFC's
test vectors.
"""

import secrets

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.compiling import compile_exact

# A stream is one array, which compiled code passes on at no cost: ChaCha's input block (constants, key, counter,
# nonce), the index of the next unused word, and the words that were made last.
Stream = NDArray[np.uint32]

COUNTER, _NONCE, POSITION, _WORDS = 12, 14, 16, 17

# Blocks that are made at once; from 32 on that is about 3 ns a word.
LANES = 32
_END = _WORDS + 16 * LANES
_UINT = np.uint32
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4")


def stream_of(key: Stream, nonce: tuple[int, int] = (0, 0)) -> Stream:
    """A stream from a key of eight words and a nonce of two; no pair of them may be used for two purposes."""
    stream = np.zeros(_END, np.uint32)
    stream[:4], stream[4:COUNTER], stream[_NONCE:POSITION] = _CONSTANTS, key, nonce
    _refill(stream)
    stream[POSITION] = _WORDS
    return stream


def fresh_key() -> Stream:
    """256 bits from the operating system."""
    return np.frombuffer(secrets.token_bytes(32), dtype=np.uint32)


@compile_exact
def next_word(stream):  # type: ignore[no-untyped-def]
    """32 random bits."""
    position = stream[POSITION]
    if position == _END:
        _refill(stream)
        position = _WORDS
    stream[POSITION] = position + 1
    return _UINT(stream[position])


@compile_exact
def long_words(stream, size):  # type: ignore[no-untyped-def]
    """The given number of times 64 random bits."""
    words = np.empty(size, np.uint64)
    for i in range(size):
        words[i] = np.uint64(next_word(stream)) | (np.uint64(next_word(stream)) << np.uint64(32))
    return words


@compile_exact
def put_back(stream):  # type: ignore[no-untyped-def]
    """Undo the last `next_word`."""
    stream[POSITION] -= _UINT(1)


@compile_exact
def place(stream):  # type: ignore[no-untyped-def]
    """Where the stream is."""
    counter = np.uint64(stream[COUNTER]) | (np.uint64(stream[COUNTER + 1]) << np.uint64(32))
    return counter, stream[POSITION]


def rewind(stream: Stream, counter: int, position: int) -> None:
    """Go back to where the stream was: its words come again."""
    before = (int(counter) - LANES) % 2**64
    stream[COUNTER], stream[COUNTER + 1] = before % 2**32, before >> 32
    _refill(stream)
    stream[POSITION] = position


@compile_exact
def _refill(stream):  # type: ignore[no-untyped-def]
    """The next blocks of key stream."""
    start = np.empty((16, LANES), np.uint32)
    for i in range(16):
        start[i] = stream[i]
    for lane in range(LANES):
        start[COUNTER, lane], start[COUNTER + 1, lane] = stream[COUNTER], stream[COUNTER + 1]
        stream[COUNTER] += _UINT(1)
        if stream[COUNTER] == 0:
            stream[COUNTER + 1] += _UINT(1)
    x = start.copy()
    for _ in range(10):
        _quarter_round(x[0], x[4], x[8], x[12])
        _quarter_round(x[1], x[5], x[9], x[13])
        _quarter_round(x[2], x[6], x[10], x[14])
        _quarter_round(x[3], x[7], x[11], x[15])
        _quarter_round(x[0], x[5], x[10], x[15])
        _quarter_round(x[1], x[6], x[11], x[12])
        _quarter_round(x[2], x[7], x[8], x[13])
        _quarter_round(x[3], x[4], x[9], x[14])
    for i in range(16):
        for lane in range(LANES):
            stream[_WORDS + 16 * lane + i] = x[i, lane] + start[i, lane]


@compile_exact
def _quarter_round(a, b, c, d):  # type: ignore[no-untyped-def]
    for lane in range(LANES):
        w, x, y, z = a[lane], b[lane], c[lane], d[lane]
        w = _UINT(w + x)
        z = _UINT(z ^ w)
        z = _UINT(z << _UINT(16)) | _UINT(z >> _UINT(16))
        y = _UINT(y + z)
        x = _UINT(x ^ y)
        x = _UINT(x << _UINT(12)) | _UINT(x >> _UINT(20))
        w = _UINT(w + x)
        z = _UINT(z ^ w)
        z = _UINT(z << _UINT(8)) | _UINT(z >> _UINT(24))
        y = _UINT(y + z)
        x = _UINT(x ^ y)
        x = _UINT(x << _UINT(7)) | _UINT(x >> _UINT(25))
        a[lane], b[lane], c[lane], d[lane] = w, x, y, z
