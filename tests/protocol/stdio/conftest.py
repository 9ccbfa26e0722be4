"""A relay in this process, between two pipes and the lab's daemon."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sidecar.bridge import endpoint, private_files
from sidecar.errors import BadConfig
from sidecar.protocol.http import McpPath
from sidecar.protocol.stdio.relay import Relay
from sidecar.protocol.stdio.stand_in import StandIn
from tests.lab import INSTANCE, Running, in_thread, wait_until
from tests.stdio import PATIENCE_S, Pipes


def publish(state: Path, lab: Running) -> None:
    """Leave what a daemon leaves for relays."""
    private_files.write(state / "local.key", lab.local_key)
    endpoint.write(state, endpoint.Endpoint(lab.url, lab.port, os.getpid(), INSTANCE, "0", "now"))


@dataclass
class Starter:
    """What a relay calls to start a daemon."""

    begin: Callable[[], None]
    times: int = 0
    code: int | None = None
    words: str = "it can't"

    def __call__(self) -> Starter:
        self.times += 1
        self.begin()
        return self

    def poll(self) -> int | None:
        return self.code

    def last_words(self) -> str:
        return self.words


def never() -> None:
    raise BadConfig("there is no folder to serve")


def no_stand_in() -> McpPath:
    raise AssertionError("the stand-in is not needed")


class Noted(Relay):
    """A relay that says what it has heard, once it has told its client."""

    found = 0
    """Daemons."""
    changes = 0
    """Of the tools. A daemon that is found is one too."""

    def _found(self) -> None:
        super()._found()
        self.found += 1

    def _tools_changed(self) -> None:
        super()._tools_changed()
        self.changes += 1


@dataclass
class Rig:
    """Relays on one state folder."""

    state: Path
    relays: list[Noted] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)

    def relay(
        self,
        *,
        path: str = "/mcp",
        start: Callable[[], None] = never,
        stand_in: Callable[[], McpPath] = no_stand_in,
    ) -> tuple[Pipes, Starter]:
        """A running relay's pipes; they are closed at the end, and the relay must end with them."""
        to_relay, from_client = os.pipe()
        to_client, from_relay = os.pipe()
        starter = Starter(start)
        relay = Noted(self.state, path, start=starter, stand_in=StandIn(stand_in), output=from_relay)
        self.relays.append(relay)
        thread = threading.Thread(target=self._run, args=(relay, to_relay, from_relay))
        thread.start()
        pipes = Pipes(os.fdopen(from_client, "wb"), os.fdopen(to_client, "rb"))
        self._stack.callback(self._end, pipes, thread)
        return pipes, starter

    def until_found(self) -> None:
        """Wait until the last relay is through with finding a daemon: who shakes hands now hears of it no more."""
        wait_until(lambda: self.relays[-1].found > 0)

    def _run(self, relay: Relay, to_relay: int, from_relay: int) -> None:
        with os.fdopen(to_relay, "rb") as stream:
            relay.run(stream)
        os.close(from_relay)

    def _end(self, pipes: Pipes, thread: threading.Thread) -> None:
        pipes.end_input()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        pipes.rest()
        pipes._out_of.close()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """No daemon is on record yet."""
    made = Rig(tmp_path)
    with made._stack:
        yield made


@pytest.fixture
def lab(rig: Rig) -> Iterator[Running]:
    """The lab's daemon, on record."""
    with in_thread() as running:
        publish(rig.state, running)
        yield running


@contextmanager
def another_lab(state: Path) -> Iterator[Running]:
    """A daemon that comes later, and ends with the block."""
    with in_thread() as running:
        publish(state, running)
        yield running
