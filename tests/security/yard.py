"""A served vault into which hostile notes are saved."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar.vault.paths import printable
from tests import wire
from tests.daemons import Daemon
from tests.security.ground import Ground, later_note, served, write
from tests.security.measures import used

SLACK = 10  # the catalogue's: deadlines are ten times as long as on a quiet machine
CATALOGUES = ["/mcp", "/mcp/notes"]


@dataclass(frozen=True)
class Yard:
    """A served vault that takes any note."""

    ground: Ground
    daemon: Daemon
    told: list[bytes]
    """What clients were told of the tools before the first hostile note."""
    usual_s: float
    """How long an ordinary note takes to be found."""

    def save(self, row: str, content: str | bytes, limit_s: float) -> str:
        """Save a note and wait until one that was saved after it is found; its path.

        Where it can be told, the processor's time counts and not the clock's, which a busy machine holds up.
        """
        path = f"{row}/hostile.md"
        with used(self.daemon.pid) as usage:
            write(self.ground.vault, path, encoded(content))
            seconds = later_note(self.ground, row)
        assert (usage.cpu_s if usage.known else seconds) < SLACK * (limit_s + self.usual_s)
        return path

    def stored(self, path: str) -> Mapping[str, Any]:
        """What the index keeps of a note."""
        [manifest] = self.ground.state.rglob("manifest.sqlite")
        with closing(sqlite3.connect(f"{manifest.as_uri()}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            [row] = connection.execute("SELECT * FROM notes WHERE path = ?", (path,))
        listed = ("tags", "aliases", "links", "warnings")
        return {**dict(row), **{name: json.loads(row[name]) for name in listed}}

    def ranked(self, query: str) -> dict[str, dict[str, Any]]:
        """What the keyword index finds, by path."""
        results = self.ground.admin(f"search?k=100&mode=keyword&q={query}")["results"]
        return {result["path"]: result for result in results}

    def is_served(self, path: str, content: str | bytes) -> None:
        """Listed, and read as it stands on the disk."""
        assert printable(path) in self.ground.listed()
        said = self.ground.call("read_note", path=path, max_chars=200_000)
        assert not said.is_error
        text = encoded(content).decode("utf-8-sig", "replace")
        assert said.text == text if len(text) <= 200_000 else said.text.startswith(text[:200_000])


def encoded(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def told(ground: Ground) -> list[bytes]:
    """The instructions and the list of tools, byte for byte."""
    messages = (wire.INITIALIZE, wire.call("tools/list"))
    return [ground.post(message, path).body for path in CATALOGUES for message in messages]


@contextmanager
def open_yard(scratch: Path) -> Iterator[Yard]:
    """A yard with one ordinary note, until the block ends."""
    write(scratch / "base/vault", "first.md")
    with served(scratch / "base", scratch / "state") as (ground, daemon):
        before = told(ground)
        usual_s = max(later_note(ground, f"usual-{number}") for number in range(3))
        yield Yard(ground, daemon, before, usual_s)
