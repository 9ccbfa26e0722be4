"""Handlers of routes under `/admin/` from what they do: the body is read and checked, the facts become JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from aiohttp import web

from sidecar import arguments
from sidecar.arguments import Shape
from sidecar.web import answers, bodies
from sidecar.web.answers import Facts, Refusal

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_MAX_BODY_BYTES = 1 << 16
_BODY_S = 10.0

ShapeT = TypeVar("ShapeT", bound=Shape)


def get(action: Callable[[], Awaitable[Facts]]) -> Handler:
    """Answers with what the action says."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return await answers.reply(action)

    return answer


def post(path: str, shape: type[ShapeT], action: Callable[[ShapeT], Awaitable[Facts]]) -> Handler:
    """Answers with what the action says to a body of this shape."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        given = await bodies.read_object(request, max_bytes=_MAX_BODY_BYTES, within_s=_BODY_S)
        if isinstance(given, Refusal):
            return answers.refuse(given)

        async def act() -> Mapping[str, Any]:
            return await action(arguments.check(shape, given, owner=path))

        return await answers.reply(act)

    return answer
