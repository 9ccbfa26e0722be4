"""Rows O but O30: Origin, CORS, Sec-Fetch, media types that a page can send without asking."""

from __future__ import annotations

import pytest

from tests import wire
from tests.security.conftest import Guarded

OURS = "app://obsidian.md"
EVIL = "https://evil.example"

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def cors(reply: wire.Reply) -> list[str]:
    """The names of the CORS headers."""
    return [name for name, _ in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "change, expected",
    [
        pytest.param({}, 200, id="O01"),
        pytest.param({"Origin": OURS}, 200, id="O02"),
        pytest.param({"Origin": EVIL}, 403, id="O03"),
        pytest.param({"Origin": EVIL, "Authorization": None}, 403, id="O04"),
        pytest.param({"Origin": "null"}, 403, id="O05"),
        pytest.param({"Origin": ""}, 403, id="O06"),
        pytest.param({"Origin": "http://127.0.0.1:PORT"}, 403, id="O07"),
        pytest.param({"Origin": "http://localhost:PORT.evil.example"}, 403, id="O08"),
        pytest.param({"Origin": "http://localhost:3000"}, 403, id="O09"),
        pytest.param({"Origin": "https://obsidian.md"}, 403, id="O10"),
        pytest.param({"Origin": "chrome-extension://abc"}, 403, id="O12"),
        pytest.param({"Origin": "file://"}, 403, id="O13"),
        pytest.param({"Sec-Fetch-Site": "cross-site", "Origin": OURS}, 200, id="O19"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, 403, id="O20"),
        pytest.param({"Content-Type": "text/plain", "Origin": EVIL}, 403, id="O21"),
        pytest.param({"Content-Type": "text/plain"}, 415, id="O22"),
        pytest.param({"Content-Type": "application/x-www-form-urlencoded"}, 415, id="O23"),
        pytest.param({"Content-Type": "multipart/form-data; boundary=x"}, 415, id="O24"),
        pytest.param({"Content-Type": None}, 415, id="O25"),
        pytest.param({"Content-Type": "application/jsonp"}, 415, id="O26-jsonp"),
        pytest.param({"Content-Type": "application/json-seq"}, 415, id="O26-seq"),
        pytest.param({"Content-Type": "application/json; charset=utf-16"}, 415, id="O27"),
    ],
)
def test_posts_by_origin_and_media_type(guarded: Guarded, change: dict[str, str | None], expected: int) -> None:
    filled = {name: value and value.replace("PORT", str(guarded.port)) for name, value in change.items()}
    reply = guarded.post(**filled)
    assert reply.status == expected
    if filled.get("Origin") != OURS:
        assert not cors(reply)


def test_o02_an_allowed_origin_is_named_exactly(guarded: Guarded) -> None:
    reply = guarded.post(Origin=OURS)
    assert reply.header("Access-Control-Allow-Origin") == OURS
    assert reply.header("Vary") == "Origin"
    assert reply.header("Access-Control-Allow-Credentials") is None


@pytest.mark.parametrize("origins", [(OURS, EVIL), (EVIL, OURS), (OURS, OURS)])
def test_o11_two_origins_are_refused(guarded: Guarded, origins: tuple[str, str]) -> None:
    pairs = [*guarded.headers.items(), *(("Origin", origin) for origin in origins)]
    reply = guarded.raw(wire.request("POST", "/mcp", pairs, wire.INITIALIZE))
    assert reply.status == 403
    assert not cors(reply)


@pytest.mark.parametrize(
    "change, expected",
    [
        pytest.param({"Origin": EVIL, "Access-Control-Request-Method": "POST"}, {403}, id="O14"),
        pytest.param({"Origin": EVIL, "Access-Control-Request-Private-Network": "true"}, {403}, id="O16"),
        pytest.param({}, {403, 405}, id="O17"),
    ],
)
def test_preflights_of_others_are_refused(guarded: Guarded, change: dict[str, str], expected: set[int]) -> None:
    for token in (None, guarded.headers["Authorization"]):
        reply = guarded.ask("OPTIONS", "/mcp", Authorization=token, **change)
        assert reply.status in expected
        assert not cors(reply)


def test_o15_a_preflight_of_ours_is_answered_from_a_fixed_list(guarded: Guarded) -> None:
    wanted = {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "X-Evil"}
    reply = guarded.ask("OPTIONS", "/mcp", Origin=OURS, Authorization=None, **wanted)
    assert reply.status == 204
    assert reply.header("Access-Control-Allow-Methods") == "GET, POST, DELETE"
    assert "X-Evil" not in (reply.header("Access-Control-Allow-Headers") or "")
    assert int(reply.header("Access-Control-Max-Age") or "601") <= 600
    assert reply.header("Access-Control-Allow-Private-Network") is None


def test_o18_an_image_of_a_page_is_refused(guarded: Guarded) -> None:
    sent = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image", "Sec-Fetch-Mode": "no-cors"}
    for target in ("/mcp", "/identity", "/nope"):
        assert guarded.ask("GET", target, Authorization=None, **sent).status == 403


def test_o28_o29_a_websocket_is_never_opened(guarded: Guarded) -> None:
    assert guarded.ask("GET", "/mcp", Origin=EVIL, **UPGRADE).status == 403
    assert guarded.ask("GET", "/mcp", Origin=OURS, **UPGRADE).status in (400, 404, 405, 426)
    assert guarded.ask("GET", "/mcp", Authorization=None, **UPGRADE).status == 401


SECURITY = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'",
}


def test_o31_every_answer_carries_the_fixed_headers(guarded: Guarded) -> None:
    replies = [
        guarded.post(),
        guarded.post(b"{"),
        guarded.post(Authorization=None),
        guarded.post(Host="evil.example"),
        guarded.post(Origin=EVIL),
        guarded.post(Accept="text/html"),
        guarded.post(Accept="text/event-stream"),
        guarded.post(Content_Type="text/plain"),
        guarded.post(b"", Content_Length="99999999999"),
        guarded.ask("GET", "/mcp"),
        guarded.ask("GET", "/nope"),
        guarded.ask("GET", "/identity"),
        guarded.ask("OPTIONS", "/mcp", Origin=OURS),
        guarded.raw(b"rubbish\r\n\r\n"),
        guarded.raw(b"GET / HTTP/1.1\r\n\r\n"),
    ]
    for reply in replies:
        found = dict(reply.headers)
        assert {name: found.get(name) for name in SECURITY} == SECURITY
        assert not any(c.isdigit() for c in found.get("server", ""))


@pytest.mark.parametrize("target", ["/mcp", "/mcp/notes", "/admin/stop", "/admin/rebuild"])
def test_o32_nothing_is_done_by_get(guarded: Guarded, target: str) -> None:
    [key] = guarded.state.rglob("local.key")
    bearer = f"Bearer {key.read_text().strip()}"
    assert guarded.ask("GET", target, Authorization=bearer).status == 405
    assert guarded.is_well()


def test_o33_a_token_in_the_url_opens_nothing(guarded: Guarded) -> None:
    target = f"/mcp?token={guarded.token}&access_token={guarded.token}"
    assert guarded.ask("POST", target, wire.INITIALIZE, Authorization=None).status == 401


def test_o34_a_token_in_a_cookie_opens_nothing(guarded: Guarded) -> None:
    cookie = f"token={guarded.token}; Authorization=Bearer {guarded.token}"
    assert guarded.post(Authorization=None, Cookie=cookie).status == 401
