"""Clients that write and read notes of a daemon at the same time, and what has to hold of the notes afterwards."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sidecar.vault.temporary import is_temporary
from tests import wire

WRITES = {"VAULT_SIDECAR_NOTES_ALLOW_WRITES": "true"}
PATIENCE_S = 60.0
GONE = (OSError, http.client.HTTPException, ValueError)
"""What a client meets whose daemon was ended."""

_NOW = re.compile(r"its checksum is now (sha256:[0-9a-f]{64})")
_LINE = re.compile(r"\[[a-z]+-\d+-\d+\](?: padding)*\n")


class Scribe:
    """One client with a connection of its own. Not for several threads."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        self._headers = wire.mcp_headers(port, token)

    def call(self, tool: str, **arguments: Any) -> tuple[str, bool, dict[str, Any]]:
        """Text, whether it is an error, and `_meta`."""
        self._connection.request("POST", "/mcp", wire.tool(tool, **arguments), self._headers)
        response = self._connection.getresponse()
        body = response.read()
        assert response.status == 200, (response.status, body)
        result = json.loads(body)["result"]
        return result["content"][0]["text"], bool(result.get("isError")), result.get("_meta") or {}

    def append(self, path: str, line: str, *, after_look: Callable[[], object] = lambda: None) -> int:
        """Append a line, expecting what was there last; how often the note had changed meanwhile."""
        _, missing, meta = self.call("read_note", path=path)
        expected = {} if missing else {"expected": meta["vault-sidecar/checksum"]}
        after_look()
        for refusals in range(100_000):
            text, failed, _ = self.call("write_note", path=path, content=line, mode="append", **expected)
            if not failed:
                return refusals
            now = _NOW.search(text)
            assert now, text
            expected = {"expected": now[1]}
        raise AssertionError("it never got its turn")

    def close(self) -> None:
        self._connection.close()


@dataclass
class Load:
    """Threads that work until they are told to end, or their daemon is gone."""

    ending: threading.Event = field(default_factory=threading.Event)
    acknowledged: list[tuple[str, str]] = field(default_factory=list)
    """(path, line) of every append that was answered."""
    failures: list[str] = field(default_factory=list)


def line(name: str, round_number: int, number: int) -> str:
    """A line of its own, long enough to be torn."""
    return f"[{name}-{round_number}-{number}]{' padding' * 40}\n"


@contextmanager
def appending(port: int, token: str, round_number: int, paths: list[str], *, may_vanish: bool) -> Iterator[Load]:
    """One client a note appends line after line inside the block."""
    load = Load()

    def work(name: str, path: str) -> None:
        scribe = Scribe(port, token)
        try:
            for number in range(1_000_000):
                if load.ending.is_set():
                    return
                text = line(name, round_number, number)
                said, failed, _ = scribe.call("write_note", path=path, content=text, mode="append")
                if failed:
                    load.failures.append(said)
                else:
                    load.acknowledged.append((path, text))
        except GONE as gone:
            if not may_vanish:
                load.failures.append(repr(gone))
        finally:
            scribe.close()

    names = [chr(97 + number) * 3 for number in range(len(paths))]
    threads = [threading.Thread(target=work, args=each) for each in zip(names, paths, strict=True)]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        load.ending.set()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def torn_notes(vault: Path, paths: list[str]) -> list[str]:
    """Notes that hold anything but whole lines."""
    return [path for path in paths if (vault / path).exists() and _LINE.sub("", (vault / path).read_text())]


def lost(vault: Path, acknowledged: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Acknowledged lines that are not in their note exactly once."""
    texts = {path: (vault / path).read_text().splitlines(keepends=True) for path, _ in acknowledged}
    counts = {path: {text: lines.count(text) for text in set(lines)} for path, lines in texts.items()}
    return [(path, text) for path, text in acknowledged if counts[path].get(text) != 1]


def temporary_files(vault: Path) -> list[str]:
    return sorted(str(path) for path in vault.rglob(".*") if is_temporary(path.name))


def on_disk(vault: Path) -> set[tuple[str, str]]:
    """(path, checksum) of every note."""
    return {
        (str(path.relative_to(vault)), f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}")
        for path in vault.rglob("*.md")
        if not path.name.startswith(".")
    }


def indexed(state: Path) -> set[tuple[str, str]]:
    """(path, checksum) of every note in the manifest."""
    [manifest] = state.rglob("manifest.sqlite")
    with closing(sqlite3.connect(f"{manifest.as_uri()}?mode=ro", uri=True)) as connection:
        return set(connection.execute("SELECT path, checksum FROM notes"))


def eventually(holds: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(sqlite3.OperationalError):
            if holds():
                return
        assert time.monotonic() < give_up, what
        time.sleep(0.02)
