"""What the owner switches while the daemon runs, from the terminal or the editor; no file in the vault can do it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from sidecar.bridge.settings import set_setting
from sidecar.errors import Overridden
from sidecar.tasks import Lane

logger = logging.getLogger(__name__)

VARIABLE = "VAULT_SIDECAR_NOTES_ALLOW_WRITES"
"""The environment variable that wins over the switch."""


def store_writes(state_dir: Path, on: bool, environment: Mapping[str, str]) -> None:
    """Let the next start offer `write_note`, or not. Blocks; only the holder of the lock may call it.

    Raises:
        Overridden: an environment variable decides.
        BadConfig, Unreadable: the settings file can't be read or written.
    """
    if VARIABLE in environment:
        raise Overridden(f"Allow writes comes from the environment variable {VARIABLE}; change it there and restart.")
    set_setting(state_dir, "notes", "allow_writes", on)


class Switches:
    """The live toggles. Read them at each use; they are changed on the loop."""

    def __init__(self, allow_writes: bool, state_dir: Path, lane: Lane, environment: Mapping[str, str]) -> None:
        self.allow_writes = allow_writes
        self.on_changed: Callable[[], Awaitable[None]] | None = None
        """Called after a change that changes the list of tools."""
        self._state_dir = state_dir
        self._lane = lane
        self._environment = environment
        self._changing = asyncio.Lock()

    async def set_writes(self, on: bool) -> None:
        """Offer `write_note`, or no longer; it stays so after a restart.

        Raises:
            Overridden, BadConfig, Unreadable: it can't be stored; nothing is changed.
        """
        async with self._changing:
            await self._lane.run(store_writes, self._state_dir, on, self._environment)
            changed = self._adopt(on)
        if changed:
            await self._tell()

    async def adopt(self, on: bool) -> None:
        """As `set_writes`, of what is stored already."""
        if self._adopt(on):
            await self._tell()

    def _adopt(self, on: bool) -> bool:
        was, self.allow_writes = self.allow_writes, on
        if was != on:
            logger.info("writing notes is switched %s", "on" if on else "off")
        return was != on

    async def _tell(self) -> None:
        if self.on_changed is not None:
            await self.on_changed()
