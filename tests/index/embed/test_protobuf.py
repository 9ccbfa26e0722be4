"""The bytes are those of the encoding's own documentation."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from sidecar.index.embed.protobuf import blob, integer, integers, real, text, varint


def test_the_examples_of_the_format_are_written_as_its_documentation_shows_them() -> None:
    assert integer(1, 150) == bytes.fromhex("089601")
    assert text(2, "testing") == bytes.fromhex("120774657374696e67")
    assert blob(3, integer(1, 150)) == bytes.fromhex("1a03089601")
    assert integers(6, [3, 270, 86942]) == bytes.fromhex("3206038e029ea705")
    assert integer(5, -2) == bytes.fromhex("28feffffffffffffffff01")
    assert integer(0x7FF, 0) == bytes.fromhex("f87f00")
    assert real(2, -3.5) == b"\x15" + struct.pack("<f", -3.5)
    assert text(1, "é") == bytes.fromhex("0a02c3a9")


@given(st.integers(0, 2**64 - 1))
def test_whatever_whole_number_is_written_is_read_back(number: int) -> None:
    encoded = varint(number)
    assert sum((byte & 0x7F) << 7 * at for at, byte in enumerate(encoded)) == number
    assert [byte >> 7 for byte in encoded] == [1] * (len(encoded) - 1) + [0]
