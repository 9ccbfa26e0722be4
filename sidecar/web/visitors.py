"""Who came lately: the clients that were let in, and the last one that was turned away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sidecar.bridge import times
from sidecar.bridge.token import Caller

_MOST_CLIENTS = 50


class Visitors:
    """For `status`. A client is a program's own name for itself together with the token it used."""

    def __init__(self, on_new: Callable[[], None] = lambda: None) -> None:
        """`on_new` is called when there is another client, or somebody was turned away."""
        self._on_new = on_new
        self._clients: dict[tuple[str, str], str] = {}
        self._last_refused: dict[str, Any] | None = None

    def served(self, caller: Caller, agent: str) -> None:
        """A request was let in; the owner's own programs are not clients."""
        if caller.local:
            return
        key = (agent, caller.agent_id)
        is_new = self._clients.pop(key, None) is None
        self._clients[key] = times.now()
        if len(self._clients) > _MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]
        if is_new:
            self._on_new()

    def refused(self, reason: str, status: int, agent: str) -> None:
        """A request was turned away."""
        self._last_refused = {"reason": reason, "status": status, "agent": agent, "at": times.now()}
        self._on_new()

    def facts(self) -> dict[str, Any]:
        """`clients`, the one seen last first: agent, token (its agent's name; `local` is the main one), last_seen.

        `last_refused` has reason, status, agent and at, or is None. Times are RFC 3339 UTC.
        """
        clients = [
            {"agent": agent, "token": token, "last_seen": seen}
            for (agent, token), seen in reversed(self._clients.items())
        ]
        return {"clients": clients, "last_refused": self._last_refused}
