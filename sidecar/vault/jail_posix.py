"""The jail's door on Linux and macOS: every step is an `openat` below the folder before it.

A folder that is moved or swapped for a link while it is walked can only make
the walk fail, because no step ever goes by a path or through `..`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from sidecar.vault.door import Entry, Listing, NotThere
from sidecar.vault.folder_posix import PosixFolder
from sidecar.vault.paths import is_hidden
from sidecar.vault.respelled import is_respelled

_COMMON: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_STEP: Final = _COMMON | os.O_DIRECTORY | getattr(os, "O_PATH", 0)  # macOS has no O_PATH
_LIST: Final = _COMMON | os.O_DIRECTORY
_FILE: Final = _COMMON | os.O_NONBLOCK  # a FIFO would wait for its writer
_NO_SUCH_NAME: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL})


class PosixDoor:
    """Holds a descriptor of `root`, whose path is resolved already."""

    def __init__(self, root: Path, takes: Callable[[str], bool]) -> None:
        self._root = root
        self._takes = takes
        self._held = _open_root(root)
        self._identity = _identity(os.fstat(self._held))

    def check(self) -> None:
        """Compare the folder at the path with the one that is held."""
        try:
            now = os.lstat(self._root)
        except (FileNotFoundError, NotADirectoryError) as gone:
            raise NotThere from gone
        if _identity(now) != self._identity:
            raise NotThere

    def reopen(self) -> None:
        """Hold what is at the path now."""
        try:
            new = _open_root(self._root)
        except NotThere:
            self.check()  # who moved a folder above and left a link to it has the same folder there, which is held
            return
        try:
            # in place, so that a walk in another thread never meets a number that was closed and given out again
            os.dup2(new, self._held, inheritable=False)
            self._identity = _identity(os.fstat(new))
        finally:
            os.close(new)

    def open_file(self, parts: Sequence[str]) -> int:
        """Walk to the file's folder and open it there."""
        if not parts:
            raise NotThere
        folder = self._walk(parts[:-1])
        try:
            opened = _open(parts[-1], _FILE, folder)
        finally:
            os.close(folder)
        if is_respelled(opened, parts):
            os.close(opened)
            raise NotThere
        return opened

    def status(self, parts: Sequence[str]) -> os.stat_result:
        """Walk to the entry's folder and ask there."""
        if not parts:
            return os.fstat(self._held)
        folder = self._walk(parts[:-1])
        try:
            return os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        except (OSError, ValueError) as failed:
            raise _translated(failed) from failed
        finally:
            os.close(folder)

    def entries(self, parts: Sequence[str]) -> Listing:
        """List through a descriptor of the folder; one `fstatat` for each file whose name is wanted."""
        folder = self._open_folder(parts)
        try:
            with os.scandir(folder) as found:
                entries = [entry for each in found if (entry := _entry(each, self._takes)) is not None]
                return Listing(os.fstat(folder), entries)
        finally:
            os.close(folder)

    def folder(self, parts: Sequence[str]) -> PosixFolder:
        """By a descriptor that names can be read and synced through."""
        opened = self._open_folder(parts)
        if parts and is_respelled(opened, parts):
            os.close(opened)
            raise NotThere
        return PosixFolder(opened)

    def close(self) -> None:
        """Close the descriptor of the root."""
        os.close(self._held)

    def _open_folder(self, parts: Sequence[str]) -> int:
        """A descriptor for reading the folder at `parts`; the caller closes it."""
        above = self._walk(parts[:-1])
        try:
            return _open(parts[-1], _LIST, above) if parts else os.open(".", _LIST, dir_fd=above)
        except OSError as failed:
            raise _translated(failed, links_are_missing=True) from failed
        finally:
            os.close(above)

    def _walk(self, parts: Sequence[str]) -> int:
        """A new descriptor of the folder at `parts`; the caller closes it."""
        return _step_down(os.dup(self._held), parts)


def _open_root(root: Path) -> int:
    """A descriptor of the folder at a path that was resolved before.

    A link on the way was put there since, by whoever may change a folder above: it is not followed, or its target
    would be taken for the vault.
    """
    no_links = getattr(os, "O_NOFOLLOW_ANY", 0)
    if not no_links:
        return _step_down(os.open(root.anchor, _STEP), root.parts[1:])
    try:  # macOS can't step through a folder that may not be listed
        return os.open(root, _STEP & ~os.O_NOFOLLOW | no_links)
    except OSError as failed:
        raise _translated(failed, links_are_missing=True) from failed


def _step_down(at: int, parts: Sequence[str]) -> int:
    """A descriptor of the folder at `parts` below the one that is open as `at`, which is closed."""
    for part in parts:
        try:
            below = _open(part, _STEP, at)
        except OSError as failed:
            raise _translated(failed, links_are_missing=True) from failed
        finally:
            os.close(at)
        at = below
    return at


def _open(name: str, flags: int, folder: int) -> int:
    if name in ("", ".", ".."):  # never in a checked path
        raise NotThere
    try:
        return os.open(name, flags, dir_fd=folder)
    except (OSError, ValueError) as failed:
        raise _translated(failed) from failed


def _translated(failed: OSError | ValueError, *, links_are_missing: bool = False) -> OSError | NotThere:
    """NotThere for every way of saying that there is no such name; a folder that is a link is one of them."""
    if not isinstance(failed, OSError) or failed.errno in _NO_SUCH_NAME:  # ValueError: NUL, or not encodable
        return NotThere()
    if links_are_missing and failed.errno in (errno.ELOOP, errno.EMLINK):
        return NotThere()
    return failed


def _entry(found: os.DirEntry[str], takes: Callable[[str], bool]) -> Entry | None:
    name = found.name
    if is_hidden(name):
        return None
    try:
        if found.is_dir(follow_symlinks=False):
            return Entry(name, None)
        return Entry(name, found.stat(follow_symlinks=False)) if takes(name) else None
    except FileNotFoundError:  # deleted since it was listed
        return None
    except OSError as failed:
        return Entry(name, failed)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
