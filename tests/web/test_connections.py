"""Deadlines and the number of connections, with small numbers."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
from aiohttp import web

from sidecar.web.app import Limits
from sidecar.web.connections import Deadlines, Door
from tests import wire
from tests.lab import Running, in_thread, wait_until

LIMITS = Limits(deadlines=Deadlines(first_s=60.0, body_s=60.0, unread_s=60.0, linger_s=0.1))
LATER_S = 61.0  # and within the time for which a connection is kept without a request


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"P",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ",
        b"GET /.well-known/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n",
        b"GET /identity?nonce=x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n",
    ],
    ids=["nothing", "a letter", "half a head", "an open path", "identity"],
)
def test_a_connection_without_a_valid_token_is_closed(sent: bytes) -> None:
    with in_thread(limits=LIMITS) as lab, wire.Wire(lab.port) as client:
        client.send(sent.replace(b"%d", str(lab.port).encode()))
        if b"%d" in sent:
            assert client.reply().status in (400, 404)
        wait_until(lambda: lab.listener.connections == 1)
        lab.pass_time(LATER_S)
        assert client.at_end()


def test_a_connection_with_a_valid_token_outlives_the_first_deadline() -> None:
    with in_thread(limits=LIMITS) as lab, wire.Wire(lab.port) as client:
        request = wire.request("POST", "/mcp", wire.mcp_headers(lab.port, lab.token), wire.call("ping"))
        client.send(request)
        assert client.reply().status == 200
        lab.pass_time(LATER_S)
        client.send(request)
        assert client.reply().status == 200


def test_a_body_that_does_not_end_is_answered_408_and_closed() -> None:
    with in_thread(limits=LIMITS) as lab, wire.Wire(lab.port) as client:
        client.send(wire.request("POST", "/mcp", wire.mcp_headers(lab.port, lab.token) | {"Content-Length": "100"}))
        client.send(b"abc")
        wait_until(lambda: lab.on_loop(lambda: lab.served != []))  # the headers are in
        lab.pass_time(LATER_S)
        assert client.reply().status == 408
        assert client.at_end()


def test_a_client_that_stops_reading_is_dropped() -> None:
    with in_thread(limits=LIMITS) as lab, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", lab.port))
        client.sendall(wire.request("POST", "/mcp", wire.mcp_headers(lab.port, lab.token), wire.tool("large")))
        wait_until(lambda: lab.on_loop(lambda: is_stuck(lab)))
        assert lab.listener.connections == 1
        lab.pass_time(LATER_S)
        wait_until(lambda: lab.listener.connections == 0)


def is_stuck(lab: Running) -> bool:
    """A client has left unread what was sent to it."""
    assert lab.listener._door is not None
    return any(connection._unread is not None for connection in lab.listener._door._open)


def test_the_oldest_stranger_makes_room_and_a_good_client_is_served() -> None:
    with in_thread(most_connections=5) as lab:
        request = wire.request("POST", "/mcp", wire.mcp_headers(lab.port, lab.token), wire.call("ping"))
        with wire.Wire(lab.port) as good:
            good.send(request)
            assert good.reply().status == 200
            strangers = [wire.Wire(lab.port) for _ in range(20)]
            assert strangers[0].at_end()
            good.send(request)
            assert good.reply().status == 200
            with wire.Wire(lab.port) as late:
                late.send(request)
                assert late.reply().status == 200
            for stranger in strangers:
                stranger.socket.close()


def test_when_all_connections_are_known_the_oldest_idle_one_makes_room() -> None:
    with in_thread(most_connections=3) as lab:
        request = wire.request("POST", "/mcp", wire.mcp_headers(lab.port, lab.token), wire.call("ping"))
        clients = [wire.Wire(lab.port) for _ in range(3)]
        for client in clients:
            client.send(request)
            assert client.reply().status == 200
        with wire.Wire(lab.port) as newcomer:
            newcomer.send(request)
            assert newcomer.reply().status == 200
            assert clients[0].at_end()
            clients[1].send(request)
            assert clients[1].reply().status == 200
        for client in clients:
            client.socket.close()


def test_when_all_connections_are_busy_the_newcomer_is_closed() -> None:
    with in_thread(most_connections=2) as lab:
        slow = wire.request("POST", "/mcp", wire.mcp_headers(lab.port, lab.token), wire.tool("slow"))
        busy = [wire.Wire(lab.port) for _ in range(2)]
        for client in busy:
            lab.on_loop(lab.lab.entered.clear)
            client.send(slow)
            wait_until(lab.lab.entered.is_set)
        with wire.Wire(lab.port) as newcomer:
            assert newcomer.at_end()
        lab.on_loop(lab.lab.leave.set)
        for client in busy:
            assert client.reply().status == 200
            client.socket.close()


UNREADABLE = [
    pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03secretword\r\n\r\n", id="TLS"),
    pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="HTTP/2"),
    pytest.param(b"secretword\r\n\r\n", id="no request line"),
    pytest.param(b"GET /secretword HTTP/1.1\r\nHost: a\r\nsecret word: x\r\n\r\n", id="bad header"),
    pytest.param(b"GET /secretword HTTP/1.1\r\nHost: a\r\nX: secretword\x00\r\n\r\n", id="NUL"),
    pytest.param(b"GET /" + b"secretword" * 1000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", id="long target"),
    pytest.param(b"GET /secretword HTTP/1.1\r\nHost: a\r\nX: " + b"secretword" * 1000 + b"\r\n\r\n", id="long header"),
    pytest.param(b"GET /secretword HTTP/1.1\r\nHost: a\r\n" + b"X: secretword\r\n" * 200 + b"\r\n", id="many headers"),
]


@pytest.mark.parametrize("sent", UNREADABLE)
def test_what_is_no_request_gets_one_fixed_answer_and_is_not_logged(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"), in_thread() as lab, wire.Wire(lab.port) as client:
        client.send(sent)
        reply = client.reply()
        assert reply.status == 400
        assert reply.json()["error"] == "bad_request"
        assert reply.header("Server") == "vault-sidecar"
        assert reply.header("X-Content-Type-Options") == "nosniff"
        assert b"secretword" not in reply.body
        assert client.at_end()
    assert "secretword" not in caplog.text


@pytest.mark.parametrize("method", ["FOO", "get", "PROPFIND", "M-SEARCH", "BREW"])
def test_an_unknown_method_passes_the_guards_like_any_other(method: str) -> None:
    with in_thread() as lab:
        assert wire.raw(lab.port, wire.request(method, "/mcp", {"Host": "evil.example"})).status == 403
        assert wire.raw(lab.port, wire.request(method, "/mcp", {"Host": f"127.0.0.1:{lab.port}"})).status == 401
        headers = wire.mcp_headers(lab.port, lab.token)
        assert wire.raw(lab.port, wire.request(method, "/mcp", headers)).status == 405
        assert wire.raw(lab.port, wire.request(method, "/nope", headers)).status == 404
        with wire.Wire(lab.port) as client:
            for _ in range(2):
                client.send(wire.request(method, "/mcp", headers))
                assert client.reply().status == 405
            client.send(wire.request("POST", "/mcp", headers, wire.call("ping")))
            assert client.reply().status == 200


async def test_who_is_accepted_while_the_end_begins_is_turned_away() -> None:
    async def never(_: object) -> web.StreamResponse:
        raise AssertionError

    door = Door(never, deadlines=Deadlines(), most=5)
    server = await asyncio.get_running_loop().create_server(door, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, early = await asyncio.open_connection("127.0.0.1", port)
    while door.count == 0:
        await asyncio.sleep(0.01)
    assert door.count == 1
    door.pre_shutdown()
    reader, late = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(30):
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        await door.shutdown(0.1)
    assert door.count == 0
    server.close()
    early.close()
    late.close()
