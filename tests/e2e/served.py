"""A vault served by a real daemon process, looked at over HTTP and by a second, read-only view of its manifest."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sidecar.index.manifest_reader import ManifestReader
from sidecar.surfaces import SURFACES
from sidecar.vault.paths import is_hidden, is_note_name
from tests.conftest import REPOSITORY
from tests.daemons import Daemon, start_daemon
from tests.security.starts import run_first

PATIENCE_S = 60.0
_PATIENT = Path(__file__).parent / "patient"
_IDLE_S = 5.0  # a connection that was idle for longer is not used again: the daemon closes such


@dataclass(frozen=True)
class Answer:
    """One tool result."""

    text: str
    is_error: bool
    meta: dict[str, Any]


@dataclass
class Served:
    """The running daemon and its state folder."""

    daemon: Daemon
    state: Path
    _connection: http.client.HTTPConnection = field(init=False)
    _used: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=PATIENCE_S)

    def close(self) -> None:
        self._connection.close()

    def _request(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> bytes:
        """The body of a good answer."""
        if time.monotonic() - self._used > _IDLE_S:
            self._connection.close()  # it opens itself anew
        self._connection.request(method, target, body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        self._used = time.monotonic()
        assert response.status == 200, answer
        return answer

    @property
    def state_dir(self) -> Path:
        [manifest] = self.state.glob("*/manifest.sqlite")  # and no deeper: folders of vectors come and go there
        return manifest.parent

    def admin(self, path: str) -> dict[str, Any]:
        """GET below /admin with the local key."""
        key = (self.state_dir / "local.key").read_text().strip()
        path, _, query = path.partition("?")
        target = f"/admin/{path}?{quote(query, safe='=&')}"
        return json.loads(self._request("GET", target, None, {"Authorization": f"Bearer {key}"}))

    def rpc(self, method: str, params: dict[str, Any] | None = None, path: str = "/mcp") -> dict[str, Any]:
        """One JSON-RPC request with the token; the whole reply."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}})
        headers = {
            "Authorization": f"Bearer {self.daemon.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        return json.loads(self._request("POST", path, body.encode(), headers))

    def call(self, tool: str, **arguments: Any) -> Answer:
        """tools/call, its one text block."""
        result = self.rpc("tools/call", {"name": tool, "arguments": arguments})["result"]
        [block] = result["content"]
        return Answer(block["text"], bool(result.get("isError")), result.get("_meta") or {})

    def settled(self) -> dict[str, Any]:
        """The status once nothing is queued."""
        give_up = time.monotonic() + PATIENCE_S
        while not (status := self.admin("status"))["settled"]:
            assert time.monotonic() < give_up, status
            self.admin(f"status?after={status['generation']}&wait_s=0.2")
        return status

    @cached_property
    def listed(self) -> list[str]:
        """All paths of list_notes, as printed."""
        paths: list[str] = []
        while True:
            lines = self.call("list_notes", limit=1000, offset=len(paths)).text.split("\n")
            page = [line for line in lines[1:] if not line.startswith(("More notes:", "[Result cut"))]
            paths += page
            if not lines[-1].startswith(("More notes:", "[Result cut")):
                return paths

    @cached_property
    def skipped(self) -> dict[str, str]:
        """Reasons by path."""
        return {row["path"]: row["reason"] for row in self.admin("status")["skipped"]}

    def found(self, query: str) -> list[str]:
        """Paths of search_notes."""
        lines = self.call("search_notes", query=query, limit=100).text.split("\n")[1:]
        return [line for line in lines if not line.startswith(("  ", "["))]

    def chunks(self, path: str) -> list[str]:
        """Texts of a note's chunks as indexed."""
        with closing(ManifestReader(self.state_dir / "manifest.sqlite")) as reader:
            return {name: texts for name, _, texts in reader.contents()}[path]

    def contents(self) -> list[tuple[str, str, list[str]]]:
        """The whole index, comparable."""
        with closing(ManifestReader(self.state_dir / "manifest.sqlite")) as reader:
            return reader.contents()

    def embedded(self, path: str) -> list[str]:
        """Texts of a note that would go to an embedder."""
        with closing(ManifestReader(self.state_dir / "manifest.sqlite")) as reader:
            return reader.embeddable_texts(path)

    def log_has_only_whole_lines(self) -> bool:
        """No name forged a line: each begins as the log's lines do."""
        lines = self.daemon.stderr().split("\n")
        return not [line for line in lines if line.startswith("line.md")]

    def every_file_is_accounted_for(self, vault: Path) -> None:
        """Files on disk = indexed + skipped with a reason, and the list shows the indexed ones."""
        status = self.settled()
        with closing(ManifestReader(self.state_dir / "manifest.sqlite")) as reader:
            indexed = {path for path, _, _ in reader.contents()}
        skipped = {row["path"]: row["reason"] for row in status["skipped"]}
        assert all(skipped.values())
        assert on_disk(vault) == indexed | set(skipped)
        assert not indexed & set(skipped)
        assert status["notes"]["keyword"] == len(indexed)


def on_disk(vault: Path) -> set[str]:
    """Every entry with the name of a note outside hidden folders, by a walk of our own."""
    found: set[str] = set()
    for folder, names, files in os.walk(vault, followlinks=False):
        names[:] = [name for name in names if not is_hidden(name)]
        links = [name for name in names if os.path.islink(os.path.join(folder, name))]
        for name in [*files, *links]:
            if is_note_name(name) and not is_hidden(name):
                found.add(os.path.relpath(os.path.join(folder, name), vault))
    return found


def with_vectors(embedder: str | None) -> dict[str, str]:
    """The environment that switches vectors on, and has the daemon wait for them when it is asked a question."""
    if embedder is None:
        return {}
    patient = os.pathsep.join((str(_PATIENT), str(REPOSITORY)))
    return {"VAULT_SIDECAR_INDEX_RAG": "true", "VAULT_SIDECAR_INDEX_EMBEDDER": embedder, "PYTHONPATH": patient}


def patient_and(folder: Path, code: str) -> dict[str, str]:
    """Variables that go over those of `with_vectors`: with these a daemon runs `code` besides, before anything else."""
    return run_first(folder, (_PATIENT / "sitecustomize.py").read_text() + code)


@contextmanager
def serve(
    vault: Path, state: Path, *, embedder: str | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """Serve `vault` and wait until it is indexed. Without `embedder` there are no vectors."""
    daemon = start_daemon(vault, state, env={**with_vectors(embedder), **(env or {})})
    served = Served(daemon, state)
    try:
        served.settled()
        yield served
    finally:
        served.close()
        daemon.stop()


_HOLD_UP = """
import importlib, threading

owner = getattr(importlib.import_module({module!r}), {owner!r})
real, calls = getattr(owner, {name!r}), 0

def held_up(*args, **kwargs):
    global calls
    calls += 1
    if calls > {times}:
        threading.Event().wait()
    return real(*args, **kwargs)

setattr(owner, {name!r}, held_up)
"""


def held_up(folder: Path, method: Callable[..., Any], times: int) -> dict[str, str]:
    """Variables with which a daemon calls a method of its index so often, and does not come back from it after that."""
    owner, name = method.__qualname__.split(".")
    return run_first(folder, _HOLD_UP.format(module=method.__module__, owner=owner, name=name, times=times))


def wait_for_vectors(served: Served, within_s: float = 2 * PATIENCE_S) -> dict[str, Any]:
    """The status once every chunk has its vector."""
    give_up = time.monotonic() + within_s
    while True:
        status = served.admin("status")
        if (
            status["settled"]
            and status["vectors"] == "ready"
            and status["chunks"]["vector"] == status["chunks"]["total"]
        ):
            return status
        assert time.monotonic() < give_up, status
        served.admin(f"status?after={status['generation']}&wait_s=0.2")


GATED = ("semantic_search", "write_note")
"""Tools that are not offered without vectors, and without leave to write."""


def tools_of(*surfaces: str, without: Sequence[str] = GATED) -> list[str]:
    """Names of the tools of these surfaces, or of all, as they are listed."""
    chosen = [surface for surface in SURFACES if not surfaces or surface.name in surfaces]
    return [tool.name for surface in chosen for tool in surface.tools if tool.name not in without]
