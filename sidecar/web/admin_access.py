"""Routes under `/admin/` about who may come in, and where: tokens and the port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web
from pydantic import Field

from sidecar import arguments
from sidecar.arguments import Shape
from sidecar.web import answers, bodies
from sidecar.web.answers import Facts, Refusal

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_MAX_BODY_BYTES = 1 << 16
_BODY_S = 10.0

ShapeT = TypeVar("ShapeT", bound=Shape)


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
        "/admin/token": ("GET", _get(actions.token)),
        "/admin/tokens": ("GET", _get(actions.tokens)),
        "/admin/token/rotate": ("POST", _post("/admin/token/rotate", Nothing, lambda _: actions.rotate())),
        "/admin/token/add": ("POST", _post("/admin/token/add", AddToken, lambda a: actions.add(a.agent, a.org))),
        "/admin/token/remove": ("POST", _post("/admin/token/remove", RemoveToken, lambda a: actions.remove(a.agent))),
        "/admin/endpoint": ("GET", _get(actions.endpoint)),
        "/admin/port": ("POST", _post("/admin/port", PinPort, lambda a: actions.pin(a.port))),
    }


def _get(action: Callable[[], Awaitable[Facts]]) -> Handler:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return await answers.reply(action)

    return answer


def _post(path: str, shape: type[ShapeT], action: Callable[[ShapeT], Awaitable[Facts]]) -> Handler:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        given = await bodies.read_object(request, max_bytes=_MAX_BODY_BYTES, within_s=_BODY_S)
        if isinstance(given, Refusal):
            return answers.refuse(given)

        async def act() -> Mapping[str, Any]:
            return await action(arguments.check(shape, given, owner=path))

        return await answers.reply(act)

    return answer
