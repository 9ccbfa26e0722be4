"""Reads a file that somebody may be saving right now, and says only what was whole.

Many programs save in place: they empty the file and then write it. A change
must never be built on what such a save has left for the moment.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import Final, NamedTuple

from sidecar.errors import Conflict, NotWritten, TooLarge
from sidecar.vault.contents import read_all
from sidecar.vault.door import Folder
from sidecar.vault.jail import Jail
from sidecar.vault.notes import checksum_of
from sidecar.vault.paths import VaultPath, echo

_BETWEEN_S: Final = 0.004  # two reads agree when nothing changed for so long
_REST_S: Final = 0.03  # a file that changed a moment ago is given so long from its last change
_EMPTY_REST_S: Final = 0.5  # and one that is empty then: most likely its new text is on the way
_PATIENCE_S: Final = 3.0
_REMEMBERED: Final = 1000


class Identity(NamedTuple):
    """Which file it is, and which state of its content."""

    device: int
    inode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Base:
    """A whole content that a change may be built on, and the open file it was read from."""

    descriptor: int
    data: bytes
    status: os.stat_result

    @property
    def checksum(self) -> str:
        """Of the content."""
        return checksum_of(self.data)

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)


class Resting:
    """Waits for files to come to rest. What we wrote ourselves is known to be whole."""

    def __init__(self, jail: Jail, *, max_bytes: int) -> None:
        self._jail = jail
        self._max_bytes = max_bytes
        self._own: dict[Identity, str] = {}
        self._lock = threading.Lock()

    def wrote(self, status: os.stat_result, checksum: str) -> None:
        """A file of ours as it is in place now."""
        with self._lock:
            self._own[identity_of(status)] = checksum
            while len(self._own) > _REMEMBERED:
                del self._own[next(iter(self._own))]

    def read(self, folder: Folder, path: VaultPath) -> Base:
        """The note, once two readings a moment apart agree. The caller closes it. Blocks.

        Raises:
            NotThere: there is no such file.
            NotWritten: it is no regular file or can't be read, so nothing can be built on it.
            TooLarge: it is larger than a note may be.
            Conflict: it keeps changing.
            OSError: the system refused.
        """
        seen = self._read_once(folder, path)
        give_up = time.monotonic() + _PATIENCE_S
        while not self._is_own(seen):
            try:
                time.sleep(_wait_s(seen.status))
                again = self._read_once(folder, path)
            finally:
                seen.close()
            if identity_of(again.status) == identity_of(seen.status) and again.data == seen.data:
                return again
            seen = again
            if time.monotonic() > give_up:
                seen.close()
                raise Conflict(f"'{echo(path.text)}' is being changed by another program. Try again soon.")
        return seen

    def _read_once(self, folder: Folder, path: VaultPath) -> Base:
        descriptor = folder.open_file(path.name)
        try:
            status = os.fstat(descriptor)
            if refusal := self._jail.refusal(status):
                raise NotWritten(f"'{echo(path.text)}' could not be written: {refusal}.")
            return Base(descriptor, self.content(path, descriptor), os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise

    def content(self, path: VaultPath, descriptor: int) -> bytes:
        """All that an open file holds now.

        Raises:
            TooLarge: it is larger than a note may be.
            OSError: it can't be read.
        """
        size = os.fstat(descriptor).st_size
        os.lseek(descriptor, 0, os.SEEK_SET)
        data = read_all(descriptor, min(size, self._max_bytes), self._max_bytes + 1)
        if len(data) > self._max_bytes:
            raise TooLarge(f"'{echo(path.text)}' is larger than {self._max_bytes / (1 << 20):g} MiB.")
        return data

    def _is_own(self, seen: Base) -> bool:
        with self._lock:
            checksum = self._own.get(identity_of(seen.status))
        return checksum is not None and checksum == seen.checksum


def identity_of(status: os.stat_result) -> Identity:
    """Equal for two looks at one file between which nothing was written to it."""
    return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _wait_s(status: os.stat_result) -> float:
    """How long to wait before the second reading."""
    rest_s = _REST_S if status.st_size else _EMPTY_REST_S
    age_s = (time.time_ns() - status.st_mtime_ns) / 1e9
    return max(_BETWEEN_S, min(rest_s, rest_s - age_s))
