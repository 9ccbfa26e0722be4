"""Both protocol eras over HTTP: revisions, headers, statuses, streams."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from sidecar.protocol import eras, exchange, http
from tests import wire
from tests.eras import ENVELOPE, HANDSHAKE, MODERN, listening, modern, next_event
from tests.lab import Running, running


def test_the_kernel_of_the_sdk_is_where_we_import_it_from() -> None:
    # these modules are no stable API: a release that moves them must fail here, with the names in the message
    for module, names in {
        http: "Connection ServerRunner aclose_shielded modern_error_data ListenHandler InMemorySubscriptionBus "
        "ToolsListChanged NotificationOptions find_duplicated_routing_header",
        eras: "Connection classify_inbound_request unsupported_protocol_version_rejection",
        exchange: "CallOptions NoBackChannelError progress_token_from_params ServerMessageMetadata TransportContext",
    }.items():
        for name in names.split():
            assert callable(getattr(module, name)), name
    assert http.ERROR_CODE_HTTP_STATUS[-32601] == 404
    assert list(eras.HANDSHAKE) == HANDSHAKE


# --- handshake revisions ---


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_a_known_revision_is_echoed(lab: Running, revision: str) -> None:
    hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "wire", "version": "0"}}
    reply = wire.post(lab.port, lab.token, wire.call("initialize", hello))
    assert reply.json()["result"]["protocolVersion"] == revision
    assert reply.header("Mcp-Session-Id") is None


@pytest.mark.parametrize("revision", ["2023-01-01", "2099-01-01", MODERN, "rubbish"])
def test_an_unknown_revision_gets_the_newest_of_the_handshake(lab: Running, revision: str) -> None:
    hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "wire", "version": "0"}}
    reply = wire.post(lab.port, lab.token, wire.call("initialize", hello))
    assert reply.json()["result"]["protocolVersion"] == HANDSHAKE[-1]


@pytest.mark.parametrize("revision", [None, *HANDSHAKE])
def test_a_call_needs_no_handshake_before_it(lab: Running, revision: str | None) -> None:
    headers = {"MCP-Protocol-Version": revision} if revision else {}
    reply = wire.post(lab.port, lab.token, wire.tool("echo", text="hi"), **headers)
    assert reply.header("Content-Type") == "application/json"
    assert reply.json()["result"]["content"][0]["text"] == "hi"


def test_a_foreign_session_id_is_ignored(lab: Running) -> None:
    reply = wire.post(lab.port, lab.token, wire.tool("echo", text="hi"), Mcp_Session_Id="guessed")
    assert reply.status == 200
    assert reply.header("Mcp-Session-Id") is None


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/cancelled", "notifications/made-up"])
def test_a_notification_is_accepted_without_a_body(lab: Running, method: str) -> None:
    body = json.dumps({"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}}).encode()
    reply = wire.post(lab.port, lab.token, body)
    assert (reply.status, reply.body) == (202, b"")


def test_a_response_is_accepted_and_dropped(lab: Running) -> None:
    assert wire.post(lab.port, lab.token, b'{"jsonrpc":"2.0","id":1,"result":{}}').status == 202


def test_an_unknown_method_is_an_error_in_an_answer_with_200(lab: Running) -> None:
    reply = wire.post(lab.port, lab.token, wire.call("no/such"))
    assert reply.status == 200
    assert reply.json()["error"]["code"] == -32601


def test_malformed_parameters_are_an_error_without_the_models_names(lab: Running) -> None:
    reply = wire.post(lab.port, lab.token, wire.call("tools/call", {"name": 5, "arguments": []}))
    assert reply.json()["error"] == {"code": -32602, "message": "Invalid request parameters", "data": ""}


# --- 2026-07-28 ---


def test_discover_names_the_revision_and_the_tools_capability(lab: Running) -> None:
    answer = modern(lab, "server/discover").json()["result"]
    assert answer["supportedVersions"] == [MODERN]
    assert answer["capabilities"]["tools"] == {"listChanged": True}
    assert answer["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "vault-sidecar"


def test_a_tool_is_called_with_an_envelope(lab: Running) -> None:
    reply = modern(lab, "tools/call", {"name": "add", "arguments": {"a": 1}})
    assert reply.status == 200
    assert reply.json()["result"]["structuredContent"] == {"total": 2, "remark": None}
    assert reply.json()["result"]["resultType"] == "complete"


@pytest.mark.parametrize("method", ["no/such", "ping", "initialize", "logging/setLevel"])
def test_a_method_the_revision_has_not_is_404(lab: Running, method: str) -> None:
    reply = modern(lab, method)
    assert reply.status == 404
    assert reply.json()["error"]["code"] == -32601


@pytest.mark.parametrize(
    "headers",
    [
        {"Mcp_Method": "tools/list"},
        {"Mcp_Method": ""},
        {"Mcp_Name": "add"},
        {"Mcp_Name": ""},
        {"MCP_Protocol_Version": ""},
        {"MCP_Protocol_Version": "2025-11-25"},
    ],
    ids=repr,
)
def test_headers_that_differ_from_the_body_are_refused(lab: Running, headers: dict[str, str]) -> None:
    names = {"Mcp_Method": "Mcp-Method", "Mcp_Name": "Mcp-Name", "MCP_Protocol_Version": "MCP-Protocol-Version"}
    changed = {names[name]: value for name, value in headers.items()}
    reply = modern(lab, "tools/call", {"name": "echo", "arguments": {"text": "hi"}}, **changed)
    assert reply.status == 400
    assert reply.json()["error"]["code"] == -32020
    assert lab.lab.calls == 0


@pytest.mark.parametrize("name", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
def test_a_routing_header_that_comes_twice_is_refused(lab: Running, name: str) -> None:
    sent = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
    body = wire.call("tools/call", {"name": "echo", "arguments": {"text": "hi"}, "_meta": ENVELOPE})
    pairs = [*(wire.mcp_headers(lab.port, lab.token) | sent).items(), (name, sent[name])]
    reply = wire.raw(lab.port, wire.request("POST", "/mcp", pairs, body))
    assert reply.status == 400
    assert reply.json()["error"]["code"] == -32020


@pytest.mark.parametrize("revision", ["2027-01-01", "rubbish"])
def test_an_unknown_revision_is_refused_with_those_served(lab: Running, revision: str) -> None:
    meta = ENVELOPE | {"io.modelcontextprotocol/protocolVersion": revision}
    body = wire.call("server/discover", {"_meta": meta})
    headers = {"MCP-Protocol-Version": revision, "Mcp-Method": "server/discover"}
    reply = wire.post(lab.port, lab.token, body, **headers)
    assert reply.status == 400
    assert reply.json()["error"]["code"] == -32022
    assert reply.json()["error"]["data"]["supported"] == [MODERN]


def test_a_notification_of_an_unknown_revision_is_refused(lab: Running) -> None:
    body = b'{"jsonrpc":"2.0","method":"notifications/cancelled"}'
    assert wire.post(lab.port, lab.token, body, **{"MCP-Protocol-Version": MODERN}).status == 202
    assert wire.post(lab.port, lab.token, body, **{"MCP-Protocol-Version": "2027-01-01"}).status == 400


def test_a_response_is_refused_where_no_request_can_have_been_sent(lab: Running) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    assert wire.post(lab.port, lab.token, body, **{"MCP-Protocol-Version": MODERN}).status == 400


def test_an_envelope_without_capabilities_is_refused(lab: Running) -> None:
    body = wire.call("server/discover", {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}})
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "server/discover"}
    reply = wire.post(lab.port, lab.token, body, **headers)
    assert reply.status == 400
    assert reply.json()["error"]["code"] == -32602


# --- bodies ---


@pytest.mark.parametrize("revision", [None, "2025-03-26", MODERN])
def test_a_batch_is_refused_in_every_revision(lab: Running, revision: str | None) -> None:
    headers = {"MCP-Protocol-Version": revision} if revision else {}
    batch = b"[" + wire.call("ping") + b"," + wire.call("ping", message_id=2) + b"]"
    reply = wire.post(lab.port, lab.token, batch, **headers)
    assert reply.status == 400
    assert reply.json()["error"]["code"] == -32600
    assert reply.json()["id"] is None


def test_what_is_no_json_is_a_parse_error(lab: Running) -> None:
    reply = wire.post(lab.port, lab.token, b"{")
    assert reply.status == 400
    assert reply.json()["error"]["code"] == -32700


def test_of_equal_keys_the_last_one_is_checked_and_run(lab: Running) -> None:
    params = '{"name":"refuse","name":"add","arguments":{"a":200,"a":1}}'
    body = f'{{"jsonrpc":"2.0","id":1,"method":"no/such","method":"tools/call","params":{params}}}'.encode()
    assert wire.post(lab.port, lab.token, body).json()["result"]["structuredContent"]["total"] == 2


def test_an_id_is_repeated_as_it_came(lab: Running) -> None:
    for message_id in ["7", 7, -1, "ä\N{GRINNING FACE}"]:
        reply = wire.post(lab.port, lab.token, wire.call("ping", message_id=message_id))
        assert reply.json()["id"] == message_id


# --- streams ---


def events(body: bytes) -> list[dict[str, Any]]:
    """The JSON of each event."""
    found: list[dict[str, Any]] = []
    for block in body.decode().split("\n\n"):
        if block.startswith("event: message\ndata: "):
            found.append(json.loads(block.removeprefix("event: message\ndata: ")))
    return found


def working(steps: int = 2, **meta: Any) -> bytes:
    """A call that reports progress before it answers."""
    return wire.call("tools/call", {"name": "work", "arguments": {"steps": steps}, "_meta": meta})


def test_an_answer_becomes_a_stream_when_progress_comes_first(lab: Running) -> None:
    reply = wire.post(lab.port, lab.token, working(progressToken="p"))
    assert reply.header("Content-Type") == "text/event-stream"
    first, second, last = events(reply.body)
    assert first["params"] == {"progressToken": "p", "progress": 1, "total": 2, "message": "half way"}
    assert (second["method"], second["params"]) == (
        "notifications/progress", {"progressToken": "p", "progress": 2, "total": 2},
    )  # fmt: skip
    assert last["result"]["content"][0]["text"] == "done"


def test_a_call_without_a_report_is_plain_json(lab: Running) -> None:
    reply = wire.post(lab.port, lab.token, working(0, progressToken="p"))
    assert reply.header("Content-Type") == "application/json"


def test_without_a_progress_token_the_answer_is_plain_json(lab: Running) -> None:
    reply = wire.post(lab.port, lab.token, working())
    assert reply.header("Content-Type") == "application/json"
    assert reply.json()["result"]["content"][0]["text"] == "done"


def test_a_client_that_takes_json_only_gets_no_stream(lab: Running) -> None:
    reply = wire.post(lab.port, lab.token, working(progressToken=1), Accept="application/json")
    assert reply.header("Content-Type") == "application/json"
    assert reply.json()["result"]["content"][0]["text"] == "done"


def test_a_client_that_takes_streams_only_gets_its_answer_as_an_event(lab: Running) -> None:
    reply = wire.post(lab.port, lab.token, wire.tool("echo", text="a\nb"), Accept="text/event-stream")
    assert reply.header("Content-Type") == "text/event-stream"
    [answer] = events(reply.body)
    assert answer["result"]["content"][0]["text"] == "a\nb"


def test_listening_needs_a_client_that_takes_streams(lab: Running) -> None:
    reply = modern(
        lab, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, Accept="application/json"
    )
    assert reply.status == 406


async def test_a_silent_stream_is_kept_alive() -> None:
    async with (
        running(ping_after_s=0.01) as lab,
        httpx2.AsyncClient(timeout=30) as http,
        listening(lab, http, lab.token) as stream,
        asyncio.timeout(30),
    ):
        lines = stream.aiter_lines()
        await next_event(lines)
        while await anext(lines) != ": ping":
            pass


async def test_a_listener_hears_that_the_tools_have_changed() -> None:
    async with running() as lab, httpx2.AsyncClient(timeout=30) as http, listening(lab, http, lab.token) as stream:
        lines = stream.aiter_lines()
        assert (await next_event(lines))["method"] == "notifications/subscriptions/acknowledged"
        await lab.app.tools_changed()
        assert (await next_event(lines))["method"] == "notifications/tools/list_changed"


async def test_a_rotation_ends_the_streams_of_the_old_token_only() -> None:
    async with running() as lab, httpx2.AsyncClient(timeout=30) as http, listening(lab, http, lab.token) as stream:
        lines = stream.aiter_lines()
        await next_event(lines)
        async with listening(lab, http, lab.local_key.decode()) as other:
            others = other.aiter_lines()
            await next_event(others)
            lab.rotate()
            with pytest.raises((httpx2.RemoteProtocolError, AssertionError)):
                await next_event(lines)
            await lab.app.tools_changed()
            assert (await next_event(others))["method"] == "notifications/tools/list_changed"


async def test_a_closed_connection_cancels_the_call() -> None:
    async with running() as lab:
        for revision in ("2025-11-25", MODERN):
            lab.lab.entered.clear()
            lab.lab.cancelled.clear()
            _, writer = await asyncio.open_connection("127.0.0.1", lab.port)
            body = wire.call("tools/call", {"name": "slow", "_meta": ENVELOPE if revision == MODERN else {}})
            headers = {"MCP-Protocol-Version": revision, "Mcp-Method": "tools/call", "Mcp-Name": "slow"}
            writer.write(wire.request("POST", "/mcp", wire.mcp_headers(lab.port, lab.token) | headers, body))
            async with asyncio.timeout(30):
                await lab.lab.entered.wait()
                writer.close()
                await lab.lab.cancelled.wait()
