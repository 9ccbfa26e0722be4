"""Rows X: HTTP and protocol abuse."""

from __future__ import annotations

import json
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.web.connections import Deadlines
from tests import wire
from tests.lab import wait_until
from tests.living import sockets
from tests.security.conftest import Guarded

LIMIT = 16 << 20
MODERN = "2026-07-28"
ENVELOPE = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}


def closes_within(port: int, sent: bytes, drip: bytes = b"") -> float:
    """Seconds until the server closes a connection that sent this, and `drip` once a second after it."""
    begin = time.monotonic()
    with wire.Wire(port, timeout_s=1.0) as client:
        client.send(sent)
        while True:
            try:
                if not client.socket.recv(1 << 16):
                    return time.monotonic() - begin
            except TimeoutError:
                client.send(drip)
            except ConnectionResetError:
                return time.monotonic() - begin
            assert time.monotonic() - begin < 100


def side_by_side(port: int, cases: dict[str, tuple[bytes, bytes]]) -> dict[str, float]:
    """`closes_within` for all cases at once."""
    took: dict[str, float] = {}

    def run(name: str, sent: bytes, drip: bytes) -> None:
        took[name] = closes_within(port, sent, drip)

    threads = [threading.Thread(target=run, args=(name, *case)) for name, case in cases.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


def test_connections_that_ask_for_nothing_are_closed(guarded: Guarded) -> None:
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{guarded.port}\r\n".encode()
    cases = {"X01": (head, b""), "X01-drip": (head, b"X: y\r\n"), "X02": (b"", b"")}
    took = side_by_side(guarded.port, cases)
    assert set(took) == set(cases)
    assert Deadlines().first_s < 10  # the catalogue's, which a busy machine may miss
    assert max(took.values()) < 60, took


@pytest.mark.slow
def test_bodies_that_do_not_end_are_closed(guarded: Guarded) -> None:
    head = wire.request("POST", "/mcp", guarded.headers | {"Content-Length": "100"})
    chunked = wire.request("POST", "/mcp", guarded.headers | {"Transfer-Encoding": "chunked"})
    cases = {"X03": (head + b"abc", b""), "X04": (head, b"x"), "X04-chunked": (chunked, b"1\r\nx\r\n")}
    took = side_by_side(guarded.port, cases)
    assert set(took) == set(cases)
    assert Deadlines().body_s < 30
    assert max(took.values()) < 60, took


def test_x05_a_declared_length_over_the_limit_is_refused_at_once(guarded: Guarded) -> None:
    begin = time.monotonic()
    assert guarded.post(b"", Content_Length="10000000000").status == 413
    assert guarded.post(b"", Content_Length=str(LIMIT + 1)).status == 413
    assert time.monotonic() - begin < Deadlines().body_s


def padded(size: int) -> bytes:
    """A ping of exactly so many bytes."""
    body = wire.call("ping", {"_meta": {"pad": ""}})
    return body.replace(b'"pad": ""', b'"pad": "' + b"x" * (size - len(body)) + b'"')


def in_chunks(body: bytes, size: int = 1 << 20) -> bytes:
    """Chunked transfer coding."""
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "size, chunked, expected",
    [
        pytest.param(LIMIT, False, 200, id="X07-limit"),
        pytest.param(LIMIT + 1, False, 413, id="X07-over"),
        pytest.param(LIMIT, True, 200, id="X06-limit"),
        pytest.param(LIMIT + 1, True, 413, id="X06-over"),
    ],
)
def test_the_limit_is_the_largest_body(guarded: Guarded, size: int, chunked: bool, expected: int) -> None:
    body = padded(size)
    assert len(body) == size
    reply = guarded.post(in_chunks(body), Transfer_Encoding="chunked") if chunked else guarded.post(body)
    assert reply.status == expected


@pytest.mark.parametrize("body", [b"\x1f\x8b\x08\x00broken", wire.INITIALIZE], ids=["broken", "plain"])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "GZIP", "x-unknown", "gzip, gzip"])
def test_x08_an_encoded_body_is_refused(guarded: Guarded, coding: str, body: bytes) -> None:
    assert guarded.post(body, Content_Encoding=coding).status == 415


HEAD = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nAuthorization: Bearer TOKEN\r\nContent-Type: application/json\r\n"
)


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="X09-both"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", id="X09-both-turned"),
        pytest.param(HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", id="X09-two"),
        pytest.param(HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", id="X09-two-equal"),
        pytest.param(HEAD + b"Content-Length: -1\r\n\r\nabc", id="X09-negative"),
        pytest.param(HEAD + b"Content-Length: +5\r\n\r\nabcde", id="X09-plus"),
        pytest.param(HEAD + b"Content-Length: 0x5\r\n\r\nabcde", id="X09-hex"),
        pytest.param(HEAD + b"Content-Length: 3, 3\r\n\r\nabc", id="X09-list"),
        pytest.param(HEAD + b"Transfer-Encoding: foo\r\n\r\nabc", id="X09-coding"),
        pytest.param(HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", id="X09-codings"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", id="X09-chunk"),
        pytest.param(HEAD + b"".join(b"X-%d: y\r\n" % n for n in range(200)) + b"\r\n", id="X10-headers"),
        pytest.param(HEAD + b"X: " + b"y" * 9 * 1024 + b"\r\n\r\n", id="X10-header"),
        pytest.param(b"GET /" + b"y" * 9 * 1024 + b" HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", id="X10-url"),
        pytest.param(b"GET /mcp HTTP/1.1\nHost: 127.0.0.1:PORT\n\n", id="X11-lf"),
        pytest.param(HEAD.replace(b"\r\nAuth", b"\nAuth") + b"\r\n", id="X11-one-lf"),
        pytest.param(b"GET /m\x00cp HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", id="X11-nul"),
        pytest.param(bytes.fromhex("1603010200010001fc0303") + b"\x00" * 500, id="X11-tls"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="X11-http2"),
    ],
)
def test_malformed_requests_are_refused_or_cut_off(guarded: Guarded, request_bytes: bytes) -> None:
    reply = guarded.raw(request_bytes)
    assert reply.status in (400, 414, 431) or reply is wire.CLOSED
    assert guarded.token.encode() not in reply.body
    assert b"yyyy" not in reply.body
    assert guarded.is_well()


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PUT", "FOO", "PATCH", "DELETE", "HEAD"])
def test_x12_other_methods_are_not_allowed(guarded: Guarded, method: str) -> None:
    reply = guarded.ask(method, "/mcp")
    assert reply.status == 405
    assert b"TRACE" not in reply.body


@pytest.mark.parametrize("path", ["//mcp", "/mcp/", "/mcp/..", "/x%2f..%2fmcp", "/%6dcp", "/mcp/../identity", "/./mcp"])
def test_x13_a_path_has_one_spelling(guarded: Guarded, path: str) -> None:
    assert guarded.ask("POST", path, wire.INITIALIZE).status == 404
    assert guarded.ask("POST", path, wire.INITIALIZE, Authorization=None).status == 401


def nested(opener: str, closer: str, levels: int) -> bytes:
    return (opener * levels + "1" + closer * levels).encode()


def message(**change: Any) -> bytes:
    """A ping, changed."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"} | change).encode()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="X14-empty"),
        pytest.param(b"{", id="X14-cut"),
        pytest.param(b"nul", id="X14-nul"),
        pytest.param(b"[]", id="X14-array"),
        pytest.param(b'"x"', id="X14-text"),
        pytest.param(b"1", id="X14-number"),
        pytest.param(nested("[", "]", 10_000), id="X15-arrays"),
        pytest.param(nested('{"a":', "}", 10_000), id="X15-objects"),
        pytest.param(b"[" * 10_000, id="X15-open"),
        pytest.param(wire.call("ping", {"a": 0}).replace(b"0}}", nested("[", "]", 1001) + b"}}"), id="X15-inside"),
        pytest.param(message(params={"a": float("nan")}), id="X16-nan"),
        pytest.param(message(params={"a": float("inf")}), id="X16-infinity"),
        pytest.param(b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}', id="X16-integer"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1e999}}', id="X16-float"),
        pytest.param(b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}', id="X18-utf8"),
        pytest.param(wire.INITIALIZE.decode().encode("utf-16"), id="X18-utf16"),
        pytest.param(b"\xef\xbb\xbf" + wire.INITIALIZE, id="X18-bom"),
        pytest.param(b"[" + wire.INITIALIZE + b"]", id="X19"),
        pytest.param(b"[" + wire.INITIALIZE + b"," + message() + b"]", id="X19-two"),
        pytest.param(message(id=None), id="X20-null"),
        pytest.param(message(id={}), id="X20-object"),
        pytest.param(message(id="x" * (1 << 20)), id="X20-long"),
        pytest.param(message(jsonrpc=None), id="X20-jsonrpc"),
        pytest.param(b'{"id":1,"method":"ping"}', id="X20-missing"),
    ],
)
@pytest.mark.parametrize("revision", [None, MODERN])
def test_unusable_bodies_are_refused_with_a_jsonrpc_error(guarded: Guarded, body: bytes, revision: str | None) -> None:
    reply = guarded.post(body, **{"MCP-Protocol-Version": revision})
    assert reply.status == 400
    answer = reply.json()
    assert answer["jsonrpc"] == "2.0"
    assert answer["error"]["code"] in (-32700, -32600)
    assert len(reply.body) < 300


def test_x15_a_deep_body_holds_nobody_up(guarded: Guarded) -> None:
    def cost(levels: int) -> float:
        body = nested("[", "]", levels)
        times: list[float] = []
        for _ in range(5):
            begin = time.perf_counter()
            assert guarded.post(body).status == 400
            times.append(time.perf_counter() - begin)
        return min(times)

    assert cost(10_000) < 0.5  # ten times the design target
    assert cost(400_000) < 0.1 + 100 * cost(10_000)


def test_x17_of_equal_keys_the_last_counts_everywhere(guarded: Guarded) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"a/b","method":"tools/call","params":{"name":"x","name":"list_notes"}}'
    assert "content" in guarded.post(body).json()["result"]
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "x"}
    params = json.dumps({"_meta": ENVELOPE})[1:-1]
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","name":"list_notes",'
        + params.encode()
        + b"}}"
    )
    assert guarded.post(body, **headers).json()["error"]["code"] == -32020
    assert "result" in guarded.post(body, **(headers | {"Mcp-Name": "list_notes"})).json()


def test_x21_unknown_methods_and_tools_are_protocol_errors(guarded: Guarded) -> None:
    unknown = guarded.post(wire.call("no/such"))
    assert (unknown.status, unknown.json()["error"]["code"]) == (200, -32601)
    tool = guarded.post(wire.tool("write_everything"))
    assert (tool.status, tool.json()["error"]["code"]) == (200, -32602)


@pytest.mark.parametrize("header", ["Mcp-Method", "Mcp-Name"])
def test_x22_headers_that_differ_from_the_body_are_refused(guarded: Guarded, header: str) -> None:
    body = wire.call("tools/call", {"name": "list_notes", "_meta": ENVELOPE})
    good = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "list_notes"}
    assert guarded.post(body, **good).status == 200
    reply = guarded.post(body, **(good | {header: "tools/list"}))
    assert (reply.status, reply.json()["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize("revision", ["rubbish", "1999-01-01", "2099-01-01", "", "2025-11-25, 2026-07-28", "\xff"])
def test_x23_an_unknown_revision_is_refused(guarded: Guarded, revision: str) -> None:
    for body in (message(), wire.INITIALIZE, wire.call("server/discover", {"_meta": ENVELOPE})):
        assert guarded.post(body, **{"MCP-Protocol-Version": revision}).status == 400


@pytest.mark.parametrize("accept", ["text/html", "image/png, text/plain", "", "application/json;q=0"])
def test_x24_a_client_that_takes_neither_json_nor_streams_is_refused(guarded: Guarded, accept: str) -> None:
    assert guarded.post(Accept=accept).status == 406


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/event-stream", "application/*", None])
def test_x24_others_are_served(guarded: Guarded, accept: str | None) -> None:
    assert guarded.post(Accept=accept).status == 200


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts sockets by way of /proc")


@needs_proc
@pytest.mark.slow
def test_x27_a_client_that_stops_reading_is_dropped(guarded: Guarded) -> None:
    request = wire.request("POST", "/mcp", guarded.headers, wire.tool("read_note", path="Long.md", max_chars=200_000))
    before = set(sockets(guarded.daemon.pid))
    with wire.Wire(guarded.port) as client:
        client.send(request * 30)
        wait_until(lambda: not before.issuperset(sockets(guarded.daemon.pid)))
        wait_until(lambda: before.issuperset(sockets(guarded.daemon.pid)))


@needs_proc
def test_x28_clients_that_leave_in_the_middle_leave_nothing_behind(guarded: Guarded) -> None:
    sent = wire.request("POST", "/mcp", guarded.headers, wire.tool("search_notes", query="line"))
    before = len(sockets(guarded.daemon.pid))
    for number in range(1000):
        with wire.Wire(guarded.port) as client:
            client.send(sent if number % 2 else sent[: -number % len(sent)])
    wait_until(lambda: len(sockets(guarded.daemon.pid)) <= before)
    assert guarded.is_well()


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for a thousand sockets in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    if wanted < 1200:
        pytest.skip("this system allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_x29_a_thousand_open_connections_leave_room_for_a_good_client(guarded: Guarded, many_files: None) -> None:
    good = wire.request("POST", "/mcp", guarded.headers, wire.INITIALIZE)
    with wire.Wire(guarded.port) as early:
        early.send(good)
        assert early.reply().status == 200
        idle = [wire.Wire(guarded.port) for _ in range(1000)]
        try:
            early.send(good)
            assert early.reply().status == 200
            with wire.Wire(guarded.port) as late:
                late.send(good)
                assert late.reply().status == 200
            assert idle[0].at_end()
            if Path("/proc/self/fd").is_dir():
                assert len(sockets(guarded.daemon.pid)) < 700
        finally:
            for connection in idle:
                connection.socket.close()


def test_x30_each_pipelined_request_shows_its_own_token(guarded: Guarded) -> None:
    good = wire.request("POST", "/mcp", guarded.headers, wire.INITIALIZE)
    without = {name: value for name, value in guarded.headers.items() if name != "Authorization"}
    with wire.Wire(guarded.port) as client:
        client.send(good + good + wire.request("POST", "/mcp", without, wire.INITIALIZE) + good)
        assert [client.reply().status for _ in range(3)] == [200, 200, 401]
        assert client.reply() is wire.CLOSED


def test_x31_nobody_is_told_to_go_on_with_a_wrong_token(guarded: Guarded) -> None:
    asking = {"Expect": "100-continue", "Content-Length": "10"}
    for bearer in ("Bearer wrong", None):
        assert guarded.post(b"", Authorization=bearer, **asking).status == 401
    assert guarded.post(b"", Host="evil.example", **asking).status == 403
    assert guarded.ask("POST", "/nope", **asking).status == 404
    assert guarded.post(b"", **asking).status == 100


@pytest.mark.parametrize("opener, closer", [("[", "]"), ('{"a":', "}")], ids=["arrays", "objects"])
def test_a_body_at_the_limit_of_depth_is_read_and_answered(guarded: Guarded, opener: str, closer: str) -> None:
    # 997 levels below message, params and arguments make a thousand
    deep = nested(opener, closer, 997).decode()
    body = wire.tool("search_notes", query=0).replace(b": 0}", f": {deep}}}".encode())
    answer = guarded.post(body).json()["result"]
    assert answer["isError"] is True
    assert answer["content"][0]["text"] == "query: must be text."
