"""Turns file system events into batches of paths to look at again.

Knows nothing of notes or indexes: it names paths, and a name means only that
something may be different there. Events are lossy on every platform, so
whoever listens scans when the watching has begun, and now and then after that.

Where events come from is the part of a `Source`: Linux is asked directly
(`watch_inotify`), macOS and Windows through watchfiles (`watch_native`).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, Literal, Protocol

from sidecar.tasks import Lane
from sidecar.vault.paths import is_note_name

logger = logging.getLogger(__name__)

STEP_S: Final = 0.03  # a batch ends when nothing happened for so long
DEBOUNCE_S: Final = 0.4  # and at the latest after this
IDLE_S: Final = 0.2  # how soon a stop and a vanished folder are noticed
MOST_PATHS: Final = 10_000  # in one batch; more are one order to look at everything
EVERYTHING: Final = ""
_LOOK_AGAIN_S: Final = 0.5

_LIMITS: Final = {
    errno.ENOSPC: "the system's limit of watched folders is reached (fs.inotify.max_user_watches)",
    errno.EMFILE: "the system's limit of watchers or open files is reached (fs.inotify.max_user_instances)",
    errno.ENFILE: "the system's limit of open files is reached",
}
# File systems whose changes made on another machine, or outside a virtual one, cause no events here.
_SILENT: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "drvfs", "fuse.rclone", "fuse.sshfs", "fuse.vmhgfs-fuse", "nfs", "nfs4", "prl_fs"}
    | {"smb3", "smbfs", "vboxsf", "virtiofs"}
)

Mode = Literal["events", "polling"]


class Source(Protocol):
    """Where the events of one folder come from."""

    def batches(self, stop: threading.Event, armed: Callable[[], None]) -> Iterator[set[str]]:
        """Paths below the folder that changed, `/` between their segments.

        Calls `armed` once, when nothing that happens from now on is missed.
        While nothing happens, an empty set comes every 0.2 s or so. Ends after
        `stop` is set. Blocks; raises OSError when it can't watch.
        """
        ...


class Watcher:
    """Watches one folder and everything below it, links and dot-named entries left out."""

    def __init__(
        self,
        root: Path,
        *,
        poll: bool = False,
        poll_every_s: float = 10.0,
        open_source: Callable[[Path], Source] | None = None,
        takes: Callable[[str], bool] = is_note_name,
    ) -> None:
        """`root` may be a link; it is resolved once, when the watching begins.

        `poll`: take no events, say "look at everything" at times. `takes`: whether a file of this name is worth an
        event.
        """
        self._root = root
        self._poll = poll
        self._poll_every_s = poll_every_s
        self._open_source = open_source or partial(_open_source, takes=takes)
        self.mode: Mode = "polling" if poll else "events"
        self.reason: str | None = None
        """Why the mode is polling although events were asked for."""

    async def run(self, on_ready: Callable[[], None], on_changes: Callable[[set[str]], None]) -> None:
        """Watch until cancelled. Both are called on the loop.

        `on_ready` says that watching has begun, for the first time or again
        after the folder was away: what happened before is not known, so scan
        now. `on_changes` gets paths relative to the folder; "" means that
        anything may have changed, or that the folder itself is gone.
        """
        loop = asyncio.get_running_loop()
        stop = threading.Event()
        lane = Lane("watch")
        try:
            await lane.run(
                self._watch,
                stop,
                lambda: _call(loop, on_ready),
                lambda paths: _call(loop, on_changes, paths),
            )
        finally:
            stop.set()
            await lane.close()

    def _watch(self, stop: threading.Event, ready: Callable[[], None], report: Callable[[set[str]], None]) -> None:
        """The thread's work: watch, and begin again when the folder is back or the source failed."""
        self._root = self._root.resolve()
        while not stop.is_set():
            identity = _identity(self._root)
            if identity is None:
                stop.wait(_LOOK_AGAIN_S)
                continue
            armed = threading.Event()
            try:
                for paths in self._source().batches(stop, _both(armed.set, ready)):
                    if _identity(self._root) != identity:
                        report({EVERYTHING})  # the listener finds out what became of it
                        break
                    if paths:
                        report(paths if len(paths) <= MOST_PATHS else {EVERYTHING})
            except OSError as failed:
                if _identity(self._root) != identity:
                    report({EVERYTHING})
                elif not armed.is_set() or failed.errno in _LIMITS:
                    self._use_polling(_why_not(failed))
                    continue
                else:
                    logger.warning("watching the vault begins again: %s", _words(failed))
                stop.wait(_LOOK_AGAIN_S)

    def _source(self) -> Source:
        if not self._poll and (kind := _silent_file_system(self._root)):
            self._use_polling(_silent(kind))
        return _Poll(self._poll_every_s) if self._poll else self._open_source(self._root)

    def _use_polling(self, reason: str) -> None:
        logger.warning("the vault is looked through every %g s: %s", self._poll_every_s, reason)
        self._poll = True
        self.mode, self.reason = "polling", reason


def trial(root: Path) -> str | None:
    """Why the events of a folder can't be had; None when they can. Watches it for a moment. Blocks."""
    if kind := _silent_file_system(root):
        return _silent(kind)
    stop = threading.Event()
    try:
        for _ in _open_source(root.resolve()).batches(stop, stop.set):
            pass
    except OSError as failed:
        return _why_not(failed)
    return None


class _Poll:
    """No events: an order to look at everything, at times."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s

    def batches(self, stop: threading.Event, armed: Callable[[], None]) -> Iterator[set[str]]:
        """Nothing can be missed, since everything is looked at."""
        armed()
        rested_s = 0.0
        while not stop.wait(min(IDLE_S, self._every_s)):
            rested_s += IDLE_S
            if rested_s < self._every_s:
                yield set()
            else:
                rested_s = 0.0
                yield {EVERYTHING}


def _open_source(root: Path, takes: Callable[[str], bool] = is_note_name) -> Source:
    if sys.platform == "linux":
        from sidecar.vault.watch_inotify import InotifySource

        return InotifySource(root, takes)
    from sidecar.vault.watch_native import NativeSource

    return NativeSource(root)


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call


def _why_not(failed: OSError) -> str:
    return _LIMITS.get(failed.errno or 0) or f"it can't be watched: {_words(failed)}"


def _silent(kind: str) -> str:
    return f"changes on a file system of type {kind} are not reported"


def _words(failed: OSError) -> str:
    """Why, without the path that an OSError's own text has."""
    return (failed.strerror or type(failed).__name__).lower()


def _call(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: object) -> None:
    loop.call_soon_threadsafe(call, *args)


def _identity(root: Path) -> tuple[int, int] | None:
    """Which folder is at the path; None if there is none."""
    try:
        status = os.stat(root)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _silent_file_system(root: Path) -> str | None:
    """The type of the file system if it is one that reports no changes."""
    if sys.platform != "linux":
        return None
    try:
        device = os.stat(root).st_dev
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    except OSError:
        return None
    kind = file_system_type(mounts, f"{os.major(device)}:{os.minor(device)}")
    return kind if kind in _SILENT else None


def file_system_type(mounts: str, device: str) -> str | None:
    """The type of the file system with this `major:minor`, told by the text of Linux's `mountinfo`."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) > 2 and fields[2] == device and after:
            return after.split()[0]
    return None
