"""`writes on|off`: whether clients may write notes. A running daemon changes at once."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

from sidecar.bridge import private_files
from sidecar.bridge.client import LocalClient
from sidecar.bridge.places import check_vault
from sidecar.cli import changes, where


def run(args: Namespace) -> int:
    """Switch, through the daemon if one runs, else for the next start."""
    place, on = where.find(args), bool(args.on)
    if not place.state_dir.is_dir():
        check_vault(place.vault, home=Path.home())  # no state folder is made for a name that is misspelled
    private_files.make_folder(place.state_dir)

    def alone() -> changes.Facts:
        from sidecar.services.switches import store_writes  # slower to import than all of the above

        store_writes(place.state_dir, on, os.environ)
        return {}

    def ask(client: LocalClient) -> changes.Facts:
        return client.post("/admin/settings", allow_writes=on)

    changes.make(place, ask, alone)
    print("clients may write notes" if on else "clients can't write notes", file=sys.stderr)
    return 0
