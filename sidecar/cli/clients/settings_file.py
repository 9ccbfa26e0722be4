"""A client's settings file: read whole, kept beside as a backup, replaced whole.

It belongs to the person and to another program. So a link is followed, as
that program would follow it, the mode stays or becomes stricter, and nothing
is written if the file changed since it was read.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import stat
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sidecar.bridge import private_files
from sidecar.cli.clients.broken import Broken
from sidecar.errors import Busy, TooLarge, Unreadable

_LARGEST = 64 << 20
_FOREIGN_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_LOCK_PATIENCE_S = 5.0
_LOCK_STALE_S = 10.0  # from then on a lock is taken to be left over: the default of the library that Claude Code uses


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """One file as it was read. `content` is None where there is none yet."""

    path: Path
    """Where it really lies, links followed."""
    content: bytes | None
    mode: int
    text: str

    def same_as_now(self) -> bool:
        """Does the disk still hold what was read? Blocks."""
        return _read(self.path) == self.content


def load(path: Path) -> SettingsFile:
    """Read it; a missing file is an empty one. Blocks.

    Raises:
        Unreadable: it is no plain file, another user's, or the disk refused.
        TooLarge: far larger than any such file.
        Broken: it is not UTF-8.
    """
    try:
        resolved = path.resolve()
        found = resolved.stat() if resolved.exists() else None
    except (OSError, RuntimeError) as error:
        raise Unreadable(
            f"{path.name} can't be reached: {getattr(error, 'strerror', 'a link leads nowhere')}"
        ) from error
    if found is None:
        return SettingsFile(resolved, None, private_files.FILE_MODE, "")
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable(f"{path.name} is no plain file")
    if sys.platform != "win32" and found.st_uid != os.geteuid():
        raise Unreadable(f"{path.name} belongs to another user")
    if found.st_size > _LARGEST:
        raise TooLarge(f"{path.name} is larger than {_LARGEST >> 20} MiB")
    content = _read(resolved)
    return SettingsFile(resolved, content, stat.S_IMODE(found.st_mode), _decoded(content or b""))


def save(file: SettingsFile, text: str, *, secret: bool) -> Path | None:
    """Replace the text and keep the old one beside it; gives the backup, None where there was no file. Blocks.

    With a secret in it the file becomes readable to its owner alone.

    Raises:
        Busy: another program changed the file meanwhile; nothing was written.
        Unreadable: the disk refused; the file is as it was.
    """
    mark = codecs.BOM_UTF8 if (file.content or b"").startswith(codecs.BOM_UTF8) else b""
    try:
        content = mark + text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unreadable("the path of the vault or of the program can't be written as UTF-8") from error
    _make_folder(file.path.parent)
    backup = None
    if file.content is not None:
        backup = _free_name(file.path)
        private_files.write(backup, file.content)
    if not file.same_as_now():
        if backup is not None:
            private_files.remove(backup)
        raise Busy(f"{file.path.name} was changed by another program just now; nothing was written. Try again")
    private_files.write(file.path, content, mode=private_files.FILE_MODE if secret else file.mode)
    return backup


@contextlib.contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock that Claude Code takes before it writes its file: a folder of that name beside it. Blocks.

    Raises:
        Busy: the client has held it for seconds.
        Unreadable: the disk refused.
    """
    lock = path.with_name(path.name + ".lock")
    _make_folder(path.parent)
    give_up = time.monotonic() + _LOCK_PATIENCE_S
    while not _taken(lock):
        if time.monotonic() > give_up:
            raise Busy(f"another program is writing {path.name}; nothing was written. Try again")
        time.sleep(0.05)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.rmdir()


def _taken(lock: Path) -> bool:
    try:
        lock.mkdir()
        return True
    except FileExistsError:
        with contextlib.suppress(OSError):
            if time.time() - lock.stat().st_mtime > _LOCK_STALE_S:
                lock.rmdir()
        return False
    except OSError as error:
        raise Unreadable(f"the folder of {lock.stem} can't be written: {error.strerror}") from error


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"{path.name} can't be read: {error.strerror}") from error


def _decoded(content: bytes) -> str:
    if content.startswith(_FOREIGN_MARKS):
        raise Broken("it is not in UTF-8")
    try:
        return content.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Broken("it is not in UTF-8") from error


def _make_folder(folder: Path) -> None:
    """An existing one stays as it is: it isn't ours."""
    try:
        folder.mkdir(mode=private_files.FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise Unreadable(f"the folder {folder.name} can't be made: {error.strerror}") from error


def _free_name(path: Path) -> Path:
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    names = (f"{path.name}.{stamp}{number}.bak" for number in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(path.with_name(name) for name in names if not path.with_name(name).exists())
