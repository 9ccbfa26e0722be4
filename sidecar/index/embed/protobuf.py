"""Writes protocol buffers, as far as the two formats that are made here need it.

A message is the concatenation of its fields, so a field is a function that
returns bytes and a message is `b"".join(...)`. Field numbers are those of
`onnx.proto` and `sentencepiece_model.proto`; the libraries that come with these
formats only read them, or are large.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable


def varint(number: int) -> bytes:
    """A whole number, least significant 7 bits first; negative ones as 64-bit two's complement."""
    number &= 0xFFFFFFFFFFFFFFFF
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def integer(field: int, number: int) -> bytes:
    """A field of type int32, int64, uint64, bool or enum."""
    return varint(field << 3) + varint(number)


def real(field: int, number: float) -> bytes:
    """A field of type float."""
    return varint(field << 3 | 5) + struct.pack("<f", number)


def blob(field: int, content: bytes) -> bytes:
    """A field of type bytes, or a message within a message."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def text(field: int, content: str) -> bytes:
    """A field of type string."""
    return blob(field, content.encode())


def integers(field: int, numbers: Iterable[int]) -> bytes:
    """A repeated field of whole numbers, packed."""
    return blob(field, b"".join(map(varint, numbers)))
