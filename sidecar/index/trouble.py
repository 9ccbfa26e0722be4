"""Tells apart what can go wrong with a file: it is damaged, or its disk is full or failing."""

from __future__ import annotations

import errno
import os
import sqlite3
from typing import cast

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DISK = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})


def is_damage(failed: BaseException) -> bool:
    """Whether SQLite found its file damaged; of a group of errors, whether one of them says so."""
    if isinstance(failed, BaseExceptionGroup):
        return any(map(is_damage, cast("BaseExceptionGroup[BaseException]", failed).exceptions))
    return _code(failed) in _DAMAGED or _is_rotten(failed)


def _is_rotten(failed: BaseException) -> bool:
    """Whether a text is not the UTF-8 that was stored. SQLite does not look, so Python says it, without a code."""
    return isinstance(failed, sqlite3.OperationalError) and str(failed).startswith("Could not decode to UTF-8")


def damage_in_words(failed: BaseException) -> str:
    """The end of a sentence. What Python says of a text holds the text, which belongs into no log."""
    return "is damaged (a text can't be read)" if _is_rotten(failed) else f"is damaged ({failed})"


def disk_trouble(failed: BaseException) -> str | None:
    """Why the disk did not take what was written, as the end of a sentence; None when it is not the disk's fault."""
    code = _code(failed)
    if code == sqlite3.SQLITE_FULL or (isinstance(failed, OSError) and failed.errno in _NO_ROOM):
        return "the disk is full"
    if code in _DISK:
        return f"the disk can't be written ({failed})"
    if isinstance(failed, OSError) and failed.errno in (errno.EIO, errno.EROFS):
        return f"the disk can't be written ({os.strerror(failed.errno).lower()})"
    return None


def _code(failed: BaseException) -> int | None:
    """SQLite's primary result code."""
    code = getattr(failed, "sqlite_errorcode", None) if isinstance(failed, sqlite3.Error) else None
    return code & 0xFF if isinstance(code, int) else None
