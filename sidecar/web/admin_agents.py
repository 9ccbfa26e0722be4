"""Routes under `/admin/` about agents: which there are, which may be run by clients, and the runs.

Nothing here runs one: that is for clients and the editor, and goes through the tool's own checks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pydantic import Field

from sidecar.arguments import Shape
from sidecar.services.agents.agents import Agents
from sidecar.services.agents.records import MOST_RUNS
from sidecar.web.admin_handlers import Handler, get, post
from sidecar.web.answers import Facts


@dataclass(frozen=True, slots=True)
class AgentsActions:
    """What the daemon does for its owner. Each returns facts that are JSON as they are."""

    listed: Callable[[], Awaitable[Facts]]
    remote: Callable[[str, bool], Awaitable[Facts]]
    """Called with an agent's name, and whether clients may run it."""
    runs: Callable[[], Awaitable[Facts]]
    cancel: Callable[[str], Awaitable[Facts]]
    """Called with the id of a run, or an ending of it."""


class Remote(Shape):
    """Body of /admin/agents/remote."""

    name: str = Field(min_length=1)
    on: bool


class Cancel(Shape):
    """Body of /admin/agents/cancel."""

    id: str = Field(min_length=1)


def agents_actions(agents: Agents) -> AgentsActions:
    """By what the service does."""

    async def listed() -> Facts:
        return {"folder": agents.folder, "agents": [each.facts() for each in await agents.listed()]}

    async def remote(name: str, on: bool) -> Facts:
        await agents.set_remote(name, on)
        return await listed()

    async def runs() -> Facts:
        return {"runs": await agents.runs(MOST_RUNS)}

    async def cancel(ending: str) -> Facts:
        return {"id": agents.cancel(ending)}

    return AgentsActions(listed=listed, remote=remote, runs=runs, cancel=cancel)


def agents_routes(actions: AgentsActions) -> Mapping[str, tuple[str, Handler]]:
    """Path to (method, handler)."""
    return {
        "/admin/agents": ("GET", get(actions.listed)),
        "/admin/agents/remote": ("POST", post("/admin/agents/remote", Remote, lambda a: actions.remote(a.name, a.on))),
        "/admin/agents/runs": ("GET", get(actions.runs)),
        "/admin/agents/cancel": ("POST", post("/admin/agents/cancel", Cancel, lambda a: actions.cancel(a.id))),
    }
