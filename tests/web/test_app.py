"""Routes and answers, over a real socket."""

from __future__ import annotations

import json

import pytest

from sidecar.web.app import Limits
from sidecar.web.connections import Deadlines
from tests import wire
from tests.lab import Running, in_thread, wait_until

SECURITY = {
    "server": "vault-sidecar",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'",
}
ORIGIN = "app://obsidian.md"


def ask(lab: Running, method: str, target: str, body: bytes = b"", **headers: str) -> wire.Reply:
    """A request with the token; `headers` replaces some, an empty value removes one."""
    sent = wire.mcp_headers(lab.port, lab.token) | {name.replace("_", "-"): value for name, value in headers.items()}
    with wire.Wire(lab.port) as client:
        client.send(wire.request(method, target, {k: v for k, v in sent.items() if v}, body))
        return client.reply(bodiless=method == "HEAD")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "PATCH", "TRACE", "CONNECT"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/clamping"])
def test_an_mcp_path_answers_posts_only(lab: Running, method: str, path: str) -> None:
    reply = ask(lab, method, path)
    assert reply.status == 405
    assert reply.header("Allow") == "POST"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/nope",
        "//mcp",
        "/mcp/",
        "/mcp/..",
        "/mcp/../mcp",
        "/./mcp",
        "/x%2f..%2fmcp",
        "/%6dcp",
        "/mcp%00",
        "/mcp;a",
        "/MCP",
    ],
)
def test_a_path_has_one_spelling(lab: Running, path: str) -> None:
    reply = ask(lab, "POST", path, wire.call("ping"))
    assert reply.status == 404
    assert reply.json() == {"error": "not_found", "message": "There is nothing at this address."}


def test_a_query_string_changes_nothing(lab: Running) -> None:
    assert ask(lab, "POST", "/mcp?token=x&a=/nope", wire.call("ping")).status == 200


@pytest.mark.parametrize(
    "request_of",
    [
        lambda lab: ask(lab, "POST", "/mcp", wire.call("ping")),
        lambda lab: ask(lab, "POST", "/mcp", b"{"),
        lambda lab: ask(lab, "POST", "/mcp", wire.call("ping"), Accept="text/event-stream"),
        lambda lab: ask(lab, "POST", "/mcp", wire.call("ping"), Accept="text/html"),
        lambda lab: ask(lab, "POST", "/mcp", wire.call("ping"), Authorization=""),
        lambda lab: ask(lab, "POST", "/mcp", wire.call("ping"), Host="evil.example"),
        lambda lab: ask(lab, "POST", "/mcp", wire.call("ping"), Origin="null"),
        lambda lab: ask(lab, "GET", "/mcp"),
        lambda lab: ask(lab, "HEAD", "/mcp"),
        lambda lab: ask(lab, "GET", "/nope"),
        lambda lab: ask(lab, "GET", "/identity"),
        lambda lab: ask(lab, "GET", "/.well-known/x"),
        lambda lab: ask(lab, "OPTIONS", "/mcp"),
        lambda lab: ask(lab, "OPTIONS", "/mcp", Origin=ORIGIN),
        lambda lab: ask(lab, "GET", "/mcp", Host="a b"),
        lambda lab: wire.raw(lab.port, b"rubbish\r\n\r\n"),
        lambda lab: ask(lab, "POST", "/mcp", Content_Length="99999999999"),
    ],
)  # fmt: skip
def test_every_answer_carries_the_security_headers(lab: Running, request_of: object) -> None:
    reply = request_of(lab)  # type: ignore[operator]  # a lambda of the table
    found = dict(reply.headers)
    assert {name: found.get(name) for name in SECURITY} == SECURITY


# --- cross-origin ---


def test_an_allowed_origin_may_read_the_answer(lab: Running) -> None:
    reply = ask(lab, "POST", "/mcp", wire.call("ping"), Origin=ORIGIN)
    assert reply.status == 200
    assert reply.header("Access-Control-Allow-Origin") == ORIGIN
    assert reply.header("Vary") == "Origin"
    assert reply.header("Access-Control-Allow-Credentials") is None


def test_an_allowed_origin_may_read_refusals_too(lab: Running) -> None:
    for reply in (ask(lab, "GET", "/nope", Origin=ORIGIN), ask(lab, "POST", "/mcp", Origin=ORIGIN, Content_Type="x/y")):
        assert reply.header("Access-Control-Allow-Origin") == ORIGIN


def test_a_stream_carries_the_cross_origin_headers(lab: Running) -> None:
    reply = ask(lab, "POST", "/mcp", wire.call("ping"), Origin=ORIGIN, Accept="text/event-stream")
    assert reply.header("Access-Control-Allow-Origin") == ORIGIN


def test_a_preflight_is_answered_without_a_token(lab: Running) -> None:
    reply = ask(lab, "OPTIONS", "/mcp", Origin=ORIGIN, Authorization="", Access_Control_Request_Method="POST")
    assert reply.status == 204
    assert reply.header("Access-Control-Allow-Origin") == ORIGIN
    assert int(reply.header("Access-Control-Max-Age") or "999") <= 600
    assert "Authorization" in (reply.header("Access-Control-Allow-Headers") or "")
    assert reply.header("Access-Control-Allow-Private-Network") is None


def test_without_an_origin_there_are_no_cross_origin_headers(lab: Running) -> None:
    reply = ask(lab, "POST", "/mcp", wire.call("ping"))
    assert not [name for name, _ in reply.headers if name.startswith("access-control")]


def test_more_origins_come_from_the_settings() -> None:
    with in_thread(allowed_origins=("https://one.example", "https://two.example")) as lab:
        assert ask(lab, "POST", "/mcp", wire.call("ping"), Origin="https://two.example").status == 200
        assert ask(lab, "POST", "/mcp", wire.call("ping"), Origin=ORIGIN).status == 403


# --- refusals ---


def test_a_client_without_a_token_is_told_what_to_do(lab: Running) -> None:
    reply = ask(lab, "POST", "/mcp", wire.call("ping"), Authorization="")
    assert reply.status == 401
    assert reply.header("WWW-Authenticate") == 'Bearer realm="vault-sidecar"'
    assert "Authorization: Bearer" in reply.json()["message"]


def test_a_client_with_a_wrong_token_is_told_so(lab: Running) -> None:
    reply = ask(lab, "POST", "/mcp", wire.call("ping"), Authorization="Bearer wrong")
    assert reply.header("WWW-Authenticate") == 'Bearer realm="vault-sidecar", error="invalid_token"'
    assert "resource_metadata" not in str(reply.headers)


@pytest.mark.parametrize("path", ["/.well-known/oauth-authorization-server", "/.well-known/x/mcp", "/register"])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("token", ["", None])
def test_a_client_that_looks_for_a_sign_in_page_is_told_what_to_do(
    lab: Running, path: str, method: str, token: str | None
) -> None:
    headers = {} if token is None else {"Authorization": token}
    reply = ask(lab, method, path, b"{}", **headers)
    assert reply.status == 404
    assert "Authorization: Bearer" in reply.json()["error_description"]


def test_the_last_refused_client_is_reported_with_its_name_made_safe(lab: Running) -> None:
    ask(lab, "POST", "/mcp", wire.call("ping"), Authorization="", User_Agent="Bad\x9b client" + "x" * 500)
    ask(lab, "POST", "/mcp", wire.call("ping"), Host="evil.example")
    (code, status, agent), (other, _, _) = lab.refused
    assert (code, status) == ("no_token", 401)
    assert agent == "Bad\\udc9b client" + "x" * 109
    assert other == "forbidden_host"


def test_whoever_is_let_in_is_reported(lab: Running) -> None:
    ask(lab, "POST", "/mcp", wire.call("ping"), User_Agent="tester/1")
    [(caller, agent)] = lab.served
    assert (caller.agent_id, caller.local, agent) == ("local", False, "tester/1")


def test_a_refused_connection_is_closed(lab: Running) -> None:
    with wire.Wire(lab.port) as client:
        client.send(wire.request("POST", "/mcp", {"Host": f"127.0.0.1:{lab.port}"}))
        assert client.reply().status == 401
        assert client.at_end()


# --- bodies ---

SMALL = Limits(max_body_bytes=1000, deadlines=Deadlines(linger_s=0.1))


def padded(size: int) -> bytes:
    body = wire.call("ping", {"_meta": {"pad": ""}})
    return body.replace(b'"pad": ""', b'"pad": "' + b"x" * (size - len(body)) + b'"')


@pytest.mark.parametrize("size, status", [(1000, 200), (1001, 413)])
@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
def test_the_limit_is_the_largest_body_that_is_read(size: int, status: int, chunked: bool) -> None:
    body = padded(size)
    assert len(body) == size
    with in_thread(limits=SMALL) as lab:
        if chunked:
            sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            reply = ask(lab, "POST", "/mcp", sent, Transfer_Encoding="chunked")
        else:
            reply = ask(lab, "POST", "/mcp", body)
        assert reply.status == status


def test_a_length_that_is_too_large_is_refused_before_the_body() -> None:
    with in_thread(limits=SMALL) as lab:
        assert ask(lab, "POST", "/mcp", Content_Length="10000000000").status == 413


@pytest.mark.parametrize(
    "headers, status",
    [
        ({"Content_Length": "9999", "Content_Encoding": "gzip", "Content_Type": "x/y", "Accept": "x/y"}, 413),
        ({"Content_Encoding": "gzip", "Content_Type": "application/json", "Accept": "x/y"}, 415),
        ({"Content_Encoding": "GZIP"}, 415),
        ({"Content_Encoding": "identity"}, 200),
        ({"Content_Type": "text/plain", "Accept": "x/y"}, 415),
        ({"Content_Type": ""}, 415),
        ({"Accept": "x/y"}, 406),
        ({"Accept": "*/*"}, 200),
        ({"Accept": ""}, 200),
        ({"Expect": "a-miracle"}, 417),
    ],
    ids=repr,
)
def test_headers_are_judged_in_their_order_before_the_body(headers: dict[str, str], status: int) -> None:
    with in_thread(limits=SMALL) as lab:
        assert ask(lab, "POST", "/mcp", wire.call("ping"), **headers).status == status


def test_a_chunked_body_that_breaks_is_refused(lab: Running) -> None:
    assert ask(lab, "POST", "/mcp", b"zz\r\nabc\r\n0\r\n\r\n", Transfer_Encoding="chunked").status == 400


def test_a_client_that_asks_first_is_told_to_go_on_when_all_else_is_right(lab: Running) -> None:
    body = wire.call("ping")
    headers = wire.mcp_headers(lab.port, lab.token) | {"Expect": "100-continue", "Content-Length": str(len(body))}
    with wire.Wire(lab.port) as client:
        client.send(wire.request("POST", "/mcp", headers))
        assert client.reply().status == 100
        client.send(body)
        assert client.reply().json()["result"] == {}


@pytest.mark.parametrize(
    "change, status",
    [
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Length": "99999999999"}, 413),
    ],
    ids=lambda change: str(change),
)
def test_a_client_that_asks_first_is_refused_before_its_body(lab: Running, change: dict[str, str], status: int) -> None:
    headers = wire.mcp_headers(lab.port, lab.token) | {"Expect": "100-continue", "Content-Length": "10"} | change
    assert wire.raw(lab.port, wire.request("POST", "/mcp", headers)).status == status


def test_r13_a_token_that_is_replaced_while_the_body_arrives_does_not_get_a_call(lab: Running) -> None:
    body = wire.tool("echo", text="late")
    with wire.Wire(lab.port) as client:
        headers = wire.mcp_headers(lab.port, lab.token) | {"Content-Length": str(len(body))}
        client.send(wire.request("POST", "/mcp", headers) + body[:10])
        wait_until(lambda: lab.served != [])  # the headers are in
        new = lab.on_loop(lab.rotate)
        client.send(body[10:])
        assert client.reply().status == 401
    assert lab.lab.calls == 0
    assert wire.post(lab.port, new, body).status == 200


def test_r09_a_token_is_checked_with_every_request_of_a_connection(lab: Running) -> None:
    ping = wire.request("POST", "/mcp", wire.mcp_headers(lab.port, lab.token), wire.call("ping"))
    with wire.Wire(lab.port) as client:
        client.send(ping)
        assert client.reply().status == 200
        lab.on_loop(lab.rotate)
        client.send(ping)
        assert client.reply().status == 401


def test_a_mistake_in_a_handler_is_one_fixed_answer(lab: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a secret of the house")

    monkeypatch.setattr(lab.mounts["/mcp"], "answer", broken)
    reply = ask(lab, "POST", "/mcp", wire.call("ping"))
    assert reply.status == 500
    assert json.loads(reply.body)["error"] == "internal"
    assert b"secret" not in reply.body
