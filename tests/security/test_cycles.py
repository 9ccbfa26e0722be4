"""Row S17: many starts and ends of the HTTP edge in one process."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sidecar.protocol.http import McpPath
from sidecar.web import listener
from tests import wire
from tests.lab import running
from tests.streams import Stream, listening, open_session, standing


@pytest.mark.parametrize(
    "cycles", [pytest.param(20, id="S17-short"), pytest.param(1000, id="S17", marks=pytest.mark.slow)]
)
async def test_starts_and_ends_leave_nothing_behind(cycles: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_STOP_S", 60.0)  # a machine that is held up may take it to end what was cancelled

    def left() -> tuple[int, int, int, int]:
        gc.collect()
        files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
        paths = sum(isinstance(thing, McpPath) for thing in gc.get_objects())
        return files, threading.active_count(), len(asyncio.all_tasks()), paths

    async def cycle() -> None:
        opened: list[Stream] = []
        async with running() as lab:
            await asyncio.to_thread(wire.post, lab.port, lab.token, wire.tool("echo", text="hi"))
            session = await asyncio.to_thread(open_session, lab)
            opened.append(await asyncio.to_thread(standing, lab, session))
            opened.append(await asyncio.to_thread(listening, lab))
        assert lab.left == (0, 0)
        for stream in opened:
            stream.socket.close()

    # one thread for the blocking clients, so that their number does not change by chance
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    for _ in range(10):
        await cycle()  # threads and caches of the first rounds stay
    before = left()
    for _ in range(cycles):
        await cycle()
    after = left()
    assert all(now <= then for now, then in zip(after, before, strict=True)), (before, after)
