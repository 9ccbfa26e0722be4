"""Keeps the keyword index on disk: a snapshot, and a log of what changed since.

Both are a cache of the manifest. A record that was lost with the power is
found missing when the owner compares `ids()` with the manifest, so nothing is
forced to disk for a record; what is damaged is set aside, never trusted.

A log is read only behind the snapshot whose id it carries. A snapshot holds
everything the log before it did, so a log left over by a crash between the two
is simply dropped.

All calls block; call them in a lane. One thread at a time.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

from sidecar.index import aside
from sidecar.index.counted import Counted
from sidecar.index.keyword_files import (
    ID_BYTES,
    Damaged,
    Outdated,
    apply_record,
    create,
    encode_record,
    log_header,
    read_snapshot,
    write_snapshot,
)
from sidecar.index.keywords import Contents, KeywordIndex
from sidecar.index.tokens import TOKENS_VERSION

logger = logging.getLogger(__name__)

SNAPSHOT_NAME = "bm25.snap"
LOG_NAME = "bm25.log"

_SMALLEST_DUE_BYTES = 16 * 1024 * 1024  # a log this long is read in about a second


class KeywordStore:
    """One keyword index in one folder. `load` comes first."""

    def __init__(self, folder: Path, tokens: str = TOKENS_VERSION) -> None:
        """`tokens` is the version of the tokenizer; what another one wrote is not used."""
        self._folder = folder
        self._tokens = tokens
        self._made_for = tokens
        self._behind = False
        self._snapshot = folder / SNAPSHOT_NAME
        self._log = folder / LOG_NAME
        self._file: io.FileIO | None = None
        self._log_bytes = 0
        self._snapshot_bytes = 0

    def load(self, manifest: str = "") -> tuple[KeywordIndex, str | None]:
        """The index as far as it could be read, and a sentence if that is less than was written.

        `manifest` is the identity of the manifest whose chunks these are; what
        was written for another one is not used. The sentence is logged as
        well. The files are in order afterwards, unless the disk takes nothing;
        then the next snapshot brings them there.

        Raises:
            OSError: the folder can't be made.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self.close()
        self._made_for = f"{self._tokens}/{manifest}" if manifest else self._tokens
        self._behind = False
        problem, level = None, logging.WARNING
        try:
            identity, contents = read_snapshot(self._snapshot, self._made_for)
            index = KeywordIndex.from_contents(contents)
            self._snapshot_bytes = self._snapshot.stat().st_size
            problem = self._replay(index, identity)
        except FileNotFoundError:
            index = KeywordIndex()
            self._begin(index)
        except Outdated:
            problem = "The keyword index was made by another version or for another manifest; it is built anew."
            level = logging.INFO  # no damage: a new version, or a new manifest, which has had its line
            index = KeywordIndex()
            self._begin(index)
        except (Damaged, OSError):  # also a folder in a file's place, and a disk that fails to read it
            problem = "The keyword index is damaged; it is set aside and built anew."
            index = KeywordIndex()
            self._begin(index, anew=True)
        if problem:
            logger.log(level, "%s", problem)
        return index, problem

    def _begin(self, index: KeywordIndex, *, anew: bool = False) -> None:
        """Write an empty index down. A disk that takes nothing now is no reason to do without the index."""
        self.close()
        try:
            if anew:
                for path in (self._snapshot, self._log):
                    aside.set_aside(path)
            self.snapshot(index)
        except OSError as failed:
            self._behind = True
            logger.debug("the keyword index can't be written", exc_info=failed)

    def inspect(self, manifest: str) -> str | None:
        """What `load` would find wrong, as the end of a sentence. Changes nothing.

        Raises:
            OSError: the files can't be read.
        """
        try:
            identity, contents = read_snapshot(self._snapshot, f"{self._tokens}/{manifest}")
            index, data = KeywordIndex.from_contents(contents), self._log.read_bytes()
            at = len(log_header(identity))
            while data[: len(log_header(identity))] == log_header(identity) and at < len(data):
                at = apply_record(index, data, at)
        except FileNotFoundError:
            return None
        except Outdated:
            return "was made by another version or for another manifest"
        except Damaged:
            return "is damaged"
        return None

    def append(self, remove: Iterable[int], ids: Sequence[int], words: Counted) -> None:
        """Record one batch that was applied to the index, by its `replace_counted`.

        Raises:
            OSError: it could not be written; a snapshot is due, and the owner's comparison with the manifest repairs
                what a crash before that leaves.
        """
        if self._file is None and self._behind:
            return
        if self._file is None:
            raise ValueError("load or snapshot comes first")
        record = encode_record(remove, ids, words)
        left = memoryview(record)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            with contextlib.suppress(OSError):  # half a record would hide all that follow it
                self._file.truncate(self._log_bytes)
                self._file.seek(self._log_bytes)
            self._behind = True
            raise
        self._log_bytes += len(record)

    @property
    def due(self) -> bool:
        """Whether the log has grown so long that a snapshot is worth its cost, or lacks a record."""
        return self._behind or self._log_bytes > max(_SMALLEST_DUE_BYTES, self._snapshot_bytes // 2)

    def snapshot(self, index: KeywordIndex) -> None:
        """Write the whole index and begin a new log."""
        self.write(index.contents())

    def write(self, contents: Contents) -> None:
        """Write a snapshot and begin a new log. About 0.5 s for 100,000 chunks, most of it the disk.

        Raises:
            OSError: it could not be written, or no log could be begun behind it; a snapshot stays due.
        """
        self._behind = True
        identity = secrets.token_bytes(ID_BYTES)
        new = self._snapshot.with_name(f"{self._snapshot.name}.new")
        self._snapshot_bytes = write_snapshot(new, identity, self._made_for, contents)
        os.replace(new, self._snapshot)
        _sync_folder(self._folder)
        self._begin_log(identity)
        self._behind = False

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin_log(self, identity: bytes) -> None:
        self.close()
        self._file = create(self._log)
        self._log_bytes = self._file.write(log_header(identity))

    def _replay(self, index: KeywordIndex, identity: bytes) -> str | None:
        """Apply the log to the index that its snapshot gave, and go on writing behind its last good record."""
        try:
            data = self._log.read_bytes()
        except FileNotFoundError:
            data = b""
        header = log_header(identity)
        at = len(header)
        if data[:at] != header:
            self._begin_log(identity)
            return None
        while at < len(data):
            try:
                at = apply_record(index, data, at)
            except Damaged:
                break
        self._file = self._log.open("r+b", buffering=0)
        self._file.truncate(at)
        self._file.seek(at)
        self._log_bytes = at
        if at < len(data):
            return f"The last {len(data) - at:,} bytes of the keyword index's log were incomplete and are left out."
        return None


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # a folder can't be opened there; the rename is journaled
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
