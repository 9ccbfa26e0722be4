"""The same requests to our handler and to the SDK's own transport: statuses and bodies are equal."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from tests import wire
from tests.eras import ENVELOPE, HANDSHAKE, MODERN
from tests.lab import Running, running
from tests.protocol.oracle import oracle


@dataclass
class Pair:
    """Both servers, over one surface."""

    lab: Running
    other: str
    http: httpx2.AsyncClient

    async def answers(self, body: bytes, **headers: str) -> tuple[tuple[int, Any], tuple[int, Any]]:
        """(status, JSON) of ours and of the oracle's."""
        sent = wire.mcp_headers(self.lab.port, self.lab.token) | headers
        found: list[tuple[int, Any]] = []
        for url in (self.lab.url, self.other):
            response = await self.http.post(url, content=body, headers=sent)
            found.append((response.status_code, json.loads(response.content) if response.content else None))
        return found[0], found[1]


@asynccontextmanager
async def both() -> AsyncGenerator[Pair]:
    """Not a fixture: the SDK's task group has to be left in the task that entered it."""
    async with running() as lab, oracle(lab.server) as other, httpx2.AsyncClient(timeout=5) as http:
        yield Pair(lab, other, http)


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "wire", "version": "0"}}
CALLS: list[tuple[str, dict[str, Any] | None]] = [
    ("initialize", HELLO),
    ("initialize", HELLO | {"protocolVersion": "1999-01-01"}),
    ("initialize", {}),
    ("ping", None),
    ("tools/list", None),
    ("tools/list", {"cursor": "x"}),
    ("tools/call", {"name": "echo", "arguments": {"text": "é"}}),
    ("tools/call", {"name": "add", "arguments": {"a": 3}}),
    ("tools/call", {"name": "add", "arguments": {"a": "3"}}),
    ("tools/call", {"name": "refuse"}),
    ("tools/call", {"name": "crash"}),
    ("tools/call", {"name": "nope"}),
    ("tools/call", {"name": 5}),
    ("tools/call", {"name": "echo", "arguments": [1]}),
    ("tools/call", None),
    ("resources/list", None),
    ("no/such", {"a": 1}),
]
REVISIONS: list[str | None] = [None, *HANDSHAKE]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("method, params", CALLS, ids=lambda value: json.dumps(value))
async def test_handshake_calls_are_answered_alike(
    method: str, params: dict[str, Any] | None, revision: str | None
) -> None:
    headers = {"MCP-Protocol-Version": revision} if revision else {}
    async with both() as pair:
        ours, theirs = await pair.answers(wire.call(method, params), **headers)
    assert ours == theirs


@pytest.mark.parametrize("method, params", [("server/discover", None), *CALLS], ids=lambda value: json.dumps(value))
async def test_calls_with_an_envelope_are_answered_alike(method: str, params: dict[str, Any] | None) -> None:
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if params and isinstance(params.get("name"), str):
        headers["Mcp-Name"] = params["name"]
    async with both() as pair:
        ours, theirs = await pair.answers(wire.call(method, (params or {}) | {"_meta": ENVELOPE}), **headers)
    assert ours == theirs


@pytest.mark.parametrize(
    "headers",
    [
        {"Mcp-Method": "tools/list", "Mcp-Name": "echo"},
        {"Mcp-Method": "tools/call", "Mcp-Name": "add"},
        {"Mcp-Method": "tools/call"},
        {"Mcp-Name": "echo"},
    ],
    ids=repr,
)
@pytest.mark.parametrize("revision", [MODERN, "2027-01-01", "rubbish"])
async def test_header_mistakes_are_answered_alike(headers: dict[str, str], revision: str) -> None:
    body = wire.call("tools/call", {"name": "echo", "arguments": {"text": "hi"}, "_meta": ENVELOPE})
    async with both() as pair:
        ours, theirs = await pair.answers(body, **{"MCP-Protocol-Version": revision}, **headers)
    assert ours == theirs


@pytest.mark.parametrize("revision", [None, "2025-11-25", MODERN, "2027-01-01"])
@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/cancelled", "notifications/made-up"])
async def test_notifications_are_answered_alike(method: str, revision: str | None) -> None:
    headers = {"MCP-Protocol-Version": revision} if revision else {}
    async with both() as pair:
        (ours, our_body), (theirs, their_body) = await pair.answers(
            json.dumps({"jsonrpc": "2.0", "method": method}).encode(), **headers
        )
    assert (ours, our_body) == (theirs, their_body)


@pytest.mark.parametrize("revision", [None, MODERN])
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"x"', b"1", b"{}", b'{"jsonrpc":"2.0","method":5,"id":1}'],
    ids=lambda body: body.decode(),
)
async def test_unreadable_bodies_get_the_same_status(body: bytes, revision: str | None) -> None:
    # codes and texts differ: the SDK's are not one rule for both eras, and quote the body
    headers = {"MCP-Protocol-Version": revision} if revision else {}
    async with both() as pair:
        (ours, _), (theirs, _) = await pair.answers(body, **headers)
    assert ours == theirs == 400
