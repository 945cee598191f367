"""CRC-32C, the checksum of tfrecord files, of many messages at once.

A register r takes a byte b by r ← T[(r ⊕ b) mod 256] ⊕ ⌊r / 256⌋. That is linear over
bits: messages are cut into blocks, whose registers from 0 are found side by side, and
r ← S(r) ⊕ (register of the next block), with S the way past a block of zeros, joins
them. Zeros before a message change nothing, so messages of any length form a matrix.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

_POLYNOMIAL = np.uint32(0x82F63B78)  # of Castagnoli, bits reversed
_BLOCK = 64  # bytes
_START = 4  # the register begins with all its bits set: so many bytes are inverted
_ROTATE, _ADD = 15, 0xA282EAD8  # what tfrecord files make of it


def masked_crc32c(messages: Sequence[bytes]) -> np.ndarray:
    """[n] uint32, as it stands in a tfrecord file."""
    crc = crc32c(messages)
    return ((crc >> _ROTATE) | (crc << (32 - _ROTATE))) + np.uint32(_ADD)


def crc32c(messages: Sequence[bytes]) -> np.ndarray:
    """[n] uint32 of n messages."""
    blocks = -(-max(map(len, messages), default=0) // _BLOCK) + 1
    rows = np.zeros((len(messages), blocks * _BLOCK), np.uint8)
    for row, message in zip(rows, messages, strict=True):
        if len(message) >= _START:
            begin = rows.shape[1] - len(message)
            row[begin:] = np.frombuffer(message, np.uint8)
            row[begin : begin + _START] ^= 255
    register = _from_zero(rows.reshape(-1, _BLOCK)).reshape(len(messages), blocks)
    joined = np.zeros(len(messages), np.uint32)
    for block in register.T:
        joined = _past_zeros(joined) ^ block
    for number, message in enumerate(messages):
        if len(message) < _START:
            joined[number] = _one_by_one(message)
    return ~joined


def _from_zero(rows: np.ndarray) -> np.ndarray:
    """[m, _BLOCK] uint8 -> [m] registers that began with 0."""
    register = np.zeros(len(rows), np.uint32)
    for byte in np.ascontiguousarray(rows.T):
        register = _table()[(register ^ byte) & 255] ^ (register >> 8)
    return register


def _one_by_one(message: bytes) -> int:
    register = 2**32 - 1
    for byte in message:
        register = int(_table()[(register ^ byte) & 255]) ^ (register >> 8)
    return register


@functools.cache
def _table() -> np.ndarray:
    """[256] T."""
    table: np.ndarray = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> 1) ^ (_POLYNOMIAL * (table & 1))
    return table


@functools.cache
def _shift_tables() -> np.ndarray:
    """[4, 256] S of each byte of a register."""
    values = np.arange(256, dtype=np.uint32)
    register = np.stack([values << shift for shift in (0, 8, 16, 24)])
    for _ in range(_BLOCK):
        register = _table()[register & 255] ^ (register >> 8)
    return register


def _past_zeros(register: np.ndarray) -> np.ndarray:
    """S(r) for [n] registers."""
    tables = _shift_tables()
    parts = (tables[i][(register >> 8 * i) & 255] for i in range(4))
    return functools.reduce(np.bitwise_xor, parts)
