"""Puts the HTTP edge together: every request passes the guards, then meets a route.

Routes are exact paths as they were sent, compared without decoding, so that no
second spelling of a path can lead to it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web

from sidecar.bridge.token import Caller, Keys
from sidecar.web import answers, bodies, guards
from sidecar.web.admin import Admin, AdminActions
from sidecar.web.answers import Refusal
from sidecar.web.connections import ORIGIN, Connection, Deadlines, Request
from sidecar.web.guards import Access, Guards
from sidecar.web.identity import Identity
from sidecar.web.refusals import OnRefused, Refusals, readable
from sidecar.web.rest import METHODS as REST_METHODS
from sidecar.web.rest import RestAnswer

logger = logging.getLogger(__name__)

OnServed = Callable[[Caller, str], None]
"""Called for each request that was let in, with the client's own name for itself, cut and escaped."""

_PREFLIGHT: Mapping[str, str] = {
    "Access-Control-Allow-Methods": "GET, POST, DELETE",
    "Access-Control-Allow-Headers": (
        "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-ID"
    ),
    "Access-Control-Max-Age": "600",
}


class Mount(Protocol):
    """What answers the requests of one path. The protocol room is a sibling: this is all that is known of it here."""

    @property
    def keeps_sessions(self) -> bool:
        """Whether the path answers GET and DELETE too."""
        ...

    def unacceptable(self, request: web.BaseRequest) -> int | None:
        """415, 406 or None, from the headers of a POST alone."""
        ...

    async def answer(
        self, request: web.BaseRequest, body: bytes, caller: Caller, valid: Callable[[], bool]
    ) -> web.StreamResponse:
        """The response to a POST whose body is in whole."""
        ...

    async def listen(self, request: web.BaseRequest, caller: Caller, valid: Callable[[], bool]) -> web.StreamResponse:
        """The response to a GET: the standing stream of a session."""
        ...

    async def end(self, request: web.BaseRequest, caller: Caller) -> web.StreamResponse:
        """The response to a DELETE: the end of a session."""
        ...

    async def tools_changed(self) -> None:
        """The list of tools has changed."""
        ...

    def close_revoked(self) -> None:
        """End the streams and sessions whose token is no longer valid."""
        ...

    def close(self) -> None:
        """End every stream."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may cost."""

    max_body_bytes: int = 16 << 20
    deadlines: Deadlines = field(default_factory=Deadlines)


Answer = Callable[[Request, Access], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class _Route:
    by_method: Mapping[str, Answer]
    local_only: bool = False
    advertised: frozenset[str] | None = None
    """The methods that a refusal names, where they are not all of them."""


class App:
    """The handler of every request of one listener."""

    def __init__(
        self,
        guard: Guards,
        mounts: Mapping[str, Mount],
        identity: Identity,
        admin: AdminActions,
        limits: Limits,
        refusals: Refusals,
        on_served: OnServed,
        rest: Mapping[str, RestAnswer],
    ) -> None:
        self._guard = guard
        self._mounts = dict(mounts)
        self._identity = identity
        self._relays = admin.relays
        self._limits = limits
        self._refusals = refusals
        self._on_served = on_served
        self._routes = {path: self._mounted(mount) for path, mount in mounts.items()}
        self._routes[guards.IDENTITY] = _Route({"GET": self._identify})
        for path, (method, handler) in Admin(admin).routes().items():
            self._routes[path] = _Route({method: _without_access(handler)}, local_only=True)
        for path, answer in rest.items():
            by_method = dict.fromkeys(REST_METHODS, self._reading(answer))
            self._routes[path] = _Route(by_method, advertised=frozenset(REST_METHODS[:1]))

    @property
    def limits(self) -> Limits:
        """What one request may cost."""
        return self._limits

    async def handle(self, request: Request) -> web.StreamResponse:
        """Answer one request; whatever goes wrong becomes a fixed answer."""
        connection = request.protocol
        assert isinstance(connection, Connection)
        connection.busy = True
        try:
            return await self._guarded(request, connection)
        except ConnectionError:
            raise  # the client has gone; aiohttp ends the connection
        except Exception:
            logger.exception("a request failed")
            if request.writer.output_size > 0:
                raise ConnectionError("part of an answer is sent already") from None
            return answers.refuse(answers.FAILED)
        finally:
            connection.busy = False

    async def tools_changed(self) -> None:
        """Tell the clients that listen that the list of tools has changed."""
        for mount in self._distinct():
            await mount.tools_changed()
        self._relays.tools_changed()

    def token_changed(self) -> None:
        """End the streams and sessions of tokens that are no longer valid. Requests are checked one by one anyway."""
        for mount in self._mounts.values():
            mount.close_revoked()

    def _distinct(self) -> list[Mount]:
        """Every mount once; one may have two paths."""
        return list({id(mount): mount for mount in self._mounts.values()}.values())

    def close(self) -> None:
        """End the open streams."""
        for mount in self._mounts.values():
            mount.close()
        self._relays.close()
        self._refusals.close()

    async def _guarded(self, request: Request, connection: Connection) -> web.StreamResponse:
        entry = self._guard.admit(request.method, request.raw_path, request.raw_headers)
        if isinstance(entry, Refusal):
            return self._refused(request, entry)
        if entry.origin is not None:
            request[ORIGIN] = entry.origin
        if entry.access is None:
            return self._open_answer(request)
        connection.known = True
        self._on_served(entry.access.caller, readable(request.headers.get("User-Agent", "")))
        route = self._routes.get(_path(request))
        if route is None or (route.local_only and not entry.access.caller.local):
            return answers.refuse(answers.NOT_FOUND)
        answer = route.by_method.get(request.method)
        if answer is None:
            return answers.refuse(answers.not_allowed(route.advertised or frozenset(route.by_method)))
        return await answer(request, entry.access)

    def _refused(self, request: Request, refusal: Refusal) -> web.StreamResponse:
        self._refusals.note(refusal, request.headers.get("User-Agent", ""))
        response = answers.refuse(refusal)
        response.force_close()  # a connection is worth keeping for those who may come in
        return response

    def _open_answer(self, request: Request) -> web.StreamResponse:
        """What is said to anyone: preflights, the proof of identity, and how to sign in."""
        if request.method == "OPTIONS":
            return web.Response(status=204, headers=_PREFLIGHT)
        if _path(request) == guards.IDENTITY:
            return self._identity.answer(request)
        return answers.refuse(answers.NOT_FOUND, error_description=answers.HOW_TO_SIGN_IN)

    async def _identify(self, request: Request, access: Access) -> web.StreamResponse:
        return self._identity.answer(request)

    def _mounted(self, mount: Mount) -> _Route:
        async def listen(request: Request, access: Access) -> web.StreamResponse:
            return await mount.listen(request, access.caller, access.valid)

        async def end(request: Request, access: Access) -> web.StreamResponse:
            return await mount.end(request, access.caller)

        by_method: dict[str, Answer] = {"POST": self._posting(mount)}
        if mount.keeps_sessions:
            by_method |= {"GET": listen, "DELETE": end}
        return _Route(by_method)

    def _reading(self, answer_to: RestAnswer) -> Answer:
        """No body is read, but what its headers say must be within the limits."""

        async def read(request: Request, access: Access) -> web.StreamResponse:
            refusal = bodies.unacceptable(request, self._limits.max_body_bytes)
            return self._refused(request, refusal) if refusal else await answer_to(request, access.caller)

        return read

    def _posting(self, mount: Mount) -> Answer:
        """Headers first, then the body, then the token once more, then the mount."""

        async def post(request: Request, access: Access) -> web.StreamResponse:
            limit = self._limits.max_body_bytes
            refusal = bodies.unacceptable(request, limit) or _of_status(mount.unacceptable(request))
            if refusal is not None:
                return self._refused(request, refusal)
            body = await bodies.read(request, max_bytes=limit, within_s=self._limits.deadlines.body_s)
            if isinstance(body, Refusal):
                return self._refused(request, body)
            if not access.valid():  # the token was replaced while the body arrived
                return self._refused(request, answers.WRONG_TOKEN)
            return await mount.answer(request, body, access.caller, access.valid)

        return post


def build_app(
    *,
    port: int,
    keys: Keys,
    mounts: Mapping[str, Mount],
    prove: Callable[[str, int], str],
    instance: str,
    admin: AdminActions,
    allowed_origins: Iterable[str],
    limits: Limits,
    on_refused: OnRefused,
    on_served: OnServed,
    rest: Mapping[str, RestAnswer] | None = None,
) -> App:
    """The HTTP edge of a daemon that listens on `port`. `prove` answers a nonce for a port; `rest` is by path."""
    return App(
        Guards(keys, port, allowed_origins),
        mounts,
        Identity(prove, instance=instance, port=port),
        admin,
        limits,
        Refusals(on_refused),
        on_served,
        rest or {},
    )


def _path(request: web.BaseRequest) -> str:
    return request.raw_path.partition("?")[0]


def _without_access(handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> Answer:
    async def answer(request: Request, access: Access) -> web.StreamResponse:
        return await handler(request)

    return answer


def _of_status(status: int | None) -> Refusal | None:
    match status:
        case None:
            return None
        case 406:
            return answers.NOT_ACCEPTABLE
        case _:
            return answers.WRONG_MEDIA
