"""The revisions of the protocol, and requests of the newest one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx2

from tests import wire
from tests.lab import Running

MODERN = "2026-07-28"
HANDSHAKE = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "0"},
}


def modern(lab: Running, method: str, params: dict[str, Any] | None = None, **headers: str) -> wire.Reply:
    """A request of 2026-07-28 with the headers it needs; `headers` replaces some, an empty value removes one."""
    params = {**(params or {}), "_meta": ENVELOPE}
    sent = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if "name" in params:
        sent["Mcp-Name"] = params["name"]
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    return wire.post(lab.port, lab.token, wire.call(method, params), **{k: v for k, v in sent.items() if v})


def listening(lab: Running, http: httpx2.AsyncClient, token: str) -> AbstractAsyncContextManager[httpx2.Response]:
    """A subscriptions/listen request, as a stream."""
    body = wire.call("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE})
    headers = wire.mcp_headers(lab.port, token)
    headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
    return http.stream("POST", lab.url, content=body, headers=headers)


async def next_event(lines: AsyncIterator[str]) -> dict[str, Any]:
    """The next event of a stream's lines."""
    async with asyncio.timeout(30):
        async for line in lines:
            if line.startswith("data: "):
                return json.loads(line.removeprefix("data: "))
    raise AssertionError("the stream has ended")
