"""Binding, and a clean end."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack

import httpx2
import pytest

from sidecar.errors import PortTaken
from sidecar.web import listener
from sidecar.web.connections import Door
from sidecar.web.listener import bind
from tests import wire
from tests.eras import listening, next_event
from tests.lab import in_thread, running, wait_until
from tests.streams import calling, open_everything, unread


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
    async with asyncio.timeout(30):
        async with running() as lab, httpx2.AsyncClient(timeout=30) as http:
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


def test_the_end_ends_every_stream_and_leaves_no_connection_and_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_STOP_S", 3.0)  # a machine that is held up may take it to end what was cancelled
    with ExitStack() as stack:
        with in_thread() as lab:
            streams = open_everything(lab, stack, lab.token)
            stack.enter_context(unread(lab, calling(lab, "flood")))
            wait_until(lambda: lab.lab.inside == 2)
        assert lab.left == (0, 0)
        assert [stream.event() for stream in streams[:1]] == [None] and streams[0].ended_well
        for listen in streams[1:3]:
            last = listen.event()
            assert last is not None and last["result"]["resultType"] == "complete"
            assert listen.event() is None and listen.ended_well
        for call in streams[3:]:
            assert call.event() is None and not call.ended_well


async def test_without_our_end_a_client_that_does_not_read_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Door, "shutdown")
    async with running() as lab:
        client = await asyncio.to_thread(unread, lab, calling(lab, "flood"))
    assert lab.left[0] == 1
    client.socket.close()
    async with asyncio.timeout(30):
        while lab.listener.connections:
            await asyncio.sleep(0.01)
