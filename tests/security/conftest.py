"""One real daemon for the rows of the security catalogue, over a small vault, with a canary outside it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import wire
from tests.daemons import Daemon, start_daemon
from tests.lab import wait_until

CANARY = "canary-7d1e0c5a"
SECRET_WORD = "heatpump-4417"


@dataclass(frozen=True)
class Guarded:
    """The daemon under attack."""

    daemon: Daemon
    vault: Path
    state: Path

    @property
    def port(self) -> int:
        return self.daemon.port

    @property
    def token(self) -> str:
        return self.daemon.token

    @property
    def headers(self) -> dict[str, str]:
        """What a good client sends with a POST."""
        return wire.mcp_headers(self.port, self.token)

    def ask(self, method: str, target: str, body: bytes = b"", **change: str | None) -> wire.Reply:
        """A good request, changed: underscores stand for hyphens, None removes a header."""
        headers: dict[str, str | None] = dict(self.headers)
        headers |= {name.replace("_", "-"): value for name, value in change.items()}
        sent = {name: value for name, value in headers.items() if value is not None}
        with wire.Wire(self.port) as client:
            client.send(wire.request(method, target, sent, body))
            return client.reply(bodiless=method == "HEAD")

    def post(self, body: bytes = wire.INITIALIZE, **change: str | None) -> wire.Reply:
        """A good POST to /mcp, changed."""
        return self.ask("POST", "/mcp", body, **change)

    def raw(self, data: bytes) -> wire.Reply:
        """Bytes as they are; `PORT` and `TOKEN` in them are filled in."""
        filled = data.replace(b"PORT", str(self.port).encode()).replace(b"TOKEN", self.token.encode())
        return wire.raw(self.port, filled)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result of a tool call."""
        return self.post(wire.tool(tool, **arguments)).json()["result"]

    def is_well(self) -> bool:
        """Whether a good client is served."""
        return self.post().status == 200


def make_vault(folder: Path) -> Path:
    """A few notes."""
    (folder / "Projects").mkdir(parents=True)
    (folder / "Projects" / "House.md").write_text(f"# House\n\nWe take the {SECRET_WORD}.\n")
    (folder / "Daily.md").write_text("Milk, bread.\n")
    (folder / "Long.md").write_text("long line of text\n" * 40_000)
    (folder.parent / "canary.md").write_text(CANARY)
    return folder


def serve(scratch: Path, **env: str) -> Iterator[Guarded]:
    """A daemon over a new vault, until the generator goes on."""
    vault = make_vault(scratch / "vault")
    daemon = start_daemon(vault, scratch / "state", env=env)
    guarded = Guarded(daemon, vault, scratch / "state")
    try:
        wait_until(lambda: "House" in str(guarded.call("search_notes", query=SECRET_WORD)))  # all is indexed
        yield guarded
    finally:
        assert daemon.process.poll() is None, daemon.stderr()
        assert daemon.stop() == 0


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Shows a figure on the terminal, also when the test passes."""

    def show(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{line}\n")

    return show


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Logs at debug, so that a leak shows."""
    yield from serve(tmp_path_factory.mktemp("guarded"), VAULT_SIDECAR_LOG_LEVEL="debug")


@pytest.fixture(scope="session")
def another(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Another vault's daemon, with the usual log."""
    yield from serve(tmp_path_factory.mktemp("another"))
