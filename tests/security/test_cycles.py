"""Rows S of streams and sessions: many rotations under load, many starts and ends."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sidecar.protocol.http import McpPath
from tests import wire
from tests.lab import Running, in_thread, running
from tests.streams import PATH, Stream, calling, listening, open_session, standing

slow = pytest.mark.slow


@dataclass
class Tokens:
    """What the clients know: the token of now, and those whose replacement has been answered."""

    now: str
    dead: list[str] = field(default_factory=list[str])


@dataclass
class Busy:
    """A client that calls without a pause, sometimes with a token that is dead."""

    lab: Running
    tokens: Tokens
    seed: int
    over: threading.Event = field(default_factory=threading.Event)
    served: set[str] = field(default_factory=set[str])
    """Tokens with which it got an answer."""
    refused: int = 0
    wrong: list[str] = field(default_factory=list[str])

    def run(self) -> None:
        chance = random.Random(self.seed)
        client = wire.Wire(self.lab.port)
        while not self.over.is_set():
            dead = self.tokens.dead
            stale = bool(dead) and chance.random() < 0.3
            token = chance.choice(dead[-3:]) if stale else self.tokens.now
            body = wire.tool("echo", text="x")
            client.send(wire.request("POST", "/mcp", wire.mcp_headers(self.lab.port, token), body))
            status = client.reply().status
            if status == 200:
                self.served.add(token)
                if stale:
                    self.wrong.append("a dead token was let in")
                continue
            self.refused += 1
            if status != 401:
                self.wrong.append(f"status {status}")
            elif not stale and token == self.tokens.now:
                self.wrong.append("the token of now was refused")
            client.socket.close()  # a refused connection ends
            client = wire.Wire(self.lab.port)
        client.socket.close()


def eight_streams(lab: Running, stack: ExitStack, token: str) -> list[Stream]:
    """Two of every kind."""
    streams: list[Stream] = []
    for _ in range(2):
        session = open_session(lab, token)
        for stream in (
            standing(lab, session, token),
            listening(lab, token, PATH),
            Stream(lab.port, calling(lab, "slow", token, reports=1)),
            Stream(lab.port, calling(lab, "slow", token, session, reports=1)),
        ):
            streams.append(stack.enter_context(stream))
    for stream in streams:
        if stream.answer.status != 200:
            raise AssertionError(stream.answer)
    for number in (2, 3, 6, 7):
        assert streams[number].event() is not None
    return streams


def rotate(lab: Running, tokens: Tokens, new: str) -> None:
    """Replace the token; when the answer is there, the clients learn of it."""

    def change() -> None:
        lab.keys.replace(new)
        lab.app.token_changed()

    # The clients take the new token first: from then on the old one may be refused, and after the answer it must be.
    old, tokens.now = tokens.now, new
    lab.on_loop(change)
    tokens.dead.append(old)


@pytest.mark.parametrize("rotations", [pytest.param(3, id="S13-short"), pytest.param(100, id="S13", marks=slow)])
def test_rotations_under_load_let_no_old_token_in(rotations: int) -> None:
    with in_thread() as lab:
        tokens = Tokens(lab.token)
        clients = [Busy(lab, tokens, seed) for seed in range(32)]
        threads = [threading.Thread(target=client.run) for client in clients]
        for thread in threads:
            thread.start()
        try:
            for number in range(rotations):
                with ExitStack() as stack:
                    streams = eight_streams(lab, stack, tokens.now)
                    rotate(lab, tokens, f"token-{number:04}-" + "x" * 40)
                    lab.tools_changed()
                    for stream in streams:
                        stream.socket.settimeout(10)  # ten times the promise
                        assert stream.event() is None and not stream.ended_well
            served = {token: sum(token in client.served for client in clients) for token in [*tokens.dead, tokens.now]}
        finally:
            for client in clients:
                client.over.set()
            for thread in threads:
                thread.join(30)
        assert [client.wrong for client in clients] == [[]] * 32
        assert sum(client.refused for client in clients) > 0
        assert len(lab.sessions) == 0
        assert all(served[token] for token in tokens.dead)


@pytest.mark.parametrize("cycles", [pytest.param(20, id="S17-short"), pytest.param(1000, id="S17", marks=slow)])
async def test_starts_and_ends_leave_nothing_behind(cycles: int) -> None:
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
