"""The relays of this daemon: each holds a request open for as long as it lives.

By these the daemon knows whether anybody still needs it, and tells a relay
what its client should know. A relay that dies is noticed by its connection,
which the kernel closes.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

TOOLS = {"changed": "tools"}

_MAX_PENDING = 64  # lines; a relay that reads none for so long misses the oldest


class Relays:
    """Who is there, and since when nobody is."""

    def __init__(self, *, max_body_bytes: int = 16 << 20) -> None:
        """`max_body_bytes` is told to each relay, so that it refuses a longer line itself."""
        self._hello = {"max_body_bytes": max_body_bytes}
        self._open: set[asyncio.Queue[dict[str, Any] | None]] = set()
        self._present = asyncio.Event()
        self._absent = asyncio.Event()
        self._absent.set()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._open)

    async def hold(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer in lines of JSON: first what the relay must know, then each change, until one side leaves."""
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(_MAX_PENDING)
        self._enter(lines)
        try:
            await response.prepare(request)
            line: dict[str, Any] | None = self._hello
            while line is not None:
                await response.write(json.dumps(line).encode() + b"\n")
                line = await lines.get()
            await response.write_eof()
        finally:
            self._leave(lines)
        return response

    def tools_changed(self) -> None:
        """Tell all of them that the list of tools has changed."""
        self._tell(TOOLS)

    def close(self) -> None:
        """End their streams."""
        self._tell(None)

    async def gone_for(self, seconds: float) -> None:
        """Return once there has been no relay for so long, counted from now at the earliest."""
        while True:
            await self._absent.wait()
            try:
                async with asyncio.timeout(seconds):
                    await self._present.wait()
            except TimeoutError:
                return

    def _enter(self, lines: asyncio.Queue[dict[str, Any] | None]) -> None:
        self._open.add(lines)
        self._present.set()
        self._absent.clear()

    def _leave(self, lines: asyncio.Queue[dict[str, Any] | None]) -> None:
        self._open.discard(lines)
        if not self._open:
            self._present.clear()
            self._absent.set()

    def _tell(self, line: dict[str, Any] | None) -> None:
        for lines in self._open:
            while lines.full():
                lines.get_nowait()  # it is told the newest
            lines.put_nowait(line)
