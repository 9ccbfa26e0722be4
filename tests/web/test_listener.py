"""Binding, and a clean end."""

from __future__ import annotations

import asyncio
import socket

import httpx2
import pytest

from sidecar.errors import PortTaken
from sidecar.web.listener import bind
from tests import wire
from tests.eras import listening, next_event
from tests.lab import running


def test_the_socket_is_bound_to_the_loopback_address_alone() -> None:
    with bind(0) as sock:
        host, port = sock.getsockname()
        assert host == "127.0.0.1"
        assert 10_000 <= port <= 65_535
        assert sock.family == socket.AF_INET
        if hasattr(socket, "SO_REUSEPORT"):
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) == 0


def test_a_port_in_use_is_a_clear_failure() -> None:
    with bind(0) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} on 127.0.0.1 is in use"):
            bind(port)


def test_a_port_that_another_program_holds_on_all_addresses_is_in_use() -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        with pytest.raises(PortTaken):
            bind(other.getsockname()[1])


def test_random_ports_differ() -> None:
    socks = [bind(0) for _ in range(5)]
    ports = {sock.getsockname()[1] for sock in socks}
    for sock in socks:
        sock.close()
    assert len(ports) == 5


async def test_a_port_can_be_bound_again_right_after_the_end() -> None:
    async with running() as lab:
        reply = await asyncio.to_thread(wire.post, lab.port, lab.token, wire.call("ping"))
        assert reply.status == 200
    bind(lab.port).close()


async def test_the_end_does_not_wait_for_streams_calls_and_idle_clients() -> None:
    async with asyncio.timeout(10):
        async with running() as lab, httpx2.AsyncClient(timeout=5) as http:
            _, idle = await asyncio.open_connection("127.0.0.1", lab.port)
            _, busy = await asyncio.open_connection("127.0.0.1", lab.port)
            busy.write(wire.request("POST", "/mcp", wire.mcp_headers(lab.port, lab.token), wire.tool("slow")))
            await lab.lab.entered.wait()
            stream = listening(lab, http, lab.token)
            lines = (await stream.__aenter__()).aiter_lines()
            await next_event(lines)
            begin = asyncio.get_running_loop().time()
        # ten times the promise of a second
        assert asyncio.get_running_loop().time() - begin < 10
    assert lab.lab.cancelled.is_set()
    idle.close()
    busy.close()
