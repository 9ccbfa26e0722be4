"""Settings that the owner changes in the editor while the daemon runs, several at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sidecar.bridge.settings import set_settings
from sidecar.config import Config, Source, load
from sidecar.services.address import Address
from sidecar.services.protection import Protection
from sidecar.services.switches import Switches
from sidecar.tasks import Lane

Values = Mapping[str, Mapping[str, Any]]
"""`{section: {key: value}}`, as in the settings files."""

_NOT_FIXED = {("notes", "allow_writes"), ("http", "port")}


class Preferences:
    """The settings of one daemon as they were asked for. Some hold at once, the others from the next start on."""

    def __init__(self, config: Config, state_dir: Path, lane: Lane, switches: Switches, address: Address) -> None:
        self.config = config
        """As it would be at the next start, but for what `switches` and `address` know better."""
        self._started_with = config
        self._state_dir = state_dir
        self._lane = lane
        self._switches = switches
        self._address = address
        self._changing = asyncio.Lock()

    async def keep(self, values: Values) -> None:
        """Store what the daemon was started with.

        Raises:
            BadConfig, Unreadable: the settings file can't be read or written.
        """
        if values:
            await self._lane.run(set_settings, self._state_dir, values)

    async def change(self, values: Values) -> bool:
        """Store them and let hold at once what can; whether a new start is needed for some of all that was changed.

        Raises:
            BadConfig: one of them is wrong; nothing is changed.
            Unreadable: the settings file can't be written; nothing is changed.
        """
        async with self._changing:
            wanted = laid_over(self.config, values)
            await self.keep(values)
            self.config = wanted
        if "allow_writes" in values.get("notes", {}):
            await self._switches.adopt(wanted.notes.allow_writes)
        if "port" in values.get("http", {}):
            self._address.moved(wanted.http.port)
        started = self._started_with
        moves = wanted.http.port not in (None, started.http.port, self._address.listening)
        return moves or _fixed(wanted) != _fixed(started)


def laid_over(config: Config, values: Values) -> Config:
    """The settings with others on top.

    Raises:
        BadConfig: one of them is wrong.
    """
    wanted = load([Source("the settings", config.model_dump(exclude_unset=True)), Source("the editor", values)])
    Protection(wanted.agents.folder, wanted.agents.memory_note)  # refuses a folder that is no place in the vault
    return wanted


def _fixed(config: Config) -> dict[str, Any]:
    """The settings that hold from a start to the end, without the port, of which there is more to know."""
    tables: dict[str, dict[str, Any]] = config.model_dump()
    return {
        section: {key: value for key, value in table.items() if (section, key) not in _NOT_FIXED}
        for section, table in tables.items()
    }
