"""One real daemon with tokens for agents of two organisations, asked over HTTP."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import wire
from tests.daemons import Daemon, start_daemon

AGENTS = {"anna": "north", "arne": "north", "bert": "south", "carl": "south", "dora": "south"}
HERMIT = "hermit"
"""An agent of whom nothing is known but what its test does."""

# runs in the daemon before anything of ours: every connection and every sent packet is written down
WATCH = """
import os, sys
def watch(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        with open(os.environ["WATCHED"], "a") as file:
            file.write(f"{event} {args[1:] if event.startswith('socket.c') or event.endswith('to') else args}\\n")
sys.addaudithook(watch)
"""


@dataclass
class Hub:
    """The daemon, its agents' tokens, and what it has connected to."""

    daemon: Daemon
    state: Path
    watched: Path
    tokens: dict[str, str] = field(default_factory=dict[str, str])

    def admin(self, path: str, **body: Any) -> dict[str, Any]:
        """POST below /admin with the local key; GET without a body."""
        [key] = self.state.rglob("local.key")
        headers = {
            "Host": f"127.0.0.1:{self.daemon.port}",
            "Authorization": f"Bearer {key.read_text().strip()}",
            "Content-Type": "application/json",
        }
        method = "POST" if body else "GET"
        raw = json.dumps(body).encode() if body else b""
        return wire.raw(self.daemon.port, wire.request(method, f"/admin/{path}", headers, raw)).json()

    def raw(self, tool: str, agent: str = "local", **arguments: Any) -> wire.Reply:
        """The whole answer to a call by an agent."""
        token = self.tokens.get(agent, self.daemon.token)
        return wire.post(self.daemon.port, token, wire.tool(tool, **arguments), "/mcp/knowledge")

    def result(self, tool: str, agent: str = "local", **arguments: Any) -> dict[str, Any]:
        """The result of a call."""
        return self.raw(tool, agent, **arguments).json()["result"]

    def call(self, tool: str, agent: str = "local", **arguments: Any) -> Any:
        """What the text block of a good answer says."""
        result = self.result(tool, agent, **arguments)
        assert not result.get("isError"), result
        [block] = result["content"]
        return json.loads(block["text"])

    def refusal(self, tool: str, agent: str = "local", **arguments: Any) -> str:
        """The sentence of a tool error."""
        result = self.result(tool, agent, **arguments)
        assert result["isError"] is True
        assert "structuredContent" not in result
        [block] = result["content"]
        return str(block["text"])

    def ids(self, tool: str, agent: str = "local", **arguments: Any) -> list[str]:
        """Ids that a search answers."""
        return [found["id"] for found in self.call(tool, agent, **arguments)]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    scratch = tmp_path_factory.mktemp("hub")
    (scratch / "vault").mkdir()
    (scratch / "vault" / "Note.md").write_text("# Note\n")
    (scratch / "watch").mkdir()
    (scratch / "watch" / "sitecustomize.py").write_text(WATCH)
    path = os.pathsep.join([str(scratch / "watch"), *filter(None, [os.environ.get("PYTHONPATH")])])
    daemon = start_daemon(
        scratch / "vault",
        scratch / "state",
        env={"PYTHONPATH": path, "WATCHED": str(scratch / "watched"), "VAULT_SIDECAR_INDEX_RAG": "false"},
    )
    try:
        hub = Hub(daemon, scratch / "state", scratch / "watched")
        for agent, org in {**AGENTS, HERMIT: "south"}.items():
            hub.tokens[agent] = hub.admin("token/add", agent=agent, org=org)["token"]
        yield hub
    finally:
        assert daemon.process.poll() is None, daemon.stderr()
        assert daemon.stop() == 0
        sys.stdout.flush()
