"""One daemon per vault: a lock that the kernel holds and, at any end of the process, releases.

The lock is on the file, not in it. What the file says about its holder is for
messages only: a process id in it may be stale or name a stranger, and nothing
is ever signalled or killed on its word. The file is never deleted, because a
deleted name could be locked a second time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sidecar.bridge import endpoint, private_files
from sidecar.errors import AlreadyServed, SidecarError, Unreadable

if TYPE_CHECKING:  # the settings bring pydantic, which takes longer to import than a short command takes to run
    from sidecar.config import Owner

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FILE_NAME = "lock"

_GRACE_S = 1.0  # a holder that is just leaving, or just arrived, has an empty file for a moment
_COMMAND_S = 6.0  # a command may wait 4 s for the keyring, and is done then


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, as the file says."""

    pid: int
    owner: Owner
    instance: str


class Held(AlreadyServed):
    """Another daemon holds the lock."""

    def __init__(self, sentence: str, by: Holder | None) -> None:
        super().__init__(sentence)
        self.by = by
        """Who, as the file said; None: it said nothing."""


def gives_way(owner: Owner, newcomer: Owner) -> bool:
    """Does a daemon of one kind end when a newcomer of the other asks it to?

    One that a relay started does for any that a person did. Of two editor windows the later one wins.
    """
    return (owner == "auto" and newcomer != "auto") or owner == newcomer == "bridge"


@contextmanager
def hold(state_dir: Path, owner: Owner, instance: str) -> Generator[None]:
    """Hold the vault's lock for the time of the block. Entering blocks: a second, or six while a command has it.

    Take it before anything else of the state folder is opened; the folder must exist.

    Raises:
        Held: another daemon has it; the message says who and where.
        Unreadable: the lock file can't be used.
    """
    descriptor = private_files.open_own(state_dir / FILE_NAME, os.O_RDWR)
    try:
        _take(descriptor, state_dir)
        try:
            _set_content(descriptor, json.dumps(asdict(Holder(os.getpid(), owner, instance))).encode())
            yield
        finally:
            _set_content(descriptor, b"")  # a reader then knows that this was no crash
    finally:
        os.close(descriptor)  # this is what releases the lock


def holder(state_dir: Path) -> Holder | None:
    """Who took the lock last and hasn't left cleanly; it may be dead. None: nobody. Blocks."""
    try:
        content = private_files.read(state_dir / FILE_NAME, max_bytes=1 << 12)
        raw = cast("dict[str, Any]", json.loads(content or b"null"))
        return Holder(int(raw["pid"]), raw["owner"], str(raw["instance"]))
    except (SidecarError, ValueError, TypeError, KeyError):
        return None


def is_held(state_dir: Path) -> bool:
    """Whether the kernel says that a process holds the lock now. Blocks for a moment; takes nothing over."""
    try:
        descriptor = os.open(state_dir / FILE_NAME, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        return not _try(descriptor)  # where it was free, it is given back at once
    except SidecarError:
        return False
    finally:
        os.close(descriptor)


def _take(descriptor: int, state_dir: Path) -> None:
    begin = time.monotonic()
    unnamed_since: float | None = None  # a command empties the file when it leaves, however long it was there
    while not _try(descriptor):
        found = holder(state_dir)
        now = time.monotonic()
        if found is None:
            unnamed_since = unnamed_since or now
            is_late = now > unnamed_since + _GRACE_S
        else:
            unnamed_since = None
            is_late = found.owner != "command" or now > begin + _COMMAND_S
        if is_late:
            raise Held(_refusal(found, state_dir), found)
        time.sleep(0.02)


def _try(descriptor: int) -> bool:
    """Take the lock if it is free."""
    try:
        if sys.platform == "win32":
            # one byte far behind the content, which others must be able to read meanwhile
            os.lseek(descriptor, 1 << 30, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        raise Unreadable(f"the state folder's disk has no file locks ({error.strerror}); choose another") from error
    return True


def _refusal(found: Holder | None, state_dir: Path) -> str:
    if found is not None and found.owner == "command":
        return f"a command (pid {found.pid}) is changing something of this vault just now; try again in a moment"
    who = f" (pid {found.pid}, started as '{found.owner}')" if found else ""
    try:
        published = endpoint.read(state_dir)
    except SidecarError:
        published = None
    if published is None or (found is not None and published.instance != found.instance):
        return f"another daemon{who} serves this vault already; it is still starting"
    return f"another daemon{who} serves this vault already, at {published.url}"


def _set_content(descriptor: int, content: bytes) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, content)
