"""The jail's door on Windows, where no call opens a name below a folder handle.

What was opened is asked for its final path before a byte is read, and that has
to be the vault's final path followed by exactly the segments asked for. So
links, junctions, short names (`OBSIDI~1`), another case and alternate streams
are refused whatever way they got into the path. Links are refused beforehand as
well: opening one that leads to a network share would already send credentials.

The pure parts are tested on every system; the calls have not been run on
Windows yet.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from sidecar.vault.door import Entry, Listing, NotThere
from sidecar.vault.paths import is_hidden

_NAME_SURROGATE: Final = 0x20000000  # bit of a reparse tag: the entry stands for another place
_VERBATIM: Final = "\\\\?\\"  # no rewriting of final dots, blanks and device names


def final_segments(path: str) -> tuple[str, ...]:
    """The segments of an absolute path: drive first, or `\\\\`, server and share."""
    if path.startswith(_VERBATIM):
        path = path[len(_VERBATIM) :]
        if path[:4].upper() == "UNC\\":
            path = "\\\\" + path[4:]
    if path.startswith("\\\\"):
        return ("\\\\", *(segment for segment in path[2:].split("\\") if segment))
    return tuple(segment for segment in path.split("\\") if segment)


def lies_at(root: str, opened: str, parts: Sequence[str]) -> bool:
    """Whether the final path `opened` is the final path `root` followed by exactly `parts`."""
    return final_segments(opened) == (*final_segments(root), *parts)


def is_openable(parts: Sequence[str]) -> bool:
    """Whether the segments can name files at all: `:` would name a stream, a backslash another folder."""
    return all(part not in ("", ".", "..") and not set(part) & set('<>:"/\\|?*\0') for part in parts)


def leads_elsewhere(reparse_tag: int) -> bool:
    """Whether an entry with this tag is a link or junction. Files of a cloud folder have tags too and are none."""
    return bool(reparse_tag & _NAME_SURROGATE)


def verbatim(root: str, parts: Sequence[str]) -> str:
    """The path text to open, safe from rewriting by the system."""
    segments = final_segments(root)
    start = "UNC\\" + "\\".join(segments[1:]) if segments[:1] == ("\\\\",) else "\\".join(segments)
    return _VERBATIM + "\\".join((start, *parts)) + ("" if parts else "\\")


if sys.platform == "win32":
    import ctypes
    import msvcrt
    from ctypes import wintypes

    from sidecar.vault.folder_windows import WindowsFolder

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateFileW.restype = wintypes.HANDLE
    _kernel.CreateFileW.argtypes = [
        wintypes.LPCWSTR,
        wintypes.DWORD,
        wintypes.DWORD,
        wintypes.LPVOID,
        wintypes.DWORD,
        wintypes.DWORD,
        wintypes.HANDLE,
    ]
    _kernel.GetFinalPathNameByHandleW.restype = wintypes.DWORD
    _kernel.GetFinalPathNameByHandleW.argtypes = [
        wintypes.HANDLE,
        wintypes.LPWSTR,
        wintypes.DWORD,
        wintypes.DWORD,
    ]
    _kernel.CloseHandle.argtypes = [wintypes.HANDLE]

    _GENERIC_READ = 0x80000000
    _READ_ATTRIBUTES = 0x80
    _LIST_DIRECTORY = 0x1
    _SHARE_ALL = 0x7  # read, write, delete: an editor must be able to save and rename meanwhile
    _SHARE_STAY = 0x3  # without delete, so that the folder can't be renamed while it is listed by name
    _OPEN_EXISTING = 3
    _BACKUP_SEMANTICS = 0x02000000  # folders can be opened as well
    _INVALID = wintypes.HANDLE(-1).value
    _MISSING = frozenset(
        {2, 3, 53, 67, 123, 161, 206, 267}
    )  # no file, no path, no share, bad name, too long, no folder

    class WindowsDoor:
        """Holds no handle, so that the vault can be renamed; holds its final path and its identity."""

        def __init__(self, root: Path, takes: Callable[[str], bool]) -> None:
            self._given = str(root)
            self._takes = takes
            self._root = ""
            self.reopen()

        def check(self) -> None:
            """Compare the folder at the path with the one that was opened."""
            try:
                now = os.lstat(verbatim(self._root, ()))
            except OSError as failed:
                raise _translated(failed) from failed
            if (now.st_dev, now.st_ino) != self._identity:
                raise NotThere

        def reopen(self) -> None:
            """Take what is at the path now."""
            handle = _create(self._given, _READ_ATTRIBUTES, _SHARE_ALL)
            try:
                root = _final_path(handle)
            finally:
                _kernel.CloseHandle(handle)
            if self._root and root.casefold() != self._root.casefold():
                raise NotThere  # a link on the way, which was put there since
            self._root = root
            status = os.lstat(verbatim(self._root, ()))
            if not stat.S_ISDIR(status.st_mode):
                raise NotThere
            self._identity = (status.st_dev, status.st_ino)

        def open_file(self, parts: Sequence[str]) -> int:
            """Open the file, compare where it is, and only then hand out a descriptor."""
            self._refuse_links(parts)
            handle = _create(verbatim(self._root, parts), _GENERIC_READ, _SHARE_ALL)
            try:
                if not lies_at(self._root, _final_path(handle), parts):
                    raise NotThere
                return msvcrt.open_osfhandle(handle, os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT)
            except BaseException:
                _kernel.CloseHandle(handle)
                raise

        def status(self, parts: Sequence[str]) -> os.stat_result:
            """Hold the entry's folder in place and ask there."""
            if not parts:
                return os.lstat(verbatim(self._root, ()))
            if not is_openable(parts):
                raise NotThere
            folder = self._hold(parts[:-1])
            try:
                return os.lstat(verbatim(self._root, parts))
            except OSError as failed:
                raise _translated(failed) from failed
            finally:
                _kernel.CloseHandle(folder)

        def entries(self, parts: Sequence[str]) -> Listing:
            """Hold the folder in place and list it by name."""
            folder = self._hold(parts)
            try:
                path = verbatim(self._root, parts)
                with os.scandir(path) as found:
                    entries = [entry for each in found if (entry := _entry(each, self._takes)) is not None]
                return Listing(os.lstat(path), entries)
            except OSError as failed:
                raise _translated(failed) from failed
            finally:
                _kernel.CloseHandle(folder)

        def folder(self, parts: Sequence[str]) -> WindowsFolder:
            """By a handle that keeps the folder where it is; what lies in it is opened as all files are."""
            handle = self._hold(parts)

            def open_file(name: str) -> int:
                return self.open_file((*parts, name))

            return WindowsFolder(verbatim(self._root, parts), open_file, lambda: _kernel.CloseHandle(handle))

        def close(self) -> None:
            """Nothing is held."""

        def _hold(self, parts: Sequence[str]) -> int:
            """A handle that keeps the folder where it is until it is closed."""
            self._refuse_links(parts)
            handle = _create(verbatim(self._root, parts), _LIST_DIRECTORY, _SHARE_STAY)
            try:
                if not lies_at(self._root, _final_path(handle), parts):
                    raise NotThere
            except BaseException:
                _kernel.CloseHandle(handle)
                raise
            return handle

        def _refuse_links(self, parts: Sequence[str]) -> None:
            if not is_openable(parts):
                raise NotThere
            for count in range(1, len(parts) + 1):
                try:
                    status = os.lstat(verbatim(self._root, parts[:count]))
                except OSError as failed:
                    raise _translated(failed) from failed
                if leads_elsewhere(status.st_reparse_tag):
                    raise NotThere

    def _create(path: str, access: int, share: int) -> int:
        handle = _kernel.CreateFileW(path, access, share, None, _OPEN_EXISTING, _BACKUP_SEMANTICS, None)
        if handle == _INVALID or handle is None:
            raise _translated(ctypes.WinError(ctypes.get_last_error()))
        return int(handle)

    def _final_path(handle: int) -> str:
        size = 1024
        while True:
            text = ctypes.create_unicode_buffer(size)
            length = int(_kernel.GetFinalPathNameByHandleW(handle, text, size, 0))
            if length == 0:
                raise ctypes.WinError(ctypes.get_last_error())
            if length < size:
                return text.value
            size = length + 1

    def _translated(failed: OSError) -> OSError | NotThere:
        return NotThere() if failed.winerror in _MISSING else failed

    def _entry(found: os.DirEntry[str], takes: Callable[[str], bool]) -> Entry | None:
        if is_hidden(found.name):
            return None
        try:
            status = os.lstat(found.path)  # a listing's own status has no inode on Windows
            if stat.S_ISDIR(status.st_mode) and not leads_elsewhere(status.st_reparse_tag):
                return Entry(found.name, None)
            return Entry(found.name, status) if takes(found.name) else None
        except FileNotFoundError:
            return None
        except OSError as failed:
            return Entry(found.name, failed)
