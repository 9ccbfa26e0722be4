"""Events on Linux, asked from the kernel directly.

watchfiles is not used here for reasons that were measured: it follows links
(one link to `/usr` made it watch all of that, holding the interpreter's lock
for 7 s, and then fail on a loop), it reads the status of every file under that
lock when it begins, and a single name that is not UTF-8 makes it fail for good.
Here only folders are watched, hidden ones and links are not, and the kernel's
word that events were lost is passed on as "look at everything".
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from sidecar.vault.ignore import IGNORE_FILE
from sidecar.vault.paths import is_hidden, is_note_name
from sidecar.vault.watch import DEBOUNCE_S, EVERYTHING, IDLE_S, MOST_PATHS, STEP_S

# <sys/inotify.h>
_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
_CREATE, _DELETE, _UNMOUNT, _OVERFLOW, _IGNORED = 0x100, 0x200, 0x2000, 0x4000, 0x8000
_ONLYDIR, _DONT_FOLLOW, _ISDIR = 0x01000000, 0x02000000, 0x40000000
_WANTED: Final = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_HEAD: Final = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_READ_BYTES: Final = 1 << 16

# Not there any more, no folder any more, closed to us, or nested too deep for a path: the listener's scan decides.
_PASSED_OVER: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG})


class InotifySource:
    """One inotify instance with a watch on every visible folder."""

    def __init__(self, root: Path, takes: Callable[[str], bool] = is_note_name) -> None:
        """Of files, only those are named that `takes` says yes to, by their names."""
        self._root = str(root)
        self._takes = takes
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._folders: dict[int, str] = {}

    def batches(self, stop: threading.Event, armed: Callable[[], None]) -> Iterator[set[str]]:
        """Deleted and moved folders are named themselves; what was in them is not."""
        descriptor = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            self._add(descriptor, "")
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            armed()
            while not stop.is_set():
                changed: set[str] = set()
                if poller.poll(IDLE_S * 1000):
                    until = time.monotonic() + DEBOUNCE_S
                    while True:
                        self._take(descriptor, changed)
                        left_s = until - time.monotonic()
                        if left_s <= 0 or not poller.poll(min(STEP_S, left_s) * 1000):
                            break
                yield changed
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int, changed: set[str]) -> None:
        """Read what the kernel has, and follow the folders."""
        try:
            events = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        position = 0
        while position < len(events):
            watch, mask, _, length = _HEAD.unpack_from(events, position)
            position += _HEAD.size + length
            if mask & _OVERFLOW:
                changed.add(EVERYTHING)
                self._add(descriptor, "")
                continue
            folder = self._folders.get(watch)
            if folder is None:
                continue  # a watch that was given up
            if mask & (_IGNORED | _UNMOUNT):
                if mask & _IGNORED:
                    del self._folders[watch]
                changed.add(folder)
                continue
            name = os.fsdecode(events[position - length : position].rstrip(b"\0"))
            self._judge(descriptor, f"{folder}/{name}" if folder else name, name, mask, changed)

    def _judge(self, descriptor: int, text: str, name: str, mask: int, changed: set[str]) -> None:
        """One event of an entry; `text` is its path."""
        is_folder = bool(mask & _ISDIR)
        if is_hidden(name) and text != IGNORE_FILE:
            return
        if not is_folder and not self._takes(name) and text != IGNORE_FILE:
            return
        if not _is_utf8(name):
            return  # no path can say it; scans report it
        if is_folder and mask & _MOVED_FROM:
            self._forget(descriptor, text)
        elif is_folder and mask & (_CREATE | _MOVED_TO):
            self._add(descriptor, text)
        if len(changed) <= MOST_PATHS:  # one more than that says enough
            changed.add(text)

    def _add(self, descriptor: int, folder: str) -> None:
        """Watch a folder and all below it. Watching comes first, so what appears meanwhile is seen by one or both."""
        pending = [folder]
        while pending:
            text = pending.pop()
            path = f"{self._root}/{text}" if text else self._root
            try:
                mask = _WANTED | _ONLYDIR | _DONT_FOLLOW
                watch = self._checked(self._libc.inotify_add_watch(descriptor, os.fsencode(path), mask))
                self._folders[watch] = text
                with os.scandir(path) as entries:
                    pending.extend(
                        f"{text}/{entry.name}" if text else entry.name
                        for entry in entries
                        if not is_hidden(entry.name) and _is_utf8(entry.name) and entry.is_dir(follow_symlinks=False)
                    )
            except OSError as failed:
                if failed.errno not in _PASSED_OVER or not text:
                    raise

    def _forget(self, descriptor: int, folder: str) -> None:
        """Give up the watches on a folder that was moved away; a watch goes with its folder, wherever that is."""
        below = f"{folder}/"
        for watch, text in list(self._folders.items()):
            if text == folder or text.startswith(below):
                del self._folders[watch]
                self._libc.inotify_rm_watch(descriptor, watch)

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def _is_utf8(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)
