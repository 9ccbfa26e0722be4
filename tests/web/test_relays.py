"""Who is told what over the request that a relay holds open, and when nobody is there any more."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from tests import wire
from tests.lab import Running, running, wait_until


def held(lab: Running, key: str | None = None) -> wire.Wire:
    """A relay's connection."""
    connection = wire.Wire(lab.port)
    headers = {"Host": f"127.0.0.1:{lab.port}", "Authorization": f"Bearer {key or lab.local_key.decode()}"}
    connection.send(wire.request("GET", "/admin/relay", headers))
    return connection


def relays(lab: Running) -> int:
    return lab.on_loop(lambda: lab.app._relays.count)


def test_a_relay_counts_from_its_request_to_its_end(lab: Running) -> None:
    with held(lab):
        wait_until(lambda: relays(lab) == 1)
        with held(lab):
            wait_until(lambda: relays(lab) == 2)
        wait_until(lambda: relays(lab) == 1)
    wait_until(lambda: relays(lab) == 0)


def test_for_a_client_there_is_no_such_address(lab: Running) -> None:
    with held(lab, lab.token) as connection:
        assert connection.reply().status == 404
    assert relays(lab) == 0


async def lines_of(response: httpx2.Response) -> Any:
    async for line in response.aiter_lines():
        yield json.loads(line)


def stream(lab: Running, http: httpx2.AsyncClient) -> Any:
    headers = {"Authorization": f"Bearer {lab.local_key.decode()}"}
    return http.stream("GET", f"http://127.0.0.1:{lab.port}/admin/relay", headers=headers)


async def test_it_is_told_the_limit_at_once_and_each_change_of_the_tools() -> None:
    async with running() as lab, httpx2.AsyncClient(timeout=30) as http, stream(lab, http) as response:
        lines = lines_of(response)
        assert await anext(lines) == {"max_body_bytes": 16 << 20}
        for _ in range(2):
            await lab.app.tools_changed()
            assert await anext(lines) == {"changed": "tools"}
        lab.app.close()
        with pytest.raises(StopAsyncIteration):
            await anext(lines)


async def test_a_relay_that_reads_nothing_is_still_told_of_the_end() -> None:
    async with running() as lab, httpx2.AsyncClient(timeout=30) as http, stream(lab, http) as response:
        for _ in range(200):
            lab.app._relays.tools_changed()
        lab.app.close()
        told = [line async for line in lines_of(response)]
    assert told[0] == {"max_body_bytes": 16 << 20}
    assert 1 <= len(told) < 100


async def test_the_time_without_relays_begins_when_the_last_has_left() -> None:
    async with running() as lab, httpx2.AsyncClient(timeout=30) as http:
        async with stream(lab, http) as response:
            lines = lines_of(response)
            await anext(lines)
            alone = asyncio.create_task(lab.app._relays.gone_for(0.1))
            elapsed, _ = await asyncio.wait({alone}, timeout=0.5)
            assert not elapsed, "one is there"
        async with asyncio.timeout(30):
            await alone


async def test_a_relay_that_comes_in_time_stops_the_clock() -> None:
    async with running() as lab, httpx2.AsyncClient(timeout=30) as http:
        alone = asyncio.create_task(lab.app._relays.gone_for(3600))
        await asyncio.sleep(0)
        async with stream(lab, http) as response:
            lines = lines_of(response)
            await anext(lines)
            assert not lab.app._relays._absent.is_set()
        alone.cancel()
        await asyncio.wait({alone})
