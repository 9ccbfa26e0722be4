"""Messages between the daemon and a reader: a head of plain data, and bytes where there are some, as of a file.

frame   u32 length of the head, u32 length of the bytes, head, bytes
head    JSON

A reader may have been taken over by the file it reads, so nothing that it
sends is more than data, and the daemon looks at all of it before it is used.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO, Final, cast

PREFIX: Final = struct.Struct("<II")
MOST_BYTES: Final = 1 << 28
"""Of a head, and of the bytes; no message comes near."""

Head = dict[str, Any]


class Garbled(Exception):
    """What came is no message."""


def encode(head: Head, data: bytes = b"") -> bytes:
    """A whole frame."""
    # only ASCII: half of a UTF-16 pair in a text must not stop it
    encoded = json.dumps(head, separators=(",", ":")).encode("ascii")
    return b"".join((PREFIX.pack(len(encoded), len(data)), encoded, data))


def sizes(prefix: bytes) -> tuple[int, int]:
    """Lengths of the head and of the bytes that follow.

    Raises:
        Garbled: they can't be true.
    """
    head, data = PREFIX.unpack(prefix)
    if max(head, data) > MOST_BYTES:
        raise Garbled
    return head, data


def head_of(encoded: bytes) -> Head:
    """The head.

    Raises:
        Garbled: it is none.
    """
    try:
        head = json.loads(encoded)
    except (ValueError, RecursionError) as bad:
        raise Garbled from bad
    if not isinstance(head, dict):
        raise Garbled
    return cast("Head", head)


def read(stream: BinaryIO) -> tuple[Head, bytes] | None:
    """The next message; None when the stream ends. Blocks.

    Raises:
        Garbled: it holds something else.
    """
    prefix = stream.read(PREFIX.size)
    if len(prefix) < PREFIX.size:
        return None
    head, data = sizes(prefix)
    encoded = stream.read(head)
    return head_of(encoded), stream.read(data)
