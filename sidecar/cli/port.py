"""`port`: on which port the vault's daemon listens, from its next start on."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from pathlib import Path

from sidecar.bridge import ports, private_files
from sidecar.bridge.client import LocalClient
from sidecar.bridge.places import check_vault
from sidecar.cli import changes, where


def run(args: Namespace) -> int:
    """Pin `args.port`, or with 0 let every start take another random one. A running daemon stays where it is."""
    place = where.find(args)
    if not place.state_dir.is_dir():
        check_vault(place.vault, home=Path.home())  # no state folder is made for a name that is misspelled
    private_files.make_folder(place.state_dir)

    def alone() -> changes.Facts:
        ports.change_pin(place.state_dir, args.port, os.environ)
        return ports.facts(None, args.port)

    def ask(client: LocalClient) -> changes.Facts:
        return client.post("/admin/port", port=args.port)

    facts = changes.make(place, ask, alone)
    print(json.dumps(facts, indent=2) if args.json else _sentence(facts["pinned"], facts["port"]))
    return 0


def _sentence(pinned: int, listening: int | None) -> str:
    wish = f"port {pinned}" if pinned else "another random port at each start"
    if listening is None:
        return f"the next start listens on {wish}"
    if pinned == listening:
        return f"the daemon listens on {wish} already, and will at its next start"
    return f"restart needed: the daemon stays on port {listening} until it is started again, then listens on {wish}"
