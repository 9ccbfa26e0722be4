"""Rows T but those of a refused start: the bearer token."""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
import time

import pytest

from sidecar.bridge.token import TOKEN_PREFIX, new_token
from tests import wire
from tests.lab import running
from tests.security.conftest import SECRET_WORD, Guarded


def basic(token: str) -> str:
    return "Basic " + base64.b64encode(f":{token}".encode()).decode()


def other_case(token: str) -> str:
    place = next(i for i, letter in enumerate(token) if letter.isalpha())
    return token[:place] + token[place].swapcase() + token[place + 1 :]


@pytest.mark.parametrize(
    "value, expected",
    [
        pytest.param(lambda token: None, {401}, id="T01"),
        pytest.param(lambda token: f"Bearer {token}", {200}, id="T02"),
        pytest.param(lambda token: f"bearer {token}", {200}, id="T03"),
        pytest.param(lambda token: f"BEARER {token}", {200}, id="T03-upper"),
        pytest.param(lambda token: "Bearer", {401}, id="T04"),
        pytest.param(lambda token: "Bearer ", {401}, id="T04-blank"),
        pytest.param(lambda token: token, {401}, id="T05"),
        pytest.param(basic, {401}, id="T06"),
        pytest.param(lambda token: f"Bearer {token}x", {401}, id="T07"),
        pytest.param(lambda token: f"Bearer {token[:-1]}", {401}, id="T08"),
        pytest.param(lambda token: f"Bearer {other_case(token)}", {401}, id="T09"),
        pytest.param(lambda token: f"Bearer {token[:20]} {token[20:]}", {401}, id="T10-blank"),
        pytest.param(lambda token: f"Bearer {token[:20]}\t{token[20:]}", {401}, id="T10-tab"),
        pytest.param(lambda token: f"Bearer {token[:20]}\r\n {token[20:]}", {400, 401}, id="T10-newline"),
        pytest.param(lambda token: f"Bearer {token}  ", {200}, id="T10-after"),
        pytest.param(lambda token: f"Bearer  {token}", {401}, id="T11"),
        pytest.param(lambda token: "Bearer tökén" + "é" * 40, {401}, id="T12"),
        pytest.param(lambda token: "Bearer \xff\xfe" + token, {401}, id="T13"),
        pytest.param(lambda token: "Bearer " + "x" * 8000, {400, 401}, id="T14"),
        pytest.param(lambda token: f"Bearer \x00{token}", {400}, id="T15"),
        pytest.param(lambda token: f"Token {token}", {401}, id="scheme"),
        pytest.param(lambda token: f"Bearer {token},Bearer {token}", {401}, id="list"),
    ],
)
def test_one_spelling_of_the_header_opens(guarded: Guarded, value: object, expected: set[int]) -> None:
    reply = guarded.post(Authorization=value(guarded.token))  # type: ignore[operator]  # a function of the table
    assert reply.status in expected
    if reply.status == 401:
        challenge = reply.header("WWW-Authenticate")
        assert challenge is not None and challenge.startswith("Bearer") and "resource_metadata" not in challenge
        assert guarded.token.encode() not in reply.body
        assert SECRET_WORD.encode() not in reply.body


@pytest.mark.parametrize("good_first", [pytest.param(True, id="T16"), pytest.param(False, id="T17")])
def test_two_authorization_headers_open_nothing(guarded: Guarded, good_first: bool) -> None:
    pairs = [("Authorization", f"Bearer {guarded.token}"), ("Authorization", "Bearer wrong")]
    others = [(name, value) for name, value in guarded.headers.items() if name != "Authorization"]
    sent = wire.request("POST", "/mcp", others + (pairs if good_first else pairs[::-1]), wire.INITIALIZE)
    assert guarded.raw(sent).status == 401


def test_t21_the_token_of_another_daemon_opens_nothing(guarded: Guarded, another: Guarded) -> None:
    assert another.is_well()
    assert guarded.post(Authorization=f"Bearer {another.token}").status == 401
    [key] = another.state.rglob("local.key")
    assert guarded.post(Authorization=f"Bearer {key.read_text().strip()}").status == 401


def test_t22_a_storm_of_wrong_tokens_fills_no_log_and_hurts_nobody(another: Guarded) -> None:
    before, begin = another.daemon.stderr().count("refused"), time.monotonic()
    wrong = wire.request("POST", "/mcp", another.headers | {"Authorization": "Bearer wrong"}, wire.INITIALIZE)
    good = wire.request("POST", "/mcp", another.headers, wire.INITIALIZE)
    with wire.Wire(another.port) as client:
        for number in range(1000):
            assert wire.raw(another.port, wrong).status == 401
            if number % 100 == 0:
                client.send(good)
                assert client.reply().status == 200
    lines = another.daemon.stderr().count("refused") - before
    assert 1 <= lines <= 2 + (time.monotonic() - begin)


METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "TRACE", "FOO"]
TARGETS = [
    "/", "/mcp", "/mcp/", "/mcp/notes", "/mcp/library", "/mcp/databases", "/databases/mcp", "/mcp/knowledge", "/nope",
    "/admin/status", "/admin/search?q=heat", "/admin/stop", "/admin/rebuild", "/admin/token", "/admin/tokens",
    "/admin/token/rotate", "/admin/token/add", "/admin/token/remove", "/admin/endpoint", "/admin/port",
    "//mcp", "/%6dcp", "/x%2f..%2fmcp",
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_t23_every_route_and_method_asks_for_the_token_first(guarded: Guarded, target: str) -> None:
    for method in METHODS:
        for bearer in (None, "Bearer wrong"):
            reply = guarded.ask(method, target, Authorization=bearer)
            assert reply.status == 401, method
    assert guarded.ask("POST", "/identity", Authorization=None).status == 401


async def test_t23_without_a_token_no_tool_and_no_service_is_reached() -> None:
    async with running() as lab:
        for target in ("/mcp", "/admin/status", "/admin/stop", "/nope"):
            for method in ("GET", "POST"):
                sent = wire.mcp_headers(lab.port, "wrong")
                request = wire.request(method, target, sent, wire.tool("echo", text="x"))
                reply = await asyncio.to_thread(wire.raw, lab.port, request)
                assert reply.status == 401
        assert lab.lab.calls == 0
        assert lab.asked == []
        assert lab.served == []


@pytest.mark.parametrize("body", [wire.INITIALIZE, wire.call("tools/list")], ids=["initialize", "tools/list"])
def test_t25_the_handshake_needs_the_token_too(guarded: Guarded, body: bytes) -> None:
    reply = guarded.post(body, Authorization=None)
    assert reply.status == 401
    assert b"list_notes" not in reply.body


def test_t29_tokens_have_a_prefix_and_never_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    real = secrets.token_bytes

    def count(size: int) -> bytes:
        drawn.append(size)
        return real(size)

    monkeypatch.setattr(secrets, "token_bytes", count)
    tokens = {new_token() for _ in range(10_000)}
    assert len(tokens) == 10_000
    assert min(drawn) >= 32 and len(drawn) == 10_000
    assert all(re.fullmatch(re.escape(TOKEN_PREFIX) + r"[A-Za-z0-9_-]{43,}", token) for token in tokens)
