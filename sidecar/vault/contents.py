"""The bytes of a file that is open already: read whole, and told apart from what is not on this computer.

Knows no path; which file may be opened is the part of `jail`. Everything blocks.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Final

_READ_TRIES: Final = 5
_FIRST_WAIT_S: Final = 0.002  # doubled before each try: a program that saves in place gets 60 ms to finish

# A cloud folder's file whose content is elsewhere: reading would fetch it, or hang for ever without a network.
_MAC_DATALESS: Final = 0x40000000  # SF_DATALESS
_WINDOWS_RECALL: Final = 0x00400000 | 0x00040000 | 0x00001000  # recall on data access, recall on open, offline


def is_elsewhere(mac_flags: int, windows_attributes: int) -> bool:
    """Whether these file flags say that the content is not on this computer."""
    return bool(mac_flags & _MAC_DATALESS or windows_attributes & _WINDOWS_RECALL)


def is_hollow(descriptor: int, status: os.stat_result) -> bool:
    """Whether a file has a size and no byte of content: a place-holder, or what a crash left of a file.

    That it has no blocks does not say so: small files lie in their directory entry on some file systems, and others
    count no blocks at all.

    Raises:
        OSError: the system refused.
    """
    if not status.st_size or getattr(status, "st_blocks", 1) or not hasattr(os, "SEEK_DATA"):
        return False
    try:
        os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError as failed:
        return failed.errno == errno.ENXIO
    os.lseek(descriptor, 0, os.SEEK_SET)
    return False


def read_rested(descriptor: int, before: os.stat_result, max_bytes: int) -> tuple[bytes, os.stat_result] | None:
    """The whole file and a status of it not newer than the bytes; None if it has more than `max_bytes`.

    `before` is its status as it was opened. A file that changes while it is read is read again; after a few tries the
    last complete reading counts.

    Raises:
        OSError: the system refused.
    """
    tries = 1
    while True:
        data = b"" if before.st_size > max_bytes else read_all(descriptor, before.st_size, max_bytes + 1)
        if max(before.st_size, len(data)) > max_bytes:
            return None
        after = os.fstat(descriptor)
        rested = len(data) == after.st_size and before.st_mtime_ns == after.st_mtime_ns
        if rested or tries == _READ_TRIES:
            # the older status: if the file was still changing, the next scan sees a difference and looks again
            return data, before
        time.sleep(_FIRST_WAIT_S * 2**tries)
        tries += 1
        os.lseek(descriptor, 0, os.SEEK_SET)
        before = os.fstat(descriptor)


def read_all(descriptor: int, size: int, most: int) -> bytes:
    """At most `most` bytes; in one call if the file has `size`.

    Raises:
        OSError: the system refused.
    """
    data = os.read(descriptor, min(size + 1, most))
    if len(data) == size:
        return data
    parts = [data]
    length = len(data)
    while length < most and (part := os.read(descriptor, min(most - length, 1 << 20))):
        parts.append(part)
        length += len(part)
    return b"".join(parts)
