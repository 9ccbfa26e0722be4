"""Temporary files beside the notes: hidden, recognisable, and written to the disk before anything relies on them."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import sys
import time
from collections.abc import Callable
from typing import Final

from sidecar.vault.door import Folder, NotThere
from sidecar.vault.paths import MAX_SEGMENT_BYTES
from sidecar.vault.resting import identity_of

_RANDOM_BYTES: Final = 8
_PATTERN: Final = re.compile(r"\..*\.[0-9a-f]{16}\.tmp", re.DOTALL)

_SHARING_TRIES: Final = 6
_SHARING_WAIT_S: Final = 0.02  # doubled before each try: 0.6 s in all
_IN_USE: Final = frozenset({errno.EBUSY, errno.ETXTBSY})
_IN_USE_ON_WINDOWS: Final = frozenset({5, 32, 33})  # access denied, sharing violation, lock violation


def temporary_name(name: str) -> str:
    """`.<name>.<random>.tmp`, the name cut where all of it would be too long."""
    tail = f".{secrets.token_hex(_RANDOM_BYTES)}.tmp"
    room = MAX_SEGMENT_BYTES - len(tail) - 1
    return f".{name.encode('utf-8', 'surrogateescape')[:room].decode(errors='ignore')}{tail}"


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one of ours."""
    return _PATTERN.fullmatch(name) is not None


def name_within(name: str) -> str:
    """The note's name in the name of a temporary file, as far as it is there."""
    return name[1:].rsplit(".", 2)[0]


class Temporary:
    """A new text on its way into the vault. Blocks."""

    def __init__(self, folder: Folder, name: str) -> None:
        """`name` is made by `write`."""
        self._folder = folder
        self.name = name
        self._made: os.stat_result | None = None
        self._written: os.stat_result | None = None

    def write(self, data: bytes, like: os.stat_result, mode: int) -> None:
        """Make the file, with the owner of `like` and this mode; on return it is on the disk.

        Raises:
            OSError: the system refused.
        """
        descriptor = self._folder.make_file(self.name)
        try:
            self._made = os.fstat(descriptor)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            if sys.platform != "win32":
                # a file system without owners or modes is no reason to fail; private is what it is already
                with contextlib.suppress(PermissionError):
                    if (self._made.st_uid, self._made.st_gid) != (like.st_uid, like.st_gid):
                        os.fchown(descriptor, like.st_uid, like.st_gid)
                with contextlib.suppress(PermissionError):
                    os.fchmod(descriptor, mode)
            os.fsync(descriptor)
            self._written = os.fstat(descriptor)
        finally:
            os.close(descriptor)

    @property
    def status(self) -> os.stat_result:
        """Of the file as it was written."""
        assert self._written is not None
        return self._written

    def is_ours(self, status: os.stat_result) -> bool:
        """Whether this is the file that was made here, and nobody else has written to it."""
        if self._made is None or not os.path.samestat(status, self._made):
            return False
        return self._written is None or identity_of(status) == identity_of(self._written)

    def is_at(self, name: str) -> bool:
        """Whether this name of the folder stands for our file, untouched.

        Raises:
            OSError: the system refused.
        """
        try:
            descriptor = self._folder.open_file(name)
        except NotThere:
            return False
        try:
            return self.is_ours(os.fstat(descriptor))
        finally:
            os.close(descriptor)


def patiently(call: Callable[[], None]) -> None:
    """Make a call that fails while another program holds the file; a few times, for half a second in all."""
    for tried in range(_SHARING_TRIES):
        try:
            return call()
        except OSError as failed:
            is_in_use = failed.errno in _IN_USE or getattr(failed, "winerror", None) in _IN_USE_ON_WINDOWS
            if not is_in_use or tried == _SHARING_TRIES - 1:
                raise
        time.sleep(_SHARING_WAIT_S * 2**tried)
