"""Keeps files that a write put out of the vault for a moment longer, and looks whether somebody still wrote to them.

A program that opened a note before it was replaced goes on writing into a file
that has no name any more. What it wrote must not go to the bin with it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from sidecar.errors import SidecarError
from sidecar.vault.notes import checksum_of
from sidecar.vault.paths import VaultPath, printable
from sidecar.vault.resting import Resting

logger = logging.getLogger(__name__)

Why = Literal["replaced", "applied", "displaced", "left"]
"""Why a text is kept: it was replaced on demand, or by a proposal; another program wrote it while a note was written;
it was left behind by a write that was cut off."""

Keep = Callable[[VaultPath, bytes, Why], object]
"""Puts a text where its owner finds it again. Blocks; raises SidecarError or OSError."""

_MOST: Final = 100  # files held open at once


class _Held(NamedTuple):
    until: float
    path: VaultPath
    descriptor: int
    checksum: str


class Displaced:
    """The files that were replaced lately, by their descriptors. Blocks: call it in a lane."""

    def __init__(self, resting: Resting, keep: Keep, *, moment_s: float) -> None:
        self._resting = resting
        self._keep = keep
        self._moment_s = moment_s
        self._held: deque[_Held] = deque()
        self._lock = threading.Lock()

    def add(self, path: VaultPath, descriptor: int, checksum: str) -> None:
        """Take over the open file that was at `path` until now, and what it held then."""
        with self._lock:
            self._held.append(_Held(time.monotonic() + self._moment_s, path, descriptor, checksum))
            over = self._held.popleft() if len(self._held) > _MOST else None
        if over is not None:
            self._look(over)

    def look_again(self, *, at_all: bool = False) -> float | None:
        """Look at those whose moment has passed, or at all of them. Seconds until the next is due; None: no other."""
        while True:
            with self._lock:
                if not self._held:
                    return None
                wait_s = self._held[0].until - time.monotonic()
                if wait_s > 0 and not at_all:
                    return wait_s
                held = self._held.popleft()
            self._look(held)

    def _look(self, held: _Held) -> None:
        try:
            if os.fstat(held.descriptor).st_nlink:
                return  # it has another name, so nothing is lost
            data = self._resting.content(held.path, held.descriptor)
            if checksum_of(data) != held.checksum:
                logger.warning("another program still wrote to %s while it was replaced; its text is kept, see"
                               " 'vault-sidecar recover'", printable(held.path.text))  # fmt: skip
                self._keep(held.path, data, "displaced")
        except (OSError, SidecarError):
            logger.exception("what another program wrote to %s could not be kept", printable(held.path.text))
        finally:
            os.close(held.descriptor)
