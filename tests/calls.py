"""Calls for handlers that a test runs itself, without a transport."""

from __future__ import annotations

from sidecar.bridge.token import Caller
from sidecar.contract import Call

LOCAL = Caller("local", "local", local=False)


async def _unheard(done: float, total: float | None = None, message: str | None = None) -> None:
    pass


def call_by(agent_id: str = "local", org: str = "local") -> Call:
    """A call by this caller, who asked for no progress."""
    return Call(Caller(agent_id, org, local=False), _unheard)
