"""Routes under `/admin/` about who may come in, and where: tokens and the port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pydantic import Field

from sidecar.arguments import Shape
from sidecar.web.admin_handlers import Handler, get, post
from sidecar.web.answers import Facts


@dataclass(frozen=True, slots=True)
class AccessActions:
    """What the daemon does for its owner. Each returns facts that are JSON as they are."""

    token: Callable[[], Awaitable[Facts]]
    tokens: Callable[[], Awaitable[Facts]]
    rotate: Callable[[], Awaitable[Facts]]
    add: Callable[[str, str], Awaitable[Facts]]
    """Called with agent and org."""
    remove: Callable[[str], Awaitable[Facts]]
    """Called with the agent."""
    endpoint: Callable[[], Awaitable[Facts]]
    pin: Callable[[int], Awaitable[Facts]]
    """Called with the port of the next start; 0 is a random one."""


class Nothing(Shape):
    """Body of a POST without arguments; it may be left out."""


class AddToken(Shape):
    """Body of /admin/token/add. What a name may be is the token book's business."""

    agent: str
    org: str = "local"


class RemoveToken(Shape):
    """Body of /admin/token/remove."""

    agent: str


class PinPort(Shape):
    """Body of /admin/port."""

    port: int = Field(ge=0, le=65535)


def access_routes(actions: AccessActions) -> Mapping[str, tuple[str, Handler]]:
    """Path to (method, handler)."""
    return {
        "/admin/token": ("GET", get(actions.token)),
        "/admin/tokens": ("GET", get(actions.tokens)),
        "/admin/token/rotate": ("POST", post("/admin/token/rotate", Nothing, lambda _: actions.rotate())),
        "/admin/token/add": ("POST", post("/admin/token/add", AddToken, lambda a: actions.add(a.agent, a.org))),
        "/admin/token/remove": ("POST", post("/admin/token/remove", RemoveToken, lambda a: actions.remove(a.agent))),
        "/admin/endpoint": ("GET", get(actions.endpoint)),
        "/admin/port": ("POST", post("/admin/port", PinPort, lambda a: actions.pin(a.port))),
    }
