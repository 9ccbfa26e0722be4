"""Files that only their owner may read: written whole, and looked at before they are believed.

One rule for what is found on disk, the same for every file here:

* a link, something that is no regular file, another user's file, or one that
  others may write: refused, since somebody else may have chosen its content;
* one that others may read: made private, with a warning, and used.

On Windows a user's profile is private by its access list; modes and owners
say nothing there, so only links are refused.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import stat
import sys
from pathlib import Path

from sidecar.errors import SidecarError, TooLarge, Unreadable

logger = logging.getLogger(__name__)

FILE_MODE = 0o600
FOLDER_MODE = 0o700

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # so that a fifo put in a file's place can't hold us up
_BINARY = getattr(os, "O_BINARY", 0)
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")


def make_folder(folder: Path) -> None:
    """Make a folder, and the parents it lacks, with mode 0700 from the first moment. Blocks.

    An existing folder that others may enter is closed to them, with a warning.

    Raises:
        Unreadable: it can't be made, is no folder, or belongs to somebody else.
    """
    try:
        for missing in [f for f in (folder, *folder.parents) if not f.exists()][::-1]:
            with contextlib.suppress(FileExistsError):  # another process was quicker
                os.mkdir(missing, FOLDER_MODE)
        found = os.stat(folder)
        if not stat.S_ISDIR(found.st_mode):
            raise Unreadable(f"{folder.name} is in the way: a folder belongs there")
        _refuse_foreign(found, folder.name)
        if _is_open_to_others(found):
            os.chmod(folder, FOLDER_MODE)
            logger.warning("the folder %s was open to other users; its mode is now 0700", folder.name)
    except OSError as error:
        raise Unreadable(f"the folder {folder.name} can't be used: {error.strerror}") from error


def write(path: Path, content: bytes, *, mode: int = FILE_MODE) -> None:
    """Replace a file as a whole; its folder must exist. Blocks.

    Until it is whole its mode is 0600, then `mode`. Whoever reads meanwhile gets
    the old content or the new. A link in the file's place is replaced, not followed.

    Raises:
        Unreadable: the disk refused; the old file is as it was.
    """
    # a leading dot: whoever lists the folder takes it for no file of ours
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _CLOSE_ON_EXEC | _BINARY
    try:
        descriptor = os.open(temporary, flags, FILE_MODE)
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                if mode != FILE_MODE:
                    os.chmod(temporary, mode)
                os.fsync(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise Unreadable(f"{path.name} can't be written: {error.strerror}") from error


def read(path: Path, *, max_bytes: int = 1 << 20) -> bytes | None:
    """The content of a private file, or None where there is none. Blocks.

    Raises:
        Unreadable: by the rule at the top of this module, or the disk refused.
        TooLarge: more than `max_bytes`.
    """
    if sys.platform == "win32" and path.is_symlink():
        raise Unreadable(f"{path.name} is a link; it must be a plain file")
    try:
        descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW | _NO_WAIT | _CLOSE_ON_EXEC | _BINARY)
    except FileNotFoundError:
        return None
    except OSError as error:
        if path.is_symlink():
            raise Unreadable(f"{path.name} is a link; it must be a plain file") from error
        raise Unreadable(f"{path.name} can't be read: {error.strerror}") from error
    try:
        make_private(descriptor, path.name)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise Unreadable(f"{path.name} can't be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if len(content) > max_bytes:
        raise TooLarge(f"{path.name} is larger than {max_bytes:,} bytes; it isn't a file of vault-sidecar")
    return content


def open_own(path: Path, flags: int) -> int:
    """The file, opened with `flags` and made where there is none; to be closed. Its folder must exist. Blocks.

    Raises:
        Unreadable: by the rule at the top of this module, or the disk refused.
    """
    try:
        descriptor = os.open(path, flags | os.O_CREAT | _NO_FOLLOW | _CLOSE_ON_EXEC, FILE_MODE)
    except OSError as error:
        raise Unreadable(f"the file {path.name} in the state folder can't be used: {error.strerror}") from error
    try:
        make_private(descriptor, path.name)
    except SidecarError:
        os.close(descriptor)
        raise
    return descriptor


def make_private(descriptor: int, name: str) -> None:
    """Judge an open file by the rule at the top of this module.

    Raises:
        Unreadable: it must not be believed.
    """
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable(f"{name} is no plain file")
    _refuse_foreign(found, name)
    if sys.platform != "win32" and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Unreadable(f"{name} may be written by other users; look at it, then delete it or set its mode to 0600")
    if sys.platform != "win32" and _is_open_to_others(found):
        os.fchmod(descriptor, FILE_MODE)
        logger.warning("%s could be read by other users; its mode is now 0600", name)


def remove(path: Path) -> None:
    """Delete a file; one that isn't there is as good. Blocks.

    Raises:
        Unreadable: the disk refused.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise Unreadable(f"{path.name} can't be deleted: {error.strerror}") from error


def sweep(folder: Path) -> None:
    """Delete what writes that were cut off have left in a folder, for only `write` makes such names. Blocks.

    Only for who alone writes there.

    Raises:
        Unreadable: the disk refused.
    """
    try:
        left = [path for path in folder.iterdir() if _TEMPORARY.fullmatch(path.name)]
    except OSError as error:
        raise Unreadable(f"the folder {folder.name} can't be used: {error.strerror}") from error
    for path in left:
        remove(path)


def _refuse_foreign(found: os.stat_result, name: str) -> None:
    if sys.platform != "win32" and found.st_uid != os.geteuid():
        raise Unreadable(f"{name} belongs to another user")


def _is_open_to_others(found: os.stat_result) -> bool:
    return sys.platform != "win32" and bool(found.st_mode & 0o077)


def _sync_folder(folder: Path) -> None:
    """Make a rename outlast a power cut; Windows can't open folders and needs no such call."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _CLOSE_ON_EXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
