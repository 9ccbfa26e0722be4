"""The folder of one vector store: who may open it, whose it is, how it was left, and how it is set aside.

<root>/<name>/              what the vector database writes, and
<root>/<name>/store.json    which embedder's vectors these are
<root>/<name>/clean         there only while nobody has it open, after an orderly close
<root>/<name>.lock          held by the process that has it open
<root>/<name>/removed       how many ids were removed from it, so that its graph is that much longer than it need be
<root>/<name>.damaged-<n>   set aside
<root>/<name>.next          a copy in the making; once `whole` is in it, it takes the store's place
<root>/<name>.worn          the store that it takes the place of, until that is deleted

Everything blocks. Whatever is found in the folder's place is moved, never
followed and, unless it was set aside by us, never deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

KEPT_ASIDE: Final = 2
"""Damaged stores that are kept, the newest ones."""

_MARK, _CLEAN, _REMOVED, _WHOLE = "store.json", "clean", "removed", "whole"
_NOTED: Final = 1_000  # so many ids that were removed may be forgotten when the process is killed
_LAYOUT: Final = 1
_ROOM_BYTES: Final = 64 << 20
_GRACE_S: Final = 1.0  # the worker of a daemon that was killed needs a moment to notice and to leave


class StoreFailed(Exception):
    """Chroma could not do it. Its own words are the cause; they may hold paths of this computer."""


class Taken(Exception):
    """Another process has the store open."""


def name_for(embedder_id: str) -> str:
    """A name for folders and collections, one for each embedder: letters, digits and `-`."""
    readable = re.sub(r"[^a-z0-9]+", "-", embedder_id.lower()).strip("-")[:80] or "embedder"
    # ids that differ in signs or in case only must not share a folder
    return f"{readable}-{hashlib.blake2b(embedder_id.encode(), digest_size=4).hexdigest()}"


class StoreFolder:
    """Hold it before anything else."""

    def __init__(self, root: Path, embedder_id: str) -> None:
        self._root = root
        self._name = name_for(embedder_id)
        self._mark = {"layout": _LAYOUT, "embedder": embedder_id}
        self._lock: int | None = None
        self.path = root / self._name
        self._next, self._worn = root / f"{self._name}.next", root / f"{self._name}.worn"
        self.missed = False
        """There was a store here before, and it is gone."""
        self.removed = 0
        """Ids that were removed from it."""
        self._noted = 0

    def hold(self, grace_s: float = _GRACE_S) -> None:
        """Take the lock; wait so long for whoever is about to leave. It ends with the process at the latest.

        Raises:
            Taken: another process has it.
            OSError: the lock file can't be made.
        """
        # beside the folder, not in it: what is moved away or vanishes must not take the lock along
        path = self._root / f"{self._name}.lock"
        was_here = path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        give_up = time.monotonic() + grace_s
        while not _locked(descriptor):
            if time.monotonic() > give_up:
                os.close(descriptor)
                raise Taken
            time.sleep(0.05)
        self._lock = descriptor
        self._change_over()
        self.missed = was_here and not self._filled()

    def release(self) -> None:
        """Let another process have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def strangeness(self) -> str | None:
        """Why what is there can't be this embedder's store; None when it can be, or nothing is there."""
        if not self._filled():
            return None
        try:
            mark = None if self.path.is_symlink() else json.loads((self.path / _MARK).read_bytes())
        except (OSError, ValueError):
            mark = None
        if mark is None:
            return "is not one of ours"
        return None if mark == self._mark else "is of another embedder or layout"

    def _filled(self) -> bool:
        if self.path.is_symlink() or not self.path.is_dir():
            return self.path.is_symlink() or self.path.exists()
        return any(self.path.iterdir())

    def begin(self) -> bool:
        """Make the folder if need be and take its `clean` mark away. Returns whether the mark was there.

        Raises:
            OSError: the folder can't be written to.
        """
        self.path.mkdir(mode=0o700, exist_ok=True)
        clean = self.path / _CLEAN
        was_clean = clean.exists()
        clean.unlink(missing_ok=True)
        if not (self.path / _MARK).exists():
            self._write_mark(self.path)
        self.removed = self._noted = self._read_removed()
        return was_clean

    def _write_mark(self, folder: Path) -> None:
        new = (folder / _MARK).with_suffix(".new")
        new.write_text(json.dumps(self._mark), "utf-8")
        new.replace(folder / _MARK)

    def mark_clean(self) -> None:
        """The store was closed in order. Nothing happens when its folder is gone."""
        with suppress(OSError):
            self._note_removed()
            (self.path / _CLEAN).touch(mode=0o600)

    # how worn it is

    def has_removed(self, ids: int) -> None:
        """So many more ids were removed from the store."""
        self.removed += ids
        if self.removed >= self._noted + _NOTED:
            with suppress(OSError):
                self._note_removed()

    def _note_removed(self) -> None:
        if self.removed != self._noted:
            (self.path / _REMOVED).write_text(str(self.removed), "ascii")
            self._noted = self.removed

    def _read_removed(self) -> int:
        try:
            return int((self.path / _REMOVED).read_text("ascii"))
        except (OSError, ValueError):
            return 0

    @property
    def has_room_for_copy(self) -> bool:
        """Whether a copy fits beside the store, and some more.

        Raises:
            OSError: the folder can't be read.
        """
        size = sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())
        return shutil.disk_usage(self._root).free > size + _ROOM_BYTES

    def begin_copy(self) -> Path:
        """An empty folder for a copy.

        Raises:
            OSError: it can't be made.
        """
        _remove(self._next)
        self._next.mkdir(mode=0o700)
        self._write_mark(self._next)
        return self._next

    def end_copy(self) -> None:
        """The copy holds what the store holds, and was closed in order: it is the store when that is opened next.

        Raises:
            OSError: it can't be written to.
        """
        (self._next / _CLEAN).touch(mode=0o600)
        (self._next / _WHOLE).touch(mode=0o600)

    def _change_over(self) -> None:
        """Have a whole copy take the store's place, also if that was begun before, and delete what is of no use.

        Raises:
            OSError: it can't be moved.
        """
        if (self._next / _WHOLE).is_file() and self.strangeness() is None:
            _remove(self._worn)
            if self._filled():
                self.path.rename(self._worn)
            with suppress(FileNotFoundError):
                self.path.rmdir()
            self._next.rename(self.path)
            (self.path / _WHOLE).unlink()
        _remove(self._next)
        _remove(self._worn)

    def set_aside(self) -> None:
        """Move what is there out of the way, and delete what was set aside longest ago."""
        aside = self._aside()
        if self._filled():
            newest = max(aside, default=0) + 1
            self.path.rename(self._root / f"{self._name}.damaged-{newest}")
            aside[newest] = self._root / f"{self._name}.damaged-{newest}"
        for number in sorted(aside)[:-KEPT_ASIDE]:
            _remove(aside[number])

    def drop(self) -> None:
        """Delete the store, which must be held, what was set aside of it, and its lock. What isn't ours is left."""
        if self.strangeness() is None:
            _remove(self.path)
        for old in (self._next, self._worn, *self._aside().values()):
            _remove(old)
        self.release()  # Windows deletes no file that is open
        (self._root / f"{self._name}.lock").unlink(missing_ok=True)  # else the store would be missed at its next use

    def _aside(self) -> dict[int, Path]:
        """What was set aside before, by its number."""
        pattern = re.compile(re.escape(self._name) + r"\.damaged-([0-9]{1,9})")
        found = ((pattern.fullmatch(path.name), path) for path in self._root.iterdir())
        return {int(match[1]): path for match, path in found if match}

    @property
    def has_segments(self) -> bool:
        """Whether the database has written an index for its vectors."""
        return any(path.is_dir() for path in self.path.iterdir())

    @property
    def disk_is_full(self) -> bool:
        """Whether so little is free that a failure is the disk's, not the store's."""
        try:
            return shutil.disk_usage(self._root).free < 16 << 20
        except OSError:
            return False


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def _locked(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
