"""`status`: what the daemon is doing.

Exit code 0 if it runs, 1 if not, so that a script can ask with the exit code
alone; the facts are printed either way.
"""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from sidecar.bridge.client import LocalClient, NotRunning
from sidecar.cli import where
from sidecar.cli.databases import line_of
from sidecar.vault.paths import printable

_MOST_SKIPPED = 10

_STOPPED: dict[str, Any] = {
    "phase": "stopped",
    "url": None,
    "port": None,
    "pid": None,
    "version": None,
    "vault": None,
    "owner": None,
    "relays": 0,
    "generation": None,
    "notes": None,
    "chunks": None,
    "skipped": [],
    "embedder": None,
    "backend": None,
    "vectors": None,
    "databases": [],
    "databases_problem": None,
    "knowledge_problem": None,
    "allow_writes": None,
    "clients": [],
    "last_refused": None,
    "last_problem": None,
}


def run(args: Namespace) -> int:
    """Print the facts for people, or as JSON with the same keys whether a daemon runs or not."""
    place = where.find(args)
    try:
        with LocalClient(place.state_dir) as client:
            facts = client.get("/admin/status")
    except NotRunning:
        facts = _STOPPED | {"vault": str(place.vault)}
    if args.json:
        print(json.dumps(facts, indent=2))
    else:
        for line in _lines(facts):
            print(printable(line))
    return 1 if facts["phase"] == "stopped" else 0


def _lines(facts: dict[str, Any]) -> list[str]:
    lines = [f"vault-sidecar is {_state(facts)}", *_row("vault", facts["vault"])]
    if facts["phase"] == "stopped":
        return [*lines, *_row("start it", "vault-sidecar serve")]
    notes, chunks = facts["notes"], facts["chunks"]
    lines += _row("address", facts["url"])
    lines += _row("process", f"{facts['pid']}, version {facts['version']}, started as {facts['owner']}")
    clients = [f"{facts['relays']} over stdio"] if facts["relays"] else []
    clients += map(_client, facts["clients"])
    lines += _row(
        "notes", f"{notes['total']:,}, of which {notes['keyword']:,} searchable, {notes['vector']:,} by meaning"
    )
    lines += _row("chunks", f"{chunks['total']:,}, of which {chunks['vector']:,} have a vector")
    lines += _row("vectors", facts.get("vectors"))
    lines += _row("embedder", facts["embedder"])
    lines += _row("databases", *map(line_of, facts.get("databases", ())), facts.get("databases_problem"))
    lines += _row("knowledge", facts.get("knowledge_problem"))
    lines += _row("writes", "allowed" if facts.get("allow_writes") else None)
    lines += _row("generation", f"{facts['generation']:,}")
    lines += _row("watching", facts.get("watching"))
    skipped = [f"{entry['path']}: {entry['reason']}" for entry in facts["skipped"]]
    if len(skipped) > _MOST_SKIPPED:
        skipped[_MOST_SKIPPED:] = [f"and {len(skipped) - _MOST_SKIPPED:,} more; --json lists all"]
    lines += _row("skipped", *skipped)
    lines += _row("clients", *clients)
    refused = facts["last_refused"]
    if refused:
        who = refused["agent"] or "unnamed"
        lines += _row("refused", f"{refused['reason']} ({refused['status']}) at {refused['at']}, {who}")
    lines += _row("problem", facts["last_problem"])
    return lines


def _client(client: dict[str, str]) -> str:
    named = "" if client["token"] == "local" else f", with the token of {client['token']}"  # noqa: S105 - no password
    return f"{client['agent'] or 'unnamed'}{named}, last seen {client['last_seen']}"


def _state(facts: dict[str, Any]) -> str:
    progress: dict[str, int] = facts.get("progress") or {}
    if facts["phase"] not in ("stopped", "ready") and progress.get("total"):
        return f"{facts['phase']}: {progress['done']:,} of {progress['total']:,} notes"
    return str(facts["phase"])


def _row(name: str, *values: str | None) -> list[str]:
    """A name and its values below each other; nothing where there is no value."""
    names = [name] + [""] * len(values)
    return [f"  {label:<12}{value}" for label, value in zip(names, values, strict=False) if value]
