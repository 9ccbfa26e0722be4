"""A daemon in this process: what a start that is called off, or a command that is broken off, leaves behind."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sidecar.bridge import private_files
from sidecar.config import Config, HttpConfig, IndexConfig, Secret, ServeOptions
from sidecar.daemon import open_daemon
from sidecar.daemon.running import Outside, Running, Services
from tests import wire
from tests.daemons import TOKEN_VARIABLE

PATIENCE_S = 30.0


@pytest.fixture
def options(tmp_path: Path) -> Iterator[ServeOptions]:
    """Of a vault with one note. Afterwards this process is as it was before."""
    mask, interval = os.umask(0o077), sys.getswitchinterval()
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault/Plan.md").write_text("plan\n")
    private_files.make_folder(tmp_path / "state")
    yield ServeOptions(
        Config(http=HttpConfig(bearer_token_env=TOKEN_VARIABLE), index=IndexConfig(rag=False)),
        tmp_path / "vault",
        tmp_path / "state",
        "test",
        port=0,
        injected_token=Secret("t" * 40),
    )
    os.umask(mask)
    sys.setswitchinterval(interval)


@asynccontextmanager
async def served(options: ServeOptions) -> AsyncIterator[Running]:
    async with asyncio.timeout(PATIENCE_S), open_daemon(options, asyncio.Event(), lambda _: None) as running:
        yield running


def at_replacing(monkeypatch: pytest.MonkeyPatch, name: str, call: Callable[[], object]) -> None:
    """`call` right before the first file of this name gets its new content, in the thread that writes."""
    replace, calls = os.replace, [call]

    def wrapped(source: Path, target: Path) -> None:
        if target.name == name and calls:
            calls.pop()()
        replace(source, target)

    monkeypatch.setattr(os, "replace", wrapped)


@pytest.mark.parametrize(
    "place", [pytest.param("endpoint.json", id="for-programs"), pytest.param("endpoint", id="for-scripts")]
)
async def test_a_start_that_is_called_off_leaves_no_address_behind(
    options: ServeOptions, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    async def start() -> None:
        async with served(options):
            raise AssertionError("it was called off")

    starting = asyncio.create_task(start())
    loop = asyncio.get_running_loop()
    at_replacing(monkeypatch, place, lambda: loop.call_soon_threadsafe(starting.cancel))
    with pytest.raises(asyncio.CancelledError):
        await starting
    left = await asyncio.to_thread(lambda: {path.name for path in options.state_dir.iterdir()})
    assert "local.key" in left, "it had begun"
    assert not left & {"endpoint.json", "endpoint"}


class Held:
    """A write of one file, from the moment it is asked for until it is let on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.asked, self._go_on = threading.Event(), threading.Event()
        at_replacing(monkeypatch, name, self._wait)

    def _wait(self) -> None:
        self.asked.set()
        assert self._go_on.wait(PATIENCE_S)

    def let_on(self) -> None:
        self._go_on.set()


async def order(
    running: Running, options: ServeOptions, target: str, body: Any
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The connection over which an order of the owner's went out."""
    port = running.services.address.listening
    key = await asyncio.to_thread((options.state_dir / "local.key").read_text)
    headers = {"Host": f"127.0.0.1:{port}", "Authorization": f"Bearer {key.strip()}"}
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(wire.request("POST", f"/admin/{target}", headers, json.dumps(body).encode()))
    await writer.drain()
    return reader, writer


async def break_off(running: Running, options: ServeOptions, held: Held, target: str, body: Any) -> None:
    """Order it, leave while it is being done, and let it go on once the daemon knows."""
    _, writer = await order(running, options, target, body)
    assert await asyncio.to_thread(held.asked.wait, PATIENCE_S)
    writer.transport.abort()
    reader, writer = await order(running, options, "proposals", {})
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"  # who came later has been heard
    writer.close()
    held.let_on()


@pytest.mark.parametrize(
    ("target", "body", "holds"),
    [
        pytest.param(
            "settings", {"allow_writes": True}, lambda services: services.core.switches.allow_writes, id="writes"
        ),
        pytest.param("port", {"port": 24999}, lambda services: services.address.pinned == 24999, id="port"),
    ],
)
async def test_a_setting_holds_although_the_command_was_broken_off(
    options: ServeOptions,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    body: Any,
    holds: Callable[[Services], bool],
) -> None:
    """Else the daemon would go on with one, and the next start with the other."""
    async with served(options) as running:
        told: asyncio.Queue[Outside] = asyncio.Queue()
        running.on_outside = told.put_nowait
        assert not holds(running.services)
        await break_off(running, options, Held(monkeypatch, "settings.json"), target, body)
        assert await told.get() == "settings"
        assert holds(running.services)


async def test_a_database_is_gone_although_the_command_was_broken_off(
    options: ServeOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    async with served(options) as running:
        databases = running.services.core.databases
        await databases.add("docs", str(tmp_path / "docs"))
        assert databases.listed().registered
        await break_off(running, options, Held(monkeypatch, "db.json"), "databases/remove", {"name": "docs"})
    # the end of the daemon waits for it
    assert not databases.listed().registered
    assert not await asyncio.to_thread(lambda: [*(options.state_dir / "databases").rglob("manifest.sqlite")])
