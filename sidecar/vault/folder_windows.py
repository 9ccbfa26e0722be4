"""A folder of the vault held open on Windows: its handle keeps it in place while it is worked in by name.

The calls have not been run on Windows yet.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Callable

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    from sidecar.vault.door import Unsupported

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.ReplaceFileW.restype = wintypes.BOOL
    _kernel.ReplaceFileW.argtypes = [
        wintypes.LPCWSTR,
        wintypes.LPCWSTR,
        wintypes.LPCWSTR,
        wintypes.DWORD,
        wintypes.LPVOID,
        wintypes.LPVOID,
    ]
    _IGNORE_MERGE_ERRORS = 0x2
    _NOT_OFFERED = frozenset({1, 50})  # invalid function, not supported
    _NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_BINARY | os.O_NOINHERIT

    class WindowsFolder:
        """Owns a handle that keeps the folder where it is. `path` is the final path, verbatim."""

        def __init__(self, path: str, open_file: Callable[[str], int], close: Callable[[], None]) -> None:
            self._path = path.rstrip("\\")
            self._open_file = open_file
            self._close = close

        def status(self) -> os.stat_result:
            """By the path, which can't lead elsewhere meanwhile."""
            return os.lstat(self._path + "\\")

        def entries(self) -> list[tuple[str, bool]]:
            """By the path."""
            with os.scandir(self._path + "\\") as found:
                return [(each.name, stat.S_ISDIR(os.lstat(each.path).st_mode)) for each in found]

        def open_file(self, name: str) -> int:
            """As the jail opens a note: where it lies is compared before a byte is read."""
            return self._open_file(name)

        def make_file(self, name: str) -> int:
            """Private by the access list of the folder."""
            return os.open(self._at(name), _NEW)

        def make_folder(self, name: str) -> None:
            """Access is inherited."""
            os.mkdir(self._at(name))

        def give(self, name: str, new: str) -> None:
            """A rename, which replaces nothing here."""
            os.rename(self._at(name), self._at(new))

        def swap(self, name: str, other: str) -> None:
            """`ReplaceFile` sets what it replaces aside; that then gets the first name."""
            aside = f".{secrets.token_hex(8)}.tmp"
            done = _kernel.ReplaceFileW(
                self._at(other), self._at(name), self._at(aside), _IGNORE_MERGE_ERRORS, None, None
            )
            if not done:
                number = ctypes.get_last_error()
                if number in _NOT_OFFERED:
                    raise Unsupported
                raise ctypes.WinError(number)
            os.rename(self._at(aside), self._at(name))

        def move(self, name: str, over: str) -> None:
            """A rename that replaces."""
            os.replace(self._at(name), self._at(over))

        def remove(self, name: str) -> None:
            """Delete."""
            os.unlink(self._at(name))

        def remove_folder(self, name: str) -> None:
            """Delete."""
            os.rmdir(self._at(name))

        def sync(self) -> None:
            """The journal of the file system orders names; there is no call for a folder."""

        def close(self) -> None:
            """Let the folder go."""
            self._close()

        def _at(self, name: str) -> str:
            return f"{self._path}\\{name}"
