"""`index rebuild`: has the running daemon read every note again, and waits."""

from __future__ import annotations

import sys
from argparse import Namespace

from sidecar.bridge.client import LocalClient
from sidecar.cli import where
from sidecar.cli.screen import Reporter, Screen
from sidecar.cli.waiting import all_of, until_settled

_AWAY = "the vault can't be read now; the rebuild goes on by itself once it is back"


def run(args: Namespace) -> int:
    """Rebuild; answers to searches go on meanwhile."""
    screen = Screen(sys.stderr)
    report = Reporter(screen)
    try:
        with LocalClient(where.find(args).state_dir) as client:
            begun = client.post("/admin/rebuild")
            facts = until_settled(client, {"generation": begun["generation"]}, report, _AWAY)
            report(all_of(facts))
    finally:
        screen.clear()
    return 0
