"""`endpoint`: the address of the running daemon, for scripts."""

from __future__ import annotations

import json
from argparse import Namespace

from sidecar.bridge import ports
from sidecar.bridge.addresses import DATABASES_PATH
from sidecar.bridge.client import LocalClient, NotRunning
from sidecar.cli import where
from sidecar.cli.where import Where


def run(args: Namespace) -> int:
    """Print the URL that paths such as `/mcp` are added to, once the daemon has proved that it is there; with
    `--databases` that of the surface `databases`.

    As JSON also the port and the one of the next start, and whether a daemon
    runs or not; the exit code is 1 if none does.
    """
    place = where.find(args)
    try:
        with LocalClient(place.state_dir) as client:
            facts = client.get("/admin/endpoint")
    except NotRunning:
        if not args.json:
            raise
        facts = ports.facts(None, _pinned(place))
    if args.databases and facts["url"]:
        facts["url"] += DATABASES_PATH
    print(json.dumps(facts, indent=2) if args.json else facts["url"])
    return 0 if facts["url"] else 1


def _pinned(place: Where) -> int | None:
    return where.load_config(place).http.port
