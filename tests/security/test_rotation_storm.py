"""Row S13: a hundred rotations under busy clients and open streams."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import wire
from tests.eras import ENVELOPE, MODERN
from tests.security import owner
from tests.security.starts import Site

logger = logging.getLogger(__name__)

ROTATIONS, CLIENTS, STREAMS = 100, 32, 8
PATIENCE_S = 60.0
CLOSED_WITHIN_S = 10.0  # ten times the design target, which is for a quiet machine

CALL = wire.tool("list_notes", limit=1)
LISTEN = wire.call("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE})


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with closing(Site(tmp_path)) as made:
        (made.vault / "Plum.md").write_text("# Plum\n\nA plum tree wants sun.\n")
        yield made


def rotation(port: int, site: Site) -> bytes:
    """The owner's request for another token."""
    return owner.request(port, owner.local_key(site.state), "POST", "/admin/token/rotate")


async def answer(reader: asyncio.StreamReader) -> int:
    """The status of one answer, its body read."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r")[0]))
    return int(head.split(" ")[1])


@dataclass
class Storm:
    """What the clients know, and what they met. `tokens` are those that a rotation has answered, oldest first."""

    port: int
    tokens: list[str]
    begun: int = 0
    """Rotations that were asked for."""
    wrong: list[str] = field(default_factory=list)
    accepted: int = 0
    refused: int = 0
    """Requests with a token that was known to be dead."""
    served: list[int] = field(default_factory=lambda: [0] * CLIENTS)
    """By client: the number of the token it was last served with."""
    listening: int = 0
    ended: int = 0
    slowest_s: float = 0.0
    rotated_at: float = 0.0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def client(self, number: int) -> None:
        """Asks without a pause: three times with the newest token, then with the one before."""
        while True:
            with suppress(ConnectionError, asyncio.IncompleteReadError):  # a refusal closes the connection
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                with closing(writer):
                    while True:
                        await self.ask(number, reader, writer)

    async def ask(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        newest = len(self.tokens) - 1
        is_old = newest > 0 and (self.accepted + self.refused) % 4 == 3
        used = newest - is_old
        writer.write(wire.request("POST", "/mcp", wire.mcp_headers(self.port, self.tokens[used]), CALL))
        status = await answer(reader)
        if status == 200 and is_old:
            self.wrong.append(f"token {used} was accepted after {newest} was handed out")
        elif status == 401 and not is_old and self.begun <= used:
            self.wrong.append(f"token {used} was refused before anybody replaced it")
        elif status not in (200, 401):
            self.wrong.append(f"status {status}")
        self.refused += is_old and status == 401
        if status == 200:
            self.accepted += 1
            if used > self.served[number]:
                self.served[number] = used
                await self.tell()

    async def stream(self) -> None:
        """Listens with the newest token, and again when the server ends that."""
        while True:
            used = len(self.tokens) - 1
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            with closing(writer):
                headers = wire.mcp_headers(self.port, self.tokens[used])
                headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
                writer.write(wire.request("POST", "/mcp", headers, LISTEN))
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200"), head
                await reader.readuntil(b"\n\n")  # it listens
                self.listening += 1
                await self.tell()
                rest = b""
                with suppress(ConnectionError):
                    rest = await reader.read()
                self.slowest_s = max(self.slowest_s, time.monotonic() - self.rotated_at)
                self.listening -= 1
                self.ended += 1
                if b"data:" in rest or self.begun <= used:
                    self.wrong.append(f"a stream of token {used} went on, or ended by itself")
            await self.answered(used)

    async def answered(self, used: int) -> None:
        """Wait until there is a newer token than this."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.tokens) - 1 > used)

    async def calm(self) -> None:
        """Wait until every client was served with the newest token and every stream listens."""
        async with asyncio.timeout(PATIENCE_S), self.changed:
            newest = len(self.tokens) - 1
            await self.changed.wait_for(lambda: min(self.served) == newest and self.listening == STREAMS)

    async def rotate(self, sent: bytes) -> None:
        self.begun += 1
        self.rotated_at = time.monotonic()
        reply = await asyncio.to_thread(wire.raw, self.port, sent)
        assert reply.status == 200, reply
        self.tokens.append(reply.json()["token"])
        await self.tell()


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_s13_a_hundred_rotations_let_no_old_token_in(site: Site) -> None:
    daemon = await asyncio.to_thread(site.start)
    storm = Storm(daemon.port, [daemon.token])
    sent = await asyncio.to_thread(rotation, daemon.port, site)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(storm.client(number)) for number in range(CLIENTS)]
        tasks += [group.create_task(storm.stream()) for _ in range(STREAMS)]
        for _ in range(ROTATIONS):
            await storm.calm()
            await storm.rotate(sent)
        await storm.calm()
        for task in tasks:
            task.cancel()
    assert storm.wrong == []
    assert storm.ended == ROTATIONS * STREAMS
    assert storm.refused >= ROTATIONS, "old tokens were tried all the time"
    assert storm.slowest_s < CLOSED_WITHIN_S
    assert await asyncio.to_thread(daemon.stop) == 0
    logger.info(
        "S13: %d rotations, %d calls served, %d with old tokens refused, %d streams ended, the slowest after %.3f s",
        ROTATIONS, storm.accepted, storm.refused, storm.ended, storm.slowest_s,
    )  # fmt: skip


LASTING = "from sidecar.bridge import token\ntoken.Keys.replace = lambda *_: None"


@pytest.mark.slow
async def test_s13_an_old_token_that_stays_valid_would_be_seen(site: Site) -> None:
    """Control of S13."""
    daemon = await asyncio.to_thread(site.start, **site.run_first(LASTING))
    storm = Storm(daemon.port, [daemon.token])
    sent = await asyncio.to_thread(rotation, daemon.port, site)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(storm.client(number)) for number in range(CLIENTS)]
        await storm.rotate(sent)
        async with asyncio.timeout(PATIENCE_S):
            while not any("was accepted after" in wrong for wrong in storm.wrong):
                await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
    assert await asyncio.to_thread(daemon.stop) == 0
