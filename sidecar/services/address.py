"""The port of the vault: where the daemon listens now, and where the next one will."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sidecar.bridge import ports
from sidecar.tasks import Lane


class Address:
    """One daemon's address. Answers are facts that are JSON as they are."""

    def __init__(
        self, state_dir: Path, lane: Lane, environment: Mapping[str, str], *, listening: int, pinned: int | None
    ) -> None:
        """`pinned` is the port of the next start as the settings have it: 0 a random one, None not chosen yet."""
        self._state_dir = state_dir
        self._lane = lane
        self._environment = environment
        self._listening = listening
        self._pinned = pinned

    @property
    def listening(self) -> int:
        """The port of now."""
        return self._listening

    @property
    def pinned(self) -> int | None:
        """The port of the next start: 0 a random one, None not chosen yet."""
        return self._pinned

    def moved(self, port: int | None) -> None:
        """Another port was stored for the next start."""
        self._pinned = port

    async def facts(self) -> dict[str, Any]:
        """`url` without a path, `port` of now, and `pinned`, that of the next start."""
        return ports.facts(self._listening, self._pinned)

    async def pin(self, port: int) -> dict[str, Any]:
        """Let the next start listen on `port`, 0 on a random one; this one stays where it is.

        Raises:
            BadArguments: no port of a user's program.
            Overridden: an environment variable decides.
            BadConfig, Unreadable: the settings can't be read or written.
        """
        await self._lane.run(ports.change_pin, self._state_dir, port, self._environment)
        self._pinned = port
        return ports.facts(self._listening, port)
