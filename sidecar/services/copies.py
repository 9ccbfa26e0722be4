"""Texts that were replaced or displaced, kept outside the vault until 200 newer ones have come.

One file each: a line of JSON that tells what it is, then the bytes as they were.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast

from sidecar.bridge import private_files
from sidecar.errors import NotFound, SidecarError, Unreadable
from sidecar.vault.displaced import Why
from sidecar.vault.notes import checksum_of
from sidecar.vault.paths import VaultPath, echo, printable

logger = logging.getLogger(__name__)

FOLDER: Final = "recover"
MOST_COPIES: Final = 200
_SHORTEST_END: Final = 6
_LARGEST: Final = 1 << 30  # of one note, by the setting with the largest value
_NAME: Final = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9]{6}")
_STAMP: Final = "%Y%m%d-%H%M%S-%f"


@dataclass(frozen=True, slots=True)
class Copy:
    """What is known of a kept text."""

    copy_id: str
    path: str
    """The note it was the text of."""
    at: str
    why: Why
    checksum: str
    size: int
    """In bytes."""


class Copies:
    """The kept texts of one vault. Blocks: call it in a lane. Any thread may add; the process must hold the lock."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / FOLDER
        self._lock = threading.Lock()
        self._is_swept = False

    def add(self, path: VaultPath, data: bytes, why: Why) -> Copy:
        """Keep a text.

        Raises:
            Unreadable: the state folder's disk refused.
        """
        with self._lock:
            private_files.make_folder(self._folder)
            if not self._is_swept:
                private_files.sweep(self._folder)
                self._is_swept = True
            names = self._names()
            moment = datetime.now(UTC)
            if names:  # after the newest, also when the clock was set back
                newest = datetime.strptime(names[-1], _STAMP).replace(tzinfo=UTC)
                moment = max(moment, newest + timedelta(microseconds=1))
            at = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
            copy = Copy(moment.strftime(_STAMP), path.text, at, why, checksum_of(data), len(data))
            head = json.dumps(asdict(copy)).encode()
            private_files.write(self._folder / copy.copy_id, head + b"\n" + data)
            for old in names[: max(0, len(names) + 1 - MOST_COPIES)]:
                private_files.remove(self._folder / old)
        return copy

    def all(self) -> list[Copy]:
        """What is kept, newest first. A damaged copy is left out, with a warning."""
        return list(self._read_all())

    def find(self, ending: str) -> tuple[Copy, bytes]:
        """A copy by its id, or by an ending of it that no other has, of 6 characters at least; and its text.

        Raises:
            NotFound: none or several have it.
            Unreadable: its file is damaged.
        """
        names = [name for name in self._names() if name.endswith(ending) and len(ending) >= _SHORTEST_END]
        if len(names) > 1:
            raise NotFound(f"Several copies end in '{echo(ending)}'. 'vault-sidecar recover list' shows them.")
        if not names:
            raise no_copy(ending)
        return self._read(names[0])

    def _names(self) -> list[str]:
        """Oldest first."""
        try:
            return sorted(each.name for each in self._folder.iterdir() if _NAME.fullmatch(each.name))
        except FileNotFoundError:
            return []
        except OSError as failed:
            raise Unreadable(f"the folder {FOLDER} can't be read: {failed.strerror}") from failed

    def _read_all(self) -> Iterator[Copy]:
        for name in reversed(self._names()):
            try:
                yield self._read(name)[0]
            except SidecarError as bad:
                logger.warning("a copy is left out: %s", bad)

    def _read(self, name: str) -> tuple[Copy, bytes]:
        content = private_files.read(self._folder / name, max_bytes=_LARGEST)
        head, _, data = (content or b"").partition(b"\n")
        try:
            facts = cast("dict[str, Any]", json.loads(head))
            copy = Copy(**facts)
        except (ValueError, TypeError, RecursionError) as bad:
            raise Unreadable(f"the copy {printable(name)} is damaged") from bad
        if copy.copy_id != name or copy.checksum != checksum_of(data):
            raise Unreadable(f"the copy {printable(name)} is damaged")
        return copy, data


def no_copy(ending: str) -> NotFound:
    """The error for a copy that is not there."""
    return NotFound(f"There is no copy '{echo(ending)}'. 'vault-sidecar recover list' shows those there are.")
