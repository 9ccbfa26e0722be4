"""The two files of a keyword index, as bytes: a snapshot, and records of a log.

bm25.snap   magic, header (JSON), arrays, words, CRC-32 of all before
bm25.log    magic, id of its snapshot, then records: length, CRC-32, payload

Numbers are little-endian. What does not fit its checksum is never read.
"""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np

from sidecar.index.counted import Counted
from sidecar.index.keywords import Contents, KeywordIndex
from sidecar.index.postings import Segment

ID_BYTES = 16
_SNAPSHOT_MAGIC = b"VSBM25S1"
_LOG_MAGIC = b"VSBM25L1"
_RECORD = struct.Struct("<II")  # length and CRC-32 of the payload
_PAYLOAD = struct.Struct("<IIII")  # removed ids, added documents, their postings, bytes of words


class Damaged(Exception):
    """A file is not what was written. Never leaves the keyword store."""


class Outdated(Exception):
    """The words of a snapshot were cut by another tokenizer."""


class _Header(TypedDict):
    id: str
    tokens: str
    documents: int
    terms: int
    postings: int
    words: int


def write_snapshot(path: Path, identity: bytes, tokens: str, contents: Contents) -> int:
    """Write and force to disk; the size in bytes."""
    postings = contents.postings
    words = "\n".join(contents.vocabulary).encode("utf-8", "surrogatepass")
    header: _Header = {
        "id": identity.hex(),
        "tokens": tokens,
        "documents": int(postings.ids.size),
        "terms": len(contents.vocabulary),
        "postings": postings.size,
        "words": len(words),
    }
    encoded = json.dumps(header).encode("ascii")
    encoded += b" " * (-(len(_SNAPSHOT_MAGIC) + 4 + len(encoded)) % 8)  # the arrays begin aligned
    parts: list[bytes | memoryview] = [_SNAPSHOT_MAGIC, struct.pack("<I", len(encoded)), encoded]
    for numbers, kind in (
        (postings.ids, "<i8"),
        (postings.starts, "<i8"),
        (postings.lengths, "<u4"),
        (postings.docs, "<i4"),
        (postings.counts, "<u2"),
    ):
        parts.append(np.ascontiguousarray(numbers, kind).data.cast("B") if numbers.size else b"")
    parts.append(words)
    checksum = size = 0
    with io.BufferedWriter(create(path)) as file:
        for part in parts:
            checksum = zlib.crc32(part, checksum)
            file.write(part)
            size += len(part)
        file.write(struct.pack("<I", checksum))
        file.flush()
        os.fsync(file.fileno())
    return size + 4


def read_snapshot(path: Path, tokens: str) -> tuple[bytes, Contents]:
    """Its id and what it holds. The arrays look into the file's bytes; nothing is copied."""
    data = path.read_bytes()
    start = len(_SNAPSHOT_MAGIC) + 4
    if data[: len(_SNAPSHOT_MAGIC)] != _SNAPSHOT_MAGIC or len(data) < start + 4:
        raise Damaged
    view = memoryview(data)
    if zlib.crc32(view[:-4]) != int.from_bytes(data[-4:], "little"):
        raise Damaged
    at = start + int.from_bytes(data[start - 4 : start], "little")
    header: _Header = json.loads(data[start:at])
    if header["tokens"] != tokens:
        raise Outdated
    documents, terms, postings = header["documents"], header["terms"], header["postings"]
    ids = np.frombuffer(data, "<i8", documents, at)
    at += ids.nbytes
    starts = np.frombuffer(data, "<i8", terms + 1, at)
    at += starts.nbytes
    lengths = np.frombuffer(data, "<u4", documents, at)
    at += lengths.nbytes
    docs = np.frombuffer(data, "<i4", postings, at)
    at += docs.nbytes
    counts = np.frombuffer(data, "<u2", postings, at)
    at += counts.nbytes
    words = str(view[at : at + header["words"]], "utf-8", "surrogatepass")
    segment = Segment(
        ids=ids,
        lengths=lengths,
        terms=np.arange(terms, dtype=np.uint32),
        starts=starts,
        docs=docs,
        counts=counts,
        alive=np.ones(documents, np.bool_),
    )
    return bytes.fromhex(header["id"]), Contents(words.split("\n") if terms else [], segment)


def log_header(identity: bytes) -> bytes:
    """How the log of this snapshot begins."""
    return _LOG_MAGIC + identity


def encode_record(remove: Iterable[int], ids: Sequence[int], words: Counted) -> bytes:
    """One batch: ids that were removed, and documents that were added with their ids."""
    removed = array("q", remove)
    payload = b"".join(
        (
            _PAYLOAD.pack(len(removed), len(ids), len(words.counts) // 2, len(words.words)),
            removed.tobytes(),
            array("q", ids).tobytes(),
            words.sizes,
            words.places,
            words.counts,
            words.words,
        )
    )
    return _RECORD.pack(len(payload), zlib.crc32(payload)) + payload


def apply_record(index: KeywordIndex, data: bytes, at: int) -> int:
    """Apply the record at this offset; the offset behind it."""
    if at + _RECORD.size > len(data):
        raise Damaged
    length, checksum = _RECORD.unpack_from(data, at)
    at += _RECORD.size
    payload = data[at : at + length]
    if len(payload) < length or length < _PAYLOAD.size or zlib.crc32(payload) != checksum:
        raise Damaged
    removed, added, postings, _ = _PAYLOAD.unpack_from(payload)
    place = _PAYLOAD.size

    def take(size: int) -> bytes:
        nonlocal place
        place += size
        return payload[place - size : place]

    gone, ids = array("q", take(8 * removed)), array("q", take(8 * added))
    sizes, places, counts = take(4 * added), take(4 * postings), take(2 * postings)
    index.replace_counted(gone, ids, Counted(payload[place:], sizes, places, counts))
    return at + length


def create(path: Path) -> io.FileIO:
    """A new, empty file that only its owner can read: it holds the words of notes."""
    return io.FileIO(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600))
