"""Messages between the daemon and its vector worker: a head of plain data, then arrays as bytes.

frame   u32 length of the head, u32 length of the arrays, head, arrays
head    JSON; its key "arrays" says of each array its kind and its shape

Numbers are little-endian. Nothing that one side sends is ever run by the other.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, Literal, cast

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Float16 = NDArray[np.float16]
Float32 = NDArray[np.float32]
Array = Int64 | Float16 | Float32

Backend = Literal["embedded", "http", "cloud"]
"""Where vectors are kept: in a folder, on a Chroma server, in Chroma Cloud."""

Line = Literal["query", "save", "embed", "work"]
"""The lines of the worker, which run beside each other: what somebody waits for, the notes that were just saved, texts
of backfill, and everything else that has the store in hand."""

LINES: Final[dict[str, Line]] = {
    "query": "query",
    "query_vector": "query",
    "embed_query": "query",
    "load": "work",
    "open": "work",
    "close": "work",
    "sample": "work",
    "probe": "work",
    "embed": "embed",
    "upsert": "work",
    "delete": "work",
    "ids": "work",
    "drop": "work",
    "renew": "work",
}
"""Every operation and its line, if it is not urgent."""

STORE_OPERATIONS: Final = frozenset(
    {"query", "query_vector", "open", "close", "sample", "probe", "upsert", "delete", "ids", "drop", "renew"}
)
"""Those that have a vector store in hand, whose damage can end the process. Their head names it: "store", a number."""

SLOW_OPERATIONS: Final = frozenset({"load", "open", "sample", "probe"})
"""Those that may show no sign for long: loading from a slow disk, catching up with a long log."""

_PREFIX: Final = struct.Struct("<II")
PREFIX_BYTES: Final = _PREFIX.size

_KINDS: Final = ("<i8", "<f4", "<f2")
_MOST_BYTES: Final = 1 << 28  # of a head, and of the arrays; far above any message, far below what harms


def line_of(operation: str, *, urgent: bool) -> Line:
    """Where an operation is done."""
    return "save" if urgent else LINES[operation]


class Garbled(Exception):
    """What came is no message."""


@dataclass(frozen=True, slots=True)
class Message:
    """A head and its arrays, which can't be written to."""

    head: dict[str, Any]
    arrays: tuple[Array, ...] = ()


@dataclass(frozen=True, slots=True)
class Server:
    """A Chroma server, or Chroma Cloud, in place of a folder. What is None is the client's own default. `repr` shows no
    secret."""

    kind: Literal["http", "cloud"] = "http"
    host: str | None = None
    port: int | None = None
    ssl: bool | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    tenant: str | None = None
    database: str | None = None
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class EmbedderOptions:
    """What some embedders need to be told. `repr` shows no secret.

    base_url, key, query_prefix, passage_prefix   of the service that `openai` asks
    network                                       whether other computers may be asked, for vectors or for a model
    """

    base_url: str = ""
    key: str | None = field(default=None, repr=False)
    query_prefix: str = ""
    passage_prefix: str = ""
    network: bool = False


def encode(head: dict[str, Any], arrays: Sequence[Array] = ()) -> bytes:
    """A whole frame."""
    shapes: list[tuple[str, tuple[int, ...]]] = []
    parts: list[bytes] = []
    for array in arrays:
        kind = array.dtype.newbyteorder("<")
        shapes.append((kind.str, array.shape))
        parts.append(np.ascontiguousarray(array, kind).tobytes())
    # only ASCII: half of a UTF-16 pair in a text must not stop it
    encoded = json.dumps({**head, "arrays": shapes}).encode("ascii")
    return b"".join((_PREFIX.pack(len(encoded), sum(map(len, parts))), encoded, *parts))


def sizes(prefix: bytes) -> tuple[int, int]:
    """Lengths of the head and of the arrays that follow.

    Raises:
        Garbled: they can't be true.
    """
    head, arrays = _PREFIX.unpack(prefix)
    if max(head, arrays) > _MOST_BYTES:
        raise Garbled(f"a message of {max(head, arrays):,} bytes was announced")
    return head, arrays


def decode(head: bytes, data: bytes) -> Message:
    """The message; its arrays look into `data`, nothing is copied.

    Raises:
        Garbled: it is none.
    """
    try:
        plain = json.loads(head)
        if not isinstance(plain, dict):
            raise Garbled("a message has no head")
        fields = cast("dict[str, Any]", plain)
        arrays: list[Array] = []
        at = 0
        for kind, shape in cast("list[tuple[str, list[int]]]", fields.pop("arrays")):
            if kind not in _KINDS or min(shape, default=0) < 0:
                raise Garbled("a message holds something that is no array of numbers")
            count = math.prod(shape)
            array: Array = np.frombuffer(data, kind, count, at).reshape(shape)
            at += array.nbytes
            arrays.append(array)
    except (ValueError, KeyError, TypeError) as bad:
        raise Garbled(f"a message can't be read: {bad}") from bad
    if at != len(data):
        raise Garbled("a message holds more than it says")
    return Message(fields, tuple(arrays))


def read(stream: BinaryIO) -> Message | None:
    """The next message, None at the end of the stream. Blocks.

    Raises:
        Garbled: the stream ends inside a message, or it holds something else.
    """
    prefix = stream.read(PREFIX_BYTES)
    if not prefix:
        return None
    if len(prefix) < PREFIX_BYTES:
        raise Garbled("the stream ends inside a message")
    head, arrays = sizes(prefix)
    data = stream.read(head + arrays)
    if len(data) < head + arrays:
        raise Garbled("the stream ends inside a message")
    return decode(data[:head], data[head:])
