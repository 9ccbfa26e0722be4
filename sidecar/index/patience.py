"""How long is waited for the vector worker: for its answers, and between attempts to have it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

HEALTHY_S: Final = 60.0
"""A worker that was ready for so long ended for a reason of its own, not for that of the one before."""

_FIRST_DELAY_S: Final = 0.5
_LONGEST_DELAY_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited, in seconds."""

    answer_s: float = 2.0
    """By whoever asks a query. Longer means that vectors are away, not yet that the process hangs: the database was
    seen to stall for seconds."""
    silent_s: float = 30.0
    """Without a sign of a process that has work; then it is killed. Long work gives signs."""
    start_s: float = 120.0
    """The same while it loads its embedder or opens a store: from a slow disk, catching up with a long log."""
    close_s: float = 3.0
    calm_s: float = 600.0
    """Without a question or a change; then a store that is worn is written anew."""


class Delay:
    """Ever longer waits between attempts, which may be cut short."""

    def __init__(self) -> None:
        self.seconds = _FIRST_DELAY_S
        self._again = asyncio.Event()

    def begin(self) -> None:
        """An attempt begins: what was wished for before has come true."""
        self._again.clear()

    def shorten(self) -> None:
        """Try again now."""
        self._again.set()

    def reset(self) -> None:
        """The next wait is a short one."""
        self.seconds = _FIRST_DELAY_S

    async def over(self) -> None:
        """Wait; the next wait is longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.seconds):
                await self._again.wait()
        self.seconds = min(self.seconds * 2, _LONGEST_DELAY_S)

    async def cut_short(self) -> None:
        """Wait until somebody wishes for another attempt."""
        await self._again.wait()
