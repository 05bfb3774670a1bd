"""ChaCha20 against RFC 8439, and the order of its words."""

import numpy as np

from dperm.kernel.exact.words import COUNTER, LANES, fresh_key, next_word, place, put_back, rewind, stream_of

KEY = np.frombuffer(bytes(range(32)), "<u4")


def words(stream, n):
    return [int(next_word(stream)) for _ in range(n)]


def test_the_block_function_is_that_of_the_rfc():
    # Section 2.3.2: counter 1, nonce 00:00:00:09:00:00:00:4a:00:00:00:00. The RFC's counter is the first of four words.
    stream = stream_of(KEY)
    stream[13:16] = np.frombuffer(bytes.fromhex("000000090000004a00000000"), "<u4")
    rewind(stream, 1 + LANES + (int(stream[13]) << 32), int(place(stream_of(KEY))[1]))
    expected = (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2b5129cd1de164eb9"
        "cbd083e8a2503c4e"
    )
    assert np.array(words(stream, 16), "<u4").tobytes().hex() == expected


def test_an_all_zero_key_gives_the_published_stream():
    # RFC 8439, appendix A.1, test vectors 1 and 2: key, nonce and counter 0, then counter 1.
    stream = stream_of(np.zeros(8, np.uint32))
    first = np.array(words(stream, 16), "<u4").tobytes().hex()
    second = np.array(words(stream, 16), "<u4").tobytes().hex()
    assert first.startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    assert second.startswith("9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed")


def test_the_counter_goes_on_beyond_32_bits():
    stream = stream_of(KEY)
    stream[COUNTER] = 2**32 - 3
    far = stream.copy()
    rewind(far, (1 << 32) - 3 + LANES, int(place(stream)[1]))
    ahead = words(far, 16 * 4)
    assert int(far[COUNTER + 1]) == 1
    again = stream_of(KEY)
    rewind(again, (1 << 32) + 0 + LANES, int(place(stream)[1]))
    assert words(again, 16) == ahead[48:64]


def test_words_come_again_after_going_back_across_a_refill():
    stream = stream_of(fresh_key())
    words(stream, 16 * LANES - 3)
    start = place(stream)
    ahead = words(stream, 40)
    rewind(stream, *start)
    assert words(stream, 40) == ahead
    put_back(stream)
    assert words(stream, 1) == ahead[-1:]


def test_fresh_keys_differ_and_have_256_bits():
    keys = {fresh_key().tobytes() for _ in range(20)}
    assert len(keys) == 20
    assert {len(key) for key in keys} == {32}
