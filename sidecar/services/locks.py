"""One lock per note: whoever changes a note waits for whoever changes it already."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from sidecar.vault.names import folded
from sidecar.vault.paths import VaultPath


@dataclass(slots=True)
class _Lock:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class NoteLocks:
    """Locks by path. Spellings that some disk takes for one path share a lock."""

    def __init__(self) -> None:
        self._locks: dict[str, _Lock] = {}

    @asynccontextmanager
    async def hold(self, *paths: VaultPath) -> AsyncGenerator[None]:
        """Hold all of these; taken in one order, so that two holders can't wait for each other."""
        async with AsyncExitStack() as stack:
            for key in sorted({folded(path.text) for path in paths}):
                await stack.enter_async_context(self._one(key))
            yield

    @asynccontextmanager
    async def _one(self, key: str) -> AsyncGenerator[None]:
        entry = self._locks.setdefault(key, _Lock())
        entry.users += 1
        try:
            async with entry.lock:
                yield
        finally:
            entry.users -= 1
            if not entry.users:
                del self._locks[key]
