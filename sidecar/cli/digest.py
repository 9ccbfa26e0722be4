"""`digest run`: has the daemon make the digest of a day, which then waits as a proposal."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any, Final

from sidecar.bridge.background import Background
from sidecar.bridge.client import LocalClient, NotRunning
from sidecar.bridge.places import check_vault
from sidecar.cli import where
from sidecar.cli.screen import Reporter, Screen
from sidecar.cli.waiting import until_settled
from sidecar.cli.where import Where
from sidecar.errors import Unreachable

_LINGER_S: Final = 60.0
"""How long a daemon that was started for this stays."""

_START_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.1
_AWAY: Final = "the vault can't be read now, so no digest is made"


def run(args: Namespace) -> int:
    """Make it, and say what came of it. That there is nothing to do is no failure."""
    place = where.find(args)
    screen = Screen(sys.stderr)
    try:
        with LocalClient(place.state_dir) as client:
            # a digest is of all notes, so all have to be indexed
            until_settled(client, _status(client, place), Reporter(screen), _AWAY)
            facts = client.post("/admin/digest", **({"now": args.now} if args.now else {}))
    finally:
        screen.clear()
    print(json.dumps(facts) if args.json else facts["said"])
    return 0


def _status(client: LocalClient, place: Where) -> dict[str, Any]:
    """Of the daemon; where none runs, one is started in the background."""
    try:
        return client.get("/admin/status")
    except NotRunning:
        pass
    vault = check_vault(place.vault, home=Path.home())
    places = ["--vault", str(vault), "--state", str(place.state_dir.parent)]
    daemon = Background(place.state_dir, ["serve", *places, "--auto", str(_LINGER_S)])
    give_up = time.monotonic() + _START_S
    while True:
        try:
            return client.get("/admin/status")
        except NotRunning:
            if daemon.poll() is not None:
                raise Unreachable(f"the daemon can't be started: {daemon.last_words()}") from None
            if time.monotonic() > give_up:
                raise
            time.sleep(_LOOK_EVERY_S)
