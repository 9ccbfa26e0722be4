"""Proposals in the editor: what waits, what it would change, and the person's decision."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sidecar.editor import messages
from sidecar.editor.session import Facts, Method, Tell
from sidecar.editor.shapes import Apply, OfId, ProposalsList, Reject
from sidecar.web.admin_proposals import ProposalActions

_KEYS: Final = ("id", "status", "created", "author", "title", "rationale", "files", "resolution")
_ROOM: Final = 900_000
"""Bytes of a line for what may be long; the rest of it is small."""
_ROOM_BESIDE: Final = 100_000
_RATIONALE: Final = 1000
"""Characters in a list."""


def methods(actions: ProposalActions) -> Mapping[str, Method]:
    """By name. Who decides here is the plugin."""

    async def listed(asked: ProposalsList) -> Facts:
        facts = await actions.listed(asked.all)
        rows = [_row(each) | {"rationale": each["rationale"][:_RATIONALE]} for each in facts["proposals"]]
        fitting = _fitting(rows, _ROOM)
        unreadable = _fitting(facts["unreadable"], _ROOM_BESIDE)
        return {"proposals": fitting, "unreadable": unreadable, "left": len(rows) - len(fitting)}

    async def show(asked: OfId) -> Facts:
        facts = await actions.show(asked.id)
        row = _row(facts)
        diff = messages.beginning(facts["diff"], _ROOM - messages.size(row))
        return {
            "proposal": row,
            "diff": diff,
            "cut": len(diff) < len(facts["diff"]),
            "problem": facts["problem"],
            "checksum": facts["checksum"],
        }

    async def apply(asked: Apply) -> Facts:
        facts = await actions.apply(asked.id, "plugin", asked.seen)
        reason = facts["resolution"]["reason"] if facts["status"] == "rejected" else None
        return {"id": facts["id"], "status": facts["status"], "reason": reason}

    async def reject(asked: Reject) -> Facts:
        facts = await actions.reject(asked.id, "plugin", asked.reason or None)
        return {"id": facts["id"], "status": facts["status"]}

    return {
        "proposals/list": Method(ProposalsList, listed),
        "proposals/show": Method(OfId, show),
        "proposals/apply": Method(Apply, apply),
        "proposals/reject": Method(Reject, reject),
    }


async def tell_changes(actions: ProposalActions, changed: asyncio.Event, tell: Tell) -> None:
    """Tell how many wait for a person, whenever that may be another number. Until cancelled."""
    while True:
        await changed.wait()
        changed.clear()
        tell("proposals/changed", {"open": len((await actions.listed(False))["proposals"])})


def _row(facts: Facts) -> dict[str, Any]:
    return {key: facts[key] for key in _KEYS}


def _fitting(rows: Sequence[Facts], room: int) -> list[Facts]:
    """The first of them, as many as have room."""
    kept: list[Facts] = []
    for row in rows:
        room -= messages.size(row)
        if room < 0:
            break
        kept.append(row)
    return kept
