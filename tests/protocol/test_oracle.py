"""The same requests to our handler and to the SDK's own transport: statuses and bodies are equal."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
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
    async with running() as lab, oracle(lab.server) as other, httpx2.AsyncClient(timeout=30) as http:
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


# --- sessions ---


@dataclass
class Talk:
    """One server and what was said to it."""

    url: str
    lab: Running
    http: httpx2.AsyncClient
    session: str = ""
    seen: list[tuple[str, int, Any]] = field(default_factory=list)

    async def say(self, about: str, method: str = "POST", body: bytes | None = None, **headers: str) -> None:
        """Send, and keep the status with the result or the code of the error. `{session}` stands for the session."""
        sent = wire.mcp_headers(self.lab.port, self.lab.token)
        sent |= {name.replace("_", "-"): value.format(session=self.session) for name, value in headers.items()}
        async with self.http.stream(method, self.url, content=body, headers=sent) as response:
            is_stream = response.headers.get("Content-Type", "").startswith("text/event-stream")
            content = b"" if is_stream else await response.aread()
            self.session = self.session or response.headers.get("Mcp-Session-Id", "")
        # a refusal of methods and media is in the web room's own words
        answer = json.loads(content) if content and response.status_code not in (405, 406) else {}
        said = answer.get("result", answer.get("error", {}).get("code"))
        if about == "initialize":
            # ours says that it tells of changed tools, which the SDK's transport has no way to say
            del said["capabilities"]
        self.seen.append((about, response.status_code, "stream" if is_stream else said))


NAMED = {"Mcp_Session_Id": "{session}"}
NOTICE = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


async def converse(talk: Talk) -> None:
    """A session from its beginning to its end, with what can go wrong on the way."""
    await talk.say("initialize", body=wire.call("initialize", HELLO))
    await talk.say("initialized", body=NOTICE, **NAMED)
    for method, params in CALLS[3:]:
        await talk.say(method, body=wire.call(method, params), **NAMED)
    await talk.say("unnamed", body=wire.call("tools/list"))
    await talk.say("unnamed notice", body=NOTICE)
    await talk.say("unknown", body=wire.call("tools/list"), Mcp_Session_Id="guessed")
    await talk.say("unknown initialize", body=wire.call("initialize", HELLO), Mcp_Session_Id="guessed")
    await talk.say("cancel of nothing", body=wire.call("notifications/cancelled").replace(b'"id": 1, ', b""), **NAMED)
    await talk.say("unnamed stream", "GET")
    await talk.say("unknown stream", "GET", Mcp_Session_Id="guessed")
    await talk.say("no stream", "GET", Accept="application/json", **NAMED)
    await talk.say("stream of another era", "GET", MCP_Protocol_Version=MODERN, **NAMED)
    await talk.say("end of another era", "DELETE", MCP_Protocol_Version=MODERN, **NAMED)
    await talk.say("stream", "GET", **NAMED)
    await talk.say("other method", "PUT", **NAMED)
    await talk.say("unnamed end", "DELETE")
    await talk.say("unknown end", "DELETE", Mcp_Session_Id="guessed")
    await talk.say("end", "DELETE", **NAMED)
    await talk.say("second end", "DELETE", **NAMED)
    await talk.say("after the end", body=wire.call("tools/list"), **NAMED)
    await talk.say("stream after the end", "GET", **NAMED)


async def test_a_session_is_served_alike() -> None:
    async with (
        running() as lab,
        oracle(lab.stateful, sessions=True) as other,
        httpx2.AsyncClient(timeout=30) as http,
    ):
        ours, theirs = Talk(lab.stateful_url, lab, http), Talk(other, lab, http)
        await converse(ours)
        await converse(theirs)
    assert ours.session and theirs.session
    assert ours.seen == theirs.seen
