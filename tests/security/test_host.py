"""Rows H: the Host header. The token is valid in all of them unless the row says otherwise."""

from __future__ import annotations

import socket

import pytest

from sidecar import __version__
from tests import wire
from tests.security.conftest import Guarded

GOOD = b"127.0.0.1:PORT"
REST = (
    b"Authorization: Bearer TOKEN\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
)
LENGTH = b"Content-Length: %d\r\n\r\n" % len(wire.INITIALIZE) + wire.INITIALIZE


def post(*lines: bytes, target: bytes = b"/mcp", version: bytes = b"HTTP/1.1", rest: bytes = REST) -> bytes:
    """An initialize request with these lines where Host belongs."""
    head = b"POST " + target + b" " + version + b"\r\n" + b"".join(line + b"\r\n" for line in lines)
    return head + rest + LENGTH


def host(value: bytes) -> bytes:
    return post(b"Host: " + value)


@pytest.mark.parametrize(
    "request_bytes, expected",
    [
        pytest.param(host(GOOD), {200}, id="H01"),
        pytest.param(host(b"localhost:PORT"), {200}, id="H02"),
        pytest.param(host(b"LOCALHOST:PORT"), {200}, id="H03"),
        pytest.param(host(b"evil.example"), {403}, id="H04"),
        pytest.param(host(b"evil.example:PORT"), {403}, id="H05"),
        pytest.param(host(b"127.0.0.1.evil.example:PORT"), {403}, id="H06"),
        pytest.param(host(b"localhost.evil.example:PORT"), {403}, id="H07"),
        pytest.param(host(b"evil-localhost:PORT"), {403}, id="H08"),
        pytest.param(host(b"localhost.:PORT"), {403}, id="H09"),
        pytest.param(host(b"foo.localhost:PORT"), {403}, id="H10"),
        pytest.param(host(b"127.0.0.1"), {403}, id="H11"),
        pytest.param(host(b"127.0.0.1:1"), {403}, id="H12"),
        pytest.param(host(b"127.0.0.1:"), {403}, id="H13"),
        pytest.param(host(b"127.0.0.1:PORTevil"), {403}, id="H14"),
        pytest.param(host(b"127.0.0.1:PORT@evil.example"), {403}, id="H15"),
        pytest.param(host(b"user@127.0.0.1:PORT"), {403}, id="H16"),
        pytest.param(host(b"0.0.0.0:PORT"), {403}, id="H17"),
        pytest.param(host(b"[::]:PORT"), {403}, id="H18"),
        pytest.param(host(b"[::1]:PORT"), {403}, id="H19"),
        pytest.param(host(b"[::ffff:127.0.0.1]:PORT"), {403}, id="H20"),
        pytest.param(host(b"127.1:PORT"), {403}, id="H21"),
        pytest.param(host(b"2130706433:PORT"), {403}, id="H22"),
        pytest.param(host(b"0x7f000001:PORT"), {403}, id="H23-hex"),
        pytest.param(host(b"0177.0.0.1:PORT"), {403}, id="H23-octal"),
        pytest.param(host(b"127.0.0.2:PORT"), {403}, id="H24"),
        pytest.param(host(b"192.168.1.10:PORT"), {403}, id="H25"),
        pytest.param(host(socket.gethostname().encode() + b":PORT"), {403}, id="H26"),
        pytest.param(host(b""), {400, 403}, id="H27"),
        pytest.param(post(), {400}, id="H28"),
        pytest.param(post(version=b"HTTP/1.0"), {400, 403}, id="H29"),
        pytest.param(post(b"Host: " + GOOD, b"Host: evil.example"), {400}, id="H30"),
        pytest.param(post(b"Host: evil.example", b"Host: " + GOOD), {400}, id="H31"),
        pytest.param(post(b"Host: " + GOOD, target=b"http://evil.example/mcp"), {400}, id="H32"),
        pytest.param(post(b"Host: " + GOOD, target=b"http://127.0.0.1:PORT/mcp"), {400}, id="H32-own"),
        pytest.param(post(b"Host: 127.0.0.1", b" evil"), {400}, id="H33"),
        pytest.param(post(b"Host : " + GOOD), {400}, id="H34"),
        pytest.param(
            post(b"Host: evil.example", b"X-Forwarded-Host: " + GOOD, b"Forwarded: host=" + GOOD), {403}, id="H35"
        ),
        pytest.param(post(b"Host: evil.example", target=b"/nope"), {403}, id="H37"),
    ],
)
def test_only_our_own_names_are_answered(guarded: Guarded, request_bytes: bytes, expected: set[int]) -> None:
    reply = guarded.raw(request_bytes)
    assert reply.status in expected
    if reply.status != 200:
        assert b"evil" not in reply.body


def test_h36_a_foreign_host_is_refused_before_the_token_is_asked_for(guarded: Guarded) -> None:
    without = post(b"Host: evil.example", rest=b"Content-Type: application/json\r\n")
    reply = guarded.raw(without)
    assert reply.status == 403
    assert __version__.encode() not in reply.body
    assert b"/" not in reply.body.replace(b"\\/", b"")


@pytest.mark.parametrize("target", ["/identity", "/.well-known/x", "/register", "/health", "/"])
def test_h38_open_paths_answer_to_our_own_names_only(guarded: Guarded, target: str) -> None:
    assert guarded.ask("GET", target, Host="evil.example").status == 403
    assert guarded.ask("GET", target, Host="evil.example", Authorization=None).status == 403
