"""`index rebuild`: has the running daemon read every note again, and waits."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import dataclass

from sidecar.bridge.client import LocalClient
from sidecar.cli import where
from sidecar.cli.screen import Reporter, Screen
from sidecar.errors import NotReady

_LOOK_EVERY_S = 0.5  # how long the daemon holds an answer back while nothing changes


@dataclass(frozen=True, slots=True)
class _Progress:
    phase: str
    done: int
    total: int


def run(args: Namespace) -> int:
    """Rebuild; answers to searches go on meanwhile."""
    screen = Screen(sys.stderr)
    try:
        with LocalClient(where.find(args).state_dir) as client:
            _rebuild(client, Reporter(screen))
    finally:
        screen.clear()
    return 0


def _rebuild(client: LocalClient, report: Reporter) -> None:
    generation = client.post("/admin/rebuild")["generation"]
    while True:
        facts = client.get("/admin/status", after=generation, wait_s=_LOOK_EVERY_S)
        generation, progress = facts["generation"], facts["progress"]
        if facts["settled"]:
            break
        if facts["phase"] == "vault unavailable":
            raise NotReady("the vault can't be read now; the rebuild goes on by itself once it is back")
        report(_Progress(facts["phase"], progress["done"], progress["total"]))
    report(_Progress("ready", facts["notes"]["keyword"], facts["notes"]["total"]))
