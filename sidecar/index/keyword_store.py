"""Keeps the keyword index on disk: a snapshot, and a log of what changed since.

Both are a cache of the manifest. A record that was lost with the power is
found missing when the owner compares `ids()` with the manifest, so nothing is
forced to disk for a record; what is damaged is set aside, never trusted.

bm25.snap   magic, header (JSON), arrays, words, CRC-32 of all before
bm25.log    magic, id of its snapshot, then records: length, CRC-32, payload

A log is read only behind the snapshot whose id it carries. A snapshot holds
everything the log before it did, so a log left over by a crash between the two
is simply dropped.

All calls block; call them in a lane. One thread at a time.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import secrets
import struct
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np

from sidecar.index.keywords import Contents, KeywordIndex, Numbering, clipped
from sidecar.index.postings import Segment
from sidecar.index.tokens import TOKENS_VERSION

logger = logging.getLogger(__name__)

_SNAPSHOT_MAGIC = b"VSBM25S1"
_LOG_MAGIC = b"VSBM25L1"
_ID_BYTES = 16
_RECORD = struct.Struct("<II")  # length and CRC-32 of the payload
_PAYLOAD = struct.Struct("<IIII")  # removed ids, added documents, their postings, bytes of words
_SMALLEST_DUE_BYTES = 16 * 1024 * 1024  # a log this long is read in about a second


class _Damaged(Exception):
    """A file is not what was written. Like the next one never seen outside this module."""


class _Outdated(Exception):
    """The words of a snapshot were cut by another tokenizer."""


class _Header(TypedDict):
    id: str
    tokens: str
    documents: int
    terms: int
    postings: int
    words: int


class KeywordStore:
    """One keyword index in one folder. `load` comes first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._snapshot = folder / "bm25.snap"
        self._log = folder / "bm25.log"
        self._file: io.FileIO | None = None
        self._log_bytes = 0
        self._snapshot_bytes = 0

    def load(self) -> tuple[KeywordIndex, str | None]:
        """The index as far as it could be read, and a sentence if that is less than was written.

        The sentence is logged as well. The files are in order afterwards.

        Raises:
            OSError: the folder can't be read or written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self.close()
        problem = None
        try:
            identity, contents = _read_snapshot(self._snapshot)
            index = KeywordIndex.from_contents(contents)
            self._snapshot_bytes = self._snapshot.stat().st_size
            problem = self._replay(index, identity)
        except FileNotFoundError:
            index = KeywordIndex()
            self.snapshot(index)
        except _Outdated:
            problem = "The keyword index was made by another version; it is built anew."
            index = KeywordIndex()
            self.snapshot(index)
        except _Damaged:
            problem = "The keyword index is damaged; it is set aside and built anew."
            for path in (self._snapshot, self._log):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(path, path.with_name(f"{path.name}.damaged"))
            index = KeywordIndex()
            self.snapshot(index)
        if problem:
            logger.warning("%s", problem)
        return index, problem

    def append(self, remove: Iterable[int], add: Sequence[tuple[int, Mapping[str, int]]]) -> None:
        """Record one batch that was applied to the index.

        Raises:
            OSError: it could not be written; the owner's comparison with the manifest repairs that.
        """
        if self._file is None:
            raise ValueError("load or snapshot comes first")
        payload = _payload(remove, add)
        record = memoryview(_RECORD.pack(len(payload), zlib.crc32(payload)) + payload)
        try:
            while record:
                record = record[self._file.write(record) :]
        except OSError:
            with contextlib.suppress(OSError):  # half a record would hide all that follow it
                self._file.truncate(self._log_bytes)
                self._file.seek(self._log_bytes)
            raise
        self._log_bytes += _RECORD.size + len(payload)

    @property
    def due(self) -> bool:
        """Whether the log has grown so long that a snapshot is worth its cost."""
        return self._log_bytes > max(_SMALLEST_DUE_BYTES, self._snapshot_bytes // 2)

    def snapshot(self, index: KeywordIndex) -> None:
        """Write the whole index and begin a new log. About 0.5 s for 100,000 chunks, most of it the disk."""
        identity = secrets.token_bytes(_ID_BYTES)
        new = self._snapshot.with_name(f"{self._snapshot.name}.new")
        self._snapshot_bytes = _write_snapshot(new, identity, index.contents())
        os.replace(new, self._snapshot)
        _sync_folder(self._folder)
        self._begin_log(identity)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin_log(self, identity: bytes) -> None:
        self.close()
        self._file = _create(self._log)
        self._file.write(_LOG_MAGIC + identity)
        self._log_bytes = len(_LOG_MAGIC + identity)

    def _replay(self, index: KeywordIndex, identity: bytes) -> str | None:
        """Apply the log to the index that its snapshot gave, and go on writing behind its last good record."""
        try:
            data = self._log.read_bytes()
        except FileNotFoundError:
            data = b""
        at = len(_LOG_MAGIC) + _ID_BYTES
        if data[:at] != _LOG_MAGIC + identity:
            self._begin_log(identity)
            return None
        while at < len(data):
            try:
                at = _apply_record(index, data, at)
            except _Damaged:
                break
        self._file = self._log.open("r+b", buffering=0)
        self._file.truncate(at)
        self._file.seek(at)
        self._log_bytes = at
        if at < len(data):
            return f"The last {len(data) - at:,} bytes of the keyword index's log were incomplete and are left out."
        return None


def _write_snapshot(path: Path, identity: bytes, contents: Contents) -> int:
    """Write and force to disk; the size in bytes."""
    postings = contents.postings
    words = "\n".join(contents.vocabulary).encode("utf-8", "surrogatepass")
    header: _Header = {
        "id": identity.hex(),
        "tokens": TOKENS_VERSION,
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
    with io.BufferedWriter(_create(path)) as file:
        for part in parts:
            checksum = zlib.crc32(part, checksum)
            file.write(part)
            size += len(part)
        file.write(struct.pack("<I", checksum))
        file.flush()
        os.fsync(file.fileno())
    return size + 4


def _read_snapshot(path: Path) -> tuple[bytes, Contents]:
    """Its id and what it holds. The arrays look into the file's bytes; nothing is copied."""
    data = path.read_bytes()
    start = len(_SNAPSHOT_MAGIC) + 4
    if data[: len(_SNAPSHOT_MAGIC)] != _SNAPSHOT_MAGIC or len(data) < start + 4:
        raise _Damaged
    view = memoryview(data)
    if zlib.crc32(view[:-4]) != int.from_bytes(data[-4:], "little"):
        raise _Damaged
    at = start + int.from_bytes(data[start - 4 : start], "little")
    header: _Header = json.loads(data[start:at])
    if header["tokens"] != TOKENS_VERSION:
        raise _Outdated
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


def _payload(remove: Iterable[int], add: Sequence[tuple[int, Mapping[str, int]]]) -> bytes:
    """One batch; each word is written once and told by its place afterwards."""
    removed = array("q", remove)
    places = Numbering()
    terms = array("I")
    counts = array("H")
    for _, document in add:
        terms.extend(map(places.__getitem__, document))
        counts.extend(clipped(document.values()))
    words = "\n".join(places).encode("utf-8", "surrogatepass")
    return b"".join(
        (
            _PAYLOAD.pack(len(removed), len(add), len(terms), len(words)),
            removed.tobytes(),
            array("q", [doc_id for doc_id, _ in add]).tobytes(),
            array("I", [len(document) for _, document in add]).tobytes(),
            terms.tobytes(),
            counts.tobytes(),
            words,
        )
    )


def _apply_record(index: KeywordIndex, data: bytes, at: int) -> int:
    """Apply the record at this offset; the offset behind it."""
    if at + _RECORD.size > len(data):
        raise _Damaged
    length, checksum = _RECORD.unpack_from(data, at)
    at += _RECORD.size
    payload = memoryview(data)[at : at + length]
    if len(payload) < length or length < _PAYLOAD.size or zlib.crc32(payload) != checksum:
        raise _Damaged
    removed, added, postings, _ = _PAYLOAD.unpack_from(payload)
    place = _PAYLOAD.size

    def take(kind: str, size: int) -> np.ndarray:
        nonlocal place
        found = np.frombuffer(payload, kind, size, place)
        place += found.nbytes
        return found

    gone, ids, sizes = take("<i8", removed), take("<i8", added), take("<u4", added)
    terms, counts = take("<u4", postings), take("<u2", postings)
    words = str(payload[place:], "utf-8", "surrogatepass")
    index.replace(gone.tolist(), ())
    numbers = np.array(index.numbers(words.split("\n") if postings else ()), np.uint32)
    flat_terms, flat_counts = array("I", numbers[terms].tobytes()), array("H", counts.tobytes())
    first = 0
    for doc_id, size in zip(ids.tolist(), sizes.tolist(), strict=True):
        index.add_counted(doc_id, flat_terms[first : first + size], flat_counts[first : first + size])
        first += size
    return at + length


def _create(path: Path) -> io.FileIO:
    """A new, empty file that only its owner can read: it holds the words of notes."""
    return io.FileIO(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600))


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # a folder can't be opened there; the rename is journaled
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
