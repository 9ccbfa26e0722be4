"""Messages arrive as they were sent, and nothing else is taken for one."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sidecar.index import wire

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ARRAYS = st.sampled_from(["<i8", "<f4", "<f2"]).flatmap(
    lambda kind: arrays.arrays(np.dtype(kind), arrays.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=4))
)


@given(st.dictionaries(st.text(max_size=5).filter(lambda key: key != "arrays"), PLAIN), st.lists(ARRAYS, max_size=3))
def test_a_message_arrives_as_it_was_sent(head: dict[str, Any], sent: list[wire.Array]) -> None:
    stream = io.BytesIO(wire.encode(head, sent) * 2)
    for _ in range(2):
        message = wire.read(stream)
        assert message is not None
        assert message.head == head
        assert len(message.arrays) == len(sent)
        for array, original in zip(message.arrays, sent, strict=True):
            assert array.dtype == original.dtype
            np.testing.assert_array_equal(array, original)
    assert wire.read(stream) is None


def test_half_of_a_pair_in_a_text_arrives() -> None:
    message = wire.read(io.BytesIO(wire.encode({"text": "a\ud800b"})))
    assert message is not None
    assert message.head["text"] == "a\ud800b"


def frame(head: Any, data: bytes = b"") -> bytes:
    encoded = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<II", len(encoded), len(data)) + encoded + data


@pytest.mark.parametrize(
    "sent",
    [
        b"abc",
        frame({"arrays": []})[:-1],
        struct.pack("<II", 1 << 30, 0),
        struct.pack("<II", 2, 1 << 30),
        frame(b"\xff\xfe"),
        frame([]),
        frame({}),
        frame({"arrays": [["O", [1]]]}, bytes(8)),
        frame({"arrays": [["<i8", [2]]]}, bytes(8)),
        frame({"arrays": [["<i8", [-1]]]}, bytes(8)),
        frame({"arrays": [["<i8", [1]]]}, bytes(16)),
        frame({"arrays": [["<i8"]]}, bytes(8)),
        frame({"arrays": [["<i8", ["1"]]]}, bytes(8)),
    ],
    ids=range(13),
)
def test_what_is_no_message_is_refused(sent: bytes) -> None:
    with pytest.raises(wire.Garbled):
        wire.read(io.BytesIO(sent))
