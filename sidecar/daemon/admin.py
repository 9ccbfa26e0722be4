"""What the daemon does for its owner, put together for the routes under `/admin/` and for the editor.

A command may be broken off while the daemon does what it asked for. What it has
begun to change is changed to the end all the same: half of a change would leave
the daemon at odds with its own files.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import asdict, replace
from typing import Any

from sidecar import __version__
from sidecar.bridge import lock
from sidecar.config import Owner, ServeOptions
from sidecar.daemon.running import Running
from sidecar.errors import AlreadyServed
from sidecar.tasks import Unbroken
from sidecar.web.admin import AdminActions
from sidecar.web.admin_access import AccessActions
from sidecar.web.admin_agents import agents_actions
from sidecar.web.admin_databases import DatabaseActions
from sidecar.web.admin_digest import digest_action
from sidecar.web.admin_knowledge import KnowledgeActions
from sidecar.web.admin_notes import NotesActions
from sidecar.web.admin_proposals import proposal_actions
from sidecar.web.relays import Relays
from sidecar.web.visitors import Visitors

logger = logging.getLogger(__name__)


def admin_actions(
    options: ServeOptions, running: Running, visitors: Visitors, relays: Relays, unbroken: Unbroken
) -> AdminActions:
    """The actions of a running daemon. `unbroken` is closed before its services are."""
    core, upkeep = running.services.core, running.services.upkeep
    tokens, address = running.services.tokens, running.services.address

    async def status() -> dict[str, Any]:
        return {
            "url": running.url,
            "port": address.listening,
            "pid": os.getpid(),
            "version": __version__,
            "vault": str(options.vault),
            "owner": options.owner,
            "relays": relays.count,
            **await upkeep.status(),
            **await core.databases.status(),
            "knowledge_problem": core.knowledge.problem,
            "allow_writes": core.switches.allow_writes,
            **visitors.facts(),
        }

    async def stop() -> dict[str, Any]:
        # the answer goes out first
        asyncio.get_running_loop().call_later(0.05, running.stopped.set)
        return {"stopping": True, "pid": os.getpid()}

    async def hand_over(newcomer: Owner) -> dict[str, Any]:
        if not lock.gives_way(options.owner, newcomer):
            raise AlreadyServed(f"this daemon, started as '{options.owner}', does not give way to '{newcomer}'")
        logger.info("handing over to a daemon started as '%s'", newcomer)
        running.taken_over_by = newcomer
        return await stop()

    async def rotate() -> dict[str, Any]:
        facts = await tokens.rotate()
        running.on_outside("token")
        return facts

    async def pin(port: int) -> dict[str, Any]:
        facts = await address.pin(port)
        running.on_outside("settings")
        return facts

    async def allow_writes(on: bool) -> dict[str, Any]:
        await core.switches.set_writes(on)
        running.on_outside("settings")
        return {"allow_writes": core.switches.allow_writes}

    async def restore(copy_id: str) -> dict[str, Any]:
        return asdict(await core.writing.restore(copy_id))

    whole = unbroken.whole
    proposals, agents = proposal_actions(core.proposals), agents_actions(core.agents)
    return AdminActions(
        status=status,
        wait=upkeep.wait,
        search=upkeep.search,
        stop=stop,
        rebuild=upkeep.rebuild,
        access=AccessActions(
            token=tokens.show,
            tokens=tokens.listed,
            rotate=whole(rotate),
            add=tokens.add,
            remove=tokens.remove,
            endpoint=address.facts,
            pin=whole(pin),
        ),
        notes=NotesActions(allow_writes=whole(allow_writes), restore=restore),
        proposals=replace(proposals, apply=whole(proposals.apply), reject=whole(proposals.reject)),
        knowledge=KnowledgeActions(
            listed=core.knowledge.listed,
            shown=core.knowledge.shown,
            remove=core.knowledge.remove,
            release=core.knowledge.release,
            export=core.knowledge.export,
        ),
        digest=digest_action(core.digests),
        databases=DatabaseActions(core.databases.status, whole(core.databases.add), whole(core.databases.remove)),
        agents=replace(agents, remote=whole(agents.remote)),
        hand_over=hand_over,
        relays=relays,
    )
