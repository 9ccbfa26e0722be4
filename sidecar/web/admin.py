"""Routes under `/admin/`, for relay and command line.

Only the local key opens them; for the token of a client they do not exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web
from pydantic import Field

from sidecar import arguments
from sidecar.arguments import Query, Shape
from sidecar.config import Owner
from sidecar.errors import AlreadyServed
from sidecar.web.admin_access import AccessActions, access_routes
from sidecar.web.admin_agents import AgentsActions, agents_routes
from sidecar.web.admin_databases import DatabaseActions, database_routes
from sidecar.web.admin_digest import DigestAction, digest_routes
from sidecar.web.admin_knowledge import KnowledgeActions, knowledge_routes
from sidecar.web.admin_notes import NotesActions, notes_routes
from sidecar.web.admin_proposals import ProposalActions, proposal_routes
from sidecar.web.answers import Facts, reply
from sidecar.web.relays import Relays

Mode = Literal["hybrid", "vector", "keyword"]

_NUMBERS = frozenset(("k", "after", "wait_s"))
_LONGEST_NUMBER = 15


async def _at_once(after: int, within_s: float) -> Facts:
    return {}


async def _stay(newcomer: Owner) -> Facts:
    raise AlreadyServed("this daemon hands over to nobody")


@dataclass(frozen=True, slots=True)
class AdminActions:
    """What the daemon does for its owner. Each returns facts that are JSON as they are."""

    status: Callable[[], Awaitable[Facts]]
    search: Callable[[str, int, Mode], Awaitable[Facts]]
    """Called with query, number of notes and mode."""
    stop: Callable[[], Awaitable[Facts]]
    """Returns first and stops soon after, so that the answer arrives."""
    rebuild: Callable[[], Awaitable[Facts]]
    access: AccessActions
    notes: NotesActions
    proposals: ProposalActions
    knowledge: KnowledgeActions
    digest: DigestAction
    databases: DatabaseActions
    agents: AgentsActions
    wait: Callable[[int, float], Awaitable[Facts]] = _at_once
    """Called with a generation and seconds; returns when the index is beyond the one or the others have passed."""
    hand_over: Callable[[Owner], Awaitable[Facts]] = _stay
    """Called with the kind of a daemon that wants to take this one's place; as `stop`, or AlreadyServed."""
    relays: Relays = field(default_factory=Relays)


class StatusQuery(Shape):
    """Query string of /admin/status. With `after` the answer waits for a newer generation, `wait_s` at most."""

    after: int | None = Field(None, ge=0)
    wait_s: float = Field(0.0, ge=0, le=30)


class SearchQuery(Shape):
    """Query string of /admin/search."""

    q: Query
    k: int = Field(10, ge=1, le=100)
    mode: Mode = "hybrid"


class HandOverQuery(Shape):
    """Query string of /admin/hand-over."""

    owner: Owner = Field(description="What the newcomer was started as.")


class Admin:
    """The handlers, by path and method."""

    def __init__(self, actions: AdminActions) -> None:
        self._actions = actions

    def routes(self) -> Mapping[str, tuple[str, Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]]]:
        """Path to (method, handler)."""
        return {
            "/admin/status": ("GET", self._status),
            "/admin/search": ("GET", self._search),
            "/admin/stop": ("POST", self._stop),
            "/admin/rebuild": ("POST", self._rebuild),
            **access_routes(self._actions.access),
            "/admin/hand-over": ("POST", self._hand_over),
            "/admin/relay": ("GET", self._actions.relays.hold),
            **notes_routes(self._actions.notes),
            **proposal_routes(self._actions.proposals),
            **knowledge_routes(self._actions.knowledge),
            **digest_routes(self._actions.digest),
            **database_routes(self._actions.databases),
            **agents_routes(self._actions.agents),
        }

    async def _status(self, request: web.BaseRequest) -> web.StreamResponse:
        async def status() -> Facts:
            asked = arguments.check(StatusQuery, _given(request), owner="/admin/status")
            if asked.after is not None:
                await self._actions.wait(asked.after, asked.wait_s)
            return await self._actions.status()

        return await reply(status)

    async def _search(self, request: web.BaseRequest) -> web.StreamResponse:
        async def search() -> Facts:
            asked = arguments.check(SearchQuery, _given(request), owner="/admin/search")
            return await self._actions.search(asked.q, asked.k, asked.mode)

        return await reply(search)

    async def _stop(self, request: web.BaseRequest) -> web.StreamResponse:
        return await reply(self._actions.stop)

    async def _rebuild(self, request: web.BaseRequest) -> web.StreamResponse:
        return await reply(self._actions.rebuild)

    async def _hand_over(self, request: web.BaseRequest) -> web.StreamResponse:
        async def hand_over() -> Facts:
            asked = arguments.check(HandOverQuery, _given(request), owner="/admin/hand-over")
            return await self._actions.hand_over(asked.owner)

        return await reply(hand_over)


def _given(request: web.BaseRequest) -> dict[str, Any]:
    """The query string. It holds text only; what reads as a number is one where a number is asked for."""
    return {name: _number(text) if name in _NUMBERS else text for name, text in request.query.items()}


def _number(text: str) -> int | float | str:
    """The number a text writes, else the text, which the check will refuse."""
    if len(text) > _LONGEST_NUMBER:
        return text
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text
