"""CRC-32C against its published values, and against the definition, bit by bit."""

import numpy as np
import pytest

from tests.data.conftest import framed
from upsilon_jax.data.checksums import crc32c, masked_crc32c

# RFC 3720, appendix B.4, and the check value of the CRC catalogue.
PUBLISHED = {
    bytes(32): 0x8A9136AA,
    bytes([255]) * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(range(31, -1, -1)): 0x113FDB5C,
    b"123456789": 0xE3069283,
}


def by_bits(message):
    register = 2**32 - 1
    for byte in message:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register ^ (2**32 - 1)


def test_published_values():
    assert crc32c(list(PUBLISHED)).tolist() == list(PUBLISHED.values())


@pytest.mark.parametrize("longest", [3, 64, 65, 300])
def test_messages_of_any_length_at_once(longest):
    rng = np.random.default_rng(longest)
    messages = [rng.bytes(size) for size in (*range(6), longest, longest - 1, 0)]
    assert crc32c(messages).tolist() == [by_bits(message) for message in messages]
    assert crc32c([]).shape == (0,)


def test_the_mask_is_that_of_tfrecord_files():
    rotated = (0xE3069283 >> 15 | 0xE3069283 << 17) % 2**32
    expected = (rotated + 0xA282EAD8) % 2**32
    assert masked_crc32c([b"123456789"]).tolist() == [expected]


@pytest.mark.slow
def test_what_tensorflow_writes_is_framed_alike(tmp_path):
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(tmp_path / "a")) as writer:
        writer.write(b"some record")
    assert (tmp_path / "a").read_bytes() == framed(b"some record")
