"""A vault with lures around it, served by a daemon, and a view of every byte that the daemon answers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests import wire
from tests.daemons import Daemon, start_daemon
from tests.e2e.test_served import tree_hash

PATIENCE_S = 60.0
CANARY = "canary-3f9d21c7"
"""In files that nobody may reach; no answer may hold it."""
LURE = "pomegranate-9215"
"""Beside the canary. An answer may echo it, so it can be searched for."""
SECRET = f"{CANARY} {LURE}\n"
INSIDE = "inside 4410\n"


@dataclass(frozen=True)
class Said:
    """One answer of a tool."""

    text: str
    is_error: bool
    meta: dict[str, Any]
    raw: bytes
    """The body of the response."""


@dataclass(frozen=True)
class Ground:
    """A folder with a vault in it, and the daemon that serves the vault."""

    base: Path
    state: Path
    port: int
    token: str

    @property
    def vault(self) -> Path:
        return self.base / "vault"

    @property
    def outside(self) -> Path:
        return self.base / "outside"

    def tree(self) -> str:
        """The hash of the vault and of what lies around it."""
        return tree_hash(self.base)

    def post(self, body: bytes, path: str = "/mcp") -> wire.Reply:
        """One POST with the token. Its answer is free of the canary."""
        reply = self.ask(body, path)
        assert CANARY.encode() not in reply.body
        assert CANARY not in str(reply.headers)
        return reply

    def ask(self, body: bytes, path: str = "/mcp") -> wire.Reply:
        """One POST with the token, its answer not looked at."""
        return wire.post(self.port, self.token, body, path)

    def call(self, tool: str, **arguments: Any) -> Said:
        """One tool call. Its answer is free of the canary."""
        return said(self.post(wire.tool(tool, **arguments)))

    def found(self, query: str) -> list[str]:
        """Paths that search_notes names, of one page."""
        lines = self.call("search_notes", query=query, limit=100).text.split("\n")[1:]
        return [line for line in lines if not line.startswith(("  ", "["))]

    def listed(self) -> list[str]:
        """Paths that list_notes names."""
        paths: list[str] = []
        while True:
            lines = self.call("list_notes", limit=1000, offset=len(paths)).text.split("\n")
            paths += [line for line in lines[1:] if not line.startswith(("More notes:", "[Result cut"))]
            if not lines[-1].startswith(("More notes:", "[Result cut")):
                return paths

    def admin(self, target: str) -> dict[str, Any]:
        """What a GET below /admin answers; its query is text as it is. It is free of the canary."""
        reply = self.ask_admin(target)
        assert reply.status == 200, reply
        assert CANARY.encode() not in reply.body
        return reply.json()

    def ask_admin(self, target: str) -> wire.Reply:
        """GET below /admin with the local key."""
        path, _, query = target.partition("?")
        return self._by_owner("GET", f"{path}?{quote(query, safe='=&')}", b"")

    def order(self, target: str, **body: Any) -> wire.Reply:
        """POST below /admin with the local key."""
        return self._by_owner("POST", target, json.dumps(body).encode())

    def _by_owner(self, method: str, target: str, body: bytes) -> wire.Reply:
        [key] = self.state.rglob("local.key")
        headers = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {key.read_text().strip()}"}
        return wire.raw(self.port, wire.request(method, f"/admin/{target}", headers, body))

    def settled(self) -> dict[str, Any]:
        """The status once nothing is queued."""
        give_up = time.monotonic() + PATIENCE_S
        while not (status := self.admin("status"))["settled"]:
            assert time.monotonic() < give_up, status
            self.admin(f"status?after={status['generation']}&wait_s=0.1")
        return status

    def skipped(self) -> dict[str, str]:
        """Reasons by path."""
        return {row["path"]: row["reason"] for row in self.admin("status")["skipped"]}

    def until_found(self, query: str, paths: list[str]) -> float:
        """Wait until a search finds these notes and no others; how many seconds it took."""
        begin = time.monotonic()
        while True:
            generation = self.admin("status")["generation"]
            if sorted(found := self.found(query)) == sorted(paths):
                return time.monotonic() - begin
            assert time.monotonic() < begin + PATIENCE_S, f"{query} is in {found}"
            self.admin(f"status?after={generation}&wait_s=1")  # to look more often would be work of the daemon, too


def said(reply: wire.Reply) -> Said:
    """The one text block of a tool's answer."""
    assert reply.status == 200, reply
    result = json.loads(reply.body)["result"]
    [block] = result["content"]
    return Said(block["text"], bool(result.get("isError")), result.get("_meta") or {}, reply.body)


@contextmanager
def served(base: Path, state: Path, **options: Any) -> Iterator[tuple[Ground, Daemon]]:
    """A process that serves `base / "vault"`, once all is indexed. It has to end as it should."""
    with served_at(base / "vault", base, state, **options) as both:
        yield both


@contextmanager
def served_at(vault: Path, base: Path, state: Path, **options: Any) -> Iterator[tuple[Ground, Daemon]]:
    """The same for a vault that is named by another path."""
    daemon = start_daemon(vault, state, **options)
    try:
        ground = Ground(base, state, daemon.port, daemon.token)
        ground.settled()
        yield ground, daemon
        assert daemon.process.poll() is None, daemon.stderr()
        assert "Traceback" not in daemon.stderr(), daemon.stderr()
    finally:
        code = daemon.stop() if daemon.process.poll() is None else daemon.process.returncode
    assert code == 0, daemon.stderr()


def write(folder: Path, path: str, content: str | bytes = INSIDE) -> Path:
    """A file, the folders above it included."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def later_note(ground: Ground, row: str) -> float:
    """Save an ordinary note and wait until it is found; how long that took."""
    word = f"later{row.replace('-', '')}x"
    write(ground.vault, f"{row}/later.md", f"{word}\n")
    return ground.until_found(word, [f"{row}/later.md"])
