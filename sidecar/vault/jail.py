"""The only way to the files of a vault; nothing outside it can be reached through here.

A `Jail` holds the vault's folder from the start. Every path is walked from
there, segment by segment, without following a link, and what was opened is
judged by its handle, never by its name. How an operating system does that is
the part of a `Door`.

Everything blocks; call it in a lane. Several threads may use one jail.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from sidecar.errors import TooLarge, Unreadable, VaultAway
from sidecar.vault.contents import is_elsewhere, is_hollow, read_rested
from sidecar.vault.door import Door, Folder, NotThere
from sidecar.vault.ignore import IGNORE_FILE, IgnoreRules
from sidecar.vault.paths import VaultPath, echo, is_note_name, is_too_deep, no_folder, no_note, printable
from sidecar.vault.reasons import A_LINK, NOT_REGULAR, OTHER_DEVICE, reason_of

_MAX_IGNORE_BYTES: Final = 1 << 20
_ELSEWHERE: Final = "it is not downloaded to this computer"

Kind = Literal["note", "folder", "missing", "other"]


class FileStat(NamedTuple):
    """What tells two states of a file apart without reading it."""

    mtime_ns: int
    size: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class NoteFile:
    """The bytes of a file, and what it was when they were read."""

    data: bytes
    stat: FileStat


class Found(NamedTuple):
    """A file that the walk takes for a note."""

    path: VaultPath
    stat: FileStat


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that the walk could not look at."""

    path: VaultPath | None
    """None for a name that is not UTF-8: no path can say it."""
    shown: str
    """The path as it may be printed."""
    reason: str
    lost: bool
    """A part of the tree could not be looked at: what is missing from this walk may still exist."""


class Jail:
    """One vault, opened for reading."""

    def __init__(
        self,
        root: Path,
        *,
        other_devices: bool = False,
        takes: Callable[[str], bool] = is_note_name,
        called: str = "The vault folder",
    ) -> None:
        """Open the vault's folder and hold it. `root` may be a link; it is resolved once, here.

        `other_devices`: read what is mounted inside the vault as well. `takes`: whether a file of this name is a note;
        for folders of other documents, whether it may be one. `called`: what people are told that the folder is.

        Raises:
            Unreadable: it is missing, no folder, or can't be opened.
        """
        self._called = called
        try:
            self.root = root.resolve(strict=True)
            self._door = _open_door(self.root, takes)
            self._device = self._door.status(()).st_dev
        except (OSError, RuntimeError, NotThere) as failed:  # RuntimeError: a loop of links
            raise self._away(failed) from failed
        self._other_devices = other_devices
        self._takes = takes

    def close(self) -> None:
        """Let go of the vault. Only when no other thread can be inside a call any more."""
        self._door.close()

    def reopen(self) -> None:
        """Take the folder that is at the vault's path now, after calls said that it was replaced.

        Raises:
            Unreadable: there is none, it can't be opened, or another one is there by way of a link.
        """
        try:
            self._door.reopen()
            self._device = self._door.status(()).st_dev
        except (OSError, NotThere) as failed:
            raise self._away(failed) from failed

    def read(self, path: VaultPath, *, max_bytes: int) -> NoteFile:
        """The whole file.

        One that changes while it is read is read again; after a few tries the last complete reading counts.

        Raises:
            NotFound: there is no such file, or only by way of a link.
            Unreadable: not a regular file, no permission, an I/O error, or the vault itself is gone.
            TooLarge: it has more than `max_bytes`.
        """
        self._check_root()
        try:
            descriptor = self._door.open_file(path.parts)
        except NotThere as missing:
            self._check_root()  # it may have gone in between; then nothing is known about the file
            raise no_note(path) from missing
        except OSError as failed:
            raise _unreadable(path, reason_of(failed)) from failed
        try:
            return self._read_open(path, descriptor, max_bytes)
        except OSError as failed:
            raise _unreadable(path, reason_of(failed)) from failed
        finally:
            os.close(descriptor)

    def read_ignore_file(self) -> bytes:
        """The vault's `.kpignore`.

        Raises:
            NotFound: there is none.
            Unreadable: it is no regular file, it can't be read, or the vault itself is gone.
            TooLarge: more than 1 MiB.
        """
        return self.read(VaultPath(IGNORE_FILE), max_bytes=_MAX_IGNORE_BYTES).data

    def stat(self, path: VaultPath) -> FileStat:
        """What a regular file is now, without opening it.

        Raises:
            NotFound: there is no such file, or only by way of a link.
            Unreadable: not a regular file, no permission, or the vault itself is gone.
        """
        status = self._status(path)
        if status is None:
            raise no_note(path)
        if refusal := self.refusal(status):
            raise _unreadable(path, refusal)
        return _file_stat(status)

    def kind(self, path: VaultPath) -> Kind:
        """What is at `path`. A "note" is a regular file with the name of one; a link is "other".

        Raises:
            Unreadable: it can't be looked at, or the vault itself is gone.
        """
        status = self._status(path)
        if status is None:
            return "missing"
        if stat.S_ISDIR(status.st_mode):
            return "folder" if self._is_here(status) else "other"
        return "note" if stat.S_ISREG(status.st_mode) and self._is_here(status) and self._takes(path.name) else "other"

    def walk(self, folder: VaultPath, ignored: IgnoreRules) -> Iterator[Found | Trouble]:
        """Every note below `folder`, in no order, and what could not be looked at.

        Dot-named entries, ignored ones and files that are no notes are left out in silence; links are not followed.
        Whether `folder` itself is ignored is not asked.

        Raises:
            NotFound: there is no such folder.
            Unreadable: the vault itself is gone, before or during the walk; nothing may be concluded from it.
        """
        if self.kind(folder) != "folder":
            raise no_folder(folder)
        pending = [folder.text]
        while pending:
            text = pending.pop()
            path = VaultPath(text)
            try:
                listing = self._door.entries(path.parts)
            except NotThere:
                continue  # deleted or moved since its parent was listed
            except OSError as failed:
                yield _trouble(path, reason_of(failed), lost=True)
                continue
            if not self._is_here(listing.status):
                yield _trouble(path, OTHER_DEVICE)
                continue
            prefix = f"{text}/" if text else ""
            for name, status in listing.entries:
                inner = prefix + name
                is_folder = status is None
                if not _is_utf8(name):
                    yield Trouble(None, _shown_bytes(inner), "its name is not UTF-8", lost=False)
                elif ignored.names(inner, is_folder):
                    continue
                elif is_too_deep(f"{inner}/" if is_folder else inner):
                    yield _trouble(VaultPath(inner), "it lies too deep")
                elif status is None:
                    pending.append(inner)
                elif isinstance(status, OSError):
                    yield _trouble(VaultPath(inner), reason_of(status), lost=True)
                elif refusal := self.refusal(status):
                    yield _trouble(VaultPath(inner), refusal)
                else:
                    yield Found(VaultPath(inner), _file_stat(status))
        self._check_root()

    def folder(self, path: VaultPath) -> Folder:
        """A folder held open, for the rooms that change what is in it. The caller closes it.

        Raises:
            NotThere: there is no such folder, or only by way of a link.
            OSError: the system refused, or the folder is on another device.
            VaultAway: the vault itself is gone.
        """
        self._check_root()
        folder = self._door.folder(path.parts)
        if not self._is_here(folder.status()):
            folder.close()
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return folder

    def _check_root(self) -> None:
        try:
            self._door.check()
        except (NotThere, OSError) as failed:
            raise self._away(failed) from failed

    def _away(self, failed: Exception) -> VaultAway:
        if isinstance(failed, NotThere | FileNotFoundError | NotADirectoryError):
            return VaultAway(f"{self._called} is missing, or another one is in its place.")
        return VaultAway(f"{self._called} can't be opened: {reason_of(failed)}.")

    def _status(self, path: VaultPath) -> os.stat_result | None:
        self._check_root()
        try:
            return self._door.status(path.parts)
        except NotThere:
            self._check_root()
            return None
        except OSError as failed:
            raise _unreadable(path, reason_of(failed)) from failed

    def _is_here(self, status: os.stat_result) -> bool:
        return self._other_devices or status.st_dev == self._device

    def refusal(self, status: os.stat_result) -> str | None:
        """Why a file of this status is not read."""
        if not stat.S_ISREG(status.st_mode):
            if stat.S_ISLNK(status.st_mode):
                return A_LINK
            return "it is a folder" if stat.S_ISDIR(status.st_mode) else NOT_REGULAR
        if not self._is_here(status):
            return OTHER_DEVICE
        if is_elsewhere(getattr(status, "st_flags", 0), getattr(status, "st_file_attributes", 0)):
            return _ELSEWHERE
        return None

    def _read_open(self, path: VaultPath, descriptor: int, max_bytes: int) -> NoteFile:
        before = os.fstat(descriptor)
        if refusal := self.refusal(before):
            raise _unreadable(path, refusal)
        if before.st_size <= max_bytes and is_hollow(descriptor, before):
            raise _unreadable(path, _ELSEWHERE)
        found = read_rested(descriptor, before, max_bytes)
        if found is None:
            raise TooLarge(f"'{echo(path.text)}' is larger than {max_bytes / (1 << 20):g} MiB.")
        data, status = found
        return NoteFile(data, _file_stat(status))


def _open_door(root: Path, takes: Callable[[str], bool]) -> Door:
    if sys.platform == "win32":
        from sidecar.vault.jail_windows import WindowsDoor

        return WindowsDoor(root, takes)
    from sidecar.vault.jail_posix import PosixDoor

    return PosixDoor(root, takes)


def _file_stat(status: os.stat_result) -> FileStat:
    return FileStat(status.st_mtime_ns, status.st_size, status.st_ctime_ns, status.st_ino)


def _is_utf8(name: str) -> bool:
    """Names come from the system with bytes that are not UTF-8 as lone surrogates."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown_bytes(name: str) -> str:
    return printable(os.fsencode(name).decode("utf-8", "backslashreplace"))


def _trouble(path: VaultPath, reason: str, *, lost: bool = False) -> Trouble:
    return Trouble(path, printable(path.text), reason, lost)


def _unreadable(path: VaultPath, reason: str) -> Unreadable:
    return Unreadable(f"'{echo(path.text)}' can't be read: {reason}.")
