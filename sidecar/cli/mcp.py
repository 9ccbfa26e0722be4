"""`mcp`: an MCP server on stdin and stdout, for clients that start one.

It serves nothing itself: it is a relay to the vault's daemon, which it starts
in the background where none runs.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sidecar.bridge.background import Background
from sidecar.bridge.places import check_vault
from sidecar.cli import log, stdout, where
from sidecar.cli.screen import Screen
from sidecar.errors import NotFound, SidecarError
from sidecar.protocol.stdio.relay import Relay
from sidecar.protocol.stdio.stand_in import StandIn

if TYPE_CHECKING:
    from sidecar.protocol.http import McpPath
    from sidecar.services.core import Core


def run(args: Namespace) -> int:
    """Relay until the client closes stdin; then the exit code is 0."""
    place = where.find(args)
    output = stdout.claim()
    log.set_up(Screen(sys.stderr), "info")

    def start() -> Background:
        vault = check_vault(place.vault, home=Path.home())  # else a state folder would be made for what is none
        places = ["--vault", str(vault), "--state", str(place.state_dir.parent)]
        return Background(place.state_dir, ["serve", *places, "--auto", str(args.linger)])

    relay = Relay(
        place.state_dir,
        f"/mcp/{args.surface}" if args.surface else "/mcp",
        start=start,
        stand_in=StandIn(lambda: _catalogue(place, args.surface)),
        output=output,
    )
    relay.run(sys.stdin.buffer)
    return 0


def _catalogue(place: where.Where, surface: str | None) -> McpPath:
    """The tools by what is known of them without a vault.

    Those that need a permission to change something are left out, since it
    can't be asked for.
    """
    from dataclasses import replace

    from sidecar import contract
    from sidecar.protocol.http import McpPath
    from sidecar.protocol.server import build_server
    from sidecar.surfaces import SURFACES

    try:
        enabled = where.load_config(place).surfaces.enabled
    except SidecarError:  # very likely the reason why no daemon can be started
        enabled = None
    chosen: list[contract.Surface] = []
    for known in SURFACES:
        if known.name == surface or (surface is None and (enabled is None or known.name in enabled)):
            tools = (tool for tool in known.tools if tool.offered is contract.always or tool.read_only)
            chosen.append(replace(known, tools=tuple(replace(tool, offered=contract.always) for tool in tools)))
    if surface is None:
        catalogue = contract.composite(chosen)
    elif chosen:
        catalogue = contract.single(chosen[0])
    else:
        raise NotFound(f"There is no surface {surface!r}.")
    return McpPath(build_server(catalogue, cast("Core", None)))  # nothing is left that would ask the services
